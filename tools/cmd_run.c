/* holdfast run: takes a lock, or several, and runs a command under it. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "libclient/holdfast.h"
#include "tools/args.h"
#include "tools/cmd.h"
#include "tools/conflict.h"
#include "tools/exitcodes.h"
#include "tools/guardian.h"
#include "tools/hold.h"
#include "tools/say.h"
#include "tools/signals.h"
#include "tools/text.h"
#include "tools/timeline.h"

#define NS_PER_MS      INT64_C(1000000)
#define SLOT_NAME_SIZE (255 + sizeof("#63")) /* of a name with a slot's number */

/* An agent that hangs does not end a wait: so long after its end we do. */
#define PATIENCE_MS 5000

struct run {
    const char *agent, *note, *on_lost;
    const char *names[HF_SET_MAX]; /* NAME, and those of --also */
    size_t count;
    unsigned slots; /* 0: NAME is no counted lock */
    char *const *argv;
    int64_t wait_ms, ttl_ms, max_hold_ms, heartbeat_ms; /* -1, 0 ...: not given */
    int busy_code, stop_signal;
    bool verbose;

    char shown[TEXT_NAME_SIZE];   /* the names, escaped, for messages */
    char (*each)[TEXT_NAME_SIZE]; /* the same, of each lease */
    struct signals signals;
    int64_t began_ns;
    int said_reason; /* what the wait was last said to be for; 0 nothing yet */
    char said_text[sizeof(((struct hf_progress *)0)->text)];
};

static void show_help(void)
{
    fputs("Usage: holdfast run [options] NAME [--] COMMAND [ARGUMENT...]\n"
          "\n"
          "Runs COMMAND while holding the lock NAME. The whole process tree of COMMAND is dead "
          "before the\n"
          "lock is released, or can pass to another.\n"
          "\n"
          "  -n, --nonblock               fail at once when the lock is held by another\n"
          "  -w, --wait TIME              wait so long at most (default: without limit)\n"
          "  -E, --conflict-exit-code N   exit with N instead of 75 when the lock was not got\n"
          "  -t, --ttl TIME               TTL of the lock's keys (default: the agent's)\n"
          "  -s, --signal SIGNAL          what stops COMMAND when the lock is being lost (TERM)\n"
          "      --on-lost SHELL-COMMAND  run this instead of sending that signal\n"
          "      --also NAME              take this lock too, all of them or none; up to 63 times\n"
          "      --slots K                NAME is a counted lock: up to K may hold it\n"
          "      --max-hold TIME          hold the lock no longer than this\n"
          "      --heartbeat TIME         lose the lock when COMMAND has not called 'holdfast "
          "beat', or\n"
          "                               hf_job_beat(), for so long\n"
          "      --note TEXT              shown to whoever asks who holds the lock\n"
          "      --agent NAME             the agent to use (default: $HOLDFAST_AGENT, else "
          "\"default\")\n"
          "  -v, --verbose                tell what happens on stderr\n"
          "  -h, --help\n"
          "\n"
          "TIME: 30, 30s, 500ms, 5m, 1h, 1d. Exit code: COMMAND's own, 128+N after signal N, 124 "
          "lock lost\n"
          "and COMMAND stopped, 125 Holdfast failed, 126 and 127 COMMAND cannot be run or found, "
          "75 held by\n"
          "another, 69 no agent or too few nodes, 77 not allowed, 64 usage, 78 configuration.\n",
          stdout);
}

enum { OPT_MAX_HOLD = 256, OPT_HEARTBEAT, OPT_ON_LOST, OPT_NOTE, OPT_AGENT, OPT_ALSO, OPT_SLOTS };

