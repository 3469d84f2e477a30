#include "tools/top/top_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/compiler.h"
#include "tools/common/args.h"
#include "tools/common/text.h"
#include "tools/output/words.h"

/* --- the canvas ------------------------------------------------------------------------------- */

#define EIGHTHS 8

void top_canvas_begin(struct top_canvas *c, const struct top_style *style)
{
    c->style = style;
    c->length = 0;
    c->column = c->lines = 0;
}

void top_canvas_free(struct top_canvas *c)
{
    free(c->text);
    *c = (struct top_canvas){.text = NULL};
}

static void canvas_append(struct top_canvas *c, const char *bytes, size_t length)
{
    if (c->length + length > c->room) {
        size_t room = 2 * (c->length + length) + 4096;
        char *text = realloc(c->text, room);

        if (!text) {
            fputs("holdfast: out of memory\n", stderr);
            exit(EXIT_FAILED);
        }
        c->text = text;
        c->room = room;
    }
    memcpy(c->text + c->length, bytes, length);
    c->length += length;
}

static void canvas_append_str(struct top_canvas *c, const char *text)
{
    canvas_append(c, text, strlen(text));
}

static void canvas_begin_tone(struct top_canvas *c, enum top_tone tone)
{
    static const char *const codes[] = {
        [TONE_PLAIN] = "",        [TONE_BOLD] = "\x1b[1m",  [TONE_DIM] = "\x1b[2m",
        [TONE_GOOD] = "\x1b[32m", [TONE_WARN] = "\x1b[33m", [TONE_BAD] = "\x1b[31m",
    };

    if (c->style->colour)
        canvas_append_str(c, codes[tone]);
}

static void canvas_end_tone(struct top_canvas *c, enum top_tone tone)
{
    if (c->style->colour && tone != TONE_PLAIN)
        canvas_append_str(c, "\x1b[0m");
}

static int canvas_room_of(const struct top_canvas *c)
{
    return c->style->width - c->column;
}

static void canvas_put_bytes(struct top_canvas *c, enum top_tone tone, const char *text, int count)
{
    count = count < canvas_room_of(c) ? count : canvas_room_of(c);
    if (count <= 0)
        return;
    canvas_begin_tone(c, tone);
    for (int i = 0; i < count; i++) {
        char byte = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';

        canvas_append(c, &byte, 1);
    }
    canvas_end_tone(c, tone);
    c->column += count;
}

/* Appends to the line what it has room for. Bytes that are not printable ASCII become '?'. */
static void top_canvas_put(struct top_canvas *c, enum top_tone tone, const char *text)
{
    canvas_put_bytes(c, tone, text, (int)strlen(text));
}

/* Blanks up to that column. */
static void top_canvas_pad(struct top_canvas *c, int column)
{
    while (c->column < column && canvas_room_of(c) > 0)
        canvas_put_bytes(c, TONE_PLAIN, " ", 1);
}

/* In `width` columns: padded, cut with "..."; to the right. */
static void top_canvas_cell(struct top_canvas *c, enum top_tone tone, const char *text, int width,
                            bool right)
{
    static const char cut[] = "...";
    int start = c->column, length = (int)strlen(text);

    if (length > width) {
        int kept = width > (int)sizeof(cut) ? width - (int)(sizeof(cut) - 1) : width;

        canvas_put_bytes(c, tone, text, kept);
        canvas_put_bytes(c, tone, cut, width - kept);
        return;
    }
    if (right)
        top_canvas_pad(c, start + width - length);
    canvas_put_bytes(c, tone, text, length);
    top_canvas_pad(c, start + width);
}

/* One to seven eighths of a cell, from the left: U+258F to U+2589. */
static void canvas_append_eighths(struct top_canvas *c, int eighths)
{
    const char cell[] = {'\xe2', '\x96', (char)('\x90' - eighths)};

    canvas_append(c, cell, sizeof(cell));
}

