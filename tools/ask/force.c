#include "shm/status.h"
#include "tools/ask/force.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/common/conflict.h"
#include "tools/common/exit_code.h"
#include "tools/common/text.h"
#include "tools/common/wall.h"
#include "tools/output/format.h"

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

void force_say_how(const struct reader_args *args, const char *shown,
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
static int force_look(hf_client *client, const struct reader_name *name, const char *shown,
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

int force_offer(hf_client *client, const struct reader_args *args, const struct reader_name *name)
{
    struct hf_who_info who = {.size = sizeof(who)};
    char shown[TEXT_NAME_SIZE];
    int code;

    text_escape(shown, sizeof(shown), name->bytes, name->len);
    code = force_look(client, name, shown, &who);
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

int force_do(hf_client *client, const struct reader_args *args, const struct reader_name *name)
{
    struct hf_who_info seen = {.size = sizeof(seen)}, now = {.size = sizeof(now)};
    char shown[TEXT_NAME_SIZE], line[CONFLICT_SIZE];
    int status, code;

    text_escape(shown, sizeof(shown), name->bytes, name->len);
    if (args->fence)
        seen.holder.fence = args->fence;
    else if (args->id)
        snprintf(seen.id, sizeof(seen.id), "%s", args->id);
    else if ((code = force_look(client, name, shown, &seen)) != EXIT_OK)
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
