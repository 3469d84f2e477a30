/* holdfast history: what happened to leases and nodes. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "shm/index.h"
#include "shm/status.h"
#include "tools/common/args.h"
#include "tools/common/text.h"
#include "tools/output/words.h"
#include "tools/reader/events.h"
#include "tools/reader/life.h"
#include "tools/reader/reader.h"
#include "tools/reader/reader_args.h"
#include "tools/show/show_internal.h"
#include "tools/commands.h"

/* Without NAME: everything. */
static int cmd_history_parse_name(int argc, char **argv, const struct reader_args *args,
                                  struct reader_name *ret_name)
{
    ret_name->len = 0;
    return optind == argc ? EXIT_OK : reader_args_name(argc, argv, args, ret_name);
}

/* Now, or before the fleet changed. */
static bool cmd_history_is_known(const struct hf_table *table, const char *id)
{
    for (uint32_t i = 0; i < hf_table_nodes(table); i++) {
        struct hf_node_row row;

        if (hf_node_read(table, i, &row) == HF_OK && strcmp(row.id, id) == 0)
            return true;
    }
    return event_places_has(id);
}

static void cmd_history_print(const struct reader *reader, const struct reader_args *args,
                              const struct events_filter *filter)
{
    struct events_cursor cursor = events_from_since(&reader->table, args->since_wall_ms);
    struct events events = {0};

    events_read(&reader->table, &cursor, &events);
    show_event_overwritten("history", cursor.overwritten, args->json);
    if (past_events_print(reader, args, filter, &events) == 0 && !args->json)
        fprintf(stderr,
                "holdfast: history: the agent has no such event; it keeps the newest ones\n");
    events_free(&events);
}

/* Which start of --once-per counts, whatever host it was on. */
static void cmd_history_print_last_run(const struct reader *reader, const struct reader_args *args,
                                       const struct reader_name *name)
{
    char shown[TEXT_NAME_SIZE], text[ONCE_RUN_SIZE];
    struct hf_once_info run;
    struct life life;

    life_judge(&reader->table, &life);
    if (life.verdict != LIFE_ALIVE || !last_run_ask(args->agent, name->bytes, name->len, &run))
        return;
    if (args->json) {
        json_t *line = json_object();

        json_put(line, "event", json_string("last_run"));
        json_put_name(line, name->bytes, name->len);
        last_run_put(line, &run);
        json_line(line);
    } else {
        printf("last run of %s: %s\n", text_escape(shown, sizeof(shown), name->bytes, name->len),
               once_run(text, sizeof(text), &run));
    }
}

int cmd_history(int argc, char **argv)
{
    struct reader_args args;
    struct events_filter filter = {0};
    struct reader_name name;
    struct reader reader;
    int code = reader_args_parse(
        argc, argv, "jenBN", "history [options] [NAME]",
        "Shows what happened to the leases of this host and to the nodes, the oldest first;\n"
        "with NAME, to that lease. The agent keeps the newest events and overwrites the oldest.",
        &args);

    if (code != READER_ARGS_GO_ON ||
        (code = cmd_history_parse_name(argc, argv, &args, &name)) != EXIT_OK)
        return code;
    code = reader_open_or_say("history", args.agent, &reader);
    if (code != EXIT_OK)
        return code;
    show_event_learn(&reader);
    if (args.node && !cmd_history_is_known(&reader.table, args.node)) {
        reader_close(&reader);
        return args_usage("history", "there is no node '%s'; holdfast nodes lists them", args.node);
    }
    filter.since_wall_ms = args.since_wall_ms;
    if (name.len) {
        filter.name = name.bytes;
        filter.name_len = name.len;
        filter.name_hash = hf_name_hash(reader.table.header->index_key, name.bytes, name.len);
    }
    cmd_history_print(&reader, &args, &filter);
    if (name.len)
        cmd_history_print_last_run(&reader, &args, &name);
    reader_close(&reader);
    return EXIT_OK;
}

/* --- the events that an agent still has ------------------------------------------------------- */

size_t past_events_print(const struct reader *reader, const struct reader_args *args,
                         const struct events_filter *filter, struct events *events)
{
    size_t matches = 0, first;

    for (size_t i = 0; i < events->count; i++)
        if (events_match(filter, &events->items[i]) &&
            (!args->node || show_event_is_of(reader, &events->items[i], args->node)))
            events->items[matches++] = events->items[i];
    first = args->count && matches > args->count ? matches - args->count : 0;
    for (size_t i = first; i < matches; i++)
        (args->json ? show_event_json : show_event)(reader, &events->items[i]);
    return matches;
}
