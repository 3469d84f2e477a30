/* What the agent shows of its state: Prometheus text, and one line per lease. Main thread, registered
 * with liburcu: walks the lease table beside the threads that change it. */
#ifndef HOLDFAST_AGENT_PROCESS_METRICS_H
#define HOLDFAST_AGENT_PROCESS_METRICS_H

#include <stdio.h>

struct agent;

/* What `holdfast metrics` shows (shm/exposition.h). */
void metrics_write(const struct agent *agent, FILE *out);

/* "STATE REMAINING votes=N pid=PID uid=UID ttl_ms=T fence=F run=0|1 NAME", the name escaped, for
 * every lease or (`only` not NULL) the one whose escaped name that is. Returns how many lines. */
int metrics_list(struct agent *agent, const char *only, FILE *out);

#endif
