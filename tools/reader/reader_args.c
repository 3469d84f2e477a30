#include "tools/reader/reader_args.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "shm/text.h"
#include "shm/status.h"
#include "tools/common/args.h"
#include "tools/common/since.h"
#include "tools/common/text.h"
#include "tools/reader/reader.h"

enum { OPT_AGENT = 256, OPT_HELP = 'h' };

static const struct {
    struct option option;
    char letter;       /* of reader_args_parse(); 0: always accepted */
    const char *shown; /* in the help */
} rows[] = {
    {{"json", no_argument, NULL, 'j'}, 'j', "      --json         print JSON (docs/JSON.md)"},
    {{"all", no_argument, NULL, 'a'}, 'a', "  -a, --all          show leases that are over, too"},
    {{"quiet", no_argument, NULL, 'q'},
     'q',
     "  -q, --quiet        print nothing; the exit code tells"},
    {{"escaped", no_argument, NULL, 'e'},
     'e',
     "  -e, --escaped      undo \\n, \\xNN, \\\\ in NAME, as names are printed"},
    {{"clean", no_argument, NULL, 'c'}, 'c', "      --clean        remove what dead agents left"},
    {{"force", no_argument, NULL, 'f'},
     'f',
     "      --force        end the hold, wherever it is; needs one of the next three"},
    {{"fence", required_argument, NULL, 'F'},
     'F',
     "      --fence N      the hold that has this fence"},
    {{"id", required_argument, NULL, 'I'}, 'I', "      --id ID        the hold that has this id"},
    {{"yes", no_argument, NULL, 'y'},
     'y',
     "      --yes          the hold that is found now; fleet confirm and ttl-max: yes, do it"},
    {{"all-hosts", no_argument, NULL, 'A'},
     'A',
     "      --all-hosts    ask the nodes what is held on any host"},
    {{"wait", required_argument, NULL, 'w'}, 'w', "  -w, --wait SEC     give up after SEC"},
    {{"wait", no_argument, NULL, 'W'}, 'W', "      --wait         wait until nothing is held"},
    {{"timeout", required_argument, NULL, 'T'},
     'T',
     "      --timeout T    give up the wait after T"},
    {{"stop-jobs", no_argument, NULL, 'S'},
     'S',
     "      --stop-jobs    ask all holders to stop, as holdfast release does"},
    {{"old-server-dead", no_argument, NULL, 'G'},
     'G',
     "      --old-server-dead  the server that leaves is stopped for good"},
    {{"no-wait", no_argument, NULL, 'o'},
     'o',
     "      --no-wait      return when the change has begun"},
    {{"count", required_argument, NULL, 'n'},
     'n',
     "  -n, --count COUNT  show only the newest COUNT"},
    {{"count", required_argument, NULL, 'n'},
     'p',
     "  -n, --count COUNT  first show the newest COUNT of those that were"},
    {{"count", required_argument, NULL, 'n'}, 't', "  -n, --count COUNT  end after COUNT frames"},
    {{"forget", no_argument, NULL, 'O'},
     'O',
     "      --forget       that run counts no more: the next start runs"},
    {{"once", no_argument, NULL, '1'}, '1', "      --once         show one frame, as -n 1"},
    {{"delay", required_argument, NULL, 'd'},
     'd',
     "  -d, --delay TIME   the time between two frames (default: 1s)"},
    {{"since", required_argument, NULL, 'B'},
     'B',
     "      --since TIME   show what happened since then: 10m, 09:30, 2026-11-24T09:30:00Z"},
    {{"node", required_argument, NULL, 'N'},
     'N',
     "      --node ID      show only what is about that node"},
    {{"history", no_argument, NULL, 'H'},
     'H',
     "      --history      show the recent renewals on each node"},
    {{"textfile", required_argument, NULL, 'X'},
     'X',
     "      --textfile PATH  write to PATH for node_exporter: a directory, or FILE.prom"},
    {{"agent", required_argument, NULL, OPT_AGENT},
     0,
     "      --agent NAME   the agent to use (default: $HOLDFAST_AGENT, else \"default\")"},
    {{"help", no_argument, NULL, OPT_HELP}, 0, "  -h, --help"},
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static bool reader_args_accepted(size_t row, const char *letters)
{
    if (rows[row].option.val == OPT_AGENT)
        return !strchr(letters, '!');
    return rows[row].letter == 0 || strchr(letters, rows[row].letter);
}

static void reader_args_show_help(const char *letters, const char *usage, const char *about)
{
    printf("Usage: holdfast %s\n\n%s\n\n", usage, about);
    for (size_t i = 0; i < ROWS; i++)
        if (reader_args_accepted(i, letters))
            puts(rows[i].shown);
}

/* Short forms of the rows that the help shows with one. */
static void reader_args_make_tables(const char *letters, struct option *options, char *shorts)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (!reader_args_accepted(i, letters))
            continue;
        *options++ = rows[i].option;
        if (rows[i].shown[2] != '-')
            continue;
        *shorts++ = (char)rows[i].option.val;
        if (rows[i].option.has_arg == required_argument)
            *shorts++ = ':';
    }
    memset(options, 0, sizeof(*options));
    *shorts = '\0';
}

static int reader_args_number_from_1(const char *program, const char *what, uint64_t most,
                                     uint64_t *ret_number)
{
    if (args_number(optarg, 1, most, ret_number) == HF_OK)
        return READER_ARGS_GO_ON;
    fprintf(stderr, "%s: give a number from 1 on as %s: '%s' is none\n", program, what, optarg);
    return EXIT_USAGE;
}