void top_canvas_bar(struct top_canvas *c, enum top_tone tone, double part, int width)
{
    int whole, eighths;

    width = width < canvas_room_of(c) ? width : canvas_room_of(c);
    if (width <= 0)
        return;
    part = part > 0 ? part : 0; /* also what is no number */
    part = part < 1 ? part : 1;
    eighths = (int)(part * width * EIGHTHS + 0.5);
    /* Something that is left is seen. */
    eighths = part > 0 && eighths == 0 ? 1 : eighths;
    whole = c->style->unicode ? eighths / EIGHTHS : (eighths + EIGHTHS / 2 - 1) / EIGHTHS;
    whole = part > 0 && !c->style->unicode && whole == 0 ? 1 : whole;
    canvas_begin_tone(c, tone);
    for (int i = 0; i < whole; i++)
        canvas_append_str(c, c->style->unicode ? "\u2588" : "#");
    if (c->style->unicode && eighths % EIGHTHS)
        canvas_append_eighths(c, eighths % EIGHTHS);
    canvas_end_tone(c, tone);
    whole += c->style->unicode && eighths % EIGHTHS;
    if (whole < width)
        canvas_begin_tone(c, TONE_DIM);
    for (int i = whole; i < width; i++)
        canvas_append_str(c, c->style->unicode ? "\u00b7" : ".");
    if (whole < width)
        canvas_end_tone(c, TONE_DIM);
    c->column += width;
}

static void top_canvas_end_line(struct top_canvas *c)
{
    while (c->length && c->text[c->length - 1] == ' ')
        c->length--;
    canvas_append(c, "\n", 1);
    c->column = 0;
    c->lines++;
}

/* --- the frame -------------------------------------------------------------------------------- */

#define GAP           2
#define CELL_SIZE     (4 * HF_NAME_MAX + 1)
#define WAITING_SHOWN 5 /* rows, where leases want the room */
#define LOSSES_SHOWN  4
#define LEASES_LEAST  3 /* rows, before others get any */
#define HEADS         2 /* an empty line and a heading */
#define RTT_SCALE_NS  (INT64_C(1000) * 1000)

/* --- tables -------------------------------------------------------------------------------------- */

struct column {
    const char *head;
    int width; /* 0: it did not fit */
    int rank;  /* 0: the last to go */
    bool right;
    bool rest; /* gets what is left of the line */
};

/* The columns that fit, by rank. */
static void frame_fit(struct column *columns, int count, int width)
{
    int used = 0;

    for (int rank = 0; rank < count; rank++)
        for (int i = 0; i < count; i++) {
            int needs = columns[i].width + (used ? GAP : 0);

            if (columns[i].rank != rank)
                continue;
            if (used + needs <= width)
                used += needs;
            else
                columns[i].width = used ? 0 : width;
            used = used ? used : width;
        }
    for (int i = 0; i < count; i++)
        if (columns[i].rest && columns[i].width)
            columns[i].width += width - used;
}

static void frame_gap(struct top_canvas *c)
{
    if (c->column)
        top_canvas_pad(c, c->column + GAP);
}

static void frame_cell(struct top_canvas *c, const struct column *column, enum top_tone tone,
                       const char *text)
{
    if (!column->width)
        return;
    frame_gap(c);
    top_canvas_cell(c, tone, text, column->width, column->right);
}

static void frame_bar(struct top_canvas *c, const struct column *column, enum top_tone tone,
                      double part)
{
    if (!column->width)
        return;
    frame_gap(c);
    top_canvas_bar(c, tone, part, column->width);
}

static void frame_heading(struct top_canvas *c, const struct column *columns, int count)
{
    top_canvas_end_line(c);
    for (int i = 0; i < count; i++)
        frame_cell(c, &columns[i], TONE_BOLD, columns[i].head);
    top_canvas_end_line(c);
}

static void frame_more(struct top_canvas *c, uint64_t count, const char *where)
{
    char text[96];

    if (!count)
        return;
    snprintf(text, sizeof(text), "... and %" PRIu64 " more%s", count, where);
    top_canvas_put(c, TONE_DIM, text);
    top_canvas_end_line(c);
}

static const char *frame_name_of(char *out, const uint8_t *name, size_t len)
{
    return text_escape_ascii(out, CELL_SIZE, name, len);
}

static int frame_longer(int width, const char *text, int most)
{
    int len = (int)strlen(text);

    len = len > width ? len : width;
    return len < most ? len : most;
}

/* Columns of a name, at most: the bar and what is before it have to fit beside it. */
static int frame_name_most(const struct top_canvas *c)
{
    return c->style->width >= 60 ? c->style->width * 3 / 8 : c->style->width / 3 + 1;
}

static const char *frame_span_of(char *out, size_t size, int64_t ms)
{
    return ms < 0 ? "-" : text_span(out, size, ms);
}

/* --- the head ------------------------------------------------------------------------------------ */

static enum top_tone frame_tone_of(enum life_verdict verdict)
{
    return verdict == LIFE_ALIVE ? TONE_GOOD : TONE_BAD;
}

