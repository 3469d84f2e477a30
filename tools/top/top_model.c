#include "tools/top/top_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/table_notes.h"
#include "shm/history.h"
#include "shm/wordings.h"
#include "shm/measures.h"
#include "shm/status.h"
#include "tools/common/args.h"
#include "tools/common/text.h"
#include "tools/common/since.h"
#include "tools/output/words.h"
#include "tools/reader/waiting.h"

#define RATE_MOST     1e12 /* of what is damaged */
#define LOSSES_LOOKED 512  /* newest entries of their ring */

static void *model_have(void *memory)
{
    if (memory)
        return memory;
    fputs("holdfast: out of memory\n", stderr);
    exit(EXIT_FAILED);
}

static void model_take_user(char *out, size_t size, uint32_t uid)
{
    char user[FORMAT_USER_SIZE];

    snprintf(out, size, "%.*s", (int)size - 1, format_user(user, sizeof(user), uid));
}

/* 0 for an instant that is still to come. */
static int64_t model_since_ms(int64_t ns, hf_time now)
{
    int64_t ms = hf_dur_ms(hf_time_since(now, (hf_time){ns}));

    return ms > 0 ? ms : 0;
}

/* --- the agent ----------------------------------------------------------------------------------- */

/* Over ten seconds, so that a tenth of an event a second shows. */
static int64_t model_rate(uint64_t before, uint64_t now, int64_t span_ns)
{
    double in_10s = span_ns > 0 ? (double)(now - before) * 1e10 / (double)span_ns + 0.5 : -1;

    return now < before || in_10s < 0 || in_10s > RATE_MOST ? -1 : (int64_t)in_10s;
}

static void model_take_agent(struct top_model *m, const struct reader *reader)
{
    const struct hf_table *table = &reader->table;
    hf_time now = reader_now();
    struct hf_drained drained;
    struct life life;
    uint64_t grants = hf_counter_read(table, HF_COUNTER_GRANTS);
    uint64_t releases = hf_counter_read(table, HF_COUNTER_RELEASES);
    bool again = m->at_ns != 0;
    int64_t extreme;

    life_judge(table, &life);
    text_escape_ascii_str(m->agent, sizeof(m->agent), reader->place.agent);
    text_escape_ascii_str(m->host, sizeof(m->host), reader->host);
    text_escape_ascii_str(m->version, sizeof(m->version), reader->version);
    life_when(m->when, sizeof(m->when), &life);
    life_sentence(m->sentence, sizeof(m->sentence), reader->place.agent, &life);
    m->verdict = life.verdict;
    m->pid = (int)life.pid;
    m->up_ms = life.up_ms;
    m->wall_ms = wall_now_ms();
    for (int i = 0; i < LIFE_THREADS; i++)
        m->beat_ms[i] = life.age_ms[i];
    hf_drained_read(table, &drained);
    m->drained = drained.stands;
    m->terms = hf_table_terms(table);
    reader_count(table, &m->counts);
    m->clients = hf_counter_read(table, HF_COUNTER_CLIENTS);
    m->losses = hf_counter_read(table, HF_COUNTER_LOSSES);
    m->grants_10s = again ? model_rate(m->grants, grants, now.ns - m->at_ns) : -1;
    m->releases_10s = again ? model_rate(m->releases, releases, now.ns - m->at_ns) : -1;
    m->grants = grants;
    m->releases = releases;
    m->at_ns = now.ns;
    m->margin_ppm = hf_extreme_read(table, HF_EXTREME_MARGIN, now);
    extreme = hf_extreme_read(table, HF_EXTREME_LAG, now);
    m->lag_us = extreme;
}

/* --- nodes --------------------------------------------------------------------------------------- */

static void model_explain_node(char *out, size_t size, const struct hf_node_row *row)
{
    out[0] = '\0';
    if (row->state == HF_NODE_QUARANTINED)
        words_quarantine_sentence(out, size, row->quarantine_reason);
    else if (row->state == HF_NODE_REFUSED)
        snprintf(out, size, "%s", hf_why_refused(row->refused)->sentence);
    else if (!reader_node_votes(row) && row->state == HF_NODE_UP)
        words_fleet_sentence(out, size, row->flags);
    else if (row->state != HF_NODE_UP)
        text_escape_ascii_str(out, size, row->error);
}

