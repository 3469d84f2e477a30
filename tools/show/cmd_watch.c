/* holdfast watch: events as they happen, through restarts of the agent, until it is interrupted. */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "shm/status.h"
#include "tools/common/args.h"
#include "tools/output/words.h"
#include "tools/reader/events.h"
#include "tools/reader/reader.h"
#include "tools/reader/reader_args.h"
#include "tools/show/show_internal.h"
#include "tools/commands.h"

#define LOOK_MS 50 /* between two checks, of four loads each */

struct watch {
    const struct reader_args *args;
    struct events_filter filter;
    struct reader reader;
    bool open;
    struct events_cursor cursor;
    struct events events;
    struct hf_event last; /* the last of all; number 0: none yet */
};

static volatile sig_atomic_t interrupted;

static void cmd_watch_on_signal(int signal)
{
    (void)signal;
    interrupted = 1;
}

static void cmd_watch_catch_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    const struct sigaction action = {.sa_handler = cmd_watch_on_signal, .sa_flags = SA_RESTART};

    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        sigaction(signals[i], &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* Whether to go on: no signal came, and stdout still has a reader. */
static bool cmd_watch_pause_a_little(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = 0};

    if (poll(&out, 1, LOOK_MS) > 0 && out.revents & (POLLERR | POLLHUP | POLLNVAL))
        return false;
    return !interrupted;
}

static uint32_t cmd_watch_state_of(const struct watch *w)
{
    return atomic_load_explicit(&w->reader.table.header->state, memory_order_acquire);
}

/* Tells a program that it misses nothing from here on. */
static void cmd_watch_say_watching(const struct watch *w)
{
    json_t *line;

    if (!w->args->json)
        return;
    line = json_object();
    json_put(line, "event", json_string("watching"));
    json_put(line, "agent", json_text_str(w->reader.place.agent));
    json_line(line);
}

/* The list of nodes has changed in this table. */
static bool cmd_watch_tells_places(const struct events *events)
{
    for (size_t i = 0; i < events->count; i++)
        if (events->items[i].kind == HF_EVENT_NODE_PLACE)
            return true;
    return false;
}

static void cmd_watch_look(struct watch *w)
{
    uint64_t before = w->cursor.overwritten;

    events_read(&w->reader.table, &w->cursor, &w->events);
    show_event_overwritten("watch", w->cursor.overwritten - before, w->args->json);
    if (w->events.count)
        w->last = w->events.items[w->events.count - 1];
    if (cmd_watch_tells_places(&w->events))
        show_event_learn(&w->reader);
    for (size_t i = 0; i < w->events.count; i++)
        if (events_match(&w->filter, &w->events.items[i]))
            (w->args->json ? show_event_json : show_event)(&w->reader, &w->events.items[i]);
}

/* The events that the next agent kept were already printed. */
static void cmd_watch_skip_what_was_told(struct watch *w)
{
    struct events_cursor from = events_from_oldest(&w->reader.table);
    struct events events = {0};
    bool kept = false;

    w->cursor = (struct events_cursor){0};
    events_read(&w->reader.table, &from, &events);
    for (size_t i = 0; i < events.count; i++)
        kept |= w->last.number && events.items[i].number == w->last.number &&
                events.items[i].at_ns == w->last.at_ns;
    if (kept)
        w->cursor = events_after(&w->reader.table, w->last.number);
    events_free(&events);
}

/* Its name is gone, and leads to a table of another agent. Without such a one a living agent may still write to it. */
static bool cmd_watch_is_another_there(const struct watch *w)
{
    char why[READER_WHY_SIZE] = "";
    struct reader other;

    if (hf_table_is_linked(&w->reader.table, w->reader.place.shm_name) ||
        reader_open(w->args->agent, &other, why, sizeof(why)) < 0)
        return false;
    reader_close(&other);
    return true;
}

/* A replaced table gets no more events. */
static void cmd_watch_follow(struct watch *w)
{
    char why[READER_WHY_SIZE] = "";

    if (w->open && (cmd_watch_state_of(w) == HF_TABLE_RETIRED || cmd_watch_is_another_there(w))) {
        cmd_watch_look(w);
        reader_close(&w->reader);
        w->open = false;
    }
    if (!w->open && reader_open(w->args->agent, &w->reader, why, sizeof(why)) == HF_OK) {
        w->open = true;
        cmd_watch_skip_what_was_told(w);
        show_event_learn(&w->reader);
        cmd_watch_say_watching(w);
    }
    if (w->open)
        cmd_watch_look(w);
}

/* What was before is told only if it is asked for. */
static void cmd_watch_begin(struct watch *w)
{
    struct events_filter filter = w->filter;

    filter.since_wall_ms = w->args->since_wall_ms;
    w->cursor = events_from_since(&w->reader.table, filter.since_wall_ms);
    events_read(&w->reader.table, &w->cursor, &w->events);
    if (w->events.count)
        w->last = w->events.items[w->events.count - 1];
    if (filter.since_wall_ms)
        show_event_overwritten("watch", w->cursor.overwritten, w->args->json);
    if (filter.since_wall_ms || w->args->count)
        past_events_print(&w->reader, w->args, &filter, &w->events);
}

int cmd_watch(int argc, char **argv)
{
    struct reader_args args;
    struct reader_name prefix;
    struct watch w = {.args = &args};
    int code = reader_args_parse(
        argc, argv, "jepB", "watch [options] [PREFIX]",
        "Shows what happens to the leases of this host and to the nodes, as it happens; with\n"
        "PREFIX, to leases whose names begin with it. Ends when interrupted, or unread. With -n\n"
        "or --since it begins with what has happened before.",
        &args);

    if (code != READER_ARGS_GO_ON ||
        (code = reader_args_prefix(argc, argv, &args, &prefix)) != EXIT_OK)
        return code;
    code = reader_open_or_say("watch", args.agent, &w.reader);
    if (code != EXIT_OK)
        return code;
    w.open = true;
    show_event_learn(&w.reader);
    if (prefix.len)
        w.filter =
            (struct events_filter){.name = prefix.bytes, .name_len = prefix.len, .prefix = true};
    cmd_watch_catch_signals();
    cmd_watch_begin(&w);
    cmd_watch_say_watching(&w);
    while (fflush(stdout) == 0 && cmd_watch_pause_a_little())
        cmd_watch_follow(&w);
    events_free(&w.events);
    if (w.open)
        reader_close(&w.reader);
    if (ferror(stdout) && errno == EPIPE)
        format_forget();
    return EXIT_OK;
}
