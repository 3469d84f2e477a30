/* holdfast fleet move, add, remove, ttl-max, mark-dead, abort, confirm: changes the fleet while locks are held, and follows that to its end. */
#include <ctype.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shm/compiler.h"
#include "shm/status.h"
#include "shm/text.h"
#include "tools/common/args.h"
#include "tools/common/text.h"
#include "tools/commands.h"
#include "tools/control/control_internal.h"
#include "tools/output/words.h"
#include "tools/reader/control_socket.h"
#include "tools/reader/reader_args.h"

/* --- operands --------------------------------------------------------------------------------- */

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

/* By `follow->verb`, which `word` names. EXIT_OK with id, seat or ttl_max_ms in `follow`, or
 * EXIT_USAGE after a message. */
static int fleet_operand_take(const char *word, const char *operand, struct fleet_follow *f)
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
    case FLEET_MARK_DEAD:
    case FLEET_ABORT:
    case FLEET_CONFIRM:
        break;
    }
    return operand_take_id(&o, f);
}

/* What getopt would take for an option and is a time below zero, as in `ttl-max -1`; NULL: nothing. */
static const char *fleet_operand_negative(int argc, char **argv)
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

/* --- the change ------------------------------------------------------------------------------- */

#define PATIENCE_S    20 /* the agent looks at servers for some seconds */
#define LATER         "later: "
#define TTL_MAX_TIMES 10 /* by which a ttl_max may be longer without a word more */
#define WORD_SIZE     HF_WORD_SIZE(HF_NODE_TEXT_MAX)

static const struct {
    const char *word, *operand; /* operand: NULL, none */
    const char *asks;           /* as the agent's request has it */
    bool gone;                  /* --old-server-dead makes sense */
} verbs[] = {
    [FLEET_MOVE] = {"move", "ID=ADDRESS", "move", true},
    [FLEET_ADD] = {"add", "ID=ADDRESS", "add", false},
    [FLEET_REMOVE] = {"remove", "ID", "remove", true},
    [FLEET_TTL_MAX] = {"ttl-max", "TIME", "ttl-max", false},
    [FLEET_MARK_DEAD] = {"mark-dead", "ID", "gone", false},
    [FLEET_ABORT] = {"abort", NULL, "abort", true},
    [FLEET_CONFIRM] = {"confirm", NULL, "confirm", false},
};

/* -1: it is none. */
static int cmd_fleet_change_verb_of(const char *word)
{
    for (size_t i = 0; i < HF_LENGTH(verbs); i++)
        if (strcmp(word, verbs[i].word) == 0)
            return (int)i;
    return -1;
}

bool cmd_fleet_changes(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--agent") == 0 || strcmp(argv[i], "--timeout") == 0)
            i++;
        else if (argv[i][0] != '-')
            return cmd_fleet_change_verb_of(argv[i]) >= 0;
    }
    return false;
}

/* --- what is asked for ------------------------------------------------------------------------- */

/* EXIT_OK or, with a message, EXIT_USAGE. */
static int cmd_fleet_change_take_operands(int argc, char **argv, const struct reader_args *args,
                                          struct fleet_follow *f)
{
    int code, verb = cmd_fleet_change_verb_of(argv[optind++]);

    f->verb = (enum fleet_verb)verb;
    f->no_wait = args->no_wait;
    f->timeout_ms = args->timeout_ms;
    if (verbs[verb].operand) {
        if (optind == argc)
            return args_usage("fleet", "give %s behind %s", verbs[verb].operand, verbs[verb].word);
        code = fleet_operand_take(verbs[verb].word, argv[optind++], f);
        if (code != EXIT_OK)
            return code;
    }
    if (args->yes && f->verb != FLEET_CONFIRM && f->verb != FLEET_TTL_MAX)
        return args_usage("fleet", "leave --yes away: %s needs no such word", verbs[verb].word);
    if (args->gone && !verbs[verb].gone)
        return args_usage("fleet", "leave --old-server-dead away: no server leaves by %s",
                          verbs[verb].word);
    if (args->no_wait && args->timeout_ms >= 0)
        return args_usage("fleet", "leave --timeout or --no-wait away");
    return args_none(argc, argv);
}

static void cmd_fleet_change_write_request(const struct fleet_follow *f, bool gone,
                                           char ret_line[CONTROL_REQUEST_MOST + 1])
{
    char number[32] = "", word[WORD_SIZE];
    const char *words[] = {f->id, f->seat, number, gone ? "gone" : ""};
    size_t size = CONTROL_REQUEST_MOST + 1, used;

    if (f->verb == FLEET_TTL_MAX)
        snprintf(number, sizeof(number), "%" PRIu64, f->ttl_max_ms);
    used = (size_t)snprintf(ret_line, size, "fleet-change %s", verbs[f->verb].asks);
    for (size_t i = 0; i < HF_LENGTH(words); i++)
        if (*words[i])
            used += (size_t)snprintf(ret_line + used, size - used, " %s",
                                     hf_word(word, sizeof(word), words[i]));
}

