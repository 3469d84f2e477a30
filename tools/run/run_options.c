#include "tools/run/run_options.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tools/common/args.h"
#include "tools/common/text.h"
#include "tools/run/guardian.h"

enum {
    OPT_MAX_HOLD = 256,
    OPT_ONCE_PER,
    OPT_DONE_CODE,
    OPT_RETRY_FAILED,
    OPT_HEARTBEAT,
    OPT_ON_LOST,
    OPT_NOTE,
    OPT_AGENT,
    OPT_ALSO,
    OPT_SLOTS,
    OPT_SHARED,
    OPT_EXCLUSIVE,
    OPT_NO_NEW_PRIVS,
    OPT_JSON,
    OPT_NO_STDIN
};

#define OF_BOTH (OF_RUN | OF_HOLD)

static const struct {
    struct option option;
    unsigned of;       /* bits of enum run_options_of */
    const char *shown; /* in the help, and to who completes the command line */
} rows[] = {
    {{"nonblock", no_argument, NULL, 'n'},
     OF_BOTH,
     "  -n, --nonblock               fail at once when the lock is held by another"},
    {{"wait", required_argument, NULL, 'w'},
     OF_BOTH,
     "  -w, --wait TIME              wait at most this long (default: without limit)"},
    {{"conflict-exit-code", required_argument, NULL, 'E'},
     OF_BOTH,
     "  -E, --conflict-exit-code N   exit with N instead of 75 when another holds the lock"},
    {{"ttl", required_argument, NULL, 't'},
     OF_BOTH,
     "  -t, --ttl TIME               TTL of the lock's keys (default: the agent's)"},
    {{"signal", required_argument, NULL, 's'},
     OF_RUN,
     "  -s, --signal SIGNAL          what stops COMMAND when the lock is being lost (TERM)"},
    {{"on-lost", required_argument, NULL, OPT_ON_LOST},
     OF_RUN,
     "      --on-lost SHELL-COMMAND  run this instead of sending that signal"},
    {{"also", required_argument, NULL, OPT_ALSO},
     OF_BOTH,
     "      --also NAME              take this lock too, all of them or none; up to 63 times"},
    {{"shared", no_argument, NULL, OPT_SHARED},
     OF_BOTH,
     "      --shared                 share NAME with others that do; nobody has it alone "
     "meanwhile"},
    {{"exclusive", no_argument, NULL, OPT_EXCLUSIVE},
     OF_BOTH,
     "      --exclusive              have NAME alone: nobody shares it, nor has a slot of it, "
     "meanwhile"},
    {{"slots", required_argument, NULL, OPT_SLOTS},
     OF_BOTH,
     "      --slots K                NAME is a counted lock: up to K may hold it; with --shared\n"
     "                               up to K share it (default: 64)"},
    {{"max-hold", required_argument, NULL, OPT_MAX_HOLD},
     OF_BOTH,
     "      --max-hold TIME          renew the lock no more after this: it is lost within a TTL"},
    {{"once-per", required_argument, NULL, OPT_ONCE_PER},
     OF_RUN,
     "      --once-per TIME          do not run COMMAND if a run of NAME was started on any host "
     "less\n"
     "                               than 9/10 of TIME ago; exit with 0 then"},
    {{"done-exit-code", required_argument, NULL, OPT_DONE_CODE},
     OF_RUN,
     "      --done-exit-code N       exit with N then"},
    {{"retry-failed", no_argument, NULL, OPT_RETRY_FAILED},
     OF_RUN,
     "      --retry-failed           a run whose COMMAND fails does not count for --once-per"},
    {{"heartbeat", required_argument, NULL, OPT_HEARTBEAT},
     OF_RUN,
     "      --heartbeat TIME         lose the lock when COMMAND has not called 'holdfast beat', "
     "or\n"
     "                               hf_job_beat(), for this long"},
    {{"heartbeat", required_argument, NULL, OPT_HEARTBEAT},
     OF_HOLD,
     "      --heartbeat TIME         lose the lock when nothing has come on standard input for "
     "this long"},
    {{"note", required_argument, NULL, OPT_NOTE},
     OF_BOTH,
     "      --note TEXT              shown to whoever asks who holds the lock"},
    {{"no-new-privs", no_argument, NULL, OPT_NO_NEW_PRIVS},
     OF_RUN,
     "      --no-new-privs           COMMAND gains nothing by set-uid programs (sudo, ping)"},
    {{"json", no_argument, NULL, OPT_JSON},
     OF_HOLD,
     "      --json                   print a JSON object for each event"},
    {{"no-stdin", no_argument, NULL, OPT_NO_STDIN},
     OF_HOLD,
     "      --no-stdin               hold until a signal, or the end of the process that called "
     "this"},
    {{"agent", required_argument, NULL, OPT_AGENT},
     OF_BOTH,
     "      --agent NAME             the agent to use (default: $HOLDFAST_AGENT, else "
     "\"default\")"},
    {{"verbose", no_argument, NULL, 'v'},
     OF_BOTH,
     "  -v, --verbose                tell what happens on stderr"},
    {{"help", no_argument, NULL, 'h'}, OF_BOTH, "  -h, --help"},
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static const char *const heads[] = {
    [OF_RUN] = "Usage: holdfast run [options] NAME [--] COMMAND [ARGUMENT...]\n"
               "\n"
               "Runs COMMAND while holding the lock NAME. The whole process tree of COMMAND is "
               "dead before the\n"
               "lock is released, or can pass to another.\n",
    [OF_HOLD] = "Usage: holdfast hold [options] NAME\n"
                "\n"
                "Holds the lock NAME until standard input ends, or a signal comes, and prints a "
                "line when it is\n"
                "granted, late, losing, lost or released. Whoever works under it has to stop when "
                "this output\n"
                "ends: another can have the lock soon after.\n",
};

static const char *const tails[] = {
    [OF_RUN] = "TIME: 30, 30s, 500ms, 5m, 1h, 1d. Exit code: COMMAND's own, 128+N after signal N, "
               "124 lock lost\n"
               "and COMMAND stopped, 125 Holdfast failed, 126 and 127 COMMAND cannot be run or "
               "found, 75 held by\n"
               "another, 69 no agent or too few nodes, 77 not allowed, 64 usage, 78 "
               "configuration.\n",
    [OF_HOLD] =
        "TIME: 30, 30s, 500ms, 5m, 1h, 1d. Exit code: 0 released, 124 lock lost, 75 held by "
        "another or\n"
        "not granted in time, 69 no agent or too few nodes, 77 not allowed, 125 Holdfast failed, "
        "64 usage,\n"
        "78 configuration.\n",
};

static const char *const words[] = {[OF_RUN] = "run", [OF_HOLD] = "hold"};

void run_options_help(enum run_options_of command)
{
    puts(heads[command]);
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].of & command)
            puts(rows[i].shown);
    putchar('\n');
    fputs(tails[command], stdout);
}

