/* holdfast fleet: the fleet's record, and what each node and this host say of it. */
#include <stdio.h>

#include "tools/common/args.h"
#include "tools/common/exit_code.h"
#include "tools/output/format.h"
#include "tools/reader/fleet_told.h"
#include "tools/reader/reader_args.h"
#include "tools/show/show.h"
#include "tools/show/show_fleet.h"

static void cmd_fleet_print_json(const struct place *place, const struct fleet_told *told)
{
    struct json_out out;

    json_begin(&out, stdout);
    json_member(&out, "agent_name", json_string(place->agent));
    show_fleet_json(&out, told);
    json_end(&out);
}

int cmd_fleet(int argc, char **argv)
{
    struct reader_args args;
    struct fleet_told told;
    struct place place;
    char why[512];
    int code = reader_args_parse(
        argc, argv, "j",
        "fleet [options]\n       holdfast fleet move|add|remove|ttl-max|resume ... (see holdfast "
        "fleet "
        "move --help)",
        "Shows the fleet's record, which names the nodes and their addresses for all hosts, and\n"
        "what each node and this host say of it.\n"
        "Exit code: 0 this agent goes by a complete record, 3 it does not, or its configuration\n"
        "has addresses of nodes mixed up, 69 no agent, 77 not allowed.",
        &args);

    if (code != READER_ARGS_GO_ON || (code = args_none(argc, argv)) != EXIT_OK)
        return code;
    code = fleet_told_ask(args.agent, &place, &told, why, sizeof(why));
    if (code != EXIT_OK) {
        fprintf(stderr, "holdfast fleet: %s\n", why);
        return code;
    }
    if (args.json)
        cmd_fleet_print_json(&place, &told);
    else
        show_fleet(&told);
    return fleet_told_well(&told) ? EXIT_OK : EXIT_ATTENTION;
}
