/* The broker thread itself: its loop, its messages, its beginning and its end. */
#include "agent/broker/broker_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/broker/questions/survey.h"
#include "agent/record/events.h"
#include "shm/status.h"

#define BEAT_EVERY (100 * HF_NS_PER_MS)
/* How long undone rounds and releases may take when the agent goes away. What has no quorum by then stays in
 * the journal, for the next agent. */
#define DRAIN_MOST HF_NS_PER_SEC

uint32_t broker_random(void)
{
    uint32_t r = 0;

    (void)!getrandom(&r, sizeof(r), 0);
    return r;
}

void broker_token(struct broker *b, struct token *ret_token)
{
    uint8_t *bytes;

    if (b->random_left < sizeof(*ret_token)) {
        /* So few bytes never come in parts and, once the pool is ready, never fail (getrandom(2)). */
        if (getrandom(b->random, sizeof(b->random), 0) != sizeof(b->random))
            abort();
        b->random_left = sizeof(b->random);
    }
    b->random_left -= sizeof(*ret_token);
    bytes = b->random + b->random_left;
    memcpy(ret_token, bytes, sizeof(*ret_token));
    explicit_bzero(bytes, sizeof(*ret_token)); /* a token is a secret */
}

void broker_tell_renewal(struct broker *b, struct message *m)
{
    /* (!) Before anything that concerns it is told there, a lease has to be there. */
    if (m->kind != MSG_GRANTED && m->kind != MSG_TRUST && b->by_slot[m->slot])
        young_hand_in(b->by_slot[m->slot]);
    mailbox_post(&b->agent->to_renewal, m);
}

void broker_review(struct broker *b, hf_time now)
{
    bool ready = nodes_granting(b, now) >= b->q && !b->fleet[0];

    mutex_lock(&b->why_lock);
    b->why[0] = '\0';
    if (b->fleet[0])
        snprintf(b->why, sizeof(b->why), "%s", b->fleet);
    else if (!ready)
        nodes_explain(b, now, b->why, sizeof(b->why));
    mutex_unlock(&b->why_lock);
    atomic_store_explicit(&b->ready, ready, memory_order_release);
    resources_kick_stalled(b);
}

bool broker_ready(const struct broker *b)
{
    return atomic_load_explicit(&b->ready, memory_order_acquire);
}

void broker_why_not_ready(struct broker *b, char *ret_text, size_t size)
{
    mutex_lock(&b->why_lock);
    snprintf(ret_text, size, "%s", b->why);
    mutex_unlock(&b->why_lock);
}

static void beat(struct broker *b, hf_time now)
{
    atomic_store_explicit(&b->agent->table.header->broker_beat_ns, now.ns, memory_order_relaxed);
}

static void on_beat(struct loop_timer *timer, hf_time now)
{
    struct broker *b = HF_CONTAINER(timer, struct broker, beat);

    lease_table_tidy(b->agent->leases);
    loop_timer_set(b->loop, timer, hf_time_add(now, hf_ns(BEAT_EVERY)));
}

static void on_turn(void *arg, hf_time now)
{
    beat(arg, now);
}

/* --- going away ------------------------------------------------------------------------------- */

static bool drained(struct broker *b, hf_time now)
{
    struct client *c;

    /* A node that is away has its releases waiting for longer than that. */
    if ((rounds_busy(b) || releaser_busy(b->releaser) || b->handoff_count) &&
        hf_time_before(now, b->releases_until))
        return false;
    if (b->config->dev_nodes)
        LIST_FOREACH (c, &b->clients, all)
            if (!LIST_EMPTY(&c->held))
                return false;
    return true;
}

static void on_drain_timer(struct loop_timer *timer, hf_time now)
{
    struct broker *b = HF_CONTAINER(timer, struct broker, drain_timer);

    if (drained(b, now) || hf_time_reached(now, b->drain_until))
        loop_stop(b->loop);
    else
        loop_timer_set(b->loop, timer, hf_time_add(now, hf_ms(20)));
}

static void drain(struct broker *b)
{
    hf_time now = clock_now();

    if (b->draining)
        return;
    b->draining = true;
    young_hand_in_all(b);
    event_agent_ending(b->agent);
    b->drain_until = b->releases_until = hf_time_add(now, hf_ns(DRAIN_MOST));
    /* Jobs of the private nodes are asked to stop; their validity bounds how long that takes. */
    if (b->config->dev_nodes)
        b->drain_until =
            hf_time_max(b->drain_until, hf_time_add(now, hf_ms(b->config->ttl_max_ms)));
    resources_drain(b);
    looks_drain(b);
    loop_timer_set(b->loop, &b->drain_timer, now);
}

/* --- messages --------------------------------------------------------------------------------- */

