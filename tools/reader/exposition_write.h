/* How one metric is written; private to tools/reader/exposition*.c. */
#ifndef HOLDFAST_TOOLS_READER_EXPOSITION_WRITE_H
#define HOLDFAST_TOOLS_READER_EXPOSITION_WRITE_H

#include "tools/reader/exposition.h"

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
