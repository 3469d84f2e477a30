/* The broker thread itself: its rooms and what passes between them, its loop, its messages, its start and its
 * end. */
#include "agent/broker/broker.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/base/thread.h"
#include "agent/broker/clients/sessions.h"
#include "agent/broker/rooms.h"
#include "agent/broker/jobs/groups.h"
#include "agent/broker/locks/locks_internal.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/broker/nodes/node_fleet.h"
#include "agent/broker/queries/queries.h"
#include "agent/state/mailbox.h"
#include "agent/state/events.h"
#include "agent/redis/resolver.h"
#include "shm/assert.h"
#include "shm/measures.h"
#include "shm/status.h"

#define BEAT_EVERY (100 * HF_NS_PER_MS)
/* How long undone rounds and releases may take when the agent goes away. What has no quorum of answers by then stays in
 * the journal, for the next agent: soon, where the agent starts again. */
#define GOING_MOST HF_NS_PER_SEC
#define AGAIN_MOST (100 * HF_NS_PER_MS)

/* --- what nodes tell ------------------------------------------------------------------------- */

static void broker_on_noticed(void *arg, int node, const void *key, size_t key_len)
{
    struct broker *b = arg;

    ASSERT_BROKER_THREAD();
    wakeups_noticed(b->locks, node, key, key_len);
    query_hear_noticed(b->queries, key, key_len);
}

static void broker_on_telling(void *arg, int node, bool can)
{
    wakeups_telling(((struct broker *)arg)->locks, node, can);
}

/* Publishes `ready`, and why not. */
static void broker_on_reviewed(void *arg, hf_time now)
{
    ASSERT_BROKER_THREAD();

    struct broker *b = arg;
    const char *fleet = nodes_fleet_text(b->nodes);
    bool ready = nodes_granting(b->nodes, now) >= b->nodes->q && !*fleet;

    mutex_lock(&b->why_lock);
    b->why[0] = '\0';
    if (*fleet)
        snprintf(b->why, sizeof(b->why), "%s", fleet);
    else if (!ready)
        nodes_explain(b->nodes, now, b->why, sizeof(b->why));
    mutex_unlock(&b->why_lock);
    atomic_store_explicit(&b->ready, ready, memory_order_release);
    hf_gauge_set(&b->agent->table, HF_GAUGE_READY, ready);
    step_stalled(b->locks);
}

/* --- what clients bring -------------------------------------------------------------------------- */

static void broker_on_request(void *arg, struct session *s, const struct hf_request_entry *q)
{
    struct broker *b = arg;

    ASSERT_BROKER_THREAD();
    dispatch_request(b->locks, b->queries, s, q);
}

static bool broker_on_datagram(void *arg, struct session *s)
{
    ASSERT_BROKER_THREAD();
    return groups_take(((struct broker *)arg)->groups, s);
}

static void broker_on_session_gone(void *arg, struct session *s)
{
    ASSERT_BROKER_THREAD();
    (void)arg;
    queries_drop_session(s);
    requests_drop_session(s);
}

static void broker_on_client_gone(void *arg, struct client *c)
{
    ASSERT_BROKER_THREAD();
    requests_client_gone(((struct broker *)arg)->locks, c);
}

static void broker_on_client_over(void *arg, struct client *c)
{
    ASSERT_BROKER_THREAD();
    (void)arg;
    groups_drop(c);
    pending_release_drop_client(c);
}

static void broker_on_rebound(void *arg, struct session *s)
{
    ASSERT_BROKER_THREAD();
    requests_rebind(((struct broker *)arg)->locks, s);
}

/* --- what becomes of leases ---------------------------------------------------------------------- */

static void broker_on_lease_changed(void *arg, struct client *c)
{
    ASSERT_BROKER_THREAD();
    (void)arg;
    groups_review(c);
}

static void broker_on_lease_over(void *arg, struct client *c)
{
    ASSERT_BROKER_THREAD();
    (void)arg;
    groups_lease_over(c);
}

static void broker_on_name_over(void *arg, const void *name, size_t name_len)
{
    ASSERT_BROKER_THREAD();
    query_hear_ended(((struct broker *)arg)->queries, name, name_len);
}