/* A span for the agent: at least 1 ms, and it must fit the wire. */
static int run_options_positive_span(const struct run_options *run, const char *option,
                                     const char *text, int64_t *ret_ms)
{
    int64_t ms;

    if (args_duration_ms(text, &ms) != HF_OK)
        return args_usage(words[run->command],
                          "give %s a time like 30s, 500ms, 5m, 1h or 1d: '%s' is none", option,
                          text);
    if (ms == 0 || ms > UINT32_MAX)
        return args_usage(words[run->command], "give %s %s", option,
                          ms ? "a time of at most 49d" : "a time above zero, like 30s");
    *ret_ms = ms;
    return EXIT_OK;
}

static int run_options_heartbeat_span(const struct run_options *run, const char *text,
                                      int64_t *ret_ms)
{
    int code = run_options_positive_span(run, "--heartbeat", text, ret_ms);

    if (code == EXIT_OK && *ret_ms < BEAT_LEAST_MS)
        return args_usage(words[run->command], "give --heartbeat at least %dms, not %s",
                          BEAT_LEAST_MS, text);
    return code;
}

static int run_options_whole_number(const struct run_options *run, const char *option,
                                    const char *text, int least, int most, int *ret_number)
{
    uint64_t number;

    if (args_number(text, (uint64_t)least, (uint64_t)most, &number) != HF_OK)
        return args_usage(words[run->command], "give %s a number from %d to %d: '%s' is none",
                          option, least, most, text);
    *ret_number = (int)number;
    return EXIT_OK;
}

static int run_options_add_name(struct run_options *run, const char *name)
{
    const char *problem = args_name_problem(name);
    char shown[TEXT_NAME_SIZE];

    if (problem)
        return args_usage(words[run->command], "%s", problem);
    for (size_t i = 0; i < run->count; i++)
        if (!strcmp(run->names[i], name))
            return args_usage(words[run->command], "name each lock once: %s is given twice",
                              text_escape_str(shown, sizeof(shown), name));
    if (run->count == HF_SET_MAX)
        return args_usage(words[run->command], "give at most %d names", HF_SET_MAX);
    run->names[run->count++] = name;
    return EXIT_OK;
}

static int run_options_set_mode(struct run_options *run, enum run_mode mode)
{
    if (run->mode && run->mode != mode)
        return args_usage(words[run->command], "give --shared or --exclusive, not both");
    run->mode = mode;
    return EXIT_OK;
}

