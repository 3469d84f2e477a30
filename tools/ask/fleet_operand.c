#include "tools/ask/fleet_operand.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "shm/status.h"
#include "tools/common/args.h"
#include "tools/common/exit_code.h"
#include "tools/common/text.h"

#define ID_BYTES                                                                                   \
    "abcdefghijklmnopqrstuvwxyz"                                                                   \
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
#define PROGRAM_SIZE 32

/* What messages name. */
struct operand {
    char program[PROGRAM_SIZE]; /* "fleet move" */
    const char *text;
    char shown[TEXT_NAME_SIZE];
};

/* `bytes` of them; nothing in a text of the table, the record or the control socket is longer. */
static int operand_too_long(const struct operand *o, const char *what, size_t bytes)
{
    return args_usage(o->program, "give a shorter %s: it has %zu bytes, and %d are the most", what,
                      bytes, HF_NODE_TEXT_MAX);
}

static int operand_take_text(const struct operand *o, const char *what, const char *text,
                             size_t length, char ret_text[HF_NODE_TEXT_MAX + 1])
{
    if (length > HF_NODE_TEXT_MAX)
        return operand_too_long(o, what, length);
    memcpy(ret_text, text, length);
    ret_text[length] = '\0';
    return EXIT_OK;
}

/* That of a node without one in the configuration is its address, so any byte of an address may be in it; one that joins
 * is as in a configuration. */
static int operand_judge_id(const struct operand *o, const struct fleet_follow *f)
{
    char shown[TEXT_NAME_SIZE];

    text_escape_str(shown, sizeof(shown), f->id);
    if (f->verb == FLEET_ADD && strspn(f->id, ID_BYTES) != strlen(f->id))
        return args_usage(o->program,
                          "give an id of letters, digits, '.', '-' and '_': '%s' has other bytes",
                          shown);
    for (const char *c = f->id; *c; c++)
        if (iscntrl((unsigned char)*c))
            return args_usage(
                o->program, "give the id as holdfast fleet shows it: '%s' has bytes that no id has",
                shown);
    return EXIT_OK;
}

static int operand_take_member(const struct operand *o, struct fleet_follow *f)
{
    const char *equals = strchr(o->text, '=');
    int code;

    if (!equals)
        return args_usage(o->program, "give ID=ADDRESS: '%s' has no '='", o->shown);
    if (equals == o->text)
        return args_usage(o->program, "give ID=ADDRESS: '%s' has no id", o->shown);
    if (!equals[1])
        return args_usage(o->program, "give ID=ADDRESS: '%s' has no address", o->shown);
    code = operand_take_text(o, "id", o->text, (size_t)(equals - o->text), f->id);
    if (code == EXIT_OK)
        code = operand_judge_id(o, f);
    return code == EXIT_OK
               ? operand_take_text(o, "address", equals + 1, strlen(equals + 1), f->seat)
               : code;
}

static int operand_take_id(const struct operand *o, struct fleet_follow *f)
{
    int code;

    if (!*o->text)
        return args_usage(o->program, "give the id of a node of the fleet: '' is none");
    code = operand_take_text(o, "id", o->text, strlen(o->text), f->id);
    return code == EXIT_OK ? operand_judge_id(o, f) : code;
}

static int operand_take_ttl_max(const struct operand *o, struct fleet_follow *f)
{
    int64_t ms;

    if (args_duration_ms(o->text, &ms) != HF_OK)
        return args_usage(o->program,
                          "give a time such as 90s, 2m or 1.5h, from %d ms to 24 h: '%s' is none",
                          FLEET_TTL_LEAST_MS, o->shown);
    if (ms < FLEET_TTL_LEAST_MS || ms > FLEET_TTL_MOST_MS)
        return args_usage(o->program, "give a time from %d ms to 24 h: '%s' is %s",
                          FLEET_TTL_LEAST_MS, o->shown,
                          ms < FLEET_TTL_LEAST_MS ? "shorter" : "longer");
    f->ttl_max_ms = (uint64_t)ms;
    return EXIT_OK;
}

int fleet_operand_take(const char *word, const char *operand, struct fleet_follow *f)
{
    struct operand o = {.text = operand};

    snprintf(o.program, sizeof(o.program), "fleet %s", word);
    text_escape_str(o.shown, sizeof(o.shown), operand);
    switch (f->verb) {
    case FLEET_MOVE:
    case FLEET_ADD:
        return operand_take_member(&o, f);
    case FLEET_TTL_MAX:
        return operand_take_ttl_max(&o, f);
    case FLEET_REMOVE:
    case FLEET_RESUME:
    case FLEET_ABORT:
    case FLEET_CONFIRM:
        break;
    }
    return operand_take_id(&o, f);
}

const char *fleet_operand_negative(int argc, char **argv)
{
    bool is_time = false;

    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        is_time |= strcmp(argv[i], "ttl-max") == 0;
        if (strcmp(argv[i], "--agent") == 0 || strcmp(argv[i], "--timeout") == 0)
            i++;
        else if (is_time && argv[i][0] == '-' && isdigit((unsigned char)argv[i][1]))
            return argv[i];
    }
    return NULL;
}
