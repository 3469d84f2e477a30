/* What an earlier agent of this host promised the holder of a lease: V, as the journal and the table's slot have it. For the
 * leases of an earlier agent (agent/broker/locks/readopt.h). */
#ifndef HOLDFAST_AGENT_BROKER_LOCKS_PROMISES_H
#define HOLDFAST_AGENT_BROKER_LOCKS_PROMISES_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/record/journal.h"

struct locks;

/* An agent that is killed between the journal's d_i and the check word that follows from them leaves an
 * earlier word. Of a grant it leaves none: nobody has seen that lease yet. */
bool promise_ran_out(const struct locks *locks, uint32_t slot, uint32_t generation, hf_time now);
/* The latest V that the guardians of a run knew of: the journal has every d_i that stands (of a lost lease one
 * that is not before V), and the table the V that they were shown, if it still has that lease. Without that
 * table only the TTL bounds it. */
hf_time promise_latest(const struct locks *locks, const struct journal_identity *identity,
                       const struct journal_lease *state, uint32_t slot);
/* (!) Where less counts than by the record of the fleet before, the V that the holder was shown stands nevertheless: the votes
 * that it was made of all stand, and none of them is mixed with what counts now. HF_TIME_PAST: nothing is left of it. */
hf_time promise_frozen(const struct locks *locks, const struct journal_lease *state, uint32_t slot);

#endif