static int run_options_parse_option(struct run_options *run, int option)
{
    switch (option) {
    case 'n':
        run->no_wait = true;
        run->wait_ms = 0;
        return EXIT_OK;
    case 'w':
        run->given_wait = true;
        if (args_duration_ms(optarg, &run->wait_ms) != HF_OK)
            return args_usage(words[run->command],
                              "give --wait a time like 30s, 500ms or 5m: '%s' is none", optarg);
        return EXIT_OK;
    case 'E':
        return run_options_whole_number(run, "--conflict-exit-code", optarg, 0, 255,
                                        &run->busy_code);
    case 't':
        return run_options_positive_span(run, "--ttl", optarg, &run->ttl_ms);
    case 's':
        if (args_signal(optarg, &run->stop_signal) != HF_OK)
            return args_usage(words[run->command],
                              "give --signal a name or number, like TERM or 15: '%s' is none",
                              optarg);
        return EXIT_OK;
    case OPT_MAX_HOLD:
        return run_options_positive_span(run, "--max-hold", optarg, &run->max_hold_ms);
    case OPT_ONCE_PER:
        return run_options_positive_span(run, "--once-per", optarg, &run->once_per_ms);
    case OPT_DONE_CODE:
        return run_options_whole_number(run, "--done-exit-code", optarg, 0, 255, &run->done_code);
    case OPT_RETRY_FAILED:
        run->retry_failed = true;
        return EXIT_OK;
    case OPT_HEARTBEAT:
        return run_options_heartbeat_span(run, optarg, &run->heartbeat_ms);
    case OPT_ON_LOST:
        run->on_lost = optarg;
        return EXIT_OK;
    case OPT_NOTE:
        if (strlen(optarg) > 127)
            return args_usage(words[run->command], "use a note of at most 127 bytes");
        run->note = optarg;
        return EXIT_OK;
    case OPT_AGENT:
        run->agent = optarg;
        return EXIT_OK;
    case OPT_ALSO:
        return run_options_add_name(run, optarg);
    case OPT_SLOTS:
        return run_options_whole_number(run, "--slots", optarg, 1, HF_SET_MAX, &run->slots);
    case OPT_SHARED:
        return run_options_set_mode(run, RUN_SHARED);
    case OPT_EXCLUSIVE:
        return run_options_set_mode(run, RUN_EXCLUSIVE);
    case OPT_NO_NEW_PRIVS:
        run->no_new_privs = true;
        return EXIT_OK;
    case OPT_JSON:
        run->json = true;
        return EXIT_OK;
    case OPT_NO_STDIN:
        run->no_stdin = true;
        return EXIT_OK;
    case 'v':
        run->verbose = true;
        return EXIT_OK;
    default: /* getopt has printed why */
        fprintf(stderr, "holdfast %s: see holdfast %s --help\n", words[run->command],
                words[run->command]);
        return EXIT_USAGE;
    }
}

/* The options of the command for getopt: `ret_long` has room for all, `ret_short` for two bytes of each. */
static void run_options_getopt_options(enum run_options_of command, struct option *ret_long,
                                       char *ret_short)
{
    size_t count = 0, used = 0;

    ret_short[used++] = '+'; /* options end at NAME */
    for (size_t i = 0; i < ROWS; i++) {
        if (!(rows[i].of & command))
            continue;
        ret_long[count++] = rows[i].option;
        if (rows[i].option.val > 255)
            continue;
        ret_short[used++] = (char)rows[i].option.val;
        if (rows[i].option.has_arg == required_argument)
            ret_short[used++] = ':';
    }
    ret_long[count] = (struct option){NULL, 0, NULL, 0};
    ret_short[used] = '\0';
}

static int run_options_parse_options(struct run_options *run, int argc, char **argv, bool *ret_help)
{
    static char programs[][16] = {[OF_RUN] = "holdfast run", [OF_HOLD] = "holdfast hold"};
    struct option options[ROWS + 1];
    char letters[2 * ROWS + 2];
    int option, code;

    run_options_getopt_options(run->command, options, letters);
    argv[0] = programs[run->command]; /* getopt's messages begin with it */
    optind = 0;                       /* parse this argv from its start */
    while ((option = getopt_long(argc, argv, letters, options, NULL)) != -1) {
        if (option == 'h') {
            *ret_help = true;
            return EXIT_OK;
        }
        code = run_options_parse_option(run, option);
        if (code != EXIT_OK)
            return code;
    }
    return EXIT_OK;
}

/* "run -- NAME COMMAND" and "run -- COMMAND": the '--' is before COMMAND, and what follows it would be taken for NAME. (!) Of a name that
 * begins with a '-', and where another '--' follows, it is meant. */
