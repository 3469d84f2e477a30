/* holdfast fleet move, add, remove, ttl-max, resume: changes the fleet while locks are held, and follows that to its end. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shm/compiler.h"
#include "shm/escape.h"
#include "shm/status.h"
#include "tools/ask/ask.h"
#include "tools/ask/fleet_follow.h"
#include "tools/common/args.h"
#include "tools/common/exit_code.h"
#include "tools/common/text.h"
#include "tools/output/format.h"
#include "tools/reader/control.h"
#include "tools/reader/reader_args.h"

#define PATIENCE_S 20 /* the agent looks at servers for some seconds */
#define LATER      "later: "
#define WORD_SIZE  HF_WORD_SIZE(HF_NODE_TEXT_MAX)

static const struct {
    const char *word, *operand;
    enum fleet_verb verb;
    bool gone; /* --gone makes sense */
} verbs[] = {
    {"move", "ID=ADDRESS", FLEET_MOVE, true}, {"add", "ID=ADDRESS", FLEET_ADD, false},
    {"remove", "ID", FLEET_REMOVE, true},     {"ttl-max", "TIME", FLEET_TTL_MAX, false},
    {"resume", "ID", FLEET_RESUME, true},
};

/* -1: it is none. */
static int verb_of(const char *word)
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
            return verb_of(argv[i]) >= 0;
    }
    return false;
}

/* --- what is asked for ------------------------------------------------------------------------- */

static bool take_text(const char *text, size_t length, char ret_text[HF_NODE_TEXT_MAX + 1])
{
    if (length == 0 || length > HF_NODE_TEXT_MAX)
        return false;
    memcpy(ret_text, text, length);
    ret_text[length] = '\0';
    return true;
}

static bool take_operand(const char *operand, struct fleet_follow *f)
{
    const char *equals = strchr(operand, '=');
    int64_t ms;

    switch (f->verb) {
    case FLEET_MOVE:
    case FLEET_ADD:
        return equals && take_text(operand, (size_t)(equals - operand), f->id) &&
               take_text(equals + 1, strlen(equals + 1), f->seat);
    case FLEET_REMOVE:
    case FLEET_RESUME:
        return take_text(operand, strlen(operand), f->id);
    case FLEET_TTL_MAX:
        break;
    }
    if (args_duration_ms(operand, &ms) != HF_OK)
        return false;
    f->ttl_max_ms = (uint64_t)ms;
    return true;
}

/* EXIT_OK or, with a message, EXIT_USAGE. */
static int take_operands(int argc, char **argv, const struct reader_args *args,
                         struct fleet_follow *f)
{
    int verb = verb_of(argv[optind++]);
    char shown[TEXT_NAME_SIZE];

    f->verb = verbs[verb].verb;
    f->no_wait = args->no_wait;
    f->timeout_ms = args->timeout_ms;
    if (optind == argc)
        return args_usage("fleet", "give %s behind %s", verbs[verb].operand, verbs[verb].word);
    if (!take_operand(argv[optind], f))
        return args_usage("fleet", "'%s' is no %s",
                          text_escape_str(shown, sizeof(shown), argv[optind]), verbs[verb].operand);
    optind++;
    if (f->verb == FLEET_RESUME && !args->gone)
        return args_usage("fleet", "say --gone, too, if the server that leaves as that node is "
                                   "stopped for good: nothing else is resumed by a word");
    if (args->gone && !verbs[verb].gone)
        return args_usage("fleet", "leave --gone away: no server leaves by %s", verbs[verb].word);
    if (args->no_wait && args->timeout_ms >= 0)
        return args_usage("fleet", "leave --timeout or --no-wait away");
    return args_none(argc, argv);
}

static void write_request(const struct fleet_follow *f, bool gone,
                          char ret_line[CONTROL_REQUEST_MOST + 1])
{
    char id[WORD_SIZE], seat[WORD_SIZE];
    const char *tail = gone ? " gone" : "";
    size_t size = CONTROL_REQUEST_MOST + 1;

    hf_word(id, sizeof(id), f->id);
    hf_word(seat, sizeof(seat), f->seat);
    switch (f->verb) {
    case FLEET_MOVE:
        snprintf(ret_line, size, "fleet-change move %s %s%s", id, seat, tail);
        break;
    case FLEET_ADD:
        snprintf(ret_line, size, "fleet-change add %s %s", id, seat);
        break;
    case FLEET_REMOVE:
        snprintf(ret_line, size, "fleet-change remove %s%s", id, tail);
        break;
    case FLEET_TTL_MAX:
        snprintf(ret_line, size, "fleet-change ttl-max %" PRIu64, f->ttl_max_ms);
        break;
    case FLEET_RESUME:
        snprintf(ret_line, size, "fleet-change gone %s", id);
        break;
    }
}

