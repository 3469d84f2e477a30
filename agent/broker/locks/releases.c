#include "agent/broker/locks/releases.h"

#include "agent/base/clock.h"
#include "agent/broker/clients/clients.h"
#include "agent/broker/locks/handoffs.h"
#include "agent/broker/locks/orders.h"
#include "agent/broker/locks/rounds.h"
#include "agent/broker/locks/short_holds.h"
#include "shm/assert.h"
#include "shm/status.h"

/* The ways in which a release goes. Where one of the first two cannot be gone after all, the next is. */
enum way {
    HAND_OVER, /* to the next waiter of this host, without asking the nodes; then handoff_answered() */
    SHORT_HOLD, /* the broker thread has it to itself, and releases it; then grant_ended() */
    ORDER,      /* the renewal thread is told to release it; then grant_ended() */
    ABANDON, /* a holder or a job may live under it: the renewal thread is told to renew it no more */
};

/* Whether its holder may have left a job behind. One without the second guardian has started none. */
static bool may_leave_job(const struct resource *r)
{
    const struct lease *lease = resource_lease(r);

    return lease->run && (!lease->guarded || r->holder->joined);
}

/* `ret_now`: when it was judged, where that matters; `ret_next`: for HAND_OVER. */
static enum way way_of(struct resource *r, enum release_cause cause, hf_time *ret_now,
                       struct waiter **ret_next) IN_BROKER_THREAD
{
    if (cause == RELEASE_UNSEEN || (cause == RELEASE_HOLDER_GONE && may_leave_job(r)))
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

static void order(struct resource *r, enum message_kind kind,
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
    way = way_of(r, cause, &now, &next);
    if (way != ABANDON && r->work->granted)
        lease->unanswered = r->work->granted->unanswered;

    switch (way) {
    case HAND_OVER:
        if (handoff_begin(r, next, reason, now) == HF_OK)
            break;
        /* falls through - no room for the next holder's text, or no memory */
    case SHORT_HOLD:
        if (short_hold_release(r, reason, now))
            break;
        /* falls through - no memory, or it was none */
    case ORDER:
        order(r, MSG_RELEASE, reason);
        break;
    case ABANDON:
        order(r, MSG_ABANDON, reason);
        break;
    }
}
