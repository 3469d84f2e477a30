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

/* How one metric is written; private to tools/reader/exposition*.c. */

#define HF_METRIC_GAUGE     "gauge"
#define HF_METRIC_COUNTER   "counter"
#define HF_METRIC_HISTOGRAM "histogram"

struct hf_metrics {
    const struct exposition *e;
    const struct hf_table *table;
    FILE *out;
};

/* HELP and TYPE; before the first sample of the metric. `name` is without "holdfast_". */
void hf_metric_head(const struct hf_metrics *m, const char *name, const char *type,
                    const char *help);
/* A sample with up to one label beside `agent`; `label` NULL: none. Both values as few digits as tell them apart
 * from their neighbours. */
void hf_metric_real(const struct hf_metrics *m, const char *name, const char *label,
                    const char *value_of_label, double value);
void hf_metric_whole(const struct hf_metrics *m, const char *name, const char *label,
                     const char *value_of_label, uint64_t value);
/* A sample of a node; `label` as above. */
void hf_metric_node(const struct hf_metrics *m, const char *name, const char *node,
                    const char *label, const char *value_of_label, double value);

/* Head and one sample. */
void hf_metric_gauge(const struct hf_metrics *m, const char *name, const char *help, double value);

static inline double hf_metric_seconds(int64_t ns)
{
    return (double)ns / HF_NS_PER_SEC;
}

/* Seconds since an instant of CLOCK_BOOTTIME; -1: there was none. */
double hf_metric_age(const struct hf_metrics *m, int64_t at_ns);

/* It has clients, though it may hang. */
bool hf_metric_lives(const struct hf_metrics *m);

void exposition_nodes(const struct hf_metrics *m);
void exposition_measures(const struct hf_metrics *m);

#endif
