#include "agent/broker/locks/ends.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/base/clock.h"
#include "agent/base/failure.h"
#include "agent/base/log.h"
#include "agent/base/random.h"
#include "agent/broker/clients/clients.h"
#include "agent/broker/clients/sessions.h"
#include "agent/broker/locks/drains.h"
#include "agent/broker/locks/gaps.h"
#include "agent/broker/locks/grants.h"
#include "agent/broker/locks/handoffs.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/orders.h"
#include "agent/broker/locks/rounds.h"
#include "agent/broker/locks/short_holds.h"
#include "agent/broker/locks/waiters.h"
#include "agent/record/events.h"
#include "agent/record/lease_record.h"
#include "agent/record/losses.h"
#include "shm/assert.h"
#include "shm/loss.h"
#include "shm/measures.h"
#include "shm/status.h"

/* Waiters are told of a new holder at most so often: a lock that is handed over again and again must not
 * wake all of them each time. */
#define HEAR_EVERY hf_ms(100)

/* --- it is over ------------------------------------------------------------------------------- */

/* (!) Its holder may have thought that it held the lock when another had it already. */
static const char *end_say_found_gone(struct locks *locks, const struct lease *lease)
{
    enum hf_loss_reason gone = lease_found_gone(lease);
    char name[4 * HF_NAME_MAX + 1];

    if (gone == HF_LOSS_NONE)
        return "";
    event_found_lost(locks->agent, lease, gone);
    losses_count(&locks->agent->table, gone);
    log_warn("%s: lost before it was released, and nobody had noticed: %s; fence %" PRIu64
             ", process %" PRIu32,
             log_name(lease_name(lease), lease->name_len, name, sizeof(name)), hf_loss_text(gone),
             lease->fence, lease->pid);
    return gone == HF_LOSS_FOREIGN
               ? "the lock was lost before the release: a majority of the nodes did "
                 "not have its key, and some have another holder's"
               : "the lock was lost before the release: a majority of the nodes did "
                 "not have its key";
}

void grant_ended(struct locks *locks, struct lease *lease)
{
    struct resource *r = locks->by_slot[lease->slot];
    ABOUT_LOCK(r->name, r->name_len);
    struct client *c = r->holder;
    bool gone = lease_found_gone(lease) != HF_LOSS_NONE;
    bool lost = gone || atomic_load_explicit(&lease->state, memory_order_relaxed) == HF_SLOT_LOST;
    const struct session *told;
    hf_time now = clock_now();

    hf_assert(resource_lease(r) == lease && c, "slot %u, generation %u", (unsigned)lease->slot,
              (unsigned)lease->generation);
    hf_assert(!r->work->short_hold && !r->work->handoff, "slot %u, generation %u",
              (unsigned)lease->slot, (unsigned)lease->generation);
    hf_assert(atomic_load(&locks->agent->table.slots[lease->slot].check) == 0,
              "slot %u, generation %u", (unsigned)lease->slot, (unsigned)lease->generation);
    if (r->work->granted) {
        struct round *round = r->work->granted;

        r->work->granted = NULL;
        round_lease_over(round);
    }
    /* The renewal thread's release may have overtaken an acquire that was still on its way on our
     * link; a release behind that acquire on the same connection cannot. */
    if (lease->unanswered) {
        struct release_order order = release_order_of(lease, lease->unanswered);

        (void)releaser_start(locks->releaser, &order);
    }
    told = grant_answer_released(r, lease->generation, lost, end_say_found_gone(locks, lease));
    /* After the answer: until it lies in the ring, the next agent must know what to answer. */
    lease_journal(locks->agent, lease, JOURNAL_FREE);
    loop_timer_cancel(locks->loop, &r->work->retry);
    if (r->turn_over)
        r->work->yield_until = hf_time_add(
            now, handoff_yield(hf_ms(lease->ttl_ms), r->work->others_seen, now, random_u32()));
    r->turn_over = false;
    if (gap_is_owed(r, now))
        gap_leave(r, now);
    grant_untie(r); /* frees it, in the end */
    client_signal(c, told);
    client_settle(c);
    locks->owner.name_over(locks->owner.arg, r->name, r->name_len);
    resource_rest(r); /* most often nobody waits, and no step is due */
    waiters_let_go(r);
    resource_touch(r, TOUCH_CHANGED);
}

/* --- a short hold ----------------------------------------------------------------------------- */

static void end_on_released(const struct release_outcome *outcome, void *arg, void *owner)
{
    struct resource *r = arg;
    struct locks *locks = resource_locks(r);

    is_broker_thread();
    (void)owner;
    if (locks->closing)
        return;
    lease_found(resource_lease(r), outcome->gone);
    grant_ended(locks, resource_lease(r));
}