static int run_options_check_dashes(int argc, char **argv)
{
    char shown[TEXT_NAME_SIZE];
    const char *first = argv[optind];

    if (optind < 2 || strcmp(argv[optind - 1], "--") != 0 || first[0] == '-')
        return EXIT_OK;
    if (optind + 1 < argc && !strcmp(argv[optind + 1], "--"))
        return EXIT_OK;
    text_escape_str(shown, sizeof(shown), first);
    if (optind + 1 == argc)
        return args_usage("run", "give a NAME before the '--': holdfast run NAME -- %s", shown);
    return args_usage("run",
                      "put the '--' behind NAME: holdfast run %s -- COMMAND; if %s is the "
                      "command, a NAME is missing: holdfast run NAME -- %s",
                      shown, shown, shown);
}

/* What does not go together. */
static int run_options_check_options(const struct run_options *run)
{
    if (run->no_wait && run->given_wait)
        return args_usage(words[run->command],
                          "give -n or -w, not both: -n does not wait, -w 0 is the same");
    if (run->mode == RUN_EXCLUSIVE && run->slots)
        return args_usage(words[run->command],
                          "leave --slots out: --exclusive takes every slot that NAME can have");
    if (run->mode && run->count > 1)
        return args_usage(
            words[run->command],
            "give --shared and --exclusive without --also; for both %s one within the "
            "other",
            words[run->command]);
    if (run->slots && run->count > 1)
        return args_usage(words[run->command],
                          "give --slots or --also, not both; for both %s one within the other",
                          words[run->command]);
    if ((run->slots || run->mode) && run->once_per_ms)
        return args_usage(
            words[run->command],
            "give --once-per for a lock that is neither counted, shared nor exclusive: each slot "
            "is another lock");
    if ((run->retry_failed || run->done_code) && !run->once_per_ms)
        return args_usage(words[run->command],
                          "give --once-per, too: --retry-failed and --done-exit-code are about it");
    if (run->no_stdin && run->heartbeat_ms)
        return args_usage(words[run->command],
                          "give --heartbeat or --no-stdin, not both: beats come on standard input");
    return EXIT_OK;
}

/* What stands behind NAME. */
static int run_options_parse_command(struct run_options *run, int count, char **operands)
{
    char shown[TEXT_NAME_SIZE];

    if (run->command == OF_HOLD)
        return count == 0 ? EXIT_OK
                          : args_usage("hold", "it takes one NAME and no command; for a command "
                                               "there is holdfast run");
    if (count > 0 && !strcmp(operands[0], "--"))
        operands++, count--;
    else if (count > 0 && operands[0][0] == '-')
        return args_usage("run",
                          "put options before NAME: %s would be the command; if it is one, put "
                          "'--' before it",
                          text_escape_str(shown, sizeof(shown), operands[0]));
    if (count == 0 || !operands[0][0])
        return args_usage("run", "a command to run is missing");
    run->argv = operands;
    return EXIT_OK;
}

int run_options_parse(struct run_options *run, enum run_options_of command, int argc, char **argv,
                      bool *ret_help)
{
    int code;

    *run = (struct run_options){
        .command = command, .wait_ms = -1, .busy_code = EXIT_BUSY, .stop_signal = SIGTERM};
    code = run_options_parse_options(run, argc, argv, ret_help);
    if (code != EXIT_OK || *ret_help)
        return code;
    if (optind >= argc)
        return args_usage(words[command], "a NAME is missing");
    code = command == OF_RUN ? run_options_check_dashes(argc, argv) : EXIT_OK;
    if (code == EXIT_OK)
        code = run_options_add_name(run, argv[optind]);
    if (code != EXIT_OK)
        return code;
    memmove(run->names + 1, run->names, (run->count - 1) * sizeof(run->names[0]));
    run->names[0] = argv[optind++]; /* stays first, even after --also */
    code = run_options_check_options(run);
    return code == EXIT_OK ? run_options_parse_command(run, argc - optind, argv + optind) : code;
}

size_t run_options_leases(const struct run_options *run)
{
    return run->mode == RUN_EXCLUSIVE ? HF_EXCLUSIVE_LEASES : run->count;
}

const char *run_options_name(const struct run_options *run, unsigned index,
                             char ret_name[RUN_OPTIONS_NAME_SIZE])
{
    if (!run->slots && !run->mode)
        return run->names[index < run->count ? index : 0];
    if (run->mode && index >= HF_SET_MAX)
        return run->names[0];
    snprintf(ret_name, RUN_OPTIONS_NAME_SIZE, "%s#%u", run->names[0], index);
    return ret_name;
}
