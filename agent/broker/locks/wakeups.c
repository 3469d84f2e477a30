/* Waiting for a name that another host holds: notices of its key, queries of it, and when the
 * next round begins. The rules are agent/core/wakeup.h; here they are carried out. */
#include "agent/broker/locks/locks_internal.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/thread.h"
#include "agent/core/backoff.h"
#include "agent/base/clock.h"
#include "agent/base/token.h"
#include "agent/broker/clients/sessions.h"
#include "agent/broker/clients/users.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/names.h"
#include "agent/broker/locks/rounds.h"
#include "agent/broker/locks/waiters.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/core/share.h"
#include "agent/core/wakeup.h"
#include "shm/assert.h"
#include "shm/index.h"
#include "shm/status.h"

#define BUCKETS 4096

/* A name that a client here waits for, from the first round that found it held until nobody waits.
 */
struct waited {
    LIST_ENTRY(waited) same_bucket;
    LIST_ENTRY(waited) all;
    struct locks *locks;
    struct name *name; /* NULL: nobody waits any more; queries are still unanswered */
    struct wakeup wakeup;
    int failed;     /* HF_EBUSY, HF_ENOQUORUM: outcome of its last round; the next one waits */
    bool foreign;   /* and no agent's key was in its way: that turn needs no gap behind it */
    bool queued;    /* the next step is due, and waits for a turn of each waiter's user */
    unsigned looks; /* without a final answer */
    size_t key_len;
    uint8_t key[];
};

LIST_HEAD(waited_list, waited);

struct wakeups {
    struct locks *locks;
    struct waited_list all;
    struct waited_list buckets[BUCKETS];
    struct loop_timer turn;     /* set while anything is queued */
    const struct waited *taken; /* its turn has come just now */
};

static struct waited_list *wakeups_bucket_of(struct locks *locks, const void *key, size_t key_len)
{
    return &locks->wakeups->buckets[hf_name_hash(locks->hash_key, key, key_len) % BUCKETS];
}

static bool wakeups_has_key(const struct waited *w, const void *key, size_t key_len)
{
    return w->key_len == key_len && memcmp(w->key, key, key_len) == 0;
}

static uint32_t wakeups_voting(const struct locks *locks, hf_time now) IN_BROKER_THREAD
{
    uint32_t nodes = 0;

    for (int i = 0; i < locks->n; i++)
        if (nodes_may_vote(locks->nodes, i, now))
            nodes |= UINT32_C(1) << i;
    return nodes;
}

/* --- the next step ---------------------------------------------------------------------------- */

static void wakeups_on_query(struct link *link, const struct link_reply *reply, void *arg);

static void wakeups_query(struct waited *w, uint32_t nodes, hf_time now)
{
    struct locks *locks = w->locks;
    hf_time deadline = hf_time_add(now, locks->config->timing.attempt);

    hf_assert(nodes >> locks->n == 0, "nodes %x of %d", (unsigned)nodes, locks->n);
    for (int i = 0; i < locks->n; i++) {
        if (!(nodes >> i & 1))
            continue;
        link_track(locks->nodes->links[i]);
        if (link_query(locks->nodes->links[i], w->key, w->key_len, false, deadline,
                       wakeups_on_query, w) != HF_OK) {
            wakeup_unanswered(&w->wakeup, i);
            continue;
        }
        wakeup_query(&w->wakeup, i, now);
        w->looks++;
        hf_counter_add(&locks->agent->table, HF_COUNTER_LOOKS, 1);
        link_flush(locks->nodes->links[i]);
    }
}

/* It waits in the queue of each user who waits for the name: however many other names one of them
 * has there, the others' turns come as soon as without that user. */
static void wakeups_queue(struct waited *w, hf_time now)
{
    struct wakeups *wakeups = w->locks->wakeups;
    struct waiter *waiter;

    if (w->queued)
        return;
    w->queued = true;
    TAILQ_FOREACH (waiter, &w->name->state->waiters, queue)
        turns_want(&w->locks->turns, &waiter->session->user->turns, &waiter->want);
    if (!heap_has(&wakeups->turn.item))
        (void)loop_timer_set(w->locks->loop, &wakeups->turn, turns_next(&w->locks->turns, now));
}

