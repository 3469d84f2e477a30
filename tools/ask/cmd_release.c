/* holdfast release: asks the holder of a lock to stop, or ends its hold by force. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shm/status.h"
#include "libclient/holdfast_admin.h"
#include "tools/ask/ask.h"
#include "tools/ask/force.h"
#include "tools/common/args.h"
#include "tools/common/exit_code.h"
#include "tools/common/text.h"
#include "tools/output/format.h"
#include "tools/reader/reader.h"
#include "tools/reader/reader_args.h"

/* The lease in the table, now that its validity is frozen. */
static void cmd_release_print_asked(const struct reader_args *args, const struct reader_name *name,
                                    const char *shown)
{
    char why[READER_WHY_SIZE], user[FORMAT_USER_SIZE], wall[TEXT_SPAN_SIZE], span[TEXT_SPAN_SIZE];
    struct hf_slot_view view;
    struct reader reader;
    int status = reader_open(args->agent, &reader, why, sizeof(why));
    bool in_force;

    if (status == HF_OK) {
        status = reader_find(&reader.table, name->bytes, name->len, &view);
        in_force = status == HF_OK && reader_in_force(&reader.table, &view);
        reader_close(&reader);
        if (in_force) {
            printf("%s: asked pid %" PRIu32 " (user %s) to stop; it has until %s (%s)\n", shown,
                   view.pid, format_user(user, sizeof(user), view.uid),
                   text_wall(wall, sizeof(wall), reader_wall_of(view.deadline)),
                   text_span(span, sizeof(span),
                             hf_dur_ms(hf_time_since(view.deadline, reader_now()))));
            if (args->force)
                force_say_how(args, shown, &(struct hf_holder){.fence = view.fence}, "");
            return;
        }
    }
    printf("%s: asked the holder to stop%s\n", shown,
           status == HF_OK || status == HF_ENOTHELD ? "; it has done so" : "");
}

/* Asks the holder on this host. */
static int cmd_release_ask(hf_client *client, const struct reader_args *args,
                           const struct reader_name *name)
{
    char shown[TEXT_NAME_SIZE];
    int status = hf_ask(client, name->bytes, name->len);

    text_escape(shown, sizeof(shown), name->bytes, name->len);
    if (status == HF_ENOTHELD && args->force)
        return force_offer(client, args, name);
    if (status == HF_OK)
        cmd_release_print_asked(args, name, shown);
    else if (status == HF_ENOTHELD)
        fprintf(stderr,
                "holdfast release: nobody on this host holds %s; --force looks at the others\n",
                shown);
    else
        fprintf(stderr, "holdfast release: %s: %s\n", shown, hf_last_message());
    return exit_code_of(status);
}

static int cmd_release_release(const struct reader_args *args, const struct reader_name *name)
{
    hf_client *client;
    int code, status = hf_connect(args->agent, &client);

    if (status < 0) {
        fprintf(stderr, "holdfast release: %s\n", hf_last_message());
        return exit_code_of(status);
    }
    if (args->force && (args->fence || args->id || args->yes))
        code = force_do(client, args, name);
    else
        code = cmd_release_ask(client, args, name);
    hf_disconnect(client);
    return code;
}

int cmd_release(int argc, char **argv)
{
    struct reader_args args;
    struct reader_name name;
    int code = reader_args_parse(
        argc, argv, "efFIy", "release [options] NAME",
        "Asks the holder of NAME on this host to stop: its lease is no longer renewed, and a job "
        "of\n`holdfast run` gets its stop signal. For the holder's user, the agent's, and root.\n"
        "--force alone asks, too, or says who holds NAME on another host. With the fence or id\n"
        "that it printed, or with --yes, it ends that hold, on whatever host.\n"
        "Exit code: 0 asked or ended, 3 not held, 75 another holds it, 69 no agent or too few "
        "nodes,\n77 not allowed.",
        &args);

    if (code != READER_ARGS_GO_ON || (code = reader_args_name(argc, argv, &args, &name)) != EXIT_OK)
        return code;
    if (!args.force && (args.fence || args.id || args.yes))
        return args_usage("release",
                          "give --force, too: --fence, --id and --yes say which hold it ends");
    if (!!args.fence + !!args.id + args.yes > 1)
        return args_usage("release", "give only one of --fence, --id and --yes");
    return cmd_release_release(&args, &name);
}
