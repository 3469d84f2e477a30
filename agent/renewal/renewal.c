#include "agent/renewal/renewal_internal.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/base/thread.h"
#include "agent/core/ballot.h"
#include "agent/core/backoff.h"
#include "agent/redis/resolver.h"
#include "agent/state/lease.h"
#include "agent/state/mailbox.h"
#include "agent/state/stores.h"
#include "shm/assert.h"
#include "shm/compiler.h"
#include "shm/measures.h"
#include "shm/status.h"

#define AGAIN_MOST                                                                                 \
    hf_ms(100) /* for releases, before the agent starts again: leases are not renewed meanwhile */
#define BEAT            hf_ms(100)  /* the heartbeat's longest interval */
#define AWAY_LEAST      hf_ms(250)  /* shorter standstills are no reason for a loss */
#define AWAY_TOLD       hf_ms(1000) /* worth an event and a line */
#define MESSAGES_A_TURN 4096        /* so that the clock is read in between */

/* --- configuration ---------------------------------------------------------------------------- */

/* (!) Between two turns: nothing points into the configuration before after this. Leases keep the times of
 * their own TTL. */
static void renewal_take_order(struct renewal *r, struct config_order *order) IN_RENEWAL_THREAD
{
    r->config = order->config;
    for (int i = 0; i < r->n; i++) {
        seat_configure(&r->node[i].seat, &r->config->nodes[i]);
        renewal_configure_link(&r->node[i]);
    }
    config_order_taken(order);
}

/* --- messages --------------------------------------------------------------------------------- */

static void renewal_on_stop(struct renewal *r)
{
    hf_time now = clock_now(), over = key_deleter_attempts_over(r->key_deleter);

    r->stopping = true;
    /* Releases that have begun get the time of one attempt to leave; some had that time while the
     * broker was going away. */
    if (atomic_load_explicit(&r->agent->stays, memory_order_acquire))
        over = hf_time_min(over, hf_time_add(now, AGAIN_MOST));
    if (loop_timer_set(r->loop, &r->finished, hf_time_max(now, over)) != HF_OK)
        loop_stop(r->loop);
}

static void renewal_on_message(struct renewal *r, const struct message *message) IN_RENEWAL_THREAD
{
    struct lease *lease = renewal_find(r, message->slot, message->generation);

    switch (message->kind) {
    case MSG_GRANTED:
        hf_assert(message->lease, "slot %u", (unsigned)message->slot);
        renewal_adopt(r, message->lease, clock_now());
        break;
    case MSG_VOTE:
        lease = renewal_find_token(r, message->slot, message->generation);
        if (lease)
            renewal_vote(r, lease, message->node_number, message->at);
        break;
    case MSG_HAND_OVER:
        hf_assert(message->handoff, "slot %u", (unsigned)message->slot);
        renewal_hand_over(r, message->handoff);
        break;
    case MSG_RELEASE:
        if (lease)
            renewal_release(r, lease, message->reason);
        break;
    case MSG_LOSE:
        if (lease)
            renewal_lose(r, lease, message->reason, message->killing, message->by);
        break;
    case MSG_ABANDON:
        if (lease)
            renewal_abandon(r, lease);
        break;
    case MSG_BEATS:
        if (lease)
            renewal_bind_beats(r, lease, message->beats);
        else
            beats_drop(message->beats);
        break;
    case MSG_TRUST:
        hf_assert(message->node_number >= 0 && message->node_number < r->n, "node %d of %d",
                  message->node_number, r->n);
        renewal_told(&r->node[message->node_number], message);
        break;
    case MSG_STOP:
        renewal_on_stop(r);
        break;
    case MSG_CONFIG:
        renewal_take_order(r, message->order);
        break;
    case MSG_FLEET:
        renewal_take_fleet(r, message->fleet, message->here);
        break;
    case MSG_REFUSED:
    case MSG_ANOTHER:
    case MSG_CHANGED:
    case MSG_HANDED_OVER:
    case MSG_ENDED:
    case MSG_GO_AWAY:
    case MSG_FLEET_CHANGE:
        hf_assert(message->kind == MSG_STOP, "message %d is the broker's", (int)message->kind);
        break;
    }
}

static void renewal_take_messages(struct renewal *r) IN_RENEWAL_THREAD
{
    struct message *message;

    for (int i = 0; i < MESSAGES_A_TURN; i++) {
        message = mailbox_take(&r->agent->to_renewal);
        if (!message)
            return;
        renewal_on_message(r, message);
        free(message);
    }
    loop_wake(r->loop);
}

/* --- the loop --------------------------------------------------------------------------------- */