static void wakeups_unqueue(struct waited *w)
{
    struct waiter *waiter;

    if (!w->queued)
        return;
    w->queued = false;
    TAILQ_FOREACH (waiter, &w->name->state->waiters, queue)
        turns_drop(&w->locks->turns, &waiter->want);
}

void wakeups_joined(struct waiter *waiter)
{
    struct waited *w = waiter->name->state->waited;

    if (w && w->queued)
        turns_want(&w->locks->turns, &waiter->session->user->turns, &waiter->want);
}

/* Whether the commands may be sent now; if not, `ret_at` is never, for the turn wakes it. */
static bool wakeups_afford(struct waited *w, uint32_t commands, hf_time now, hf_time *ret_at)
{
    struct locks *locks = w->locks;

    if (locks->wakeups->taken != w &&
        (turns_wanted(&locks->turns) || hf_time_before(now, turns_next(&locks->turns, now)))) {
        wakeups_queue(w, now);
        *ret_at = HF_TIME_NEVER;
        return false;
    }
    turns_spend(&locks->turns, commands, now);
    return true;
}

bool wakeups_due(struct name *name, hf_time now)
{
    struct locks *locks = name_locks(name);
    struct waited *w = name->state->waited;
    struct wakeup_plan plan;

    if (!w || w->failed == HF_OK)
        return true;
    plan = wakeup_next(&w->wakeup, wakeups_voting(locks, now), now);
    if (plan.step == WAKEUP_ROUND && !w->foreign && gap_is_owed(name, now))
        gap_leave(name, now);
    if (plan.step == WAKEUP_ROUND && hf_time_before(now, name->state->yield_until))
        plan = (struct wakeup_plan){WAKEUP_WAIT, 0, name->state->yield_until};
    if (plan.step == WAKEUP_QUERY &&
        wakeups_afford(w, (uint32_t)__builtin_popcount(plan.nodes), now, &plan.at)) {
        wakeups_query(w, plan.nodes, now);
        plan = wakeup_next(&w->wakeup, wakeups_voting(locks, now), now);
    } else if (plan.step == WAKEUP_POLL && wakeups_afford(w, (uint32_t)locks->n, now, &plan.at)) {
        hf_counter_add(&locks->agent->table, HF_COUNTER_POLLS, 1);
        return true;
    } else if (plan.step == WAKEUP_ROUND) {
        hf_counter_add(&locks->agent->table, HF_COUNTER_WAKEUPS, 1);
        return true;
    }
    (void)loop_timer_set(locks->loop, &name->state->retry, plan.at);
    return false;
}

static void wakeups_step(struct name *name, hf_time now) IN_BROKER_THREAD
{
    if (!heap_has(&name->state->retry.item))
        return;
    loop_timer_cancel(name_locks(name)->loop, &name->state->retry);
    if (wakeups_due(name, now))
        name_touch(name, TOUCH_CHANGED);
}

/* Serves users in turns, as far as the budget goes. */
static void wakeups_on_turn(struct loop_timer *timer, hf_time now)
{
    struct wakeups *wakeups = HF_CONTAINER(timer, struct wakeups, turn);
    struct turns_want *want;

    ASSERT_BROKER_THREAD();
    while (hf_time_reached(now, turns_next(&wakeups->locks->turns, now)) &&
           (want = turns_take(&wakeups->locks->turns))) {
        struct name *name = HF_CONTAINER(want, struct waiter, want)->name;
        struct waited *w = name->state->waited;

        hf_assert(w && w->queued, "slot %u", (unsigned)name->slot);
        wakeups_unqueue(w);
        wakeups->taken = w;
        wakeups_step(name, now);
        wakeups->taken = NULL;
    }
    if (turns_wanted(&wakeups->locks->turns))
        (void)loop_timer_set(wakeups->locks->loop, timer, turns_next(&wakeups->locks->turns, now));
}

/* More is known, so the next step may be another. */
static void wakeups_think_again(struct waited *w, hf_time now)
{
    if (w->name && heap_has(&w->name->state->retry.item))
        (void)loop_timer_set(w->locks->loop, &w->name->state->retry, now);
}

/* Decides anew when to poll. */
static void wakeups_rest(struct waited *w, hf_time now)
{
    if (!w->name || !heap_has(&w->name->state->retry.item))
        return;
    if (w->failed == HF_EBUSY)
        wakeup_rest(&w->wakeup, random_u32(), now);
    wakeups_think_again(w, now);
}