/* From here. False: the renewal thread is to release it. */
static bool end_short_hold(struct resource *r, enum hf_loss_reason reason, hf_time now)
{
    struct locks *locks = resource_locks(r);
    struct lease *lease = resource_lease(r);
    struct release_order order = release_order_of(lease, (1u << locks->n) - 1);

    /* Until then V is far ahead: the steps below cannot find the lease lost. */
    if (!short_hold_lasts(r, now))
        return false;
    short_hold_leave(r);
    (void)lease_fsm_release(&lease->fsm, reason, now);
    lease_record_end(locks->agent, lease);
    event_released(locks->agent, lease);
    hf_counter_add(&locks->agent->table, HF_COUNTER_RELEASES, 1);
    release_order_judge(&order, lease->fsm.valid);
    release_order_tell(&order, end_on_released, r);
    if (releaser_start(locks->releaser, &order) == HF_OK) {
        lease->unanswered = 0; /* this release follows the acquire on the same connection */
        return true;
    }
    short_hold_post(locks,
                    lease); /* out of memory: the renewal thread tries again when the keys expire */
    return false;
}

/* --- which way -------------------------------------------------------------------------------- */

/* The ways in which a release goes. Where one of the first two cannot be gone after all, the next is. */
enum way {
    HAND_OVER, /* to the next waiter of this host, without asking the nodes; then handoff_answered() */
    SHORT_HOLD, /* the broker thread has it to itself, and releases it; then grant_ended() */
    ORDER,      /* the renewal thread is told to release it; then grant_ended() */
    ABANDON, /* a holder or a job may live under it: the renewal thread is told to renew it no more */
};

/* Whether its holder may have left a job behind. One without the second guardian has started none. */
static bool end_may_leave_job(const struct resource *r)
{
    const struct lease *lease = resource_lease(r);

    return lease->run && (!lease->guarded || r->holder->joined);
}

/* `ret_now`: when it was judged, where that matters; `ret_next`: for HAND_OVER. */
static enum way end_way(struct resource *r, enum release_cause cause, hf_time *ret_now,
                        struct waiter **ret_next) IN_BROKER_THREAD
{
    if (cause == RELEASE_UNSEEN || (cause == RELEASE_HOLDER_GONE && end_may_leave_job(r)))
        return ABANDON;
    if (cause == RELEASE_TREE_DEAD)
        return ORDER; /* abandoned, it is renewed no more: nobody else is to have it */
    *ret_now = clock_now();
    *ret_next = handoff_next_holder(r, *ret_now);
    if (*ret_next)
        return HAND_OVER;
    *ret_now = clock_now(); /* anew: its 50 ms may be over by now */
    return short_hold_lasts(r, *ret_now) ? SHORT_HOLD : ORDER;
}

static void end_order(struct resource *r, enum message_kind kind,
                      enum hf_loss_reason reason) IN_BROKER_THREAD
{
    struct message *m = message_new(kind);

    m->slot = r->slot;
    m->generation = resource_lease(r)->generation;
    m->reason = reason;
    order_renewal(resource_locks(r), m);
}

void release_begin(struct resource *r, enum release_cause cause)
{
    enum hf_loss_reason reason = cause == RELEASE_UNWANTED ? HF_LOSS_NONE : HF_LOSS_HOLDER;
    bool gone = cause == RELEASE_HOLDER_GONE || cause == RELEASE_UNTOLD;
    struct lease *lease = resource_lease(r);
    struct waiter *next = NULL;
    hf_time now = HF_TIME_PAST;
    enum way way;

    hf_assert(lease && r->holder, "slot %u, generation %u", (unsigned)r->slot,
              (unsigned)r->generation);
    hf_assert(!r->work->round && !r->undoing, "slot %u, undoing %d", (unsigned)r->slot, r->undoing);
    lease->ending = true;
    /* (!) No guardian may join between here and the release: it would start a job. */
    r->holder->over |= gone && lease->guarded && !r->holder->joined;
    way = end_way(r, cause, &now, &next);
    if (way != ABANDON && r->work->granted)
        lease->unanswered = r->work->granted->unanswered;

    switch (way) {
    case HAND_OVER:
        if (handoff_begin(r, next, reason, now) == HF_OK)
            break;
        /* falls through - no room for the next holder's text, or no memory */
    case SHORT_HOLD:
        if (end_short_hold(r, reason, now))
            break;
        /* falls through - no memory, or it was none */
    case ORDER:
        end_order(r, MSG_RELEASE, reason);
        break;
    case ABANDON:
        end_order(r, MSG_ABANDON, reason);
        break;
    }
}

/* --- the agent goes --------------------------------------------------------------------------- */

void lease_go_away(struct resource *r)
{
    const struct lease *lease = resource_lease(r);
    struct waiter *w, *next;

    if (r->work->round)
        round_cancel(r->work->round);
    for (w = TAILQ_FIRST(&r->work->waiters); w; w = next) {
        next = TAILQ_NEXT(w, queue);
        if (!handoff_is_to(r, w))
            waiter_go_away(w);
    }
    if (!resource_locks(r)->config->ephemeral || !lease || lease->ending)
        return;
    /* The private nodes end with this agent: jobs are stopped first, and other holders are told. */
    if (lease->run)
        order_lose(r, HF_LOSS_GOING);
    else
        release_begin(r, RELEASE_UNWANTED);
}