/* --- the agent's answer ------------------------------------------------------------------------ */

/* "begun VERSION LEAST_MS MEMBERS SEAT ..." */
static bool read_begun(char *answer, struct fleet_follow *f, uint64_t *ret_least_ms,
                       uint64_t *ret_members)
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

static int say_refused(const char *text)
{
    bool later = strncmp(text, LATER, strlen(LATER)) == 0;

    if (strncmp(text, "the requests are: metrics", 25) == 0) {
        fprintf(stderr,
                "holdfast fleet: restart holdfastd, its leases stay: the agent that runs is "
                "of an earlier version and changes no fleet\n");
        return EXIT_UNAVAILABLE;
    }
    fprintf(stderr, "holdfast fleet: refused, and nothing changes: %s",
            later ? text + strlen(LATER) : text);
    return later ? EXIT_BUSY : EXIT_CONFIG;
}

static void say_begun(const struct fleet_follow *f, uint64_t least_ms, uint64_t members)
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
    case FLEET_RESUME:
        printf("goes on without the server that leaves as node %s", id);
        break;
    }
    printf("; it takes %s at the least, also without this command\n",
           text_span(span, sizeof(span), (int64_t)least_ms));
    if (members % 2 == 0 && (f->verb == FLEET_ADD || f->verb == FLEET_REMOVE))
        fprintf(stderr,
                "holdfast fleet: warning: of %" PRIu64 " nodes no more may fail than of %" PRIu64
                ": add or remove another one afterwards\n",
                members, members - 1);
}

static int change(const struct reader_args *args, struct fleet_follow *f)
{
    char line[CONTROL_REQUEST_MOST + 1], answer[8192], why[512];
    const struct control_request request = {line, "change the fleet", PATIENCE_S};
    uint64_t least_ms, members;
    struct place place;
    int code;

    write_request(f, args->gone, line);
    code = control_ask(args->agent, &request, &place, answer, sizeof(answer), why, sizeof(why));
    if (code != EXIT_OK) {
        fprintf(stderr, "holdfast fleet: %s\n", why);
        return code;
    }
    if (strncmp(answer, CONTROL_REFUSED, strlen(CONTROL_REFUSED)) == 0)
        return say_refused(answer + strlen(CONTROL_REFUSED));
    if (!read_begun(answer, f, &least_ms, &members)) {
        fprintf(stderr, "holdfast fleet: use the holdfast that came with the agent: its answer "
                        "cannot be read\n");
        return EXIT_UNAVAILABLE;
    }
    say_begun(f, least_ms, members);
    return fleet_follow(f, &place);
}

int cmd_fleet_change(int argc, char **argv)
{
    struct fleet_follow f = {.verb = FLEET_MOVE};
    struct reader_args args;
    int code = reader_args_parse(
        argc, argv, "GoT",
        "fleet move ID=ADDRESS | add ID=ADDRESS | remove ID | ttl-max TIME | resume ID [options]",
        "Changes the fleet while locks are held, and waits until that is over:\n"
        "  move ID=ADDRESS  another server, which has to be empty, for a node\n"
        "  add ID=ADDRESS   one node more\n"
        "  remove ID        one less\n"
        "  ttl-max TIME     another longest TTL\n"
        "  resume --gone ID in a change under way, the server that leaves as ID is stopped for "
        "good\n"
        "One change at a time. For root and the agent's user.\n"
        "Exit code: 0 done (--no-wait: begun), 75 not now, another's change came first, or the "
        "time "
        "is over,\n78 refused, 69 no agent, 77 not allowed.",
        &args);

    if (code != READER_ARGS_GO_ON || (code = take_operands(argc, argv, &args, &f)) != EXIT_OK)
        return code;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    return format_finish("fleet", change(&args, &f));
}
