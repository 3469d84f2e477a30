/* holdfast undrain: has this host's agent grant locks again. */
#include <stdio.h>

#include "shm/status.h"
#include "libclient/holdfast_admin.h"
#include "tools/ask/ask.h"
#include "tools/ask/drain.h"
#include "tools/common/args.h"
#include "tools/common/exit_code.h"
#include "tools/common/wall.h"
#include "tools/output/format.h"
#include "tools/reader/reader_args.h"

static void cmd_undrain_print_undrained(const struct hf_drain_info *info)
{
    char by[DRAIN_BY_SIZE];

    if (info->was_drained)
        printf("this host grants locks again; it was drained%s\n",
               drain_by(by, sizeof(by), info->since_wall_ms, info->uid, info->pid, wall_now_ms()));
    else
        printf("this host was not drained\n");
}

int cmd_undrain(int argc, char **argv)
{
    struct hf_drain_info info = HF_DRAIN_INFO_INIT;
    struct reader_args args;
    hf_client *client;
    int status,
        code = reader_args_parse(argc, argv, "", "undrain [options]",
                                 "Ends holdfast drain: this host's agent grants locks again, first "
                                 "to who waits.\n"
                                 "Exit code: 0 it does (also if it was not drained), 69 no agent, "
                                 "77 not allowed.",
                                 &args);

    if (code != READER_ARGS_GO_ON || (code = args_none(argc, argv)) != EXIT_OK)
        return code;
    status = hf_connect(args.agent, &client);
    if (status < 0) {
        fprintf(stderr, "holdfast undrain: %s\n", hf_last_message());
        return exit_code_of(status);
    }
    status = hf_undrain(client, &info);
    if (status == HF_OK)
        cmd_undrain_print_undrained(&info);
    else
        fprintf(stderr, "holdfast undrain: %s\n", hf_last_message());
    hf_disconnect(client);
    return exit_code_of(status);
}
