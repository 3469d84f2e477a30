#include "agent/broker/locks/locks_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/agent.h"
#include "agent/base/clock.h"
#include "agent/base/failure.h"
#include "agent/base/log.h"
#include "agent/base/token.h"
#include "agent/broker/clients/clients.h"
#include "agent/broker/clients/sessions.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/names.h"
#include "agent/broker/locks/rounds.h"
#include "agent/broker/locks/waiters.h"
#include "agent/state/events.h"
#include "agent/state/lease.h"
#include "shm/assert.h"
#include "shm/measures.h"
#include "shm/status.h"
#include "shm/wordings.h"

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
    struct name *name = locks->by_slot[lease->slot];
    ABOUT_LOCK(name->bytes, name->len);
    struct client *c = name->holder;
    bool gone = lease_found_gone(lease) != HF_LOSS_NONE;
    bool lost = gone || atomic_load_explicit(&lease->state, memory_order_relaxed) == HF_SLOT_LOST;
    const struct session *told;
    hf_time now = clock_now();

    hf_assert(name_lease(name) == lease && c, "slot %u, generation %u", (unsigned)lease->slot,
              (unsigned)lease->generation);
    hf_assert(!name->state->short_hold && !name->state->handoff, "slot %u, generation %u",
              (unsigned)lease->slot, (unsigned)lease->generation);
    hf_assert(atomic_load(&locks->agent->table.slots[lease->slot].check) == 0,
              "slot %u, generation %u", (unsigned)lease->slot, (unsigned)lease->generation);
    if (name->state->granted) {
        struct round *round = name->state->granted;

        name->state->granted = NULL;
        round_lease_over(round);
    }
    /* The renewal thread's release may have overtaken an acquire that was still on its way on our
     * link; a release behind that acquire on the same connection cannot. */
    if (lease->unanswered) {
        struct delete_request request = delete_request_of(lease, lease->unanswered);

        (void)key_deleter_start(locks->key_deleter, &request);
    }
    told = grant_answer_released(name, lease->generation, lost, end_say_found_gone(locks, lease));
    /* After the answer: until it lies in the ring, the next agent must know what to answer. */
    lease_journal(locks->agent, lease, JOURNAL_FREE);
    loop_timer_cancel(locks->loop, &name->state->retry);
    if (name->turn_over)
        name->state->yield_until = hf_time_add(
            now, handoff_yield(hf_ms(lease->ttl_ms), name->state->others_seen, now, random_u32()));
    name->turn_over = false;
    if (gap_is_owed(name, now))
        gap_leave(name, now);
    grant_untie(name); /* frees it, in the end */
    client_signal(c, told);
    client_settle(c);
    locks->owner.name_over(locks->owner.arg, name->bytes, name->len);
    name_park(name); /* most often nobody waits, and no step is due */
    waiters_let_go(name);
    name_touch(name, TOUCH_CHANGED);
}

/* --- a short hold ----------------------------------------------------------------------------- */

static void end_on_released(const struct release_outcome *outcome, void *arg, void *owner)
{
    struct name *name = arg;
    struct locks *locks = name_locks(name);

    ASSERT_BROKER_THREAD();
    (void)owner;
    if (locks->closing)
        return;
    lease_found(name_lease(name), outcome->gone);
    grant_ended(locks, name_lease(name));
}