static void wakeups_settle(struct waited *w)
{
    hf_assert(!w->name || w->name->state->waited == w, "looks %u", (unsigned)w->looks);
    if (w->name || w->looks > 0)
        return;
    LIST_REMOVE(w, all);
    free(w);
}

static void wakeups_on_query(struct link *link, const struct link_reply *reply, void *arg)
{
    struct waited *w = arg;
    int node = link_node(link);
    hf_time now = clock_now();

    ASSERT_BROKER_THREAD();
    nodes_on_reply(w->locks->nodes, node, reply);
    if (reply->outcome == LINK_ANSWERED && reply->verdict == VERDICT_FREE)
        wakeup_free(&w->wakeup, node, reply->tracked, reply->sent);
    else if (reply->outcome == LINK_ANSWERED) {
        wakeup_held(&w->wakeup, node, reply->holder.pttl_ms, reply->tracked, reply->sent, now);
        if (w->name)
            waiters_notify_left(w->name, reply->holder.pttl_ms, now);
    } else if (!reply->late)
        wakeup_unanswered(&w->wakeup, node);
    wakeups_rest(w, now);
    if (reply->final) {
        hf_assert(w->looks > 0, "node %d", node);
        w->looks--;
        wakeups_settle(w);
    }
}

/* --- rounds ----------------------------------------------------------------------------------- */

static struct waited *wakeups_waited_new(struct name *name, const void *key, size_t key_len)
{
    struct locks *locks = name_locks(name);
    struct waited *w = calloc(1, sizeof(*w) + key_len);

    if (!w)
        return NULL;
    w->locks = locks;
    w->name = name;
    w->key_len = key_len;
    memcpy(w->key, key, key_len);
    wakeup_init(&w->wakeup, locks->n, locks->q);
    LIST_INSERT_HEAD(&locks->wakeups->all, w, all);
    LIST_INSERT_HEAD(wakeups_bucket_of(locks, key, key_len), w, same_bucket);
    return w;
}

static bool wakeups_somebody_waits(const struct name *name)
{
    const struct waiter *w;

    TAILQ_FOREACH (w, &name->state->waiters, queue)
        if (!waiter_tries(w))
            return true;
    return false;
}

/* (!) Most locks are free when they are asked for, and to be tracked costs a node a command and memory. So the first round
 * for a name is tracked only if the wait before met a holder; otherwise wakeups_lost() asks for notices. */
bool wakeups_round(struct round *round)
{
    struct name *name = round->name;
    bool tracked = name->state->waited || name->contended;

    name->contended &= name->state->waited != NULL;
    if (!name->state->waited && wakeups_somebody_waits(name))
        name->state->waited = wakeups_waited_new(name, round->key, round->key_len);
    if (!name->state->waited)
        return false;
    name->state->waited->failed = HF_OK;
    name->state->waited->foreign = false;
    wakeups_unqueue(name->state->waited);
    wakeup_round(&name->state->waited->wakeup);
    return tracked;
}

/* Nodes that could tell of changes, and were not asked to yet. Not by the budget: it is once for a wait, as its first
 * round is. */
static void wakeups_ask_for_notices(struct waited *w, hf_time now) IN_BROKER_THREAD
{
    uint32_t nodes = wakeups_voting(w->locks, now);

    for (int i = 0; i < w->locks->n; i++)
        if (link_tracking(w->locks->nodes->links[i]) != HF_TRACKING_ON)
            nodes &= ~(UINT32_C(1) << i);
    wakeups_query(w, nodes & ~w->wakeup.querying, now);
}

/* One node's key may be an agent's, with the fence record of another agent that lost there. */
static void wakeups_note_foreign(struct waited *w, struct round *round, int node,
                                 const struct link_reply *reply)
{
    struct locks *locks = w->locks;

    if (reply->holder.fence)
        return;
    round->foreign |= UINT32_C(1) << node;
    if (!w->name || __builtin_popcount(round->foreign) <= locks->n - locks->q)
        return;
    w->foreign = true;
    w->name->state->foreign_seen = clock_now();
}

