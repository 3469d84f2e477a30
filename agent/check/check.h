/* holdfastd --check-config: whether a file is good, and what a start with it would do here. Looks at the agent, its
 * files and the nodes, and changes none of them. */
#ifndef HOLDFAST_AGENT_CHECK_CHECK_H
#define HOLDFAST_AGENT_CHECK_CHECK_H

#include "agent/config/config_report.h"

/* `config`: as config_read() gave it; it counts only if the report has no faults. Faults and warnings go to stderr,
 * the rest to stdout. Returns the exit code: 0; 64 for the command line; 78 if a start would be refused, or would end
 * leases that are held; 71 if the host cannot be looked at. */
int check_config(const struct config *config, const struct config_report *report);

#endif
