/* holdfast once: the last run of a job that runs once in a period; with --forget it counts no more. */
#include <stdio.h>

#include "shm/status.h"
#include "libclient/holdfast_admin.h"
#include "tools/commands.h"
#include "tools/common/args.h"
#include "tools/common/text.h"
#include "tools/reader/reader_args.h"

static int cmd_once_ask(hf_client *client, const struct reader_args *args,
                        const struct reader_name *name, const char *shown)
{
    struct hf_once_info info = HF_ONCE_INFO_INIT;
    char text[ONCE_RUN_SIZE];
    int status = hf_once_last(client, name->bytes, name->len, &info);

    if (status == HF_OK && args->forget)
        status = hf_once_forget(client, name->bytes, name->len);
    if (status == HF_OK)
        printf("%s: %s%s\n", shown, args->forget ? "forgotten, the next start runs: " : "",
               once_run(text, sizeof(text), &info));
    else if (status == HF_ENOTHELD)
        fprintf(stderr, "holdfast once: %s: no run counts; its next start runs\n", shown);
    else
        fprintf(stderr, "holdfast once: %s: %s\n", shown, hf_last_message());
    return status;
}

int cmd_once(int argc, char **argv)
{
    struct reader_args args;
    struct reader_name name;
    hf_client *client;
    char shown[TEXT_NAME_SIZE];
    int status, code = reader_args_parse(
                    argc, argv, "eO", "once [options] NAME",
                    "Shows the last run of NAME by holdfast run --once-per, on any host.\n"
                    "Exit code: 0 done, 3 no run counts, 69 no agent or too few nodes, "
                    "75 a run began\nmeanwhile, 77 not allowed.",
                    &args);

    if (code != READER_ARGS_GO_ON || (code = reader_args_name(argc, argv, &args, &name)) != EXIT_OK)
        return code;
    text_escape(shown, sizeof(shown), name.bytes, name.len);
    status = hf_connect(args.agent, &client);
    if (status < 0) {
        fprintf(stderr, "holdfast once: %s\n", hf_last_message());
        return exit_code_of(status);
    }
    status = cmd_once_ask(client, &args, &name, shown);
    hf_disconnect(client);
    return exit_code_of(status);
}
