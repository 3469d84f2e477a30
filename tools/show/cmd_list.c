/* holdfast list: the leases of this host. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>

#include "libclient/holdfast_admin.h"
#include "shm/status.h"
#include "tools/common/args.h"
#include "tools/common/since.h"
#include "tools/common/text.h"
#include "tools/output/json.h"
#include "tools/output/words.h"
#include "tools/reader/life.h"
#include "tools/reader/reader.h"
#include "tools/reader/reader_args.h"
#include "tools/commands.h"
#include "tools/show/show_internal.h"

static uint32_t cmd_list_print_json(const struct reader *reader, const struct life *life,
                                    const struct reader_filter *filter,
                                    const struct waiting *waiting)
{
    struct json_out out;
    uint32_t unreadable;

    json_begin(&out, stdout);
    show_agent_json(&out, reader, life);
    show_lease_list_json(&out, reader, filter, &unreadable);
    show_waiter_json(&out, waiting);
    json_end(&out);
    return unreadable;
}

int cmd_list(int argc, char **argv)
{
    struct reader_args args;
    struct reader_filter filter;
    struct reader_name prefix;
    struct reader reader;
    struct life life;
    struct waiting waiting;
    uint32_t unreadable;
    int code = reader_args_parse(
        argc, argv, "jaeA", "list [options] [PREFIX]",
        "Lists the leases held on this host, those whose names begin with PREFIX, and who waits.\n"
        "VOTES: nodes known to have the key. LEFT: the validity that is left; renewals extend it.\n"
        "With --all-hosts: the leases of all hosts' agents, as a majority of the nodes has them.",
        &args);

    if (code != READER_ARGS_GO_ON ||
        (code = reader_args_prefix(argc, argv, &args, &prefix)) != EXIT_OK)
        return code;
    if (args.all_hosts && args.all)
        return args_usage("list",
                          "leave out --all with --all-hosts: it is about this host's leases");
    if (args.all_hosts)
        return list_all(&args, &prefix);
    code = reader_open_or_say("list", args.agent, &reader);
    if (code != EXIT_OK)
        return code;
    filter =
        (struct reader_filter){.prefix = prefix.bytes, .prefix_len = prefix.len, .all = args.all};
    life_judge(&reader.table, &life);
    waiting_read(&reader.table, &life, prefix.bytes, prefix.len, false, &waiting);
    if (args.json) {
        unreadable = cmd_list_print_json(&reader, &life, &filter, &waiting);
    } else {
        show_lease_list(&reader, &filter, &unreadable);
        show_waiter_list(&waiting, prefix.len == 0);
    }
    waiting_free(&waiting);
    show_lease_unreadable("list", unreadable);
    life_warn("list", reader.place.agent, &life);
    reader_close(&reader);
    return EXIT_OK;
}

/* --- nodes ------------------------------------------------------------------------------------ */

/* holdfast nodes: the Redis nodes as the agent sees them. */

#define RENEWALS_SHOWN 20 /* of each node, without --count */

static void cmd_nodes_print_json(const struct reader *reader, const struct life *life,
                                 uint32_t renewals)
{
    struct json_out out;

    json_begin(&out, stdout);
    show_agent_json(&out, reader, life);
    show_node_list_json(&out, reader, life, renewals);
    json_end(&out);
}

int cmd_nodes(int argc, char **argv)
{
    struct reader_args args;
    struct reader reader;
    struct life life;
    uint32_t renewals;
    int code =
        reader_args_parse(argc, argv, "jHn", "nodes [options]",
                          "Shows the Redis nodes as the agent sees them; with --history how\n"
                          "they answered the recent renewals, the newest first.",
                          &args);

    if (code != READER_ARGS_GO_ON || (code = args_none(argc, argv)) != EXIT_OK)
        return code;
    code = reader_open_or_say("nodes", args.agent, &reader);
    if (code != EXIT_OK)
        return code;
    life_judge(&reader.table, &life);
    renewals = args.history ? args.count ? args.count : RENEWALS_SHOWN : 0;
    if (args.json)
        cmd_nodes_print_json(&reader, &life, renewals);
    else if (renewals)
        show_renewals(&reader, renewals);
    else
        show_node_list_long(&reader, &life);
    life_warn("nodes", reader.place.agent, &life);
    reader_close(&reader);
    return EXIT_OK;
}