/* A part of a line; nothing where all of it does not fit. */
static void frame_whole(struct top_canvas *c, enum top_tone tone, const char *text)
{
    if (!c->column || c->column + (int)strlen(text) <= c->style->width)
        top_canvas_put(c, tone, text);
}

static void frame_draw_title(struct top_canvas *c, const struct top_model *m)
{
    char text[TOP_NOTE + 64], span[TEXT_SPAN_SIZE], at[TEXT_INSTANT_SIZE];
    int width = c->style->width, room;

    snprintf(text, sizeof(text), "%s on %s: ", m->agent, m->host);
    top_canvas_put(c, TONE_BOLD, text);
    top_canvas_put(c, frame_tone_of(m->verdict), life_verdict_name(m->verdict));
    snprintf(text, sizeof(text), ", pid %d, version %s", m->pid, m->version);
    frame_whole(c, TONE_PLAIN, text);
    if (m->verdict == LIFE_ALIVE && m->up_ms >= 0) {
        snprintf(text, sizeof(text), ", up %s", text_span(span, sizeof(span), m->up_ms));
        frame_whole(c, TONE_PLAIN, text);
    }
    if (m->drained)
        frame_whole(c, TONE_WARN, ", drained");
    text_wall(at, sizeof(at), m->wall_ms);
    room = width - (int)strlen(at);
    if (room - GAP >= c->column) {
        top_canvas_pad(c, room);
        top_canvas_put(c, TONE_DIM, at);
    }
    top_canvas_end_line(c);
}

static void frame_put_rate(char *out, size_t size, int64_t in_10s)
{
    if (in_10s < 0)
        out[0] = '\0';
    else
        snprintf(out, size, " (%" PRId64 ".%" PRId64 "/s)", in_10s / 10, in_10s % 10);
}

static void frame_draw_counts(struct top_canvas *c, const struct top_model *m)
{
    char text[160], rate[32];

    snprintf(text, sizeof(text), "leases %" PRIu32, m->counts.leases);
    frame_whole(c, TONE_PLAIN, text);
    if (m->counts.late || m->counts.losing) {
        snprintf(text, sizeof(text), " (%" PRIu32 " late, %" PRIu32 " losing)", m->counts.late,
                 m->counts.losing);
        frame_whole(c, m->counts.losing ? TONE_BAD : TONE_WARN, text);
    }
    if (m->verdict == LIFE_ALIVE)
        snprintf(text, sizeof(text), ", waiters %" PRIu64 ", clients %" PRIu64, m->waiting,
                 m->clients);
    else
        snprintf(text, sizeof(text), ", waiters -, clients -");
    frame_whole(c, TONE_PLAIN, text);
    frame_put_rate(rate, sizeof(rate), m->grants_10s);
    snprintf(text, sizeof(text), ", grants %" PRIu64 "%s", m->grants, rate);
    frame_whole(c, TONE_PLAIN, text);
    snprintf(text, sizeof(text), ", lost %" PRIu64, m->losses);
    frame_whole(c, m->losses ? TONE_WARN : TONE_PLAIN, text);
    top_canvas_end_line(c);
}

static void frame_draw_renewals(struct top_canvas *c, const struct top_model *m)
{
    char text[200], span[TEXT_SPAN_SIZE], ttl[TEXT_SPAN_SIZE];
    bool present = m->verdict == LIFE_ALIVE;
    enum top_tone tone = !present || m->voting < m->terms.quorum ? TONE_BAD
                         : m->voting < m->terms.nodes            ? TONE_WARN
                                                                 : TONE_PLAIN;

    snprintf(text, sizeof(text), "%" PRIu32 " of %" PRIu32 " nodes %s%s, quorum %" PRIu32,
             m->voting, m->terms.nodes, present ? "vote" : "voted ", present ? "" : m->when,
             m->terms.quorum);
    frame_whole(c, tone, text);
    snprintf(text, sizeof(text), ", ttl %s", text_span(ttl, sizeof(ttl), m->terms.ttl_ms));
    frame_whole(c, TONE_PLAIN, text);
    if (m->margin_ppm >= 0) {
        snprintf(text, sizeof(text), "; margin %" PRId64 "%% of T", m->margin_ppm / 10000);
        frame_whole(c, m->margin_ppm < 500000 ? TONE_WARN : TONE_PLAIN, text);
    }
    for (int i = 0; i < LIFE_THREADS; i++) {
        snprintf(text, sizeof(text), "%s%s %s", i ? ", " : "; ", life_thread_name(i),
                 frame_span_of(span, sizeof(span), m->beat_ms[i]));
        frame_whole(c, m->beat_ms[i] < 0 || m->beat_ms[i] > LIFE_SILENCE_MS ? TONE_BAD : TONE_PLAIN,
                    text);
    }
    top_canvas_end_line(c);
}