static const struct option options[] = {
    {"nonblock", no_argument, NULL, 'n'},
    {"wait", required_argument, NULL, 'w'},
    {"conflict-exit-code", required_argument, NULL, 'E'},
    {"ttl", required_argument, NULL, 't'},
    {"signal", required_argument, NULL, 's'},
    {"on-lost", required_argument, NULL, OPT_ON_LOST},
    {"max-hold", required_argument, NULL, OPT_MAX_HOLD},
    {"heartbeat", required_argument, NULL, OPT_HEARTBEAT},
    {"note", required_argument, NULL, OPT_NOTE},
    {"agent", required_argument, NULL, OPT_AGENT},
    {"also", required_argument, NULL, OPT_ALSO},
    {"slots", required_argument, NULL, OPT_SLOTS},
    {"verbose", no_argument, NULL, 'v'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

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

static int parse_code(const char *text, int *ret_code)
{
    char *end;
    long code;

    errno = 0;
    code = strtol(text, &end, 10);
    if (errno || end == text || *end || code < 0 || code > 255)
        return args_usage("run", "exit code '%s' is not a number from 0 to 255", text);
    *ret_code = (int)code;
    return EXIT_OK;
}

static int parse_slots(const char *text, unsigned *ret_slots)
{
    char *end;
    long slots;

    errno = 0;
    slots = strtol(text, &end, 10);
    if (errno || end == text || *end || slots < 1 || slots > HF_SET_MAX)
        return args_usage("run", "--slots '%s' is not a number from 1 to %d", text, HF_SET_MAX);
    *ret_slots = (unsigned)slots;
    return EXIT_OK;
}

static int add_name(struct run *run, const char *name)
{
    const char *problem = args_name_problem(name);

    if (problem)
        return args_usage("run", "%s", problem);
    for (size_t i = 0; i < run->count; i++)
        if (!strcmp(run->names[i], name))
            return args_usage("run", "the name %s is given twice",
                              text_escape_str(run->shown, sizeof(run->shown), name));
    if (run->count == HF_SET_MAX)
        return args_usage("run", "more than %d names; one job runs under %d locks at most",
                          HF_SET_MAX, HF_SET_MAX);
    run->names[run->count++] = name;
    return EXIT_OK;
}

static int parse_option(struct run *run, int option)
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
        return parse_code(optarg, &run->busy_code);
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
        return parse_slots(optarg, &run->slots);
    case 'v':
        run->verbose = true;
        return EXIT_OK;
    default: /* getopt has said why */
        fputs("holdfast run: see holdfast run --help\n", stderr);
        return EXIT_USAGE;
    }
}

/* EXIT_OK, or the exit code. `ret_help`: only the help was wanted. */
static int parse(struct run *run, int argc, char **argv, bool *ret_help)
{
    static char program[] = "holdfast run"; /* getopt's messages begin with it */
    int option, code;

    argv[0] = program;
    optind = 0; /* scan this argv from its start */
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
    run->names[0] = argv[optind++]; /* the first, whatever came before */
    if (run->slots && run->count > 1)
        return args_usage("run", "--slots and --also do not go together; run one within the other");
    if (optind < argc && !strcmp(argv[optind], "--"))
        optind++;
    if (optind >= argc || !argv[optind][0])
        return args_usage("run", "a command to run is missing");
    run->argv = argv + optind;
    return EXIT_OK;
}

static int64_t wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / NS_PER_MS;
}

/* The lock of that number: one of the names, or a slot of the only one. */
static const char *name_of(const struct run *run, unsigned index, char ret_name[SLOT_NAME_SIZE])
{
    if (!run->slots)
        return run->names[index < run->count ? index : 0];
    snprintf(ret_name, SLOT_NAME_SIZE, "%s#%u", run->names[0], index);
    return ret_name;
}

/* `index`: which of the locks is in the way. */
static void say_conflict(const struct run *run, unsigned index, const struct hf_holder *holder,
                         const char *more)
{
    char line[CONFLICT_SIZE], name[SLOT_NAME_SIZE], all[64] = "";

    if (run->slots > 1)
        snprintf(all, sizeof(all), "; all %u slots are taken", run->slots);
    say("%s%s%s", conflict_line(line, sizeof(line), name_of(run, index, name), holder, wall_ms()),
        all, more);
}

/* Says what a wait is for: once per change, and each new holder only when asked to be verbose. */
static void on_progress(const struct hf_progress *progress, void *arg)
{
    struct run *run = arg;
    char more[64] = "; waiting";
    bool new_text = strncmp(progress->text, run->said_text, sizeof(run->said_text)) != 0;

    if (run->wait_ms == 0)
        return;
    if (progress->reason == run->said_reason &&
        (progress->reason == HF_EBUSY ? !run->verbose : !new_text))
        return;
    run->said_reason = progress->reason;
    memcpy(run->said_text, progress->text, sizeof(run->said_text));
    if (progress->reason == HF_EBUSY && progress->place > 1)
        snprintf(more, sizeof(more), "; waiting, place %" PRIu32 " on this host", progress->place);
    if (progress->reason == HF_EBUSY)
        say_conflict(run, (unsigned)progress->index, &progress->holder, more);
    else if (progress->text[0])
        say("%s: waiting: %s", run->shown, progress->text);
    else
        say("%s: waiting: %s (%" PRIu32 " nodes up, %" PRIu32 " may vote)", run->shown,
            hf_strerror(progress->reason), progress->nodes_up, progress->nodes_voting);
}