static int reader_args_duration(const char *program, int64_t *ret_ms)
{
    if (args_duration_ms(optarg, ret_ms) == HF_OK)
        return READER_ARGS_GO_ON;
    fprintf(stderr, "%s: give a time such as 30, 500ms or 5m: '%s' is none\n", program, optarg);
    return EXIT_USAGE;
}

static int reader_args_since(const char *program, int64_t *ret_wall_ms)
{
    enum since_verdict verdict = since_read(optarg, wall_now_ms(), ret_wall_ms);
    char shown[TEXT_NAME_SIZE];

    if (verdict == SINCE_OK)
        return READER_ARGS_GO_ON;
    fprintf(stderr, "%s: give " SINCE_FORMS "; '%s' is %s\n", program,
            text_escape_str(shown, sizeof(shown), optarg),
            verdict == SINCE_FUTURE ? "in the future" : "none of these");
    return EXIT_USAGE;
}

/* The one that an option without a value sets; NULL: it is none of these. */
static bool *reader_args_flag(struct reader_args *args, int option)
{
    switch (option) {
    case 'j':
        return &args->json;
    case 'a':
        return &args->all;
    case 'q':
        return &args->quiet;
    case 'e':
        return &args->escaped;
    case 'c':
        return &args->clean;
    case 'f':
        return &args->force;
    case 'y':
        return &args->yes;
    case 'A':
        return &args->all_hosts;
    case 'W':
        return &args->until_none;
    case 'S':
        return &args->stop_jobs;
    case 'G':
        return &args->gone;
    case 'o':
        return &args->no_wait;
    case 'O':
        return &args->forget;
    case '1':
        return &args->once;
    case 'H':
        return &args->history;
    default:
        return NULL;
    }
}

/* READER_ARGS_GO_ON, or EXIT_USAGE after a message. */
static int reader_args_parse_option(const char *program, int option, struct reader_args *args)
{
    uint64_t count = 0;
    bool *flag = reader_args_flag(args, option);
    int code = READER_ARGS_GO_ON;

    if (flag) {
        *flag = true;
        return code;
    }
    switch (option) {
    case 'F':
        code = reader_args_number_from_1(program, "fence", UINT64_MAX, &args->fence);
        break;
    case 'I':
        args->id = optarg;
        break;
    case 'w':
        code = reader_args_duration(program, &args->wait_ms);
        break;
    case 'T':
        code = reader_args_duration(program, &args->timeout_ms);
        break;
    case 'n':
        code = reader_args_number_from_1(program, "count", UINT32_MAX, &count);
        args->count = (uint32_t)count;
        break;
    case 'd':
        code = reader_args_duration(program, &args->delay_ms);
        break;
    case 'B':
        code = reader_args_since(program, &args->since_wall_ms);
        break;
    case 'N':
        args->node = optarg;
        break;
    case 'X':
        args->textfile = optarg;
        break;
    case OPT_AGENT:
        args->agent = optarg;
        break;
    default: /* getopt has printed why */
        fprintf(stderr, "%s: see %s --help\n", program, program);
        code = EXIT_USAGE;
    }
    return code;
}

int reader_args_parse(int argc, char **argv, const char *letters, const char *usage,
                      const char *about, struct reader_args *ret_args)
{
    struct reader_args args = {.wait_ms = -1, .timeout_ms = -1, .delay_ms = -1};
    struct option options[ROWS + 1];
    char shorts[2 * ROWS + 1], program[64], *name = argv[0];
    int option, code = READER_ARGS_GO_ON;

    cut_guard();
    reader_args_make_tables(letters, options, shorts);
    snprintf(program, sizeof(program), "holdfast %s", name);
    argv[0] = program; /* getopt's messages begin with it */
    while (code == READER_ARGS_GO_ON &&
           (option = getopt_long(argc, argv, shorts, options, NULL)) != -1) {
        if (option == OPT_HELP) {
            reader_args_show_help(letters, usage, about);
            code = EXIT_OK;
        } else {
            code = reader_args_parse_option(program, option, &args);
        }
    }
    argv[0] = name;
    if (code == READER_ARGS_GO_ON)
        *ret_args = args;
    return code;
}

int reader_args_bytes(const struct reader_args *args, const char *operand,
                      struct reader_name *ret_name)
{
    struct reader_name name = {.len = 0};

    while (*operand) {
        int byte = args->escaped ? hf_unescape_byte(&operand) : (unsigned char)*operand++;

        if (byte < 0 || name.len == sizeof(name.bytes))
            return HF_EINVAL;
        name.bytes[name.len++] = (uint8_t)byte;
    }
    *ret_name = name;
    return HF_OK;
}

int reader_args_name(int argc, char **argv, const struct reader_args *args,
                     struct reader_name *ret_name)
{
    const char *operand = NULL;
    char shown[TEXT_NAME_SIZE];
    int code;

    /* The rules for a plain name would refuse a long name that is short once unescaped. */
    if (args->escaped && optind + 1 == argc && *argv[optind]) {
        if (reader_args_bytes(args, argv[optind], ret_name) == HF_OK)
            return EXIT_OK;
        return args_usage(argv[0], "'%s' has a bad escape, or is longer than 255 bytes",
                          text_escape_str(shown, sizeof(shown), argv[optind]));
    }
    code = args_only_name(argc, argv, &operand);
    return code == EXIT_OK ? exit_code_of(reader_args_bytes(args, operand, ret_name)) : code;
}

int reader_args_prefix(int argc, char **argv, const struct reader_args *args,
                       struct reader_name *ret_prefix)
{
    ret_prefix->len = 0;
    if (optind == argc)
        return EXIT_OK;
    if (reader_args_bytes(args, argv[optind], ret_prefix) != HF_OK)
        return args_usage(argv[0], "the prefix is longer than 255 bytes, or has a bad escape");
    optind++;
    return args_none(argc, argv);
}