static void frame_draw_head(struct top_canvas *c, const struct top_model *m)
{
    frame_draw_title(c, m);
    frame_draw_counts(c, m);
    frame_draw_renewals(c, m);
    if (*m->sentence) {
        for (size_t i = 0; i < strlen(m->sentence); i += (size_t)c->style->width) {
            top_canvas_put(c, TONE_BAD, m->sentence + i);
            top_canvas_end_line(c);
        }
    }
}

/* --- nodes --------------------------------------------------------------------------------------- */

static void frame_draw_nodes(struct top_canvas *c, const struct top_model *m)
{
    struct column columns[] = {{"NODE", 4, 0, false, false},    {"STATE", 5, 1, false, false},
                               {"RTT", 8, 2, true, false},      {"LATENCY", 10, 4, false, false},
                               {"ANSWERED", 8, 3, true, false}, {"WHY", 8, 5, false, true}};
    int64_t slowest_ns = RTT_SCALE_NS;
    char rtt[TEXT_SPAN_SIZE], span[TEXT_SPAN_SIZE];

    for (uint32_t i = 0; i < m->node_count; i++) {
        columns[0].width = frame_longer(columns[0].width, m->node[i].id, c->style->width / 4 + 2);
        columns[1].width = frame_longer(columns[1].width, m->node[i].state, 15);
        slowest_ns = m->node[i].rtt_ns > slowest_ns ? m->node[i].rtt_ns : slowest_ns;
    }
    frame_fit(columns, HF_LENGTH(columns), c->style->width);
    frame_heading(c, columns, HF_LENGTH(columns));
    for (uint32_t i = 0; i < m->node_count; i++) {
        const struct top_node *node = &m->node[i];
        enum top_tone tone = node->votes ? TONE_GOOD : TONE_BAD;

        frame_cell(c, &columns[0], TONE_PLAIN, node->id);
        frame_cell(c, &columns[1], tone, node->state);
        frame_cell(c, &columns[2], TONE_PLAIN, format_rtt(rtt, sizeof(rtt), node->rtt_ns));
        frame_bar(c, &columns[3], tone, (double)node->rtt_ns / (double)slowest_ns);
        frame_cell(c, &columns[4], TONE_PLAIN,
                   frame_span_of(span, sizeof(span), node->answered_ms));
        frame_cell(c, &columns[5], TONE_PLAIN, *node->why ? node->why : "-");
        top_canvas_end_line(c);
    }
}

/* --- leases -------------------------------------------------------------------------------------- */

static const char *frame_state_word(enum hf_slot_state state)
{
    return state == HF_SLOT_LOSING ? "losing" : state == HF_SLOT_LATE ? "late" : "held";
}

/* By what its agent says, and by the time that is left while it says nothing. */
static enum top_tone frame_tone_of_lease(const struct top_lease *lease)
{
    if (lease->state == HF_SLOT_LOSING || 10 * lease->left_ms <= 3 * lease->ttl_ms)
        return TONE_BAD;
    return lease->state == HF_SLOT_LATE || 2 * lease->left_ms <= lease->ttl_ms ? TONE_WARN
                                                                               : TONE_GOOD;
}

static int frame_bar_width(int width)
{
    return width >= 100 ? 24 : width >= 60 ? 16 : 8;
}

static void frame_draw_lease(struct top_canvas *c, const struct top_model *m,
                             const struct column *columns, const struct top_lease *lease)
{
    enum top_tone tone = frame_tone_of_lease(lease);
    char name[CELL_SIZE], text[32], span[TEXT_SPAN_SIZE];

    frame_cell(c, &columns[0], TONE_PLAIN, frame_name_of(name, lease->name, lease->name_len));
    frame_cell(c, &columns[1], tone, frame_state_word(lease->state));
    frame_cell(c, &columns[2], TONE_PLAIN, text_span(span, sizeof(span), lease->left_ms));
    frame_bar(c, &columns[3], tone,
              lease->ttl_ms ? (double)lease->left_ms / (double)lease->ttl_ms : 0);
    snprintf(text, sizeof(text), "%" PRIu32 "/%" PRIu32, lease->votes, m->terms.nodes);
    frame_cell(c, &columns[4], lease->votes < m->terms.nodes ? TONE_WARN : TONE_PLAIN, text);
    snprintf(text, sizeof(text), "%" PRIu32, lease->pid);
    frame_cell(c, &columns[5], TONE_PLAIN, text);
    frame_cell(c, &columns[6], TONE_PLAIN, lease->user);
    frame_cell(c, &columns[7], TONE_PLAIN, text_span(span, sizeof(span), lease->held_ms));
    frame_cell(c, &columns[8], TONE_PLAIN, *lease->note ? lease->note : "-");
    top_canvas_end_line(c);
}