void wakeups_vote(struct locks *locks, struct round *round, int node,
                  const struct link_reply *reply)
{
    struct waited *w;

    if (reply->outcome != LINK_ANSWERED)
        return;
    LIST_FOREACH (w, wakeups_bucket_of(locks, round->key, round->key_len), same_bucket) {
        if (!wakeups_has_key(w, round->key, round->key_len))
            continue;
        if (reply->verdict == VERDICT_TAKEN)
            wakeups_note_foreign(w, round, node, reply);
        if (reply->verdict == VERDICT_TAKEN)
            wakeup_held(&w->wakeup, node, reply->holder.pttl_ms, reply->tracked, reply->sent,
                        clock_now());
        else if (reply->verdict != VERDICT_OK && reply->verdict != VERDICT_LOW)
            continue;
        else if (round->over && w->failed == HF_EBUSY)
            wakeup_won_late(&w->wakeup, node, round_has_winner(round),
                            links_round_time(locks->nodes->links, locks->n, locks->q), random_u32(),
                            clock_now());
        else
            wakeup_granted(&w->wakeup, node);
        /* After the round was decided: one more node that tells, or where the key is known to be free. */
        if (round->decided)
            wakeups_rest(w, clock_now());
    }
}

void wakeups_lost(struct name *name, uint32_t won, bool winner, bool tracked, int64_t pttl_ms,
                  hf_time now)
{
    struct locks *locks = name_locks(name);
    struct waited *w = name->state->waited;
    hf_time at = now; /* asks for the next step */

    ASSERT_BROKER_THREAD();
    if (w) {
        w->failed = HF_EBUSY;
        name->contended = true;
        wakeup_lost(&w->wakeup, won, winner,
                    links_round_time(locks->nodes->links, locks->n, locks->q), random_u32(), now);
        if (!tracked)
            wakeups_ask_for_notices(w, now);
    } else
        at = hf_time_add(now, backoff_contend(pttl_ms, random_u32()));
    (void)loop_timer_set(locks->loop, &name->state->retry, at);
}

void wakeups_failed(struct name *name, hf_time again)
{
    if (name->state->waited) {
        name->state->waited->failed = HF_ENOQUORUM;
        name->state->waited->wakeup.poll = again;
    }
    (void)loop_timer_set(name_locks(name)->loop, &name->state->retry, again);
}

void wakeups_forget(struct name *name)
{
    struct waited *w = name->state->waited;

    if (!w)
        return;
    wakeups_unqueue(w);
    name->state->waited = NULL;
    w->name = NULL;
    LIST_REMOVE(w, same_bucket);
    wakeups_settle(w);
}

/* --- what nodes tell -------------------------------------------------------------------------- */

void wakeups_noticed(struct locks *locks, int node, const void *key, size_t key_len)
{
    hf_time now = clock_now();
    struct name *first = NULL;
    struct waited *w;

    hf_counter_add(&locks->agent->table, HF_COUNTER_NOTICES, 1);
    for (w = LIST_FIRST(key ? wakeups_bucket_of(locks, key, key_len) : &locks->wakeups->all); w;
         w = key ? LIST_NEXT(w, same_bucket) : LIST_NEXT(w, all)) {
        if (key && !wakeups_has_key(w, key, key_len))
            continue;
        wakeup_told(&w->wakeup, node, now);
        if (!first)
            first = w->name;
        else
            wakeups_think_again(w, now);
    }
    /* Most often there is only one, and it does not wait for the loop's next turn. */
    if (first)
        wakeups_step(first, now);
}

void wakeups_telling(struct locks *locks, int node, bool can)
{
    hf_time now = clock_now();
    struct waited *w;

    LIST_FOREACH (w, &locks->wakeups->all, all) {
        wakeup_telling(&w->wakeup, node, can);
        wakeups_rest(w, now);
    }
}

/* --- start and end ------------------------------------------------------------------------ */

int wakeups_create(struct locks *locks)
{
    locks->wakeups = calloc(1, sizeof(*locks->wakeups));
    if (!locks->wakeups)
        return HF_ENOMEM;
    locks->wakeups->locks = locks;
    locks->wakeups->turn.fn = wakeups_on_turn;
    turns_init(&locks->turns, (uint32_t)(WAKEUP_PER_S * locks->n));
    return HF_OK;
}

void wakeups_destroy(struct locks *locks)
{
    struct waited *w;

    if (!locks->wakeups)
        return;
    loop_timer_cancel(locks->loop, &locks->wakeups->turn);
    while ((w = LIST_FIRST(&locks->wakeups->all))) {
        LIST_REMOVE(w, all);
        free(w);
    }
    free(locks->wakeups);
}
