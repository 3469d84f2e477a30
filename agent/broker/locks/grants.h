/* From a round that has its quorum to a lease. */
#ifndef HOLDFAST_AGENT_BROKER_LOCKS_GRANTS_H
#define HOLDFAST_AGENT_BROKER_LOCKS_GRANTS_H

#include "agent/base/thread_role.h"
#include "agent/broker/locks/resources.h"

struct round;

/* Makes the lease of a round that has its quorum, publishes it and answers the waiter.
 * HF_EFULL, HF_ELIMIT, HF_ENOMEM: undo. */
int grant_lease(struct round *round, hf_time now) IN_BROKER_THREAD;
/* Links a lease to its name and its holder until MSG_ENDED or MSG_HANDED_OVER. */
void grant_hold(struct resource *r, struct lease *lease, struct client *holder) IN_BROKER_THREAD;
void grant_untie(struct resource *r) IN_BROKER_THREAD;
/* Answers the client that asked for the release of the lease with this generation; NULL: none did. */
const struct session *grant_answer_released(struct resource *r, uint32_t generation, bool lost,
                                            const char *text) IN_BROKER_THREAD;
/* Somebody was granted a lock at `now`, after a wait. */
void grant_measure(struct locks *locks, hf_dur waited, hf_time now) IN_BROKER_THREAD;
void grant_changed(struct locks *locks, struct lease *lease) IN_BROKER_THREAD;
/* The release of a failed round was answered, or timed out. */
void grant_undone(struct resource *r) IN_BROKER_THREAD;
/* Tells the client that asked for it. */
void grant_answer(struct session *s, const struct lease *lease) IN_BROKER_THREAD;

#endif