/* --- for other threads --------------------------------------------------------------------------- */

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

static void broker_beat(struct broker *b, hf_time now)
{
    atomic_store_explicit(&b->agent->table.header->broker_beat_ns, now.ns, memory_order_relaxed);
}

static void broker_on_beat(struct loop_timer *timer, hf_time now)
{
    struct broker *b = HF_CONTAINER(timer, struct broker, beat);

    lease_table_tidy(b->agent->leases);
    loop_timer_set(b->loop, timer, hf_time_add(now, hf_ns(BEAT_EVERY)));
}

static void broker_on_turn(void *arg, hf_time now)
{
    broker_beat(arg, now);
}

/* --- going away ------------------------------------------------------------------------------- */

static bool broker_is_finished(struct broker *b, hf_time now) IN_BROKER_THREAD
{
    struct client *c;

    /* The releases for a node that is away wait for longer than that. */
    if ((locks_busy(b->locks) || key_deleter_busy(b->nodes->key_deleter)) &&
        hf_time_before(now, b->releases_until))
        return false;
    if (b->agent->config->ephemeral)
        LIST_FOREACH (c, &b->clients->all, all)
            if (!LIST_EMPTY(&c->held))
                return false;
    return true;
}

static void broker_on_going_timer(struct loop_timer *timer, hf_time now)
{
    struct broker *b = HF_CONTAINER(timer, struct broker, going_timer);

    ASSERT_BROKER_THREAD();
    if (broker_is_finished(b, now) || hf_time_reached(now, b->going_until))
        loop_stop(b->loop);
    else
        loop_timer_set(b->loop, timer, hf_time_add(now, hf_ms(20)));
}

static void broker_go_away(struct broker *b) IN_BROKER_THREAD
{
    const struct config *c = b->agent->config;
    bool stays = atomic_load_explicit(&b->agent->stays, memory_order_acquire);
    hf_time now = clock_now();

    if (b->going)
        return;
    b->going = true;
    /* Then clients are told nothing: they ask the next agent, as after a kill. */
    b->clients->going = !stays;
    event_agent_ending(b->agent);
    b->going_until = b->releases_until = hf_time_add(now, hf_ns(stays ? AGAIN_MOST : GOING_MOST));
    /* Jobs on private nodes are asked to stop; their validity bounds how long that takes. */
    if (c->ephemeral)
        b->going_until = hf_time_max(b->going_until, hf_time_add(now, hf_ms(c->ttl_max_ms)));
    locks_go_away(b->locks, stays);
    if (!stays)
        queries_go_away(b->queries);
    loop_timer_set(b->loop, &b->going_timer, now);
}

/* --- a reload --------------------------------------------------------------------------------- */

static void broker_note_loaded(struct agent *agent)
{
    hf_counter_set(&agent->table, HF_COUNTER_CONFIG_LOADED_MS, (uint64_t)clock_wall().ms);
    hf_counter_set(&agent->table, HF_COUNTER_RELOAD_REFUSED_MS, 0);
}

/* (!) All rooms at once, between two turns: none points into the configuration before after this. */
static void broker_configure(struct broker *b, const struct config *config) IN_BROKER_THREAD
{
    nodes_configure(b->nodes, config);
    clients_configure(b->clients, config);
    locks_configure(b->locks, config);
    groups_configure(b->groups, config);
    queries_configure(b->queries, config);
}

static void broker_take_order(struct broker *b, struct config_order *order) IN_BROKER_THREAD
{
    event_reload(b->agent, order->config != NULL, order->text);
    if (order->config) {
        broker_configure(b, order->config);
        broker_note_loaded(b->agent);
        hf_counter_add(&b->agent->table, HF_COUNTER_RELOADS, 1);
    } else {
        hf_counter_set(&b->agent->table, HF_COUNTER_RELOAD_REFUSED_MS, (uint64_t)clock_wall().ms);
        hf_counter_add(&b->agent->table, HF_COUNTER_RELOADS_REFUSED, 1);
    }
    config_order_taken(order);
}

/* --- a change of the fleet ------------------------------------------------------------------------ */

