/* The nodes' metrics, from their rows. */
#include <string.h>

#include "shm/compiler.h"
#include "shm/measures.h"
#include "shm/status.h"
#include "shm/wordings.h"
#include "tools/reader/exposition.h"

struct rows {
    struct hf_node_row row[HF_NODES_MAX];
    int count;
};

typedef double value_fn(const struct hf_metrics *m, const struct hf_node_row *row);

static double nodes_replies(const struct hf_metrics *m, const struct hf_node_row *row)
{
    (void)m;
    return (double)row->replies;
}

static double nodes_timeouts(const struct hf_metrics *m, const struct hf_node_row *row)
{
    (void)m;
    return (double)row->timeouts;
}

static double nodes_errors(const struct hf_metrics *m, const struct hf_node_row *row)
{
    (void)m;
    return (double)row->errors;
}

static double nodes_reconnects(const struct hf_metrics *m, const struct hf_node_row *row)
{
    (void)m;
    return (double)row->reconnects;
}

static double nodes_clock_steps(const struct hf_metrics *m, const struct hf_node_row *row)
{
    (void)m;
    return (double)row->clock_steps;
}

static double nodes_rtt(const struct hf_metrics *m, const struct hf_node_row *row)
{
    (void)m;
    return hf_metric_seconds(row->rtt_ns);
}

static double nodes_clock_offset(const struct hf_metrics *m, const struct hf_node_row *row)
{
    (void)m;
    return (double)row->clock_offset_us / 1e6;
}

static double nodes_reply_age(const struct hf_metrics *m, const struct hf_node_row *row)
{
    return hf_metric_age(m, row->last_reply_ns);
}

static double nodes_quarantine_left(const struct hf_metrics *m, const struct hf_node_row *row)
{
    bool lasts = row->state == HF_NODE_QUARANTINED && row->quarantine_until_ns > m->e->now.ns;

    return lasts ? hf_metric_seconds(row->quarantine_until_ns - m->e->now.ns) : 0;
}

static double nodes_counts(const struct hf_metrics *m, const struct hf_node_row *row)
{
    return hf_metric_lives(m) && row->state != HF_NODE_CONNECTING && !(row->flags & HF_NODE_F_MUTE);
}

static double nodes_votes(const struct hf_metrics *m, const struct hf_node_row *row)
{
    return hf_metric_lives(m) && row->state == HF_NODE_UP && !(row->flags & HF_NODE_F_MUTE);
}

/* One kind of value of every node. */
static const struct {
    const char *name, *type, *help;
    value_fn *value;
} kinds[] = {
    {"node_votes", HF_METRIC_GAUGE, "1: the node votes for acquires", nodes_votes},
    {"node_replies_total", HF_METRIC_COUNTER, "answers of the node", nodes_replies},
    {"node_timeouts_total", HF_METRIC_COUNTER, "commands without an answer in time",
     nodes_timeouts},
    {"node_errors_total", HF_METRIC_COUNTER, "answers that were errors", nodes_errors},
    {"node_reconnects_total", HF_METRIC_COUNTER, "connections made again", nodes_reconnects},
    {"node_clock_steps_total", HF_METRIC_COUNTER, "steps seen of the node's clock",
     nodes_clock_steps},
    {"node_rtt_seconds", HF_METRIC_GAUGE, "round trip of the last answer", nodes_rtt},
    {"node_last_reply_age_seconds", HF_METRIC_GAUGE, "time since the last answer; -1: none yet",
     nodes_reply_age},
    {"node_clock_offset_seconds", HF_METRIC_GAUGE,
     "the node's clock minus this host's, at the last sample", nodes_clock_offset},
    {"node_quarantine_left_seconds", HF_METRIC_GAUGE,
     "time until a quarantined node votes again; 0: it is not quarantined", nodes_quarantine_left},
    {"node_fleet_counts", HF_METRIC_GAUGE,
     "1: the node is at its fleet address and has the fleet's record, so its answers count",
     nodes_counts},
};

static void nodes_read_rows(const struct hf_metrics *m, struct rows *ret)
{
    ret->count = 0;
    for (uint32_t i = 0; i < hf_table_nodes(m->table); i++)
        if (hf_node_read(m->table, i, &ret->row[ret->count]) == HF_OK && ret->row[ret->count].id[0])
            ret->count++;
}

/* A sample for each node that has a word, with that word as a label. */
static void nodes_write_reasons(const struct hf_metrics *m, const struct rows *rows)
{
    int count = hf_metric_lives(m) ? rows->count : 0;

    hf_metric_head(m, "node_refused", HF_METRIC_GAUGE, "1: the node may not vote, and why");
    for (int i = 0; i < count; i++)
        if (rows->row[i].state == HF_NODE_REFUSED)
            hf_metric_node(m, "node_refused", rows->row[i].id, "reason",
                           hf_why_refused(rows->row[i].refused)->word, 1);
    hf_metric_head(m, "node_quarantined", HF_METRIC_GAUGE,
                   "1: the node gives no votes for now, and why");
    for (int i = 0; i < count; i++)
        for (unsigned bit = 0; bit < HF_QUARANTINE_REASONS; bit++)
            if (rows->row[i].state == HF_NODE_QUARANTINED &&
                rows->row[i].quarantine_reason & 1u << bit)
                hf_metric_node(m, "node_quarantined", rows->row[i].id, "reason",
                               hf_why_quarantined(1u << bit)->word, 1);
    hf_metric_head(m, "node_unwritable", HF_METRIC_GAUGE, "1: the node refuses writes, and why");
    for (int i = 0; i < count; i++)
        if (rows->row[i].unwritable_since_ns)
            hf_metric_node(m, "node_unwritable", rows->row[i].id, "error",
                           hf_why_failed(rows->row[i].error_class)->word, 1);
}

static void nodes_write_ready(const struct hf_metrics *m)
{
    bool ready = hf_gauge_read(m->table, HF_GAUGE_READY) != 0;

    hf_metric_gauge(m, "ready",
                    "1: the agent is alive, a quorum of nodes may vote and takes writes",
                    ready && strcmp(m->e->state, HF_AGENT_ALIVE) == 0);
}

void exposition_nodes(const struct hf_metrics *m)
{
    struct rows rows;

    nodes_read_rows(m, &rows);
    nodes_write_ready(m);
    hf_metric_head(m, "node_state", HF_METRIC_GAUGE,
                   "1 for the state that the node is in; none: no agent runs that knows it");
    for (int i = 0; i < rows.count; i++)
        for (uint32_t s = 0; s < HF_NODE_STATES; s++)
            hf_metric_node(m, "node_state", rows.row[i].id, "state", hf_node_state_word(s),
                           hf_metric_lives(m) && rows.row[i].state == s);
    nodes_write_reasons(m, &rows);
    for (size_t k = 0; k < HF_LENGTH(kinds); k++) {
        hf_metric_head(m, kinds[k].name, kinds[k].type, kinds[k].help);
        for (int i = 0; i < rows.count; i++)
            hf_metric_node(m, kinds[k].name, rows.row[i].id, NULL, NULL,
                           kinds[k].value(m, &rows.row[i]));
    }
}

/* --- measures --------------------------------------------------------------------------------- */

/* The metrics of section 11: histograms, extremes, failures, the fleet's record. */

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