/* --- a hand-off's end ------------------------------------------------------------------------- */

static void end_let_go_of_client(struct handoff *h) IN_BROKER_THREAD
{
    hf_assert(h->client->handoffs > 0, "slot %u", (unsigned)h->slot);
    h->client->handoffs--;
    client_settle(h->client);
}

/* A cancel, the agent's end and the timeout were put off until the hand-off was answered. */
static void end_wait_on(struct waiter *w, bool unwanted) IN_BROKER_THREAD
{
    struct locks *locks = resource_locks(w->resource);

    if (unwanted)
        waiter_fail(w, HF_ECANCELED, "");
    else if (locks->going)
        waiter_go_away(w);
    else if (!heap_has(&w->timer.item) && w->deadline.ns != HF_TIME_NEVER.ns)
        loop_timer_set(locks->loop, &w->timer, w->deadline);
}

/* It was refused: the renewal thread releases the lease. */
static void end_refused(struct handoff *h) IN_BROKER_THREAD
{
    struct resource *r = h->resource;

    r->turn_over |= handoff_is_enough(h->verdict);
    if (h->new_text)
        resource_text_drop(r, h->to, h->text_off);
    lease_free(h->to);
    end_let_go_of_client(h);
    if (h->waiter)
        end_wait_on(h->waiter, h->unwanted);
    resource_rest(r);
}

/* Its waiter went away meanwhile, or does not want it any more. */
static void end_give_on(struct resource *r, const struct client *c) IN_BROKER_THREAD
{
    bool gone = LIST_EMPTY(&c->sessions) && !c->ghost;

    release_begin(r, gone ? RELEASE_UNTOLD : RELEASE_UNWANTED);
}

/* A drain came meanwhile: the waiter waits on. */
static bool end_withhold(struct handoff *h) IN_BROKER_THREAD
{
    struct waiter *w = h->waiter;

    if (!w || h->unwanted || !drains_stands(resource_locks(h->resource)))
        return false;
    w->withheld = true;
    handoff_forget_waiter(h);
    return true;
}

static void end_handed_over(struct handoff *h) IN_BROKER_THREAD
{
    struct resource *r = h->resource;
    struct locks *locks = resource_locks(r);
    struct lease *from = resource_lease(r), *to = h->to;
    struct client *before = r->holder;
    struct waiter *w = end_withhold(h) ? NULL : h->waiter;
    const struct session *told;

    hf_assert(from && from->generation == h->generation && to->generation == h->generation + 1,
              "slot %u, generation %u after %u", (unsigned)r->slot, (unsigned)to->generation,
              (unsigned)h->generation);
    locks->generations[r->slot] = r->generation = to->generation;
    if (w) {
        struct session *s = w->session;

        grant_answer(s, to); /* first: the client waits for it */
        event_taken_over(locks->agent, to, h->valid, h->voting, hf_time_since(to->since, w->since));
        grant_measure(locks, hf_time_since(to->since, w->since), to->since);
        hf_counter_add(&locks->agent->table, HF_COUNTER_GRANTS, 1);
        hf_counter_add(&locks->agent->table, HF_COUNTER_HANDOFFS, 1);
        if (w->contended)
            hf_counter_add(&locks->agent->table, HF_COUNTER_GRANTS_CONTENDED, 1);
        waiter_free(w);
    }
    to->unanswered = from->unanswered;
    if (h->new_text)
        resource_text_switch(r, to, h->text_off);
    grant_untie(r);
    grant_hold(r, to, h->client);
    told = grant_answer_released(r, h->generation, false, "");
    client_signal(before, told); /* the other guardian */
    client_settle(before);
    end_let_go_of_client(h);
    if (!w || h->unwanted)
        end_give_on(r, r->holder);
    else if (locks->going)
        lease_go_away(r);
    else if (!TAILQ_EMPTY(&r->work->waiters) && !heap_has(&r->work->retry.item))
        loop_timer_set(locks->loop, &r->work->retry,
                       hf_time_add(loop_now(locks->loop), HEAR_EVERY));
    resource_calm(r);
}

void handoff_answered(struct handoff *h)
{
    struct resource *r = h->resource;

    hf_assert(r->work->handoff == h && resource_locks(r)->handoff_count > 0, "slot %u, handoffs %d",
              (unsigned)h->slot, (int)resource_locks(r)->handoff_count);
    r->work->handoff = NULL;
    resource_locks(r)->handoff_count--;
    if (h->verdict == HANDOFF_YES)
        end_handed_over(h);
    else
        end_refused(h);
    free(h);
}
