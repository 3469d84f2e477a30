/* Stores a lease's journal record and slot in the order that recovery and readers need. Called by the
 * thread that owns the lease: the broker at first, then the renewal thread. */
#ifndef HOLDFAST_AGENT_RECORD_LEASE_RECORD_H
#define HOLDFAST_AGENT_RECORD_LEASE_RECORD_H

#include "agent/agent.h"
#include "agent/record/journal.h"
#include "agent/record/lease.h"

/* Journals its votes and state as they are now. */
void lease_journal(struct agent *agent, const struct lease *lease, enum journal_state state);

/* (!) It is LOST or ENDED: journal, check word, then everything else. The first byte of a release leaves
 * after that. */
void lease_record_end(struct agent *agent, struct lease *lease);

#endif
