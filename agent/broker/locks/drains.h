/* The drain: an operator has this host grant nothing new.
 *
 * (!) From the answer to the operator on no lock is granted: not to a try, not to who waits, not by a hand-off. A round
 * under way is undone, whatever votes it has; a hand-off under way is not told to its waiter, and the lease is
 * released. Who waits goes on waiting, and hears why. Leases that stand are not touched. */
#ifndef HOLDFAST_AGENT_BROKER_LOCKS_DRAINS_H
#define HOLDFAST_AGENT_BROKER_LOCKS_DRAINS_H

#include "agent/agent.h"
#include "agent/base/thread_role.h"
#include "agent/broker/locks/locks.h"
#include "agent/record/drain_record.h"

struct hf_request_entry;
struct session;

#define DRAINS_TEXT DRAIN_RECORD_TEXT

static inline bool drains_stands(const struct locks *locks)
{
    return locks->agent->drained.stands;
}
/* The sentence for who is refused or waits. */
static inline void drains_explain(const struct locks *locks, char ret_text[DRAINS_TEXT])
{
    drain_record_say(&locks->agent->drained, locks->config->name, ret_text);
}
/* HF_OP_DRAIN. */
void drains_ask(struct locks *locks, struct session *s,
                const struct hf_request_entry *q) IN_BROKER_THREAD;

#endif
