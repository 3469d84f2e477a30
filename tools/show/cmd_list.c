/* holdfast list: the leases of this host. */
#include <getopt.h>
#include <stdio.h>

#include "tools/common/args.h"
#include "tools/common/exit_code.h"
#include "tools/output/format.h"
#include "tools/reader/life.h"
#include "tools/reader/reader.h"
#include "tools/reader/reader_args.h"
#include "tools/show/list_all.h"
#include "tools/show/show.h"
#include "tools/show/show_agent.h"
#include "tools/show/show_lease.h"
#include "tools/show/show_waiter.h"

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
