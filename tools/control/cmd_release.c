/* holdfast release: asks the holder of a lock to stop, or ends its hold by force. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "libclient/holdfast_admin.h"
#include "shm/status.h"
#include "tools/common/args.h"
#include "tools/common/since.h"
#include "tools/common/text.h"
#include "tools/commands.h"
#include "tools/control/control_internal.h"
#include "tools/output/words.h"
#include "tools/reader/reader.h"
#include "tools/reader/reader_args.h"

/* --- to force out a hold ------------------------------------------------------------------------ */

/* Quotes a word for a shell; `word` is printable. */
static void force_print_word(const char *word)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+=,-";

    if (*word && !word[strspn(word, plain)]) {
        fputs(word, stdout);
        return;
    }
    putchar('\'');
    for (; *word; word++) {
        if (*word == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*word);
    }
    putchar('\'');
}

/* Prints the command for the second step on stdout. */
static void force_say_how(const struct reader_args *args, const char *shown,
                          const struct hf_holder *holder, const char *id)
{
    fputs("to end its hold whatever it does: holdfast release --force ", stdout);
    if (holder->fence)
        printf("--fence %" PRIu64, holder->fence);
    else
        printf("--id %s", id);
    if (args->agent) {
        fputs(" --agent ", stdout);
        force_print_word(args->agent);
    }
    fputs(strchr(shown, '\\') ? " -e -- " : " -- ", stdout); /* escaped as shown */
    force_print_word(shown);
    putchar('\n');
}

static int force_not_held(const char *shown)
{
    fprintf(stderr, "holdfast release: nobody on any host holds %s\n", shown);
    return EXIT_NOT_HELD;
}

static int force_failed(const char *shown, int status)
{
    fprintf(stderr, "holdfast release: %s: %s\n", shown, hf_last_message());
    return exit_code_of(status);
}

/* EXIT_OK: it is held. */
static int force_query(hf_client *client, const struct reader_name *name, const char *shown,
                       struct hf_who_info *ret_who)
{
    char line[CONFLICT_SIZE];
    int status = hf_who(client, name->bytes, name->len, ret_who);

    if (status < 0)
        return force_failed(shown, status);
    if (ret_who->holding == 0)
        return force_not_held(shown);
    printf("%s\n", conflict_line(line, sizeof(line), shown, &ret_who->holder, wall_now_ms()));
    if (!*ret_who->id) {
        fprintf(stderr,
                "holdfast release: %s: its key is of another type than a lock's; delete it on the "
                "nodes\n",
                shown);
        return EXIT_DENIED;
    }
    return EXIT_OK;
}

/* The first step, when the holder cannot be asked: shows the holder, and the command that ends its
 * hold. An exit code. */
static int force_offer(hf_client *client, const struct reader_args *args,
                       const struct reader_name *name)
{
    struct hf_who_info who = {.size = sizeof(who)};
    char shown[TEXT_NAME_SIZE];
    int code;

    text_escape(shown, sizeof(shown), name->bytes, name->len);
    code = force_query(client, name, shown, &who);
    if (code != EXIT_OK)
        return code;
    puts("nobody on this host holds it, so its holder cannot be asked from here");
    force_say_how(args, shown, &who.holder, who.id);
    return EXIT_BUSY;
}

static void force_print_forced(const char *shown, const struct hf_who_info *now, uint64_t fence)
{
    char span[TEXT_SPAN_SIZE];

    printf("%s: forced out on %" PRIu32 " of %" PRIu32 " nodes", shown, now->forced, now->nodes);
    if (fence == 0)
        printf("; nobody else gets it for %s. If another program than an agent had locked it, that "
               "program does not know, and may go on as if it held the lock\n",
               text_span(span, sizeof(span), now->holder.pttl_ms));
    else
        printf("; its holder may go on until its agent notices, for %s at most, and nobody else "
               "gets it before\n",
               text_span(span, sizeof(span), now->holder.pttl_ms));
}

/* The second step: ends the hold that --fence or --id names, or with --yes the present hold. An exit
 * code. */
static int force_do(hf_client *client, const struct reader_args *args,
                    const struct reader_name *name)
{
    struct hf_who_info seen = {.size = sizeof(seen)}, now = {.size = sizeof(now)};
    char shown[TEXT_NAME_SIZE], line[CONFLICT_SIZE];
    int status, code;

    text_escape(shown, sizeof(shown), name->bytes, name->len);
    if (args->fence)
        seen.holder.fence = args->fence;
    else if (args->id)
        snprintf(seen.id, sizeof(seen.id), "%s", args->id);
    else if ((code = force_query(client, name, shown, &seen)) != EXIT_OK)
        return code;
    status = hf_force(client, name->bytes, name->len, &seen, &now);
    if (status == HF_OK) {
        force_print_forced(shown, &now, now.holder.fence);
        return EXIT_OK;
    }
    if (status == HF_ENOTHELD)
        return force_not_held(shown);
    if (status == HF_EBUSY && now.holding)
        printf("%s\n", conflict_line(line, sizeof(line), shown, &now.holder, wall_now_ms()));
    return force_failed(shown, status);
}

/* --- releasing -------------------------------------------------------------------------------- */

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