static void broker_change_fleet(struct broker *b, struct fleet_order *order) IN_BROKER_THREAD
{
    order->rc = node_fleet_change(b->nodes, &order->wish, order->why, sizeof(order->why));
    if (order->rc == HF_OK)
        order->record = b->nodes->fleet_view.wish;
    atomic_store_explicit(&order->taken, true, memory_order_release);
}

/* --- messages --------------------------------------------------------------------------------- */

static void broker_on_wake(void *arg)
{
    struct broker *b = arg;
    struct message *m;

    ASSERT_BROKER_THREAD();
    resolver_deliver(b->resolver);
    while ((m = mailbox_take(&b->agent->to_broker))) {
        switch (m->kind) {
        case MSG_CHANGED:
            hf_assert(m->lease, "slot %u, generation %u", (unsigned)m->slot,
                      (unsigned)m->generation);
            grant_changed(b->locks, m->lease);
            break;
        case MSG_HANDED_OVER:
            hf_assert(m->handoff, "slot %u, generation %u", (unsigned)m->slot,
                      (unsigned)m->generation);
            handoff_answered(m->handoff);
            break;
        case MSG_ENDED:
            hf_assert(m->lease, "slot %u, generation %u", (unsigned)m->slot,
                      (unsigned)m->generation);
            grant_ended(b->locks, m->lease);
            break;
        case MSG_ANOTHER:
            hf_assert(m->node_number >= 0 && m->node_number < b->nodes->n, "node %d of %d",
                      m->node_number, b->nodes->n);
            node_fleet_probe(b->nodes, m->node_number);
            break;
        case MSG_TRUST:
            nodes_on_told(b->nodes, m);
            break;
        case MSG_REFUSED:
            nodes_on_release_refused(b->nodes, m->node_number, m->error, m->text ? m->text : "");
            free(m->text);
            break;
        case MSG_GO_AWAY:
            broker_go_away(b);
            break;
        case MSG_CONFIG:
            broker_take_order(b, m->order);
            break;
        case MSG_FLEET_CHANGE:
            broker_change_fleet(b, m->change);
            break;
        case MSG_GRANTED:
        case MSG_VOTE:
        case MSG_RELEASE:
        case MSG_HAND_OVER:
        case MSG_LOSE:
        case MSG_BEATS:
        case MSG_ABANDON:
        case MSG_FLEET:
        case MSG_STOP:
            hf_assert(m->kind == MSG_CHANGED, "message %d is the renewal thread's", (int)m->kind);
            break;
        }
        free(m);
    }
}

/* Last in every turn: all that the turn wrote leaves together. */
static bool broker_on_idle(void *arg)
{
    ASSERT_BROKER_THREAD();

    struct broker *b = arg;
    bool again = sessions_serve(b->clients);
    unsigned active = b->clients->active_count;

    locks_step(b->locks);
    again |= b->clients->active_count >
             active; /* who was answered just now may ask again without a bell */
    nodes_send(b->nodes);
    sessions_wake(b->clients);
    return again;
}

/* --- start and end ------------------------------------------------------------------------ */

static int broker_create_rooms(struct broker *b)
{
    const struct nodes_owner of_nodes = {.noticed = broker_on_noticed,
                                         .telling = broker_on_telling,
                                         .reviewed = broker_on_reviewed,
                                         .arg = b};
    const struct clients_owner of_clients = {.request = broker_on_request,
                                             .datagram = broker_on_datagram,
                                             .session_gone = broker_on_session_gone,
                                             .client_gone = broker_on_client_gone,
                                             .client_over = broker_on_client_over,
                                             .rebound = broker_on_rebound,
                                             .arg = b};
    const struct locks_owner of_locks = {.lease_changed = broker_on_lease_changed,
                                         .lease_over = broker_on_lease_over,
                                         .name_over = broker_on_name_over,
                                         .arg = b};
    struct agent *agent = b->agent;
    uint8_t hash_key[16];
    int rc;

    if (getrandom(hash_key, sizeof(hash_key), 0) != sizeof(hash_key))
        return HF_ESYS;
    if ((rc = resolver_create(b->loop, &b->resolver)) < 0 ||
        (rc = nodes_create(agent, b->loop, b->resolver, &of_nodes, &b->nodes)) < 0 ||
        (rc = sessions_create(agent, b->loop, &of_clients, &b->clients)) < 0 ||
        (rc = locks_create(agent, b->loop, b->nodes, b->clients, hash_key, &of_locks, &b->locks)) <
            0 ||
        (rc = groups_create(agent, b->loop, &b->groups)) < 0 ||
        (rc = queries_create(agent, b->loop, b->nodes, b->clients, b->locks, &b->queries)) < 0)
        return rc;
    return readopt(b->locks);
}

