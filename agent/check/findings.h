/* What a check found, as lines that editors understand. */
#ifndef HOLDFAST_AGENT_CHECK_FINDINGS_H
#define HOLDFAST_AGENT_CHECK_FINDINGS_H

#include <stdbool.h>

#include "agent/config/config_report.h"
#include "agent/process/host.h"
#include "agent/redis/trial.h"
#include "shm/compiler.h"

struct findings {
    const struct config_report *report;
    int faults, warnings;
    bool no_quorum; /* no lock can be had with these nodes now */
};

/* On stderr: "FILE:LINE: text"; `line` 0: of no single line. */
void find_fault(struct findings *findings, int line, const char *format, ...) HF_PRINTF(3, 4);
/* On stderr: "FILE:LINE: warning: text". */
void find_warning(struct findings *findings, int line, const char *format, ...) HF_PRINTF(3, 4);
/* On stdout, as it is. */
void find_fact(const char *format, ...) HF_PRINTF(1, 2);
/* The last line. */
void findings_end(const struct findings *findings);

/* The parts of a check; check.c puts them together. */

/* Lays the record by which a start would go over the configuration, and says how the file differs from it. Looks at the nodes
 * of the list that results, for two seconds at most for each list. `ret_nodes`: of HF_NODES_MAX. */
void check_fleet(struct config *config, const struct host *host, struct trial *ret_nodes,
                 struct findings *findings);
/* What the nodes say. */
void check_nodes(const struct config *config, const struct trial *nodes, struct findings *findings);

#endif
