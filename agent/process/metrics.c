#include "agent/process/metrics.h"

#include <inttypes.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/broker/broker.h"
#include "agent/record/losses.h"
#include "agent/redis/link.h"
#include "shm/compiler.h"
#include "shm/loss.h"
#include "shm/slot.h"
#include "shm/status.h"

#define SLOT_STATES  (HF_SLOT_ENDED + 1)
#define NODE_STATES  (HF_NODE_UNWRITABLE + 1)
#define LOSS_REASONS (HF_LOSS_AWAY + 1)
#define NAME_ROOM    (4 * HF_NAME_MAX + 1)

static const char *const slot_states[SLOT_STATES] = {"free",   "held", "late",
                                                     "losing", "lost", "ended"};
static const char *const node_states[NODE_STATES] = {"connecting", "up",      "quarantined",
                                                     "down",       "refused", "unwritable"};

static const struct {
    const char *name, *doc;
} counters[HF_COUNTERS] = {
#define HF_COUNTER_ENUM(id, counter_name, counter_doc) {counter_name, counter_doc},
#include "shm/counters.def"
#undef HF_COUNTER_ENUM
};

static const enum hf_counter gauges[] = {HF_COUNTER_CLIENTS,
                                         HF_COUNTER_WAITERS,
                                         HF_COUNTER_LEASES,
                                         HF_COUNTER_RENEW_LAG_MAX_NS,
                                         HF_COUNTER_RENEW_LAG_NS,
                                         HF_COUNTER_TURN_MAX_NS,
                                         HF_COUNTER_RENEW_OVERDUE_MAX_NS,
                                         HF_COUNTER_CONFIG_LOADED_MS,
                                         HF_COUNTER_RELOAD_REFUSED_MS};

static void write_head(FILE *out, const char *name, const char *type, const char *doc)
{
    fprintf(out, "# HELP holdfast_%s %s\n# TYPE holdfast_%s %s\n", name, doc, name, type);
}

/* One metric with a label for the reason; the sum is all losses. */
static void write_losses(const struct hf_table *table, FILE *out)
{
    enum hf_counter counter;

    write_head(out, "losses_total", "counter",
               "leases that were lost, or released while they were being lost, by reason");
    for (unsigned reason = 0; reason < LOSS_REASONS; reason++)
        if (losses_counter((enum hf_loss_reason)reason, &counter))
            fprintf(out, "holdfast_losses_total{reason=\"%s\"} %" PRIu64 "\n", hf_loss_word(reason),
                    hf_counter_read(table, counter));
}

static bool is_loss(enum hf_counter counter)
{
    enum hf_counter other;

    for (unsigned reason = 0; reason < LOSS_REASONS; reason++)
        if (losses_counter((enum hf_loss_reason)reason, &other) && other == counter)
            return true;
    return counter == HF_COUNTER_LOSSES;
}

static void write_counters(const struct hf_table *table, FILE *out)
{
    for (int i = 0; i < HF_COUNTERS; i++) {
        bool gauge = false;
        char name[96];

        if (is_loss((enum hf_counter)i))
            continue;
        for (size_t g = 0; g < HF_LENGTH(gauges); g++)
            gauge = gauge || gauges[g] == (enum hf_counter)i;
        snprintf(name, sizeof(name), "%s%s", counters[i].name, gauge ? "" : "_total");
        write_head(out, name, gauge ? "gauge" : "counter", counters[i].doc);
        fprintf(out, "holdfast_%s %" PRIu64 "\n", name, hf_counter_read(table, (enum hf_counter)i));
    }
}

/* A label's value: backslash, quote and newline escaped. */
static void write_label(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\\' || *text == '"')
            fputc('\\', out);
        if (*text == '\n')
            fputs("\\n", out);
        else
            fputc(*text, out);
    }
}

static void write_node_value(FILE *out, const char *name, const struct hf_node_row *row,
                             const char *extra, double value)
{
    fprintf(out, "holdfast_node_%s{node=\"", name);
    write_label(out, row->id);
    fprintf(out, "\"%s} %.15g\n", extra, value);
}

/* One kind of value of every node. */
enum node_value {
    NODE_REPLIES,
    NODE_TIMEOUTS,
    NODE_ERRORS,
    NODE_RECONNECTS,
    NODE_STEPS,
    NODE_RTT,
    NODE_VALUES
};

