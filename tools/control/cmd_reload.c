/* holdfast reload: has the agent read its configuration again, and waits for the result. */
#include <stdio.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/common/args.h"
#include "tools/output/words.h"
#include "tools/reader/control_socket.h"
#include "tools/reader/reader_args.h"

#define PATIENCE_S 60 /* a reload takes two seconds at most, and another one may run */

int cmd_reload(int argc, char **argv)
{
    const struct control_request request = {"reload", "reload it", PATIENCE_S};
    char answer[8192], why[512];
    struct reader_args args;
    struct place place;
    int code = reader_args_parse(
        argc, argv, "", "reload [options]",
        "Has the agent read its configuration file again, and waits until that is applied "
        "or refused.\nNothing is half applied: when one thing is wrong, all stays as it is.\n"
        "Exit code: 0 applied, 78 refused, 69 no agent, 77 not allowed.",
        &args);

    if (code != READER_ARGS_GO_ON || (code = args_none(argc, argv)) != EXIT_OK)
        return code;
    code = control_ask(args.agent, &request, &place, answer, sizeof(answer), why, sizeof(why));
    if (code != EXIT_OK) {
        fprintf(stderr, "holdfast reload: %s\n", why);
        return code;
    }
    if (strncmp(answer, CONTROL_REFUSED, sizeof(CONTROL_REFUSED) - 1) == 0) {
        fprintf(stderr, "holdfast reload: refused, and nothing changes: %s",
                answer + sizeof(CONTROL_REFUSED) - 1);
        return EXIT_CONFIG;
    }
    fputs(answer, stdout);
    return EXIT_OK;
}