static void model_take_nodes(struct top_model *m, const struct reader *reader)
{
    struct hf_node_row rows[HF_NODES_MAX];
    hf_time now = reader_now();

    m->node_count = reader_nodes(reader, rows);
    m->voting = reader_nodes_voting(rows, m->node_count);
    for (uint32_t i = 0; i < m->node_count; i++) {
        struct top_node *node = &m->node[i];

        text_escape_ascii_str(node->id, sizeof(node->id), *rows[i].id ? rows[i].id : "?");
        snprintf(node->state, sizeof(node->state), "%s%s", m->verdict == LIFE_ALIVE ? "" : "was ",
                 hf_node_state_word(rows[i].state));
        model_explain_node(node->why, sizeof(node->why), &rows[i]);
        node->votes = m->verdict == LIFE_ALIVE && reader_node_votes(&rows[i]);
        node->rtt_ns = rows[i].rtt_ns;
        node->answered_ms =
            rows[i].last_reply_ns > 0 ? model_since_ms(rows[i].last_reply_ns, now) : -1;
    }
}

/* --- leases -------------------------------------------------------------------------------------- */

static void model_add_lease(const struct hf_slot_view *view, bool in_force, void *arg)
{
    struct top_model *m = arg;
    struct top_lease *lease = &m->lease[m->lease_count];
    hf_time now = reader_now();

    (void)in_force;
    m->lease_total++;
    if (m->lease_count == TOP_LEASES_MOST)
        return;
    m->lease_count++;
    *lease = (struct top_lease){
        .name_len = view->name_len,
        .state = view->state,
        .votes = view->votes,
        .pid = view->pid,
        .left_ms = hf_dur_ms(hf_time_since(view->deadline, now)),
        .ttl_ms = view->ttl_ms,
        .held_ms = model_since_ms(view->since.ns, now),
    };
    memcpy(lease->name, view->name, view->name_len);
    lease->left_ms = lease->left_ms > 0 ? lease->left_ms : 0;
    model_take_user(lease->user, sizeof(lease->user), view->uid);
    text_escape_ascii_str(lease->note, sizeof(lease->note), view->note);
}

static int model_order_of_names(const uint8_t *x, size_t x_len, const uint8_t *y, size_t y_len)
{
    int order = memcmp(x, y, x_len < y_len ? x_len : y_len);

    return order ? order : x_len < y_len ? -1 : x_len > y_len;
}

/* The most urgent first; otherwise by name, so that a line keeps its place. */
static int model_by_urgency(const void *a, const void *b)
{
    const struct top_lease *x = a, *y = b;

    if (x->state != y->state)
        return x->state > y->state ? -1 : 1;
    return model_order_of_names(x->name, x->name_len, y->name, y->name_len);
}

static void model_take_leases(struct top_model *m, const struct reader *reader,
                              const struct reader_name *prefix)
{
    struct reader_filter filter = {.prefix = prefix->bytes,
                                   .prefix_len = prefix->len,
                                   .states = 1u << HF_SLOT_LATE | 1u << HF_SLOT_LOSING};

    if (!m->lease)
        m->lease = model_have(calloc(TOP_LEASES_MOST, sizeof(*m->lease)));
    m->lease_count = 0;
    m->lease_total = 0;
    reader_walk(&reader->table, &filter, model_add_lease, m);
    filter.states = 1u << HF_SLOT_HELD;
    /* Without a prefix the others were counted already. */
    filter.most = prefix->len ? 0 : TOP_LEASES_MOST;
    reader_walk(&reader->table, &filter, model_add_lease, m);
    if (!prefix->len && m->counts.leases > m->lease_total)
        m->lease_total = m->counts.leases;
    qsort(m->lease, m->lease_count, sizeof(*m->lease), model_by_urgency);
}

/* --- waiters ------------------------------------------------------------------------------------- */

