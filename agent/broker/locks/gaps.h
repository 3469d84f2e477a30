/* Gaps between this host's holds, in which programs that poll have their chance (agent/core/handoff.h). */
#ifndef HOLDFAST_AGENT_BROKER_LOCKS_GAPS_H
#define HOLDFAST_AGENT_BROKER_LOCKS_GAPS_H

#include "agent/base/thread_role.h"
#include "agent/broker/locks/resources.h"

/* Whether a gap follows this release, so that programs that poll have their chance. */
bool gap_is_owed(const struct resource *r, hf_time now) IN_BROKER_THREAD;
/* Begins the gap: no round of this host for a while. */
void gap_leave(struct resource *r, hf_time now) IN_BROKER_THREAD;

#endif
