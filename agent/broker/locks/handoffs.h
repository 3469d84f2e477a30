/* The broker's part of a hand-off (agent/record/handoff.h). */
#ifndef HOLDFAST_AGENT_BROKER_LOCKS_HANDOFFS_H
#define HOLDFAST_AGENT_BROKER_LOCKS_HANDOFFS_H

#include "agent/base/thread_role.h"
#include "agent/broker/locks/resources.h"
#include "agent/record/handoff.h"

/* The waiter that may have the lease of `r`, which ends; NULL: none. Notes whether it is the others' turn. */
struct waiter *handoff_next_holder(struct resource *r, hf_time now) IN_BROKER_THREAD;
/* Hands it over to that waiter: the renewal thread does it, or releases the lease. HF_ENOMEM, HF_EFULL:
 * nothing was begun. Called by release_begin() only. */
int handoff_begin(struct resource *r, struct waiter *w, enum hf_loss_reason reason,
                  hf_time now) IN_BROKER_THREAD;
/* The waiter's session ends. */
static inline void handoff_forget_waiter(struct handoff *h)
{
    h->waiter = NULL;
}
static inline void handoff_cancel(struct handoff *h)
{
    h->unwanted = true;
}
/* (!) The journal may name it as the owner by now, for the next agent too: it gets no answer until that of
 * the hand-off is known. */
static inline bool handoff_is_to(const struct resource *r, const struct waiter *w)
{
    return r->work->handoff && r->work->handoff->waiter == w;
}
/* Of all names, as the agent ends. */
void handoffs_destroy(struct locks *locks);

#endif