static void model_take_waiters(struct top_model *m, const struct reader *reader,
                               const struct reader_name *prefix)
{
    const struct life life = {.verdict = m->verdict};
    hf_time now = reader_now();
    struct waiting waiting;

    waiting_read(&reader->table, &life, prefix->bytes, prefix->len, false, &waiting);
    free(m->waiter);
    m->waiter = waiting.count ? model_have(calloc(waiting.count, sizeof(*m->waiter))) : NULL;
    m->waiter_count = waiting.count;
    m->waiters_known = waiting.known;
    m->waiting = hf_counter_read(&reader->table, HF_COUNTER_WAITERS);
    for (size_t i = 0; i < waiting.count; i++) {
        const struct hf_waiter_row *row = &waiting.items[i].row;
        struct top_waiter *w = &m->waiter[i];

        memcpy(w->name, row->name, row->name_len);
        w->name_len = row->name_len;
        w->place = waiting.items[i].place;
        w->pid = row->pid;
        w->waits_ms = model_since_ms(row->since_ns, now);
        w->gives_up_ms = -1;
        if (row->deadline_ns != INT64_MAX)
            w->gives_up_ms = hf_time_before(now, (hf_time){row->deadline_ns})
                                 ? hf_dur_ms(hf_time_since((hf_time){row->deadline_ns}, now))
                                 : 0;
        model_take_user(w->user, sizeof(w->user), row->uid);
        text_escape_ascii_str(w->command, sizeof(w->command), row->comm);
    }
    waiting_free(&waiting);
}

/* --- losses -------------------------------------------------------------------------------------- */

struct told {
    uint32_t slot, generation;
};

static bool model_is_told(const struct told *told, size_t count, const struct hf_event *event)
{
    for (size_t i = 0; i < count; i++)
        if (told[i].slot == event->slot && told[i].generation == event->generation)
            return true;
    return false;
}

/* A loss, or its beginning; not one that somebody asked for. */
static bool model_is_loss(const struct hf_event *event)
{
    return (event->kind == HF_EVENT_LOST || event->kind == HF_EVENT_LOSING) &&
           event->reason != HF_LOSS_ASKED;
}

/* The lease of that event. */
static bool model_is_in_force(const struct hf_table *table, const struct hf_event *event)
{
    struct hf_slot_view view;

    return hf_slot_read(table, event->slot, &view) == HF_OK &&
           view.generation == event->generation && reader_in_force(table, &view);
}

/* The newest first, each lease once: by the last that is told of it. */
static void model_take_losses(struct top_model *m, const struct hf_table *table)
{
    uint64_t oldest = hf_events_oldest(table, HF_EVENTS_LOSSES);
    uint64_t end = hf_events_written(table, HF_EVENTS_LOSSES);
    struct told told[TOP_LOSSES_MOST] = {{0}};
    struct hf_event event;

    m->loss_count = 0;
    if (end - oldest > LOSSES_LOOKED)
        oldest = end - LOSSES_LOOKED;
    for (uint64_t i = end; i > oldest && m->loss_count < TOP_LOSSES_MOST; i--) {
        struct top_loss *loss = &m->loss[m->loss_count];

        if (hf_event_read(table, HF_EVENTS_LOSSES, i - 1, &event) != HF_OK ||
            !model_is_loss(&event) || model_is_told(told, m->loss_count, &event))
            continue;
        told[m->loss_count++] = (struct told){event.slot, event.generation};
        loss->state = event.kind == HF_EVENT_LOST        ? "lost"
                      : model_is_in_force(table, &event) ? "losing"
                                                         : "released";
        loss->wall_ms = event.wall_ms;
        loss->name_len = hf_event_text_kept(&event);
        memcpy(loss->name, event.text, loss->name_len);
        snprintf(loss->why, sizeof(loss->why), "%s", hf_loss_text(event.reason));
    }
}

void top_model_take(struct top_model *m, const struct reader *reader,
                    const struct reader_name *prefix)
{
    m->filtered = prefix->len > 0;
    model_take_agent(m, reader);
    model_take_nodes(m, reader);
    model_take_leases(m, reader, prefix);
    model_take_waiters(m, reader, prefix);
    model_take_losses(m, &reader->table);
}

void top_model_free(struct top_model *m)
{
    free(m->lease);
    free(m->waiter);
    *m = (struct top_model){.pid = 0};
}