/* --- the agent's answer ------------------------------------------------------------------------ */

/* "begun VERSION LEAST_MS MEMBERS SEAT ..." */
static bool cmd_fleet_change_read_begun(char *answer, struct fleet_follow *f,
                                        uint64_t *ret_least_ms, uint64_t *ret_members)
{
    char *line = strsep(&answer, "\n"), *words[5];

    for (size_t i = 0; i < HF_LENGTH(words); i++)
        if (!(words[i] = strsep(&line, " ")))
            return false;
    return strcmp(words[0], "begun") == 0 &&
           args_number(words[1], 1, UINT64_MAX, &f->version) == HF_OK &&
           args_number(words[2], 0, INT64_MAX, ret_least_ms) == HF_OK &&
           args_number(words[3], 1, HF_NODES_MAX, ret_members) == HF_OK &&
           hf_word_read(words[4], f->seat, sizeof(f->seat));
}

static int cmd_fleet_change_say_refused(const char *text)
{
    bool later = strncmp(text, LATER, strlen(LATER)) == 0;

    fprintf(stderr, "holdfast fleet: refused, and nothing changes: %s",
            later ? text + strlen(LATER) : text);
    return later ? EXIT_BUSY : EXIT_CONFIG;
}

static void cmd_fleet_change_say_begun(const struct fleet_follow *f, uint64_t least_ms,
                                       uint64_t members)
{
    char id[TEXT_NAME_SIZE], seat[TEXT_NAME_SIZE], span[TEXT_SPAN_SIZE];

    text_escape_str(id, sizeof(id), f->id);
    text_escape_str(seat, sizeof(seat), f->seat);
    printf("version %" PRIu64 ": ", f->version);
    switch (f->verb) {
    case FLEET_MOVE:
        printf("node %s moves to %s", id, seat);
        break;
    case FLEET_ADD:
        printf("node %s joins at %s", id, seat);
        break;
    case FLEET_REMOVE:
        printf("node %s leaves", id);
        break;
    case FLEET_TTL_MAX:
        printf("ttl_max becomes %s", text_span(span, sizeof(span), (int64_t)f->ttl_max_ms));
        break;
    case FLEET_MARK_DEAD:
        printf("goes on without the server that was node %s before it", id);
        break;
    case FLEET_ABORT:
        printf("the fleet gets back what it was before the change");
        break;
    case FLEET_CONFIRM:
        printf("it is given to the nodes that answer\n");
        return;
    }
    printf("; it takes %s at the least, also without this command\n",
           text_span(span, sizeof(span), (int64_t)least_ms));
    if (members % 2 == 0 && (f->verb == FLEET_ADD || f->verb == FLEET_REMOVE))
        fprintf(stderr,
                "holdfast fleet: warning: of %" PRIu64 " nodes no more may fail than of %" PRIu64
                ": add or remove another one afterwards\n",
                members, members - 1);
}

/* --- words that are asked for first ------------------------------------------------------------ */

static void cmd_fleet_change_say_away(const struct fleet_told *told)
{
    char id[TEXT_NAME_SIZE];

    for (int i = 0; i < told->count; i++)
        if (!told->node[i].connected[0])
            fprintf(stderr, "  node %s does not answer at %s\n",
                    text_escape_str(id, sizeof(id), told->node[i].id), told->node[i].seat);
}

/* Otherwise the agent says why not. */
static bool cmd_fleet_change_may_need_word(const struct fleet_told *told)
{
    for (int i = 0; i < told->count; i++)
        if (strcmp(told->node[i].says, "ours") == 0 && told->node[i].counts)
            return false;
    return told->known;
}

/* EXIT_OK or, with what the word means, EXIT_USAGE. */
static int cmd_fleet_change_ask_for_word(const struct reader_args *args,
                                         const struct fleet_told *told)
{
    if (args->yes || !cmd_fleet_change_may_need_word(told))
        return EXIT_OK;
    fprintf(stderr,
            "holdfast fleet: say --yes, too, if this is so: the nodes that answer are this fleet's "
            "servers and were emptied or restarted,\nand no host goes by a later record than "
            "version %" PRIu64 " (holdfast fleet, on every host)\n",
            told->version);
    cmd_fleet_change_say_away(told);
    return EXIT_USAGE;
}

