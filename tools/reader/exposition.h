/* An agent's table as metrics: the text exposition format 0.0.4 of Prometheus. docs/METRICS.md lists the metrics.
 *
 * Any thread of a process that mapped the table; nothing is written to it, and nobody is waited for. */
#ifndef HOLDFAST_TOOLS_READER_EXPOSITION_H
#define HOLDFAST_TOOLS_READER_EXPOSITION_H

#include <stdint.h>
#include <stdio.h>

#include "shm/nstime.h"
#include "shm/table.h"

#define HF_AGENT_ALIVE "alive"
#define HF_AGENT_HUNG  "hung"
#define HF_AGENT_DEAD  "dead"
#define HF_AGENT_ENDED "ended"
#define HF_AGENT_NONE  "none" /* it has no table: it never ran, or ended with nothing held */

/* What the table does not tell. */
struct exposition {
    const char *agent; /* the agent's name: the label `agent` of every sample */
    const char *state; /* one of the words above */
    hf_time now;
    int64_t wall_ms; /* the same instant as Unix time */
};

/* `table` NULL: the agent has none; then `up` and `state` alone are told. */
void exposition_write(const struct exposition *e, const struct hf_table *table, FILE *out);

#endif
