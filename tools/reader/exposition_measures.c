/* The metrics of section 11: histograms, extremes, failures, the fleet's record. */
#include "shm/compiler.h"
#include "tools/reader/exposition_write.h"
#include "shm/measures.h"

static const struct {
    const char *name, *help;
} histograms[HF_HISTOGRAMS] = {
    [HF_HISTOGRAM_ACQUIRE] =
        {"acquire_duration_seconds",
         "from the first command to the nodes to the grant, of rounds that were won"},
    [HF_HISTOGRAM_WAIT] = {"wait_duration_seconds",
                           "from the request to the grant, with the wait for other holders"},
    [HF_HISTOGRAM_LAG] =
        {"renewal_lag_seconds",
         "how late renewals left, as far as it was this agent's: without waiting for nodes"},
    [HF_HISTOGRAM_MARGIN] = {"renewal_margin_seconds",
                             "what was left of a lease's validity when a renewal extended it"},
};

static const struct {
    const char *name, *help;
    double unit; /* of what stands in the table */
} extremes[HF_EXTREMES] = {
    [HF_EXTREME_ACQUIRE] = {"acquire_duration_max_seconds",
                            "longest won round of the last 5 minutes", 1e-6},
    [HF_EXTREME_WAIT] = {"wait_duration_max_seconds",
                         "longest wait that ended with a grant in the last 5 minutes", 1e-6},
    [HF_EXTREME_LAG] = {"renewal_lag_max_seconds",
                        "latest renewal of the last 5 minutes, as far as it was this agent's",
                        1e-6},
    [HF_EXTREME_TURN] = {"renewal_turn_max_seconds",
                         "longest turn of the renewal thread's loop in the last 5 minutes", 1e-6},
    [HF_EXTREME_OVERDUE] = {"renewal_overdue_max_seconds",
                            "longest that a vote was renewed behind 1.1 T/3 after the one before, "
                            "in the last 5 minutes, whoever made it late",
                            1e-6},
    [HF_EXTREME_MARGIN] =
        {"renewal_margin_min_ratio",
         "least validity that a lease had left when it was extended in the last 5 "
         "minutes, as a part of its TTL",
         1e-6},
};

/* A suffix of a histogram's name. */
static void measures_write_part(const struct hf_metrics *m, const char *name, const char *suffix,
                                const char *le, uint64_t count)
{
    char full[96];

    snprintf(full, sizeof(full), "%s%s", name, suffix);
    hf_metric_whole(m, full, le ? "le" : NULL, le, count);
}

static void measures_write_histogram(const struct hf_metrics *m, enum hf_histogram_of which)
{
    const char *name = histograms[which].name;
    uint64_t counts[HF_BUCKETS], sum_ns, total = 0;
    char full[96];

    hf_histogram_read(m->table, which, counts, &sum_ns);
    hf_metric_head(m, name, HF_METRIC_HISTOGRAM, histograms[which].help);
    for (unsigned i = 0; i < HF_BUCKETS; i++) {
        char le[32] = "+Inf";

        total += counts[i];
        if (i < HF_BUCKETS - 1)
            snprintf(le, sizeof(le), "%.15g", hf_metric_seconds(hf_bucket_bound_ns(i)));
        measures_write_part(m, name, "_bucket", le, total);
    }
    snprintf(full, sizeof(full), "%s_sum", name);
    hf_metric_real(m, full, NULL, NULL, hf_metric_seconds((int64_t)sum_ns));
    measures_write_part(m, name, "_count", NULL, total);
}

/* A least value exists only where something was measured; a largest one is 0 then. */
static void measures_write_extreme(const struct hf_metrics *m, enum hf_extreme_of which)
{
    int64_t value = hf_extreme_read(m->table, which, m->e->now);

    hf_metric_head(m, extremes[which].name, HF_METRIC_GAUGE, extremes[which].help);
    if (value < 0 && which == HF_EXTREME_MARGIN)
        return;
    hf_metric_real(m, extremes[which].name, NULL, NULL,
                   value < 0 ? 0 : (double)value * extremes[which].unit);
}

static void measures_write_oldest(const struct hf_metrics *m)
{
    int64_t since = (int64_t)hf_gauge_read(m->table, HF_GAUGE_OLDEST_WAITER_NS);

    hf_metric_gauge(m, "waiter_oldest_seconds",
                    "how long the request waits that waits longest; 0: none waits",
                    hf_metric_lives(m) && since > 0 ? hf_metric_age(m, since) : 0);
}

static void measures_write_failures(const struct hf_metrics *m)
{
    hf_metric_head(m, "acquires_failed_total", HF_METRIC_COUNTER,
                   "acquires that ended without a lock, by reason");
    for (unsigned i = 0; i < HF_FAILURES; i++)
        hf_metric_whole(m, "acquires_failed_total", "reason",
                        hf_failure_word((enum hf_acquire_failure)i),
                        hf_failure_read(m->table, (enum hf_acquire_failure)i));
}

static void measures_write_gauges(const struct hf_metrics *m)
{
    static const struct {
        enum hf_gauge_of gauge;
        const char *name, *help;
    } gauges[] = {
        {HF_GAUGE_FLEET_VERSION, "fleet_version",
         "version of the fleet's record by which the agent goes; 0: it has none"},
        {HF_GAUGE_FLEET_COMPLETE, "fleet_complete", "1: that record is complete"},
        {HF_GAUGE_FLEET_SETTLED, "fleet_settled",
         "1: it is, and has settled: all its nodes count, and the next change may begin"},
        {HF_GAUGE_FLEET_DIFFERS, "fleet_differs",
         "1: this host may take no locks, since it differs from the fleet's record"},
        {HF_GAUGE_FLEET_FOREIGN, "fleet_foreign_nodes",
         "nodes that have the record of another fleet"},
    };

    for (size_t i = 0; i < HF_LENGTH(gauges); i++)
        hf_metric_gauge(m, gauges[i].name, gauges[i].help,
                        (double)hf_gauge_read(m->table, gauges[i].gauge));
}

void exposition_measures(const struct hf_metrics *m)
{
    for (unsigned i = 0; i < HF_HISTOGRAMS; i++)
        measures_write_histogram(m, (enum hf_histogram_of)i);
    for (unsigned i = 0; i < HF_EXTREMES; i++)
        measures_write_extreme(m, (enum hf_extreme_of)i);
    measures_write_oldest(m);
    measures_write_failures(m);
    measures_write_gauges(m);
}