/* (!) Complete within a second, and the way back begins when it has settled. EXIT_OK or, with what the word means, EXIT_USAGE. */
static int cmd_fleet_change_ask_for_long(const struct fleet_told *told, uint64_t ttl_max_ms)
{
    char was[TEXT_SPAN_SIZE], comes[TEXT_SPAN_SIZE];

    if (!told->known || ttl_max_ms <= TTL_MAX_TIMES * told->ttl_max_ms)
        return EXIT_OK;
    text_span(was, sizeof(was), (int64_t)told->ttl_max_ms);
    text_span(comes, sizeof(comes), (int64_t)ttl_max_ms);
    fprintf(stderr,
            "holdfast fleet: say --yes, too, if ttl_max is to be %s, more than %d times the %s "
            "that it is:\nit can be changed back after a little more than that time only, and "
            "until then a node that restarts empty gives no votes for as long\n",
            comes, TTL_MAX_TIMES, was);
    return EXIT_USAGE;
}

/* What the fleet is before it is asked for. EXIT_OK or, with a message, another code. */
static int cmd_fleet_change_look_first(const struct reader_args *args, struct fleet_follow *f)
{
    struct fleet_told told;
    struct place place;
    char why[512];
    int code;

    if (f->verb != FLEET_ABORT && f->verb != FLEET_CONFIRM &&
        (f->verb != FLEET_TTL_MAX || args->yes))
        return EXIT_OK;
    code = fleet_told_ask(args->agent, &place, &told, why, sizeof(why));
    if (code != EXIT_OK) {
        fprintf(stderr, "holdfast fleet: %s\n", why);
        return code;
    }
    f->back_count = told.before_count;
    memcpy(f->back, told.before, sizeof(f->back));
    if (f->verb == FLEET_TTL_MAX)
        return cmd_fleet_change_ask_for_long(&told, f->ttl_max_ms);
    return f->verb == FLEET_CONFIRM ? cmd_fleet_change_ask_for_word(args, &told) : EXIT_OK;
}

static int cmd_fleet_change_change(const struct reader_args *args, struct fleet_follow *f)
{
    char line[CONTROL_REQUEST_MOST + 1], answer[8192], why[512];
    const struct control_request request = {line, "change the fleet", PATIENCE_S};
    uint64_t least_ms, members;
    struct place place;
    int code;

    code = cmd_fleet_change_look_first(args, f);
    if (code != EXIT_OK)
        return code;
    cmd_fleet_change_write_request(f, args->gone, line);
    code = control_ask(args->agent, &request, &place, answer, sizeof(answer), why, sizeof(why));
    if (code != EXIT_OK) {
        fprintf(stderr, "holdfast fleet: %s\n", why);
        return code;
    }
    if (strncmp(answer, CONTROL_REFUSED, strlen(CONTROL_REFUSED)) == 0)
        return cmd_fleet_change_say_refused(answer + strlen(CONTROL_REFUSED));
    if (!cmd_fleet_change_read_begun(answer, f, &least_ms, &members)) {
        fprintf(stderr, "holdfast fleet: use the holdfast that came with the agent: its answer "
                        "cannot be read\n");
        return EXIT_UNAVAILABLE;
    }
    cmd_fleet_change_say_begun(f, least_ms, members);
    return fleet_follow(f, &place);
}

int cmd_fleet_change(int argc, char **argv)
{
    struct fleet_follow f = {.verb = FLEET_TTL_MAX};
    struct reader_args args;
    const char *negative = fleet_operand_negative(argc, argv);
    int code;

    if (negative)
        return fleet_operand_take("ttl-max", negative, &f);
    code = reader_args_parse(
        argc, argv, "GoTy",
        "fleet move ID=ADDRESS | add ID=ADDRESS | remove ID | ttl-max TIME | mark-dead ID | "
        "abort | "
        "confirm [options]",
        "Changes the fleet while locks are held, and waits until that is over:\n"
        "  move ID=ADDRESS  another server, which has to be empty, for a node\n"
        "  add ID=ADDRESS   one node more\n"
        "  remove ID        one less\n"
        "  ttl-max TIME     another longest TTL; more than ten times as long with --yes only\n"
        "  mark-dead ID     in a change under way, the server that was ID before it is stopped for "
        "good\n"
        "  abort            gives up the change that is under way: back to what was before it\n"
        "  confirm --yes    no node has the record any more for sure: those that answer are this "
        "fleet's, "
        "and no\n"
        "                   host has a later record than this one\n"
        "One change at a time. For root and the agent's user.\n"
        "Exit code: 0 done (--no-wait: begun), 75 not now, another's change came first, or the "
        "time "
        "is over,\n78 refused, 69 no agent, 77 not allowed.",
        &args);

    if (code != READER_ARGS_GO_ON ||
        (code = cmd_fleet_change_take_operands(argc, argv, &args, &f)) != EXIT_OK)
        return code;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    return cmd_fleet_change_change(&args, &f);
}