/* The exit code of an acquire that failed, with its message. */
static int refused(const struct run *run, int status)
{
    char message[256];
    struct hf_holder holder;
    int code = exit_code_of(status);

    snprintf(message, sizeof(message), "%s", hf_last_message());
    if (status == HF_ETIMEDOUT && run->said_reason && run->said_reason != HF_EBUSY)
        code = exit_code_of(run->said_reason); /* the wait is over, and it was not for a holder */
    if (code == EXIT_BUSY) {
        bool known = hf_conflict(&holder) == HF_OK;
        int index = hf_conflict_index();

        say_conflict(run, index < 0 ? 0 : (unsigned)index, known ? &holder : NULL,
                     run->wait_ms > 0 ? "; the wait is over" : "");
        return run->busy_code;
    }
    if (hf_conflict_index() >= 0) { /* the message begins with that name */
        say("%s", message);
        return code;
    }
    say("%s: %s", run->shown, message[0] ? message : hf_strerror(status));
    return code;
}

/* Whether a signal ends the wait: 0, or its number. */
static int signal_in_wait(const struct run *run)
{
    struct signalfd_siginfo info;

    while (signals_next(&run->signals, &info)) {
        if (info.ssi_signo == SIGTSTP)
            kill(getpid(), SIGSTOP);
        else if (signals_ends((int)info.ssi_signo))
            return (int)info.ssi_signo;
    }
    return 0;
}

/* Sleeps until something happens. Returns false when the wait is over for us, whatever the agent
 * says. */
static bool wait_for_news(const struct run *run, hf_client *client)
{
    struct pollfd fds[] = {
        {.fd = run->signals.fd, .events = POLLIN},
        {.fd = hf_fd(client), .events = POLLIN},
    };
    int64_t left_ms = -1;

    if (run->wait_ms >= 0) {
        left_ms = run->wait_ms + PATIENCE_MS - (timeline_now_ns() - run->began_ns) / NS_PER_MS;
        if (left_ms <= 0)
            return false;
    }
    poll(fds, 2, left_ms > INT32_MAX ? INT32_MAX : (int)left_ms);
    if (fds[1].revents)
        hf_dispatch(client);
    return true;
}

static int begin(struct run *run, hf_client *client, hf_op **ret_op)
{
    struct hf_name names[HF_SET_MAX];
    struct hf_acquire_options wanted = {
        .size = sizeof(wanted),
        .ttl_ms = (uint32_t)run->ttl_ms,
        .max_hold_ms = (uint32_t)run->max_hold_ms,
        .wait_ms = run->wait_ms,
        .flags = HF_ACQUIRE_RUN | HF_ACQUIRE_GUARDED,
        .heartbeat_ms = (uint32_t)run->heartbeat_ms,
        .note = run->note,
        .progress = on_progress,
        .arg = run,
    };

    if (run->count > 1) {
        for (size_t i = 0; i < run->count; i++)
            names[i] = hf_str(run->names[i]);
        return hf_acquire_all_start(client, &wanted, names, run->count, ret_op);
    }
    wanted.name = run->names[0];
    wanted.name_len = strlen(run->names[0]);
    return run->slots ? hf_acquire_slot_start(client, &wanted, run->slots, ret_op)
                      : hf_acquire_start(client, &wanted, ret_op);
}

/* EXIT_OK with the leases, in the order of the names, or the exit code. */
static int acquire(struct run *run, hf_client *client, hf_lease **ret_leases)
{
    hf_op *op;
    int status = begin(run, client, &op);

    if (status < 0)
        return refused(run, status);
    while ((status = hf_op_result(op, ret_leases)) == HF_EPENDING) {
        int signal = signal_in_wait(run);

        if (signal) {
            hf_op_cancel(op);
            return EXIT_BY_SIGNAL + signal;
        }
        if (!wait_for_news(run, client)) {
            hf_op_cancel(op);
            say("%s: the agent does not answer", run->shown);
            return EXIT_UNAVAILABLE;
        }
    }
    return status < 0 ? refused(run, status) : EXIT_OK;
}

/* Only what is true of this run: it may be a job of another one. */
static void set_environment(const struct run *run, const struct hold *hold)
{
    char variable[32], value[SLOT_NAME_SIZE];
    int slot = hf_slot_number(hold->leases[0]);

    for (unsigned i = 0; i < HF_SET_MAX; i++) {
        char suffix[8] = ""; /* none for the first, then _2, _3, ... */

        if (i > 0)
            snprintf(suffix, sizeof(suffix), "_%u", i + 1);
        snprintf(variable, sizeof(variable), "HOLDFAST_NAME%s", suffix);
        if (i < hold->count)
            setenv(variable, name_of(run, slot < 0 ? i : (unsigned)slot, value), 1);
        else
            unsetenv(variable);
        snprintf(variable, sizeof(variable), "HOLDFAST_FENCE%s", suffix);
        snprintf(value, sizeof(value), "%" PRIu64, i < hold->count ? hf_fence(hold->leases[i]) : 0);
        if (i < hold->count)
            setenv(variable, value, 1);
        else
            unsetenv(variable);
    }
    unsetenv("HOLDFAST_SLOT");
    unsetenv("HOLDFAST_SLOTS");
    if (slot >= 0) {
        snprintf(value, sizeof(value), "%d", slot);
        setenv("HOLDFAST_SLOT", value, 1);
        snprintf(value, sizeof(value), "%u", run->slots);
        setenv("HOLDFAST_SLOTS", value, 1);
    }
    if (run->agent) /* for `holdfast check` in the job */
        setenv("HOLDFAST_AGENT", run->agent, 1);
}

