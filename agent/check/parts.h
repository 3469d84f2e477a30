/* The parts of a check; check.c puts them together. */
#ifndef HOLDFAST_AGENT_CHECK_PARTS_H
#define HOLDFAST_AGENT_CHECK_PARTS_H

#include "agent/check/findings.h"
#include "agent/process/host.h"
#include "agent/redis/trial.h"

/* What a start would do to leases: those of the agent of that name that runs, or that it left. */
void check_leases(const struct config *config, const struct host *host, struct findings *findings);
/* Lays the record by which a start would go over the configuration, and says how the file differs from it. Looks at the nodes
 * of the list that results, for two seconds at most for each list. `ret_nodes`: of HF_NODES_MAX. */
void check_fleet(struct config *config, const struct host *host, struct trial *ret_nodes,
                 struct findings *findings);
/* What the nodes say. */
void check_nodes(const struct config *config, const struct trial *nodes, struct findings *findings);

#endif
