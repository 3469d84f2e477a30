/* What the journal and the slot say of a lease, stored in the order that recovery and readers need. By
 * whichever thread owns the lease: the broker at first, then the renewal thread. */
#ifndef HOLDFAST_AGENT_RECORD_LEASE_RECORD_H
#define HOLDFAST_AGENT_RECORD_LEASE_RECORD_H

#include "agent/agent.h"
#include "agent/record/journal.h"
#include "agent/record/lease.h"

/* Its votes and state, as they are now. */
void lease_journal(struct agent *agent, const struct lease *lease, enum journal_state state);

/* (!) It is LOST or ENDED: journal, check word, everything else. The first release byte leaves after
 * that. */
void lease_record_end(struct agent *agent, struct lease *lease);

#endif