/* `rows`: lines for leases, the one that counts the rest among them. */
static void frame_draw_leases(struct top_canvas *c, const struct top_model *m, size_t rows)
{
    struct column columns[] = {{"NAME", 4, 0, false, false},
                               {"STATE", 6, 1, false, false},
                               {"LEFT", 6, 2, true, false},
                               {"VALIDITY", frame_bar_width(c->style->width), 3, false, false},
                               {"VOTES", 5, 6, false, false},
                               {"PID", 7, 4, false, false},
                               {"USER", 8, 5, false, false},
                               {"HELD", 6, 7, true, false},
                               {"NOTE", 6, 8, false, true}};
    size_t shown = m->lease_total > rows && rows ? rows - 1 : rows;
    char name[CELL_SIZE];

    shown = shown < m->lease_count ? shown : m->lease_count;
    for (size_t i = 0; i < shown; i++)
        columns[0].width = frame_longer(columns[0].width,
                                        frame_name_of(name, m->lease[i].name, m->lease[i].name_len),
                                        frame_name_most(c));
    frame_fit(columns, HF_LENGTH(columns), c->style->width);
    frame_heading(c, columns, HF_LENGTH(columns));
    for (size_t i = 0; i < shown; i++)
        frame_draw_lease(c, m, columns, &m->lease[i]);
    if (!m->lease_total && rows) {
        top_canvas_put(c, TONE_DIM, m->filtered ? "none with that prefix is held" : "none is held");
        top_canvas_end_line(c);
    }
    if (rows)
        frame_more(c, m->lease_total - shown, ": holdfast list");
}

/* --- who waits, and what was lost ---------------------------------------------------------------- */

static uint64_t frame_waiting_total(const struct top_model *m)
{
    return m->filtered || m->waiting < m->waiter_count ? m->waiter_count : m->waiting;
}

static void frame_draw_waiting(struct top_canvas *c, const struct top_model *m, size_t rows)
{
    struct column columns[] = {{"WAITED FOR", 10, 0, false, false}, {"PLACE", 5, 1, true, false},
                               {"PID", 7, 2, false, false},         {"USER", 8, 4, false, false},
                               {"WAITS", 6, 3, true, false},        {"GIVES UP", 8, 5, true, false},
                               {"COMMAND", 7, 6, false, true}};
    size_t shown = frame_waiting_total(m) > rows && rows ? rows - 1 : rows;
    char name[CELL_SIZE], text[32], span[TEXT_SPAN_SIZE];

    shown = shown < m->waiter_count ? shown : m->waiter_count;
    for (size_t i = 0; i < shown; i++)
        columns[0].width = frame_longer(
            columns[0].width, frame_name_of(name, m->waiter[i].name, m->waiter[i].name_len),
            frame_name_most(c));
    frame_fit(columns, HF_LENGTH(columns), c->style->width);
    frame_heading(c, columns, HF_LENGTH(columns));
    for (size_t i = 0; i < shown; i++) {
        const struct top_waiter *w = &m->waiter[i];

        frame_cell(c, &columns[0], TONE_PLAIN, frame_name_of(name, w->name, w->name_len));
        snprintf(text, sizeof(text), "%" PRIu32, w->place);
        frame_cell(c, &columns[1], TONE_PLAIN, text);
        snprintf(text, sizeof(text), "%" PRIu32, w->pid);
        frame_cell(c, &columns[2], TONE_PLAIN, text);
        frame_cell(c, &columns[3], TONE_PLAIN, w->user);
        frame_cell(c, &columns[4], TONE_PLAIN, text_span(span, sizeof(span), w->waits_ms));
        frame_cell(c, &columns[5], TONE_PLAIN,
                   w->gives_up_ms < 0 ? "never" : text_span(span, sizeof(span), w->gives_up_ms));
        frame_cell(c, &columns[6], TONE_PLAIN, *w->command ? w->command : "-");
        top_canvas_end_line(c);
    }
    frame_more(c, frame_waiting_total(m) - shown, "");
}