/* From here. False: the renewal thread is to release it. */
static bool end_short_hold(struct name *name, enum hf_loss_reason reason, hf_time now)
{
    struct locks *locks = name_locks(name);
    struct lease *lease = name_lease(name);
    struct delete_request request = delete_request_of(lease, (1u << locks->n) - 1);

    /* Until then V is far ahead: the steps below cannot find the lease lost. */
    if (!short_hold_lasts(name, now))
        return false;
    short_hold_leave(name);
    (void)lease_fsm_release(&lease->fsm, reason, now);
    lease_record_end(locks->agent, lease);
    event_released(locks->agent, lease);
    hf_counter_add(&locks->agent->table, HF_COUNTER_RELEASES, 1);
    delete_request_judge(&request, lease->fsm.valid);
    delete_request_tell(&request, end_on_released, name);
    if (key_deleter_start(locks->key_deleter, &request) == HF_OK) {
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
static bool end_may_leave_job(const struct name *name)
{
    const struct lease *lease = name_lease(name);

    return lease->is_job && (!lease->second_guardian || name->holder->joined);
}

/* `ret_now`: when it was judged, where that matters; `ret_next`: for HAND_OVER. */
static enum way end_way(struct name *name, enum release_cause cause, hf_time *ret_now,
                        struct waiter **ret_next) IN_BROKER_THREAD
{
    if (cause == RELEASE_UNSEEN || (cause == RELEASE_HOLDER_GONE && end_may_leave_job(name)))
        return ABANDON;
    if (cause == RELEASE_TREE_DEAD)
        return ORDER; /* abandoned, it is renewed no more: nobody else is to have it */
    *ret_now = clock_now();
    *ret_next = handoff_next_holder(name, *ret_now);
    if (*ret_next)
        return HAND_OVER;
    *ret_now = clock_now(); /* anew: its 50 ms may be over by now */
    return short_hold_lasts(name, *ret_now) ? SHORT_HOLD : ORDER;
}

static void end_order(struct name *name, enum message_kind kind,
                      enum hf_loss_reason reason) IN_BROKER_THREAD
{
    struct message *m = message_new(kind);

    m->slot = name->slot;
    m->generation = name_lease(name)->generation;
    m->reason = reason;
    tell_renewal(name_locks(name), m);
}

void release_begin(struct name *name, enum release_cause cause)
{
    enum hf_loss_reason reason = cause == RELEASE_UNWANTED ? HF_LOSS_NONE : HF_LOSS_HOLDER;
    bool gone = cause == RELEASE_HOLDER_GONE || cause == RELEASE_UNTOLD;
    struct lease *lease = name_lease(name);
    struct waiter *next = NULL;
    hf_time now = HF_TIME_PAST;
    enum way way;

    hf_assert(lease && name->holder, "slot %u, generation %u", (unsigned)name->slot,
              (unsigned)name->generation);
    hf_assert(!name->state->round && !name->undoing, "slot %u, undoing %d", (unsigned)name->slot,
              name->undoing);
    lease->ending = true;
    /* (!) No guardian may join between here and the release: it would start a job. */
    name->holder->over |= gone && lease->second_guardian && !name->holder->joined;
    way = end_way(name, cause, &now, &next);
    if (way != ABANDON && name->state->granted)
        lease->unanswered = name->state->granted->unanswered;

    switch (way) {
    case HAND_OVER:
        if (handoff_begin(name, next, reason, now) == HF_OK)
            break;
        /* falls through - no room for the next holder's text, or no memory */
    case SHORT_HOLD:
        if (end_short_hold(name, reason, now))
            break;
        /* falls through - no memory, or it was none */
    case ORDER:
        end_order(name, MSG_RELEASE, reason);
        break;
    case ABANDON:
        end_order(name, MSG_ABANDON, reason);
        break;
    }
}

/* --- the agent goes --------------------------------------------------------------------------- */

void lease_go_away(struct name *name)
{
    const struct lease *lease = name_lease(name);
    struct waiter *w, *next;

    if (name->state->round)
        round_cancel(name->state->round);
    for (w = TAILQ_FIRST(&name->state->waiters); w; w = next) {
        next = TAILQ_NEXT(w, queue);
        if (!handoff_is_to(name, w))
            waiter_go_away(w);
    }
    if (!name_locks(name)->config->ephemeral || !lease || lease->ending)
        return;
    /* The private nodes end with this agent: jobs are stopped first, and other holders are told. */
    if (lease->is_job)
        tell_renewal_stop(name, HF_LOSS_GOING);
    else
        release_begin(name, RELEASE_UNWANTED);
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
    struct locks *locks = name_locks(w->name);

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
    struct name *name = h->name;

    name->turn_over |= handoff_is_enough(h->verdict);
    if (h->new_text)
        name_text_drop(name, h->to, h->text_off);
    lease_free(h->to);
    end_let_go_of_client(h);
    if (h->waiter)
        end_wait_on(h->waiter, h->unwanted);
    name_park(name);
}

/* Its waiter went away meanwhile, or does not want it any more. */
static void end_give_on(struct name *name, const struct client *c) IN_BROKER_THREAD
{
    bool gone = LIST_EMPTY(&c->sessions) && !c->ghost;

    release_begin(name, gone ? RELEASE_UNTOLD : RELEASE_UNWANTED);
}

/* A drain came meanwhile: the waiter waits on. */
static bool end_withhold(struct handoff *h) IN_BROKER_THREAD
{
    struct waiter *w = h->waiter;

    if (!w || h->unwanted || !drains_stands(name_locks(h->name)))
        return false;
    w->withheld = true;
    handoff_forget_waiter(h);
    return true;
}

static void end_handed_over(struct handoff *h) IN_BROKER_THREAD
{
    struct name *name = h->name;
    struct locks *locks = name_locks(name);
    struct lease *from = name_lease(name), *to = h->to;
    struct client *before = name->holder;
    struct waiter *w = end_withhold(h) ? NULL : h->waiter;
    const struct session *told;

    hf_assert(from && from->generation == h->generation && to->generation == h->generation + 1,
              "slot %u, generation %u after %u", (unsigned)name->slot, (unsigned)to->generation,
              (unsigned)h->generation);
    locks->generations[name->slot] = name->generation = to->generation;
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
        name_text_switch(name, to, h->text_off);
    grant_untie(name);
    grant_hold(name, to, h->client);
    told = grant_answer_released(name, h->generation, false, "");
    client_signal(before, told); /* the other guardian */
    client_settle(before);
    end_let_go_of_client(h);
    if (!w || h->unwanted)
        end_give_on(name, name->holder);
    else if (locks->going)
        lease_go_away(name);
    else if (!TAILQ_EMPTY(&name->state->waiters) && !heap_has(&name->state->retry.item))
        loop_timer_set(locks->loop, &name->state->retry,
                       hf_time_add(loop_now(locks->loop), HEAR_EVERY));
    name_free_idle_state(name);
}

void handoff_answered(struct handoff *h)
{
    struct name *name = h->name;

    hf_assert(name->state->handoff == h && name_locks(name)->handoff_count > 0,
              "slot %u, handoffs %d", (unsigned)h->slot, (int)name_locks(name)->handoff_count);
    name->state->handoff = NULL;
    name_locks(name)->handoff_count--;
    if (h->verdict == HANDOFF_YES)
        end_handed_over(h);
    else
        end_refused(h);
    free(h);
}
