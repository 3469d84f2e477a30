/* holdfast nodes: the Redis nodes as the agent sees them. */
#include <stdio.h>

#include "tools/common/args.h"
#include "tools/common/exit_code.h"
#include "tools/output/format.h"
#include "tools/reader/life.h"
#include "tools/reader/reader.h"
#include "tools/reader/reader_args.h"
#include "tools/show/show.h"
#include "tools/show/show_agent.h"
#include "tools/show/show_node.h"
#include "tools/show/show_renewals.h"

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
