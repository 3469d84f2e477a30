#include "tools/run/run_options.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tools/common/args.h"
#include "tools/common/exit_code.h"
#include "tools/common/text.h"
#include "tools/run/beat.h"

enum {
    OPT_MAX_HOLD = 256,
    OPT_HEARTBEAT,
    OPT_ON_LOST,
    OPT_NOTE,
    OPT_AGENT,
    OPT_ALSO,
    OPT_SLOTS,
    OPT_NO_NEW_PRIVS
};

static const struct {
    struct option option;
    const char *shown; /* in the help, and to who completes the command line */
} rows[] = {
    {{"nonblock", no_argument, NULL, 'n'},
     "  -n, --nonblock               fail at once when the lock is held by another"},
    {{"wait", required_argument, NULL, 'w'},
     "  -w, --wait TIME              wait at most this long (default: without limit)"},
    {{"conflict-exit-code", required_argument, NULL, 'E'},
     "  -E, --conflict-exit-code N   exit with N instead of 75 when another holds the lock"},
    {{"ttl", required_argument, NULL, 't'},
     "  -t, --ttl TIME               TTL of the lock's keys (default: the agent's)"},
    {{"signal", required_argument, NULL, 's'},
     "  -s, --signal SIGNAL          what stops COMMAND when the lock is being lost (TERM)"},
    {{"on-lost", required_argument, NULL, OPT_ON_LOST},
     "      --on-lost SHELL-COMMAND  run this instead of sending that signal"},
    {{"also", required_argument, NULL, OPT_ALSO},
     "      --also NAME              take this lock too, all of them or none; up to 63 times"},
    {{"slots", required_argument, NULL, OPT_SLOTS},
     "      --slots K                NAME is a counted lock: up to K may hold it"},
    {{"max-hold", required_argument, NULL, OPT_MAX_HOLD},
     "      --max-hold TIME          hold the lock no longer than this"},
    {{"heartbeat", required_argument, NULL, OPT_HEARTBEAT},
     "      --heartbeat TIME         lose the lock when COMMAND has not called 'holdfast beat', "
     "or\n"
     "                               hf_job_beat(), for this long"},
    {{"note", required_argument, NULL, OPT_NOTE},
     "      --note TEXT              shown to whoever asks who holds the lock"},
    {{"no-new-privs", no_argument, NULL, OPT_NO_NEW_PRIVS},
     "      --no-new-privs           COMMAND gains nothing by set-uid programs (sudo, ping)"},
    {{"agent", required_argument, NULL, OPT_AGENT},
     "      --agent NAME             the agent to use (default: $HOLDFAST_AGENT, else "
     "\"default\")"},
    {{"verbose", no_argument, NULL, 'v'},
     "  -v, --verbose                tell what happens on stderr"},
    {{"help", no_argument, NULL, 'h'}, "  -h, --help"},
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

void run_options_help(void)
{
    fputs("Usage: holdfast run [options] NAME [--] COMMAND [ARGUMENT...]\n"
          "\n"
          "Runs COMMAND while holding the lock NAME. The whole process tree of COMMAND is dead "
          "before the\n"
          "lock is released, or can pass to another.\n"
          "\n",
          stdout);
    for (size_t i = 0; i < ROWS; i++)
        puts(rows[i].shown);
    fputs("\n"
          "TIME: 30, 30s, 500ms, 5m, 1h, 1d. Exit code: COMMAND's own, 128+N after signal N, 124 "
          "lock lost\n"
          "and COMMAND stopped, 125 Holdfast failed, 126 and 127 COMMAND cannot be run or found, "
          "75 held by\n"
          "another, 69 no agent or too few nodes, 77 not allowed, 64 usage, 78 configuration.\n",
          stdout);
}

/* A span for the agent: at least 1 ms, and it must fit the wire. */
static int positive_span(const char *option, const char *text, int64_t *ret_ms)
{
    int64_t ms;

    if (args_duration_ms(text, &ms) != HF_OK)
        return args_usage("run", "%s '%s' is not a time like 30s, 500ms, 5m, 1h or 1d", option,
                          text);
    if (ms == 0 || ms > UINT32_MAX)
        return args_usage("run", "%s %s is %s", option, text,
                          ms ? "too long; at most 49d" : "zero; give a time above it, like 30s");
    *ret_ms = ms;
    return EXIT_OK;
}

static int heartbeat_span(const char *text, int64_t *ret_ms)
{
    int code = positive_span("--heartbeat", text, ret_ms);

    if (code == EXIT_OK && *ret_ms < BEAT_LEAST_MS)
        return args_usage("run", "--heartbeat %s is too short; at least %dms", text, BEAT_LEAST_MS);
    return code;
}

static int whole_number(const char *option, const char *text, int least, int most, int *ret_number)
{
    uint64_t number;

    if (args_number(text, (uint64_t)least, (uint64_t)most, &number) != HF_OK)
        return args_usage("run", "%s '%s' is not a number from %d to %d", option, text, least,
                          most);
    *ret_number = (int)number;
    return EXIT_OK;
}

static int add_name(struct run_options *run, const char *name)
{
    const char *problem = args_name_problem(name);
    char shown[TEXT_NAME_SIZE];

    if (problem)
        return args_usage("run", "%s", problem);
    for (size_t i = 0; i < run->count; i++)
        if (!strcmp(run->names[i], name))
            return args_usage("run", "the name %s is given twice",
                              text_escape_str(shown, sizeof(shown), name));
    if (run->count == HF_SET_MAX)
        return args_usage("run", "more than %d names; one job runs under %d locks at most",
                          HF_SET_MAX, HF_SET_MAX);
    run->names[run->count++] = name;
    return EXIT_OK;
}

static int parse_option(struct run_options *run, int option)
{
    switch (option) {
    case 'n':
        run->wait_ms = 0;
        return EXIT_OK;
    case 'w':
        if (args_duration_ms(optarg, &run->wait_ms) != HF_OK)
            return args_usage("run", "--wait '%s' is not a time like 30s, 500ms or 5m", optarg);
        return EXIT_OK;
    case 'E':
        return whole_number("--conflict-exit-code", optarg, 0, 255, &run->busy_code);
    case 't':
        return positive_span("--ttl", optarg, &run->ttl_ms);
    case 's':
        if (args_signal(optarg, &run->stop_signal) != HF_OK)
            return args_usage("run", "'%s' is not a signal", optarg);
        return EXIT_OK;
    case OPT_MAX_HOLD:
        return positive_span("--max-hold", optarg, &run->max_hold_ms);
    case OPT_HEARTBEAT:
        return heartbeat_span(optarg, &run->heartbeat_ms);
    case OPT_ON_LOST:
        run->on_lost = optarg;
        return EXIT_OK;
    case OPT_NOTE:
        if (strlen(optarg) > 127)
            return args_usage("run", "the note is longer than 127 bytes");
        run->note = optarg;
        return EXIT_OK;
    case OPT_AGENT:
        run->agent = optarg;
        return EXIT_OK;
    case OPT_ALSO:
        return add_name(run, optarg);
    case OPT_SLOTS:
        return whole_number("--slots", optarg, 1, HF_SET_MAX, &run->slots);
    case OPT_NO_NEW_PRIVS:
        run->no_new_privs = true;
        return EXIT_OK;
    case 'v':
        run->verbose = true;
        return EXIT_OK;
    default: /* getopt has printed why */
        fputs("holdfast run: see holdfast run --help\n", stderr);
        return EXIT_USAGE;
    }
}

int run_options_parse(struct run_options *run, int argc, char **argv, bool *ret_help)
{
    static char program[] = "holdfast run"; /* getopt's messages begin with it */
    struct option options[ROWS + 1] = {{NULL, 0, NULL, 0}};
    int option, code;

    for (size_t i = 0; i < ROWS; i++)
        options[i] = rows[i].option;
    *run = (struct run_options){.wait_ms = -1, .busy_code = EXIT_BUSY, .stop_signal = SIGTERM};
    argv[0] = program;
    optind = 0; /* parse this argv from its start */
    while ((option = getopt_long(argc, argv, "+nw:E:t:s:vh", options, NULL)) != -1) {
        if (option == 'h') {
            *ret_help = true;
            return EXIT_OK;
        }
        code = parse_option(run, option);
        if (code != EXIT_OK)
            return code;
    }
    if (optind >= argc)
        return args_usage("run", "a NAME is missing");
    code = add_name(run, argv[optind]);
    if (code != EXIT_OK)
        return code;
    memmove(run->names + 1, run->names, (run->count - 1) * sizeof(run->names[0]));
    run->names[0] = argv[optind++]; /* stays first, even after --also */
    if (run->slots && run->count > 1)
        return args_usage("run",
                          "give --slots or --also, not both; for both run one within the other");
    if (optind < argc && !strcmp(argv[optind], "--"))
        optind++;
    if (optind >= argc || !argv[optind][0])
        return args_usage("run", "a command to run is missing");
    run->argv = argv + optind;
    return EXIT_OK;
}

const char *run_options_name(const struct run_options *run, unsigned index,
                             char ret_name[RUN_OPTIONS_NAME_SIZE])
{
    if (!run->slots)
        return run->names[index < run->count ? index : 0];
    snprintf(ret_name, RUN_OPTIONS_NAME_SIZE, "%s#%u", run->names[0], index);
    return ret_name;
}