int broker_create(struct agent *agent, struct broker **ret_broker)
{
    struct broker *b = calloc(1, sizeof(*b));
    int rc;

    if (!b)
        return HF_ENOMEM;
    b->agent = agent;
    mutex_init(&b->why_lock);
    b->beat.fn = broker_on_beat;
    b->going_timer.fn = broker_on_going_timer;
    rc = loop_create(&b->loop);
    if (rc == HF_OK) {
        mailbox_init(&agent->to_broker, b->loop);
        loop_on_turn(b->loop, broker_on_turn, b);
        loop_on_wake(b->loop, broker_on_wake, b);
        loop_on_idle(b->loop, broker_on_idle, b);
        rc = broker_create_rooms(b);
    }
    if (rc == HF_OK)
        broker_note_loaded(agent);
    if (rc < 0) {
        log_error("cannot make the broker: %s", hf_status_text(rc));
        broker_destroy(b);
        return rc;
    }
    *ret_broker = b;
    return HF_OK;
}

static void broker_on_rouse(int number)
{
    (void)number;
}

/* Without SA_RESTART: the signal must interrupt system calls. */
static int broker_hear_rouse(void)
{
    const struct sigaction action = {.sa_handler = broker_on_rouse};

    return sigaction(BROKER_ROUSE, &action, NULL);
}

static void *broker_run(void *arg)
{
    struct broker *b = arg;
    sigset_t rouse;

    thread_role_now = THREAD_ROLE_BROKER;
    ASSERT_BROKER_THREAD();
    (void)pthread_setname_np(pthread_self(), "hf-broker");
    (void)sigemptyset(&rouse);
    (void)sigaddset(&rouse, BROKER_ROUSE);
    (void)pthread_sigmask(SIG_UNBLOCK, &rouse, NULL);
    atomic_store_explicit(&b->tid, gettid(), memory_order_relaxed);
    rcu_register_thread();
    nodes_start(b->nodes);
    loop_timer_set(b->loop, &b->beat, clock_now());
    sessions_start(b->clients);
    loop_run(b->loop);
    atomic_store_explicit(&b->tid, 0, memory_order_relaxed);
    rcu_unregister_thread();
    return NULL;
}

int broker_start(struct broker *b)
{
    int rc = sessions_listen(b->clients);

    if (rc < 0)
        return rc;
    if (broker_hear_rouse() < 0)
        return HF_ESYS;
    rc = thread_start("broker", broker_run, b, &b->thread);
    b->thread_started = rc == HF_OK;
    return rc;
}

void broker_rouse(struct broker *b)
{
    pid_t tid = atomic_load_explicit(&b->tid, memory_order_relaxed);

    /* By its tid: another thread may join it meanwhile. */
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
    /* From the top down: a room ends before the rooms whose end it would be told of. */
    if (b->queries)
        queries_close(b->queries);
    if (b->locks)
        locks_close(b->locks);
    if (b->clients) {
        sessions_destroy(b->clients);
        clients_end(b->clients);
    }
    groups_destroy(b->groups);
    if (b->nodes)
        nodes_end(b->nodes); /* ends every command in flight, those of rounds included */
    queries_destroy(b->queries);
    locks_destroy(b->locks);
    clients_destroy(b->clients);
    nodes_destroy(b->nodes);
    if (b->resolver)
        resolver_destroy(b->resolver);
    if (b->loop) {
        mailbox_fini(&b->agent->to_broker);
        loop_destroy(b->loop);
    }
    mutex_fini(&b->why_lock);
    free(b);
}
