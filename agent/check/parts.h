/* The parts of a check; check.c puts them together. */
#ifndef HOLDFAST_AGENT_CHECK_PARTS_H
#define HOLDFAST_AGENT_CHECK_PARTS_H

#include "agent/check/findings.h"
#include "agent/process/host.h"

/* What a start would do to leases: those of the agent of that name that runs, or that it left. */
void check_leases(const struct config *config, const struct host *host, struct findings *findings);
/* What the nodes say. Waits for those that do not answer, for two seconds in all. */
void check_nodes(const struct config *config, struct findings *findings);

#endif
