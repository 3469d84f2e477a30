#include "tools/reader/exposition.h"

#include <string.h>

#include "shm/compiler.h"
#include "shm/table_notes.h"
#include "shm/layout.h"
#include "shm/wordings.h"
#include "shm/measures.h"
#include "shm/slot.h"

#define MS_PER_S 1000.0

/* --- counters --------------------------------------------------------------------------------- */

enum kind {
    COUNTER = 0,
    GAUGE,
    INSTANT,   /* Unix time in ms; 0: never */
    ELSEWHERE, /* told by a metric of its own, or by one of the last minutes */
};

static const struct {
    const char *name, *help;
    enum kind kind;
} counters[HF_COUNTERS] = {
#define HF_COUNTER_ENUM(id, counter_name, counter_doc)                                             \
    [HF_COUNTER_##id] = {counter_name, counter_doc, COUNTER},
#include "shm/counters.def"
#undef HF_COUNTER_ENUM
};

static enum kind exposition_kind_of(enum hf_counter counter)
{
    switch (counter) {
    case HF_COUNTER_CLIENTS:
    case HF_COUNTER_CLIENTS_MAX:
    case HF_COUNTER_WAITERS:
    case HF_COUNTER_LEASES:
        return GAUGE;
    case HF_COUNTER_CONFIG_LOADED_MS:
    case HF_COUNTER_RELOAD_REFUSED_MS:
        return INSTANT;
    case HF_COUNTER_RENEW_LAG_NS:
    case HF_COUNTER_RENEW_LAG_MAX_NS:
    case HF_COUNTER_TURN_MAX_NS:
    case HF_COUNTER_RENEW_OVERDUE_MAX_NS:
    case HF_COUNTER_LOSSES:
        return ELSEWHERE;
    default:
        return COUNTER;
    }
}

static bool exposition_is_loss(enum hf_counter counter)
{
    enum hf_counter other;

    for (uint32_t reason = 0; reason < HF_LOSS_REASONS; reason++)
        if (hf_loss_counter(reason, &other) && other == counter)
            return true;
    return false;
}

static void exposition_write_counter(const struct hf_metrics *m, enum hf_counter counter)
{
    uint64_t value = hf_counter_read(m->table, counter);
    char name[96];

    snprintf(name, sizeof(name), "%s_total", counters[counter].name);
    hf_metric_head(m, name, HF_METRIC_COUNTER, counters[counter].help);
    hf_metric_whole(m, name, NULL, NULL, value);
}

static void exposition_write_counters(const struct hf_metrics *m)
{
    for (unsigned i = 0; i < HF_COUNTERS; i++)
        if (exposition_kind_of((enum hf_counter)i) == GAUGE)
            hf_metric_gauge(m, counters[i].name, counters[i].help,
                            (double)hf_counter_read(m->table, (enum hf_counter)i));
        else if (exposition_kind_of((enum hf_counter)i) == COUNTER &&
                 !exposition_is_loss((enum hf_counter)i))
            exposition_write_counter(m, (enum hf_counter)i);
}

/* One metric with a label for the reason; the sum is all losses. */
static void exposition_write_losses(const struct hf_metrics *m)
{
    enum hf_counter counter;

    hf_metric_head(m, "losses_total", HF_METRIC_COUNTER,
                   "leases that were lost, or released while they were being lost, by reason");
    for (uint32_t reason = 0; reason < HF_LOSS_REASONS; reason++)
        if (hf_loss_counter(reason, &counter))
            hf_metric_whole(m, "losses_total", "reason", hf_loss_word(reason),
                            hf_counter_read(m->table, counter));
}

/* --- the agent -------------------------------------------------------------------------------- */

static void exposition_write_state(const struct hf_metrics *m)
{
    static const char *const states[] = {HF_AGENT_ALIVE, HF_AGENT_HUNG, HF_AGENT_DEAD,
                                         HF_AGENT_ENDED, HF_AGENT_NONE};

    hf_metric_gauge(m, "up", "1: the agent is alive, and no thread of it hangs",
                    strcmp(m->e->state, HF_AGENT_ALIVE) == 0);
    hf_metric_head(
        m, "state", HF_METRIC_GAUGE,
        "1 for the state that the agent is in; none: there is no table of such an agent");
    for (size_t i = 0; i < HF_LENGTH(states); i++)
        hf_metric_real(m, "state", "state", states[i], strcmp(m->e->state, states[i]) == 0);
    hf_metric_gauge(m, "metrics_timestamp_seconds", "Unix time at which these metrics were written",
                    (double)m->e->wall_ms / MS_PER_S);
}

static void exposition_write_build(const struct hf_metrics *m)
{
    const struct hf_table_header *h = m->table->header;
    char version[sizeof(h->version) + 1] = "";

    memcpy(version, h->version, sizeof(h->version));
    hf_metric_head(m, "build_info", HF_METRIC_GAUGE, "1; the label has the agent's version");
    hf_metric_real(m, "build_info", "version", version, 1);
}

/* A table may be without measures: then it has the start by the other clock only. */
static void exposition_write_instants(const struct hf_metrics *m)
{
    int64_t started = atomic_load_explicit(&m->table->header->started_ns, memory_order_acquire);
    int64_t now_s = m->e->wall_ms / 1000;
    double wall = (double)hf_gauge_read(m->table, HF_GAUGE_START_WALL_MS) / MS_PER_S;
    double loaded = (double)hf_counter_read(m->table, HF_COUNTER_CONFIG_LOADED_MS) / MS_PER_S;
    double refused = (double)hf_counter_read(m->table, HF_COUNTER_RELOAD_REFUSED_MS) / MS_PER_S;

    if (wall == 0)
        wall = (double)(now_s - (int64_t)hf_metric_age(m, started));
    hf_metric_gauge(m, "start_time_seconds", "Unix time at which the agent started", wall);
    hf_metric_gauge(m, "config_loaded_timestamp_seconds",
                    "Unix time at which the configuration in force was loaded", loaded);
    hf_metric_gauge(m, "reload_refused_timestamp_seconds",
                    "Unix time at which the last reload was refused; 0: it was applied, or there "
                    "was none",
                    refused);
}

static void exposition_write_age(const struct hf_metrics *m, const char *thread,
                                 const _Atomic int64_t *beat)
{
    hf_metric_real(m, "heartbeat_age_seconds", "thread", thread,
                   hf_metric_age(m, atomic_load_explicit(beat, memory_order_acquire)));
}

static void exposition_write_ages(const struct hf_metrics *m)
{
    const struct hf_table_header *h = m->table->header;

    hf_metric_head(m, "heartbeat_age_seconds", HF_METRIC_GAUGE,
                   "time since the thread's last sign of life; -1: none yet");
    exposition_write_age(m, "main", &h->main_beat_ns);
    exposition_write_age(m, "broker", &h->broker_beat_ns);
    exposition_write_age(m, "renewal", &h->renewal_beat_ns);
}

static void exposition_write_terms(const struct hf_metrics *m)
{
    const struct hf_table_terms terms = hf_table_terms(m->table);

    hf_metric_gauge(m, "nodes", "nodes of the list", terms.nodes);
    hf_metric_gauge(m, "quorum", "votes that a lease needs", terms.quorum);
    hf_metric_gauge(m, "ttl_seconds", "the default TTL", terms.ttl_ms / MS_PER_S);
    hf_metric_gauge(m, "ttl_max_seconds", "the fleet's largest TTL", terms.ttl_max_ms / MS_PER_S);
    hf_metric_gauge(m, "capacity", "leases that fit", hf_table_capacity(m->table));
}

static void exposition_write_drained(const struct hf_metrics *m)
{
    struct hf_drained drained;
    char uid[16];

    hf_drained_read(m->table, &drained);
    snprintf(uid, sizeof(uid), "%u", (unsigned)drained.uid);
    hf_metric_gauge(m, "drained", "1: an operator drained this host, and it grants no lock",
                    drained.stands);
    hf_metric_head(m, "drained_since_timestamp_seconds", HF_METRIC_GAUGE,
                   "since when, as Unix time, and by which user");
    if (drained.since_wall_ms)
        hf_metric_real(m, "drained_since_timestamp_seconds", "uid", uid,
                       (double)drained.since_wall_ms / MS_PER_S);
}

/* --- leases ----------------------------------------------------------------------------------- */

/* Only the check word and the state of each slot are read: a million in a fraction of a second. */
static void exposition_write_leases(const struct hf_metrics *m)
{
    static const char *const states[] = {
        [HF_SLOT_HELD] = "held", [HF_SLOT_LATE] = "late", [HF_SLOT_LOSING] = "losing"};
    uint32_t end = atomic_load_explicit(&m->table->header->slots_used, memory_order_acquire);
    uint64_t count[HF_SLOT_LOSING + 1] = {0};
    int64_t least = INT64_MAX;

    for (uint32_t i = 0; i < end && i < hf_table_slots(m->table); i++) {
        const struct hf_slot *slot = &m->table->slots[i];
        uint64_t word = atomic_load_explicit(&slot->check, memory_order_acquire);
        int64_t left = (int64_t)((word & HF_CHECK_TIME_MASK) << HF_CHECK_TIME_SHIFT) - m->e->now.ns;
        uint32_t state;

        if (!hf_check_holds(word, (uint32_t)(word >> HF_CHECK_GEN_SHIFT), m->e->now))
            continue;
        state = atomic_load_explicit(&slot->lengths, memory_order_acquire) >> HF_SLOT_STATE_SHIFT;
        least = left < least ? left : least;
        count[state >= HF_SLOT_HELD && state <= HF_SLOT_LOSING ? state : HF_SLOT_HELD]++;
    }
    hf_metric_head(m, "leases_by_state", HF_METRIC_GAUGE, "leases that are in force, by state");
    for (unsigned s = HF_SLOT_HELD; s <= HF_SLOT_LOSING; s++)
        hf_metric_whole(m, "leases_by_state", "state", states[s], count[s]);
    hf_metric_head(m, "validity_least_seconds", HF_METRIC_GAUGE,
                   "the least validity that any lease has left now");
    if (least != INT64_MAX)
        hf_metric_real(m, "validity_least_seconds", NULL, NULL, hf_metric_seconds(least));
}

void exposition_write(const struct exposition *e, const struct hf_table *table, FILE *out)
{
    const struct hf_metrics m = {.e = e, .table = table, .out = out};

    exposition_write_state(&m);
    if (!table)
        return;
    exposition_write_build(&m);
    exposition_write_instants(&m);
    exposition_write_ages(&m);
    exposition_write_terms(&m);
    exposition_write_drained(&m);
    exposition_write_counters(&m);
    exposition_write_losses(&m);
    exposition_write_leases(&m);
    exposition_measures(&m);
    exposition_nodes(&m);
}