/* --- names on any host ------------------------------------------------------------------------ */

#define NAME_WIDTH 24

struct list {
    struct json_out *out; /* NULL: for people */
    uint32_t nodes, quorum;
    int64_t now_ms;
};

/* A name held on fewer nodes than a quorum is being acquired or released, or is left over: people
 * do not see it. */
static int list_all_print_line(const struct hf_listed *listed, void *arg)
{
    const struct list *list = arg;
    const struct hf_holder *holder = &listed->holder;
    char name[TEXT_NAME_SIZE], host[4 * sizeof(holder->host) + 1], span[TEXT_SPAN_SIZE] = "-";
    char user[FORMAT_USER_SIZE], command[4 * sizeof(holder->command) + 1], votes[32];

    if (listed->holding < list->quorum)
        return 0;
    if (conflict_is_here(holder))
        format_user(user, sizeof(user), holder->uid);
    else
        snprintf(user, sizeof(user), "%" PRIu32, holder->uid);
    if (holder->since_wall_ms > 0 && holder->since_wall_ms <= list->now_ms)
        text_span(span, sizeof(span), list->now_ms - holder->since_wall_ms);
    text_escape(name, sizeof(name), listed->name, listed->name_len);
    snprintf(votes, sizeof(votes), "%" PRIu32 "/%" PRIu32, listed->holding, list->nodes);
    printf("%-*s  %-16s  %-7" PRIu32 "  %-8s  %-6s  %-5s  %-19" PRIu64 "  %s\n",
           text_width(name, NAME_WIDTH), name,
           *holder->host ? text_escape_str(host, sizeof(host), holder->host) : "-", holder->pid,
           user, span, votes, holder->fence,
           *holder->command ? text_escape_str(command, sizeof(command), holder->command) : "-");
    return 0;
}

static int list_all_print_json(const struct hf_listed *listed, void *arg)
{
    const struct list *list = arg;
    json_t *lease = json_object();

    json_put_name(lease, listed->name, listed->name_len);
    json_put(lease, "held", json_boolean(listed->holding >= list->quorum));
    who_put_holder(lease, &listed->holder);
    json_put(lease, "id", json_word(listed->id));
    json_put(lease, "holding", json_integer(listed->holding));
    json_element(list->out, lease);
    return 0;
}

static int list_all_print_all(hf_client *client, const struct reader_args *args,
                              const struct reader_name *prefix)
{
    struct hf_agent_info info = {.size = sizeof(info)};
    struct json_out out;
    struct list list = {.now_ms = wall_now_ms()};
    uint32_t listed = 0;
    int status = hf_agent_info(client, &info);

    if (status < 0)
        return status;
    list.nodes = info.nodes;
    list.quorum = info.quorum;
    if (args->json) {
        list.out = &out;
        json_begin(&out, stdout);
        json_array_begin(&out, "leases");
    } else {
        printf("%-*s  %-16s  %-7s  %-8s  %-6s  %-5s  %-19s  %s\n", NAME_WIDTH, "NAME", "HOST",
               "PID", "USER", "HELD", "NODES", "FENCE", "COMMAND");
    }
    status = hf_list(client, prefix->bytes, prefix->len,
                     args->json ? list_all_print_json : list_all_print_line, &list, &listed);
    if (args->json) {
        json_array_end(&out);
        json_member(&out, "nodes", json_integer(info.nodes));
        json_member(&out, "quorum", json_integer(info.quorum));
        json_member(&out, "listed", json_integer(listed));
        json_end(&out);
    } else if (status == HF_OK && listed < info.nodes) {
        fflush(stdout);
        fprintf(stderr,
                "holdfast list: only %" PRIu32 " of %" PRIu32 " nodes could be listed: %s\n",
                listed, info.nodes, hf_last_message());
    }
    return status;
}

int list_all(const struct reader_args *args, const struct reader_name *prefix)
{
    hf_client *client;
    int status = hf_connect(args->agent, &client);

    if (status == HF_OK) {
        status = list_all_print_all(client, args, prefix);
        hf_disconnect(client);
    }
    if (status < 0) {
        fflush(stdout);
        fprintf(stderr, "holdfast list: %s\n", hf_last_message());
    }
    return exit_code_of(status);
}