/* "a, b, c", each escaped; cut where there is no room. */
static void show_names(struct run *run)
{
    size_t used = 0;

    for (size_t i = 0; i < run->count && used < sizeof(run->shown) - 3; i++) {
        if (i > 0)
            used += (size_t)snprintf(run->shown + used, sizeof(run->shown) - used, ", ");
        text_escape_str(run->shown + used, sizeof(run->shown) - used, run->names[i]);
        used += strlen(run->shown + used);
    }
}

static int name_leases(struct run *run, struct hold *hold)
{
    char name[SLOT_NAME_SIZE];
    int slot = hf_slot_number(hold->leases[0]);

    run->each = calloc(hold->count, sizeof(run->each[0]));
    if (!run->each)
        return HF_ENOMEM;
    for (size_t i = 0; i < hold->count; i++) {
        unsigned index = slot < 0 ? (unsigned)i : (unsigned)slot;

        text_escape_str(run->each[i], sizeof(run->each[i]), name_of(run, index, name));
        hold->names[i] = run->each[i];
    }
    if (slot >= 0)
        memcpy(run->shown, run->each[0], sizeof(run->shown));
    return HF_OK;
}

static void say_acquired(const struct run *run, const struct hold *hold)
{
    char span[TEXT_SPAN_SIZE];

    text_span(span, sizeof(span), (timeline_now_ns() - run->began_ns) / NS_PER_MS);
    for (size_t i = 0; i < hold->count; i++)
        say("%s: acquired after %s, fence %" PRIu64, hold->names[i], span,
            hf_fence(hold->leases[i]));
}

static int hold_and_run(struct run *run, hf_client *client)
{
    struct hf_agent_info agent = {.size = sizeof(agent)};
    struct guardian_plan plan = {
        .name = run->shown,
        .argv = run->argv,
        .on_lost = run->on_lost,
        .stop_signal = run->stop_signal,
        .heartbeat_ns = run->heartbeat_ms * NS_PER_MS,
        .verbose = run->verbose,
        .signals = &run->signals,
    };
    struct hold hold = {.client = client};
    int code, signal, status = hf_agent_info(client, &agent);

    if (status < 0)
        return refused(run, status);
    code = acquire(run, client, hold.leases);
    if (code != EXIT_OK)
        return code;
    hold.count = run->count;
    signal = signal_in_wait(run);
    if (signal || name_leases(run, &hold) < 0) {
        hold_release(&hold);
        return signal ? EXIT_BY_SIGNAL + signal : EXIT_FAILED;
    }
    if (run->verbose)
        say_acquired(run, &hold);
    set_environment(run, &hold);
    plan.ttl_ns = (run->ttl_ms ? run->ttl_ms : (int64_t)agent.ttl_ms) * NS_PER_MS;
    return guardian_run(&plan, &hold);
}

int cmd_run(int argc, char **argv)
{
    struct run run = {.wait_ms = -1, .busy_code = EXIT_BUSY, .stop_signal = SIGTERM};
    bool help = false;
    hf_client *client;
    const char *slash;
    int status, code = parse(&run, argc, argv, &help);

    if (code != EXIT_OK)
        return code;
    if (help) {
        show_help();
        return fflush(stdout) == 0 ? EXIT_OK : EXIT_FAILED;
    }
    show_names(&run);
    run.began_ns = timeline_now_ns();
    say_init();
    if (signals_take(&run.signals) < 0) {
        say("signals: %s", strerror(errno));
        return EXIT_FAILED;
    }
    /* Who is in the way is told by the job's name, which means more to people than ours. */
    slash = strrchr(run.argv[0], '/');
    (void)prctl(PR_SET_NAME, slash ? slash + 1 : run.argv[0]);
    status = hf_connect(run.agent, &client);
    (void)prctl(PR_SET_NAME, "holdfast");
    if (status < 0)
        return refused(&run, status);
    code = hold_and_run(&run, client);
    hf_disconnect(client);
    free(run.each);
    return code;
}