static void on_wake(void *arg)
{
    struct broker *b = arg;
    struct message *m;

    resolver_deliver(b->resolver);
    while ((m = mailbox_take(&b->agent->to_broker))) {
        switch (m->kind) {
        case MSG_CHANGED:
            resource_lease_changed(b, m->lease);
            break;
        case MSG_HANDED_OVER:
            handoff_answered(m->handoff);
            break;
        case MSG_ENDED:
            resource_lease_ended(b, m->lease);
            break;
        case MSG_TRUST:
            nodes_on_told(b, m);
            break;
        case MSG_DRAIN:
            drain(b);
            break;
        case MSG_GRANTED:
        case MSG_VOTE:
        case MSG_RELEASE:
        case MSG_HAND_OVER:
        case MSG_LOSE:
        case MSG_BEATS:
        case MSG_ABANDON:
        case MSG_STOP:
            break; /* the renewal thread's */
        }
        free(m);
    }
}

/* Last in every turn: whatever it brought leaves together. */
static bool on_idle(void *arg)
{
    struct broker *b = arg;
    bool again = sessions_serve(b);

    releaser_flush(b->releaser);
    for (int i = 0; i < b->n; i++)
        if (b->unsent >> i & 1)
            link_flush(b->links[i]);
    b->unsent = 0;
    sessions_wake(b);
    return again;
}

/* --- beginning and end ------------------------------------------------------------------------ */

int broker_create(struct agent *agent, struct broker **ret_broker)
{
    struct broker *b = calloc(1, sizeof(*b));
    int rc;

    if (!b)
        return HF_ENOMEM;
    b->agent = agent;
    b->config = agent->config;
    b->n = agent->config->node_count;
    b->q = ballot_quorum(b->n);
    b->started = clock_now();
    mutex_init(&b->why_lock);
    LIST_INIT(&b->rounds);
    LIST_INIT(&b->laters);
    looks_create(b);
    young_create(b);
    b->beat.fn = on_beat;
    b->drain_timer.fn = on_drain_timer;
    rc = loop_create(&b->loop);
    if (rc < 0)
        goto error;
    mailbox_init(&agent->to_broker, b->loop);
    loop_on_turn(b->loop, on_turn, b);
    loop_on_wake(b->loop, on_wake, b);
    loop_on_idle(b->loop, on_idle, b);
    clients_create(b);
    if ((rc = resolver_create(b->loop, &b->resolver)) < 0 || (rc = sessions_create(b)) < 0 ||
        (rc = resources_create(b)) < 0 || (rc = wakeups_create(b)) < 0 ||
        (rc = nodes_create(b)) < 0 ||
        (rc = releaser_create(b->loop, b->links, b->n, b->q, b, &b->releaser)) < 0 ||
        (rc = readopt(b)) < 0)
        goto error;
    *ret_broker = b;
    return HF_OK;

error:
    log_error("cannot make the broker: %s", hf_status_text(rc));
    free(b); /* the program ends now */
    return rc;
}

static void on_rouse(int number)
{
    (void)number;
}

/* Without SA_RESTART: it is to interrupt. */
static int hear_rouse(void)
{
    const struct sigaction action = {.sa_handler = on_rouse};

    return sigaction(BROKER_ROUSE, &action, NULL);
}

static void *run(void *arg)
{
    struct broker *b = arg;
    sigset_t rouse;

    (void)pthread_setname_np(pthread_self(), "hf-broker");
    (void)sigemptyset(&rouse);
    (void)sigaddset(&rouse, BROKER_ROUSE);
    (void)pthread_sigmask(SIG_UNBLOCK, &rouse, NULL);
    atomic_store_explicit(&b->tid, gettid(), memory_order_relaxed);
    rcu_register_thread();
    nodes_start(b);
    loop_timer_set(b->loop, &b->beat, clock_now());
    loop_timer_set(b->loop, &b->sweep, clock_now());
    loop_run(b->loop);
    atomic_store_explicit(&b->tid, 0, memory_order_relaxed);
    rcu_unregister_thread();
    return NULL;
}

int broker_start(struct broker *b)
{
    int rc = sessions_listen(b);

    if (rc < 0)
        return rc;
    if (hear_rouse() < 0)
        return HF_ESYS;
    errno = pthread_create(&b->thread, NULL, run, b);
    if (errno)
        return HF_ESYS;
    b->thread_started = true;
    return HF_OK;
}

void broker_rouse(struct broker *b)
{
    pid_t tid = atomic_load_explicit(&b->tid, memory_order_relaxed);

    /* By its number: another thread may join it meanwhile. */
    if (tid)
        (void)syscall(SYS_tgkill, getpid(), tid, BROKER_ROUSE);
}

void broker_join(struct broker *b)
{
    if (b->thread_started)
        (void)pthread_join(b->thread, NULL);
    b->thread_started = false;
}

void broker_destroy(struct broker *b)
{
    if (!b)
        return;
    b->closing = true;
    looks_destroy(b);
    sessions_destroy(b);
    clients_destroy(b);
    groups_destroy(b);
    nodes_destroy(b); /* tells every command in flight that it is over, rounds included */
    surveys_destroy(b);
    releaser_destroy(b->releaser);
    readopt_destroy(b);
    rounds_destroy(b);
    wakeups_destroy(b);
    young_destroy(b);
    resources_destroy(b);
    resolver_destroy(b->resolver);
    mailbox_fini(&b->agent->to_broker);
    loop_destroy(b->loop);
    mutex_fini(&b->why_lock);
    free(b);
}