static const struct {
    const char *name, *type, *doc;
} node_values[NODE_VALUES] = {
    {"replies_total", "counter", "answers of the node"},
    {"timeouts_total", "counter", "commands without an answer in time"},
    {"errors_total", "counter", "answers that were errors"},
    {"reconnects_total", "counter", "connections made again"},
    {"clock_steps_total", "counter", "steps seen of the node's clock"},
    {"rtt_seconds", "gauge", "time of the last answer"},
};

static double node_value(const struct hf_node_row *row, enum node_value which)
{
    switch (which) {
    case NODE_REPLIES:
        return (double)row->replies;
    case NODE_TIMEOUTS:
        return (double)row->timeouts;
    case NODE_ERRORS:
        return (double)row->errors;
    case NODE_RECONNECTS:
        return (double)row->reconnects;
    case NODE_STEPS:
        return (double)row->clock_steps;
    case NODE_RTT:
        return (double)row->rtt_ns / HF_NS_PER_SEC;
    case NODE_VALUES:
        break;
    }
    return 0;
}

static void write_nodes(const struct agent *agent, FILE *out)
{
    struct hf_node_row rows[HF_NODES_MAX];
    int count = 0;

    for (int i = 0; i < agent->config->node_count; i++)
        if (hf_node_read(&agent->table, (uint32_t)i, &rows[count]) == HF_OK)
            count++;
    write_head(out, "node_state", "gauge", "1 for the state that the node is in");
    for (int i = 0; i < count; i++)
        for (unsigned s = 0; s < NODE_STATES; s++) {
            char extra[48];

            snprintf(extra, sizeof(extra), ",state=\"%s\"", node_states[s]);
            write_node_value(out, "state", &rows[i], extra, rows[i].state == s);
        }
    write_head(out, "node_unwritable", "gauge", "1: the node refuses writes, and why");
    for (int i = 0; i < count; i++)
        if (rows[i].unwritable_since_ns) {
            char extra[48];

            snprintf(extra, sizeof(extra), ",error=\"%s\"",
                     link_error_name((enum hf_node_error)rows[i].error_class));
            write_node_value(out, "unwritable", &rows[i], extra, 1);
        }
    for (int v = 0; v < NODE_VALUES; v++) {
        char name[64];

        snprintf(name, sizeof(name), "node_%s", node_values[v].name);
        write_head(out, name, node_values[v].type, node_values[v].doc);
        for (int i = 0; i < count; i++)
            write_node_value(out, node_values[v].name, &rows[i], "",
                             node_value(&rows[i], (enum node_value)v));
    }
}

static void write_fleet(struct agent *agent, FILE *out)
{
    struct fleet_shown shown;
    bool complete;

    fleet_board_look(&agent->fleet_board, &shown);
    complete = shown.known && shown.record.state == FLEET_COMPLETE;
    write_head(out, "fleet_version", "gauge",
               "version of the fleet's record by which the agent goes; 0: it has none");
    fprintf(out, "holdfast_fleet_version %" PRIu64 "\n", shown.known ? shown.record.version : 0);
    write_head(out, "fleet_complete", "gauge", "1: that record is complete");
    fprintf(out, "holdfast_fleet_complete %d\n", complete);
    write_head(out, "fleet_settled", "gauge",
               "1: it is, and has settled: all its nodes count, and the next change may begin");
    fprintf(out, "holdfast_fleet_settled %d\n", complete && shown.settles.ns == HF_TIME_PAST.ns);
    write_head(out, "node_fleet_counts", "gauge",
               "1: the node is at its seat and has that record, so its answers count");
    for (int i = 0; i < shown.count; i++) {
        fputs("holdfast_node_fleet_counts{node=\"", out);
        write_label(out, shown.node[i].id);
        fprintf(out, "\"} %d\n", shown.node[i].counts);
    }
}

static void write_age(FILE *out, const char *thread, const _Atomic int64_t *beat, hf_time now)
{
    int64_t at = atomic_load_explicit(beat, memory_order_relaxed);
    int64_t age_ns = at < now.ns ? now.ns - at : 0; /* it may be later than our clock reading */

    fprintf(out, "holdfast_heartbeat_age_seconds{thread=\"%s\"} %.3f\n", thread,
            at ? (double)age_ns / HF_NS_PER_SEC : -1.0);
}

/* --- leases ----------------------------------------------------------------------------------- */

struct sum {
    uint64_t states[SLOT_STATES];
    int64_t least_ns; /* least validity of all leases */
    hf_time now;
};

