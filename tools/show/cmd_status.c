/* holdfast status: the agent, its nodes and the leases of this host. */
#include <inttypes.h>
#include <stdio.h>

#include "shm/table_notes.h"
#include "tools/common/args.h"
#include "tools/common/text.h"
#include "tools/common/since.h"
#include "tools/output/words.h"
#include "tools/reader/life.h"
#include "tools/reader/reader.h"
#include "tools/reader/reader_args.h"
#include "tools/commands.h"
#include "tools/show/show_internal.h"

/* `list` shows more: status must answer at once. */
#define LEASES_SHOWN 1000

static void cmd_status_print_beats(const struct life *life)
{
    char span[TEXT_SPAN_SIZE];

    printf("threads   ");
    for (int i = 0; i < LIFE_THREADS; i++)
        printf("%s%s %s%s", i ? ", " : "", life_thread_name(i),
               life->age_ms[i] < 0 ? "never" : text_span(span, sizeof(span), life->age_ms[i]),
               life->age_ms[i] < 0 ? "" : " ago");
    putchar('\n');
}

static void cmd_status_print_config(const struct hf_table *table)
{
    int64_t loaded_ms = (int64_t)hf_counter_read(table, HF_COUNTER_CONFIG_LOADED_MS),
            refused_ms = (int64_t)hf_counter_read(table, HF_COUNTER_RELOAD_REFUSED_MS);
    char at[TEXT_INSTANT_SIZE];

    printf("config    %s %s",
           hf_counter_read(table, HF_COUNTER_RELOADS) ? "reloaded" : "as at the start,",
           text_wall(at, sizeof(at), loaded_ms));
    if (refused_ms)
        printf("; the last reload was refused, %s: holdfast history",
               text_wall(at, sizeof(at), refused_ms));
    putchar('\n');
}

static void cmd_status_print_drained(const struct reader *reader)
{
    char wall[TEXT_INSTANT_SIZE], span[TEXT_SPAN_SIZE], user[FORMAT_USER_SIZE];
    struct hf_drained drained;

    hf_drained_read(&reader->table, &drained);
    if (!drained.stands)
        return;
    if (drained.since_wall_ms)
        printf("drained   since %s (%s) by user %s (pid %" PRIu32 ")",
               text_wall(wall, sizeof(wall), drained.since_wall_ms),
               text_span(span, sizeof(span), wall_now_ms() - drained.since_wall_ms),
               format_user(user, sizeof(user), drained.uid), drained.pid);
    else
        printf("drained   since when is not known: its record cannot be read");
    printf("; no lock is granted until holdfast undrain\n");
}

static void cmd_status_print_last_words(const struct reader *reader)
{
    struct hf_last_words words;
    char text[LAST_WORDS_SIZE];

    if (hf_last_words_read(reader->table.header, &words))
        printf("failure   %s\n", last_words_sentence(text, sizeof(text), &words, wall_now_ms()));
}

static void cmd_status_print_agent(const struct reader *reader, const struct life *life)
{
    const struct hf_table_header *header = reader->table.header;
    char host[4 * sizeof(reader->host)], version[4 * sizeof(reader->version)];
    char span[TEXT_SPAN_SIZE], dir[TEXT_NAME_SIZE];

    printf("agent     %s on %s: %s, pid %d, version %s", reader->place.agent,
           text_escape_str(host, sizeof(host), reader->host), life_verdict_name(life->verdict),
           (int)life->pid, text_escape_str(version, sizeof(version), reader->version));
    if (life->verdict == LIFE_ALIVE && life->up_ms >= 0)
        printf(", up %s", text_span(span, sizeof(span), life->up_ms));
    printf("%s%s%s%s\n", header->flags & HF_TABLE_F_DEV ? ", --dev" : "",
           header->flags & HF_TABLE_F_ASSUME_FRESH ? ", --assume-fresh" : "",
           header->flags & HF_TABLE_F_ALLOW_EVICTION ? ", allow_eviction" : "",
           header->flags & HF_TABLE_F_ALLOW_REPLICAS ? ", allow_replicas" : "");
    if (*reader->dir)
        printf("directory %s\n", text_escape_str(dir, sizeof(dir), reader->dir));
    cmd_status_print_drained(reader);
    cmd_status_print_last_words(reader);
    cmd_status_print_beats(life);
    cmd_status_print_config(&reader->table);
}

/* Who waits and who is attached is known of a living agent only. */
static void cmd_status_print_clients(const struct hf_table *table, const struct life *life)
{
    if (life_is_present(life))
        printf(", waiters %" PRIu64 ", clients %" PRIu64 "\n",
               hf_counter_read(table, HF_COUNTER_WAITERS),
               hf_counter_read(table, HF_COUNTER_CLIENTS));
    else
        puts(", waiters -, clients -");
}