/* Stopped, suspended with the host, or without CPU: else hardly more than BEAT passes between turns. */
static void renewal_look_for_gap(struct renewal *r, hf_time now)
{
    hf_dur gap = hf_time_since(now, r->turn);

    r->away = r->turn.ns != HF_TIME_PAST.ns && gap.ns >= AWAY_LEAST.ns;
    r->away_since = r->turn;
    if (!r->away || gap.ns < AWAY_TOLD.ns)
        return;
    log_warn("the agent was stopped, suspended or without CPU for %" PRId64
             " ms, and renewed nothing meanwhile",
             hf_dur_ms(gap));
    event_agent_away(r->agent, gap);
}

/* (!) First in every turn, before any descriptor: a lease that the clock has ended is over, whatever
 * an answer says. */
static void renewal_on_turn(void *arg, hf_time now)
{
    struct renewal *r = arg;

    ASSERT_RENEWAL_THREAD();
    renewal_look_for_gap(r, now);
    r->turn = now;
    atomic_store_explicit(&r->agent->table.header->renewal_beat_ns, now.ns, memory_order_relaxed);
    renewal_tick(r, now);
    renewal_refresh(r, now);
}

static void renewal_on_wake(void *arg)
{
    struct renewal *r = arg;

    ASSERT_RENEWAL_THREAD();
    renewal_take_messages(r);
    resolver_deliver(r->resolver);
}

/* Last in every turn: all that the turn wrote leaves together. */
static bool renewal_on_idle(void *arg)
{
    struct renewal *r = arg;
    hf_time next, now;

    ASSERT_RENEWAL_THREAD();
    renewal_mend_seats(r);
    renewal_pump(r);
    now = clock_now();
    next = hf_time_min(hf_time_add(now, BEAT), renewal_next_due(r));
    next = hf_time_min(next, renewal_next_event(r));
    if (loop_timer_set(r->loop, &r->wake, next) != HF_OK || r->turn.ns == HF_TIME_PAST.ns)
        return false;
    if (hf_time_since(now, r->turn).ns > r->turn_max_ns) {
        r->turn_max_ns = hf_time_since(now, r->turn).ns;
        hf_counter_set(&r->agent->table, HF_COUNTER_TURN_MAX_NS, (uint64_t)r->turn_max_ns);
    }
    hf_extreme_add_ns(&r->agent->table, HF_EXTREME_TURN, hf_time_since(now, r->turn).ns, now);
    if (r->stopping && key_deleter_busy(r->key_deleter) == 0)
        loop_stop(r->loop);
    return false;
}

/* Only a turn of the loop is wanted. */
static void renewal_on_wake_timer(struct loop_timer *timer, hf_time now)
{
    (void)timer;
    (void)now;
}

static void renewal_on_finished(struct loop_timer *timer, hf_time now)
{
    (void)now;
    loop_stop(HF_CONTAINER(timer, struct renewal, finished)->loop);
}

static void *renewal_thread_main(void *arg)
{
    struct renewal *r = arg;

    thread_role_now = THREAD_ROLE_RENEWAL;
    ASSERT_RENEWAL_THREAD();
    (void)pthread_setname_np(pthread_self(), "hf-renewal");
    rcu_register_thread();
    /* Leases of an earlier agent come first: their votes were given under the sentinels in the node
     * records. */
    renewal_take_messages(r);
    for (int i = 0; i < r->n; i++)
        link_start(r->node[i].link);
    loop_run(r->loop);
    rcu_unregister_thread();
    return NULL;
}

/* --- start and end ---------------------------------------------------------------------------- */

/* A place for each possible lease, so that no queue ever has to grow. */
static int renewal_heap_reserve(struct heap *heap, uint32_t capacity)
{
    heap->room = (size_t)capacity + 1;
    heap->items = calloc(heap->room, sizeof(struct heap_item *));
    return heap->items ? HF_OK : HF_ENOMEM;
}

static int renewal_cohorts_reserve(struct cohorts *c, uint32_t capacity)
{
    c->room = cohorts_room(capacity);
    c->all = calloc(c->room, sizeof(*c->all));
    c->free = calloc(c->room, sizeof(*c->free));
    c->home = calloc(capacity, sizeof(*c->home));
    c->singles = calloc(capacity, sizeof(*c->singles));
    c->free_singles = calloc(capacity, sizeof(*c->free_singles));
    if (!c->all || !c->free || !c->home || !c->singles || !c->free_singles)
        return HF_ENOMEM;
    return renewal_heap_reserve(&c->heap, c->room) == HF_OK
               ? renewal_heap_reserve(&c->alone, capacity)
               : HF_ENOMEM;
}