static void add_lease(const struct lease *lease, void *arg)
{
    struct sum *sum = arg;
    uint32_t state = atomic_load_explicit(&lease->state, memory_order_relaxed);
    int64_t left = atomic_load_explicit(&lease->valid_ns, memory_order_relaxed) - sum->now.ns;

    if (state < SLOT_STATES)
        sum->states[state]++;
    if (state <= HF_SLOT_LOSING && left < sum->least_ns)
        sum->least_ns = left;
}

static void write_drained(const struct agent *agent, FILE *out)
{
    struct hf_drained drained;

    hf_drained_read(&agent->table, &drained);
    write_head(out, "drained", "gauge", "1: an operator drained this host, and it grants no lock");
    fprintf(out, "holdfast_drained %d\n", drained.stands);
    write_head(out, "drained_since_seconds", "gauge",
               "since when, as Unix time, and by which user");
    if (drained.since_wall_ms)
        fprintf(out, "holdfast_drained_since_seconds{uid=\"%" PRIu32 "\"} %.3f\n", drained.uid,
                (double)drained.since_wall_ms / 1000);
}

void metrics_write(struct agent *agent, FILE *out)
{
    const struct hf_table_header *h = agent->table.header;
    struct sum sum = {.least_ns = INT64_MAX, .now = clock_now()};

    write_counters(&agent->table, out);
    write_losses(&agent->table, out);
    (void)lease_table_walk(agent->leases, add_lease, &sum);
    write_head(out, "leases_by_state", "gauge", "leases in the table now");
    for (int s = HF_SLOT_HELD; s < SLOT_STATES; s++)
        fprintf(out, "holdfast_leases_by_state{state=\"%s\"} %" PRIu64 "\n", slot_states[s],
                sum.states[s]);
    write_head(out, "validity_least_seconds", "gauge",
               "the least validity that any lease has left");
    if (sum.least_ns != INT64_MAX)
        fprintf(out, "holdfast_validity_least_seconds %.3f\n",
                (double)sum.least_ns / HF_NS_PER_SEC);
    write_head(out, "capacity", "gauge", "leases that fit");
    fprintf(out, "holdfast_capacity %" PRIu32 "\n", agent->table.capacity);
    write_head(out, "ready", "gauge", "1: a quorum of nodes may vote and takes writes");
    fprintf(out, "holdfast_ready %d\n", broker_ready(agent->broker));
    write_drained(agent, out);
    write_head(out, "heartbeat_age_seconds", "gauge",
               "time since the thread's last sign of life; -1: none yet");
    write_age(out, "main", &h->main_beat_ns, sum.now);
    write_age(out, "broker", &h->broker_beat_ns, sum.now);
    write_age(out, "renewal", &h->renewal_beat_ns, sum.now);
    write_nodes(agent, out);
    write_fleet(agent, out);
}

struct list {
    struct agent *agent;
    const char *only;
    FILE *out;
    hf_time now;
    int lines;
};

static void list_lease(const struct lease *lease, void *arg)
{
    struct list *list = arg;
    uint32_t state = atomic_load_explicit(&lease->state, memory_order_relaxed);
    int64_t left = atomic_load_explicit(&lease->valid_ns, memory_order_relaxed) - list->now.ns;
    struct hf_slot_view view;
    char name[NAME_ROOM];
    int votes = -1;

    (void)log_name(lease_name(lease), lease->name_len, name, sizeof(name));
    if (list->only && strcmp(list->only, name) != 0)
        return;
    /* Votes are the renewal thread's to count; it publishes them in the slot. */
    if (hf_slot_read(&list->agent->table, lease->slot, &view) == HF_OK &&
        view.generation == lease->generation)
        votes = (int)view.votes;
    fprintf(list->out,
            "%s %.3fs votes=%d pid=%" PRIu32 " uid=%" PRIu32 " ttl_ms=%" PRIu32 " fence=%" PRIu64
            " run=%d %s\n",
            state < SLOT_STATES ? slot_states[state] : "?",
            left > 0 ? (double)left / HF_NS_PER_SEC : 0.0, votes, lease->pid, lease->uid,
            lease->ttl_ms, lease->fence, lease->run, name);
    list->lines++;
}

int metrics_list(struct agent *agent, const char *only, FILE *out)
{
    struct list list = {.agent = agent, .only = only, .out = out, .now = clock_now()};

    (void)lease_table_walk(agent->leases, list_lease, &list);
    return list.lines;
}