static void cmd_status_print_voting(const struct life *life, uint32_t voting, uint32_t nodes)
{
    char when[TEXT_SPAN_SIZE + 8];

    if (life_is_present(life))
        printf("nodes     %" PRIu32 " of %" PRIu32 " vote", voting, nodes);
    else
        printf("nodes     unknown, the agent is %s; %" PRIu32 " of %" PRIu32 " voted %s",
               life_verdict_name(life->verdict), voting, nodes,
               life_when(when, sizeof(when), life));
}

static void cmd_status_print_counts(const struct reader *reader, const struct life *life,
                                    const struct reader_counts *leases)
{
    const struct hf_table *table = &reader->table;
    struct hf_node_row rows[HF_NODES_MAX];
    uint32_t count = reader_nodes(reader, rows);
    const struct hf_table_terms terms = hf_table_terms(table);
    char ttl[TEXT_SPAN_SIZE], ttl_max[TEXT_SPAN_SIZE];

    printf("counts    leases %" PRIu32, leases->leases);
    if (leases->late || leases->losing)
        printf(" (%" PRIu32 " late, %" PRIu32 " losing)", leases->late, leases->losing);
    cmd_status_print_clients(table, life);
    cmd_status_print_voting(life, reader_nodes_voting(rows, count), terms.nodes);
    printf(", quorum %" PRIu32 "; ttl %s, ttl_max %s\n", terms.quorum,
           text_span(ttl, sizeof(ttl), terms.ttl_ms),
           text_span(ttl_max, sizeof(ttl_max), terms.ttl_max_ms));
}

static json_t *cmd_status_counters_json(const struct hf_table *table)
{
    json_t *counters = json_object();

    for (int i = 0; i < HF_COUNTERS; i++)
        json_put(counters, hf_counter_name((enum hf_counter)i),
                 json_integer((json_int_t)hf_counter_read(table, (enum hf_counter)i)));
    return counters;
}

static json_t *cmd_status_totals_json(const struct reader *reader)
{
    struct reader_counts leases;
    json_t *totals = json_object();

    reader_count(&reader->table, &leases);
    json_put(totals, "leases", json_integer(leases.leases));
    json_put(totals, "late", json_integer(leases.late));
    json_put(totals, "losing", json_integer(leases.losing));
    return totals;
}

static uint32_t cmd_status_print_all_json(const struct reader *reader, const struct life *life)
{
    const struct reader_filter filter = {.most = LEASES_SHOWN};
    struct json_out out;
    uint32_t unreadable;

    json_begin(&out, stdout);
    show_agent_json(&out, reader, life);
    json_member(&out, "counters", cmd_status_counters_json(&reader->table));
    json_member(&out, "totals", cmd_status_totals_json(reader));
    show_node_list_json(&out, reader, life, 0);
    show_lease_list_json(&out, reader, &filter, &unreadable);
    json_end(&out);
    return unreadable;
}

static uint32_t cmd_status_print_all(const struct reader *reader, const struct life *life)
{
    const struct reader_filter filter = {.most = LEASES_SHOWN};
    struct reader_counts leases;
    uint32_t unreadable, shown;

    reader_count(&reader->table, &leases);
    cmd_status_print_agent(reader, life);
    cmd_status_print_counts(reader, life, &leases);
    putchar('\n');
    show_node_list(reader, life);
    putchar('\n');
    shown = show_lease_list(reader, &filter, &unreadable);
    if (shown == LEASES_SHOWN && leases.leases > shown)
        printf("... and %" PRIu32 " more: holdfast list\n", leases.leases - shown);
    return unreadable;
}

/* Whether programs of this environment reach the agent's socket. */
static bool cmd_status_warn_unreachable(const struct reader *reader)
{
    char text[READER_ELSEWHERE_SIZE];

    if (reader->elsewhere)
        reader_elsewhere(text, sizeof(text), reader);
    else if (!reader_is_shut(reader, text, sizeof(text)))
        return true;
    fflush(stdout);
    fprintf(stderr, "holdfast status: %s%s\n", text,
            reader->elsewhere ? "" : "; " READER_SHUT_REMEDY);
    return false;
}

int cmd_status(int argc, char **argv)
{
    struct reader_args args;
    struct reader reader;
    struct life life;
    uint32_t unreadable;
    bool good;
    int code = reader_args_parse(
        argc, argv, "j", "status [options]",
        "Shows the agent, its nodes and the leases of this host, with or without a living agent.\n"
        "Exit code: 0 it is alive, 3 it hangs, is dead, was stopped or cannot be reached, 69 there "
        "is none.",
        &args);

    if (code != READER_ARGS_GO_ON || (code = args_none(argc, argv)) != EXIT_OK)
        return code;
    code = reader_open_or_say("status", args.agent, &reader);
    if (code != EXIT_OK)
        return code;
    life_judge(&reader.table, &life);
    unreadable = args.json ? cmd_status_print_all_json(&reader, &life)
                           : cmd_status_print_all(&reader, &life);
    show_lease_unreadable("status", unreadable);
    life_warn("status", reader.place.agent, &life);
    good = cmd_status_warn_unreachable(&reader) && life.verdict == LIFE_ALIVE;
    reader_close(&reader);
    return good ? EXIT_OK : EXIT_ATTENTION;
}
