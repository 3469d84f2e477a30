/* The broker's part of a hand-off (agent/record/handoff.h). */
#ifndef HOLDFAST_AGENT_BROKER_LOCKS_HANDOFFS_H
#define HOLDFAST_AGENT_BROKER_LOCKS_HANDOFFS_H

#include "agent/base/thread_role.h"
#include "agent/broker/locks/resources.h"
#include "agent/record/handoff.h"

/* Ends the lease of `r`, which nobody believes in any more: goes to the next waiter of this host, or
 * is released. */
void handoff_give_up(struct resource *r, enum hf_loss_reason reason) IN_BROKER_THREAD;
/* Whether programs that poll are to have their chance after this release. */
bool handoff_owes_gap(const struct resource *r, hf_time now) IN_BROKER_THREAD;
/* They have: no round of this host for a while. */
void handoff_leave_gap(struct resource *r, hf_time now) IN_BROKER_THREAD;
/* The renewal thread has answered. */
void handoff_answered(struct handoff *handoff) IN_BROKER_THREAD;
/* The waiter's session ends. */
void handoff_forget_waiter(struct handoff *handoff) IN_BROKER_THREAD;
void handoff_cancel(struct handoff *handoff) IN_BROKER_THREAD;
/* (!) The journal may name it as the owner by now, for the next agent too: no other answer than the
 * hand-off's until that is known. */
bool handoff_is_to(const struct resource *r, const struct waiter *w) IN_BROKER_THREAD;
void handoff_destroy(struct handoff *handoff);

#endif