static void renewal_cohorts_release(struct cohorts *c)
{
    free(c->all);
    free(c->free);
    free(c->home);
    free(c->heap.items);
    free(c->singles);
    free(c->free_singles);
    free(c->alone.items);
}

static int renewal_slots_reserve(struct renewal *r, uint32_t capacity)
{
    r->slots = calloc(capacity, sizeof(*r->slots));
    r->by_key.buckets = chains_buckets(capacity);
    r->by_key.first = calloc(r->by_key.buckets, sizeof(uint32_t));
    r->rivals = (struct rivals){.room = rivals_room(capacity), .n = r->n};
    r->rivals.words = calloc(rivals_words(r->rivals.room, r->n), sizeof(uint64_t));
    if (!r->slots || !r->by_key.first || !r->rivals.words)
        return HF_ENOMEM;
    r->by_key.links = &r->slots->same_key;
    r->by_key.step = sizeof(*r->slots);
    return HF_OK;
}

int renewal_create(struct agent *agent, struct renewal **ret_renewal) BEFORE_OR_AFTER_THREADS
{
    struct renewal *r = calloc(1, sizeof(*r));
    struct link *links[HF_NODES_MAX];
    const struct key_deleter_owner releases = {
        .counts = renewal_release_counts, .refused = renewal_release_refused, .arg = r};
    int rc;

    if (!r)
        return HF_ENOMEM;
    r->agent = agent;
    r->config = agent->config;
    r->n = agent->config->node_count;
    r->q = agent->config->quorum;
    r->age_least = timing_age(hf_ms(agent->config->ttl_longest_ms));
    r->started = clock_now();
    r->turn = HF_TIME_PAST;
    r->wake.fn = renewal_on_wake_timer;
    r->finished.fn = renewal_on_finished;
    if (getrandom(&r->random, sizeof(r->random), 0) != sizeof(r->random) || r->random == 0)
        r->random = 1;
    phases_init(&r->phases, renewal_random(r));
    refresh_init(&r->refresh, agent->table.capacity, renewal_random(r), r->started);
    (void)!getrandom(r->hash_key, sizeof(r->hash_key), 0);
    rc = loop_create(&r->loop);
    if (rc != HF_OK) {
        free(r);
        return rc;
    }
    mailbox_init(&agent->to_renewal, r->loop);
    rc = resolver_create(r->loop, &r->resolver);
    if (rc == HF_OK)
        rc = renewal_cohorts_reserve(&r->looks, agent->table.capacity);
    if (rc == HF_OK)
        rc = renewal_slots_reserve(r, agent->table.capacity);
    renewal_fleet_begin(r);
    for (int i = 0; i < r->n && rc == HF_OK; i++) {
        rc = renewal_cohorts_reserve(&r->node[i].renewals, agent->table.capacity);
        if (rc == HF_OK)
            rc = renewal_node_begin(r, i);
        links[i] = r->node[i].link;
    }
    if (rc == HF_OK)
        rc =
            key_deleter_create(r->loop, links, &r->servers, r->n, r->q, &releases, &r->key_deleter);
    if (rc != HF_OK) {
        renewal_destroy(r);
        return rc;
    }
    loop_on_turn(r->loop, renewal_on_turn, r);
    loop_on_wake(r->loop, renewal_on_wake, r);
    loop_on_idle(r->loop, renewal_on_idle, r);
    *ret_renewal = r;
    return HF_OK;
}

int renewal_start(struct renewal *r)
{
    const struct config *config = r->agent->config;
    sigset_t all, before;
    char why[256];
    int rc;

    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the main thread's */
    rc = thread_start("renewal", renewal_thread_main, r, &r->thread);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc < 0)
        return rc;
    if (config->renewal_priority &&
        real_time_thread(r->thread, (int)config->renewal_priority, why, sizeof(why)) < 0)
        log_warn("%s; renewals go without it", why);
    return HF_OK;
}

void renewal_join(struct renewal *r)
{
    (void)pthread_join(r->thread, NULL);
}

void renewal_destroy(struct renewal *r)
{
    if (!r)
        return;
    r->closing = true;
    for (int i = 0; i < r->n; i++)
        if (r->node[i].link)
            link_shut(r->node[i].link);
    for (int i = 0; i < r->n; i++)
        link_destroy(r->node[i].link);
    key_deleter_destroy(r->key_deleter);
    if (r->resolver)
        resolver_destroy(r->resolver);
    mailbox_fini(&r->agent->to_renewal);
    loop_destroy(r->loop);
    for (int i = 0; i < r->n; i++)
        renewal_cohorts_release(&r->node[i].renewals);
    renewal_cohorts_release(&r->looks);
    free(r->slots);
    free(r->by_key.first);
    free(r->rivals.words);
    renewal_fleet_end(r);
    free(r);
}