static void frame_draw_losses(struct top_canvas *c, const struct top_model *m, size_t rows)
{
    struct column columns[] = {{"LOST", 4, 0, false, false},
                               {"AT", 20, 2, false, false},
                               {"STATE", 8, 3, false, false},
                               {"WHY", 14, 1, false, true}};
    char name[CELL_SIZE], at[TEXT_INSTANT_SIZE];

    rows = rows < m->loss_count ? rows : m->loss_count;
    for (size_t i = 0; i < rows; i++)
        columns[0].width = frame_longer(columns[0].width,
                                        frame_name_of(name, m->loss[i].name, m->loss[i].name_len),
                                        frame_name_most(c));
    frame_fit(columns, HF_LENGTH(columns), c->style->width);
    frame_heading(c, columns, HF_LENGTH(columns));
    for (size_t i = 0; i < rows; i++) {
        const struct top_loss *loss = &m->loss[i];

        frame_cell(c, &columns[0], TONE_PLAIN, frame_name_of(name, loss->name, loss->name_len));
        frame_cell(c, &columns[1], TONE_PLAIN, text_wall(at, sizeof(at), loss->wall_ms));
        frame_cell(c, &columns[2], TONE_BAD, loss->state);
        frame_cell(c, &columns[3], TONE_PLAIN, loss->why);
        top_canvas_end_line(c);
    }
}

/* --- how the lines are shared -------------------------------------------------------------------- */

struct shares {
    bool nodes;
    size_t leases, waiting,
        losses; /* rows below the heading; 0: the section is absent, but for leases */
};

static size_t frame_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Gives `rows` and a heading out of `left`, as long as `reserve` remains. */
static size_t frame_grant(size_t *left, size_t rows, size_t reserve)
{
    if (!rows || *left < reserve + HEADS + 1)
        return 0;
    rows = frame_least(rows, *left - reserve - HEADS);
    *left -= rows + HEADS;
    return rows;
}

/* All that is there where there is any number of lines. Otherwise leases have the most of the room, and others what those leave. */
static struct shares frame_share(const struct top_model *m, size_t lines)
{
    size_t all_leases = m->lease_total ? m->lease_count + (m->lease_total > m->lease_count) : 1;
    size_t all_waiting = m->waiter_count + (frame_waiting_total(m) > m->waiter_count);
    size_t reserve = HEADS + frame_least(all_leases, LEASES_LEAST), spare;
    struct shares s = {.nodes = false};

    s.nodes = lines >= reserve + HEADS + m->node_count;
    if (s.nodes)
        lines -= HEADS + m->node_count;
    s.waiting =
        m->waiter_count ? frame_grant(&lines, frame_least(all_waiting, WAITING_SHOWN), reserve) : 0;
    s.losses = frame_grant(&lines, frame_least(m->loss_count, LOSSES_SHOWN), reserve);
    lines = lines > HEADS ? lines - HEADS : 0;
    s.leases = frame_least(lines, all_leases);
    spare = lines - s.leases;
    if (s.waiting) {
        size_t gets = frame_least(spare, all_waiting - s.waiting);

        s.waiting += gets;
        spare -= gets;
    }
    if (s.losses)
        s.losses += frame_least(spare, m->loss_count - s.losses);
    return s;
}

/* Whole lines that the style has no room for go. */
static void frame_crop(struct top_canvas *c)
{
    size_t length = 0;

    if (!c->style->height || c->lines <= c->style->height)
        return;
    for (int line = 0; line < c->style->height; length++)
        line += c->text[length] == '\n';
    c->length = length;
    c->lines = c->style->height;
}

void top_frame_draw(struct top_canvas *c, const struct top_style *style, const struct top_model *m)
{
    struct shares shares;

    top_canvas_begin(c, style);
    frame_draw_head(c, m);
    shares = frame_share(m, !style->height             ? SIZE_MAX / 2
                            : style->height > c->lines ? (size_t)(style->height - c->lines)
                                                       : 0);
    if (shares.nodes)
        frame_draw_nodes(c, m);
    frame_draw_leases(c, m, shares.leases);
    if (shares.waiting)
        frame_draw_waiting(c, m, shares.waiting);
    if (shares.losses)
        frame_draw_losses(c, m, shares.losses);
    frame_crop(c);
}
