/* The nodes' metrics, from their rows. */
#include <string.h>

#include "shm/compiler.h"
#include "tools/reader/exposition_write.h"
#include "shm/measures.h"
#include "shm/node_words.h"
#include "shm/status.h"

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
     "1: the node is at its seat and has the fleet's record, so its answers count", nodes_counts},
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
