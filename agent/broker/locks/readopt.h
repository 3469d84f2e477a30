/* What an earlier agent left in the journal: leases of living holders are readopted, all others are released. */
#ifndef HOLDFAST_AGENT_BROKER_LOCKS_READOPT_H
#define HOLDFAST_AGENT_BROKER_LOCKS_READOPT_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/config/config.h"
#include "agent/core/timing.h"
#include "agent/record/journal.h"

struct locks;

int readopt(struct locks *locks);
/* Drops the releases that wait for V; the journal has them. */
void readopt_destroy(struct locks *locks);

/* --- what --check-config asks, too: without looking at table or holder ------------------------- */

/* A process may hold it, as the journal says. */
bool readopt_is_held(const struct journal_lease *state);
/* Whether the lease's TTL is one that an agent with this configuration may grant; else a sentence in `why`. */
bool readopt_fits(const struct config *config, const struct journal_identity *id,
                  struct timing *ret_timing, char *why, size_t why_size);

#endif
