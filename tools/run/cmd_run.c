/* holdfast run: takes a lock, or several, and runs a command under it. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "libclient/holdfast.h"
#include "tools/common/conflict.h"
#include "tools/common/exit_code.h"
#include "tools/common/text.h"
#include "tools/common/wall.h"
#include "tools/run/guardians.h"
#include "tools/run/hold.h"
#include "tools/run/run.h"
#include "tools/run/run_options.h"
#include "tools/run/say.h"
#include "tools/run/signals.h"
#include "tools/run/timeline.h"

#define NS_PER_MS      INT64_C(1000000)
#define SLOT_NAME_SIZE (255 + sizeof("#63")) /* of a name with a slot's number */

/* An agent that hangs does not end a wait: so long after its end we do. */
#define PATIENCE_MS 2500

#define AGAIN_MS    200 /* before an agent that is away is looked for again */

struct run {
    struct run_options wanted;
    char shown[TEXT_NAME_SIZE];   /* the names, escaped, for messages */
    char (*each)[TEXT_NAME_SIZE]; /* the same, of each lease */
    struct signals signals;
    int64_t began_ns;
    int said_reason; /* what the wait was last said to be for; 0 nothing yet */
    size_t said_index;
    char said_text[sizeof(((struct hf_progress *)0)->text)];
};

/* The lock of that number: one of the names, or a slot of the only one. */
static const char *name_of(const struct run *run, unsigned index, char ret_name[SLOT_NAME_SIZE])
{
    if (!run->wanted.slots)
        return run->wanted.names[index < run->wanted.count ? index : 0];
    snprintf(ret_name, SLOT_NAME_SIZE, "%s#%u", run->wanted.names[0], index);
    return ret_name;
}

/* `index`: which of the locks is in the way. */
static void say_conflict(const struct run *run, unsigned index, const struct hf_holder *holder,
                         const char *more)
{
    char line[CONFLICT_SIZE], name[SLOT_NAME_SIZE], all[64] = "";

    if (run->wanted.slots > 1)
        snprintf(all, sizeof(all), "; all %d slots are taken", run->wanted.slots);
    say("%s%s%s",
        conflict_line(line, sizeof(line), name_of(run, index, name), holder, wall_now_ms()), all,
        more);
}

/* Says what a wait is for: once per change, and each new holder only when asked to be verbose. */
static void on_progress(const struct hf_progress *progress, void *arg)
{
    struct run *run = arg;
    char more[64] = "; waiting";
    bool new_text = strncmp(progress->text, run->said_text, sizeof(run->said_text)) != 0;
    bool new_name = progress->index != run->said_index && !run->wanted.slots;

    if (run->wanted.wait_ms == 0)
        return;
    if (progress->reason == run->said_reason &&
        (progress->reason == HF_EBUSY ? !run->wanted.verbose && !new_name : !new_text))
        return;
    run->said_reason = progress->reason;
    run->said_index = progress->index;
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
                     run->wanted.wait_ms > 0 ? "; the wait is over" : "");
        return run->wanted.busy_code;
    }
    if (hf_conflict_index() >= 0) { /* the message begins with that name */
        say("%s", message);
        return code;
    }
    say("%s: %s", run->shown, message[0] ? message : hf_strerror(status));
    return code;
}

/* Whether a signal ends the wait, or is to stop us: 0, or its number. */
static int signal_in_wait(const struct run *run)
{
    struct signalfd_siginfo info;

    while (signals_next(&run->signals, &info))
        if (info.ssi_signo == SIGTSTP || signals_ends((int)info.ssi_signo))
            return (int)info.ssi_signo;
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

    if (run->wanted.wait_ms >= 0) {
        left_ms =
            run->wanted.wait_ms + PATIENCE_MS - (timeline_now_ns() - run->began_ns) / NS_PER_MS;
        if (left_ms <= 0)
            return false;
    }
    poll(fds, 2, left_ms > INT32_MAX ? INT32_MAX : (int)left_ms);
    if (fds[1].revents)
        hf_dispatch(client);
    return true;
}

/* What is left of the wait: -1 for ever; 0 is a try, so never less than 1 of one that was to wait. */
static int64_t wait_left_ms(const struct run *run)
{
    int64_t left_ms = run->wanted.wait_ms;

    if (left_ms > 0) {
        left_ms -= (timeline_now_ns() - run->began_ns) / NS_PER_MS;
        left_ms = left_ms > 0 ? left_ms : 1;
    }
    return left_ms;
}

static int begin(struct run *run, hf_client *client, int64_t wait_ms, hf_op **ret_op)
{
    struct hf_name names[HF_SET_MAX];
    struct hf_acquire_options wanted = {
        .size = sizeof(wanted),
        .ttl_ms = (uint32_t)run->wanted.ttl_ms,
        .max_hold_ms = (uint32_t)run->wanted.max_hold_ms,
        .wait_ms = wait_ms,
        .flags = HF_ACQUIRE_RUN | HF_ACQUIRE_GUARDED,
        .heartbeat_ms = (uint32_t)run->wanted.heartbeat_ms,
        .note = run->wanted.note,
        .progress = on_progress,
        .arg = run,
    };

    if (run->wanted.count > 1) {
        for (size_t i = 0; i < run->wanted.count; i++)
            names[i] = hf_str(run->wanted.names[i]);
        return hf_acquire_all_start(client, &wanted, names, run->wanted.count, ret_op);
    }
    wanted.name = run->wanted.names[0];
    wanted.name_len = strlen(run->wanted.names[0]);
    return run->wanted.slots
               ? hf_acquire_slot_start(client, &wanted, (unsigned)run->wanted.slots, ret_op)
               : hf_acquire_start(client, &wanted, ret_op);
}

/* Stopped from the terminal. A set gives back what it has meanwhile, for others wait for that. */
static int stop_in_wait(struct run *run, hf_client *client, hf_op **op)
{
    if (run->wanted.count == 1) {
        kill(getpid(), SIGSTOP);
        return HF_OK;
    }
    hf_op_cancel(*op);
    kill(getpid(), SIGSTOP);
    return begin(run, client, wait_left_ms(run), op);
}

/* True: the leases, in the order of the names. False: the exit code, which -E makes 0. */
static bool await_grant(struct run *run, hf_client *client, hf_op *op, hf_lease **ret_leases,
                        int *ret_code)
{
    int status = HF_OK;

    while (status == HF_OK && (status = hf_op_result(op, ret_leases)) == HF_EPENDING) {
        int signal = signal_in_wait(run);

        if (signal == SIGTSTP) {
            status = stop_in_wait(run, client, &op);
            continue;
        }
        if (signal) {
            hf_op_cancel(op);
            *ret_code = EXIT_BY_SIGNAL + signal;
            return false;
        }
        if (!wait_for_news(run, client)) {
            hf_op_cancel(op);
            say("%s: the agent does not answer", run->shown);
            *ret_code = EXIT_UNAVAILABLE;
            return false;
        }
        status = HF_OK; /* not decided yet */
    }
    if (status < 0)
        *ret_code = refused(run, status);
    return status == HF_OK;
}

/* The same; what the guardians need is made while the agent is at it. */
static bool acquire(struct run *run, hf_client *client, const struct guardian_plan *plan,
                    struct guardian *ret_guardian, hf_lease **ret_leases, int *ret_code)
{
    hf_op *op;
    int status = begin(run, client, wait_left_ms(run), &op);

    if (status < 0) {
        *ret_code = refused(run, status);
        return false;
    }
    if (guardians_prepare(ret_guardian, plan) < 0) {
        say("%s: cannot prepare the guardians: %s", run->shown, strerror(errno));
        hf_op_cancel(op);
        *ret_code = EXIT_FAILED;
        return false;
    }
    if (await_grant(run, client, op, ret_leases, ret_code))
        return true;
    guardians_free(ret_guardian);
    return false;
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
        snprintf(value, sizeof(value), "%d", run->wanted.slots);
        setenv("HOLDFAST_SLOTS", value, 1);
    }
    if (run->wanted.agent) /* for `holdfast check` in the job */
        setenv("HOLDFAST_AGENT", run->wanted.agent, 1);
}

/* "a, b, c", each escaped; cut where there is no room. */
static void show_names(struct run *run)
{
    size_t used = 0;

    for (size_t i = 0; i < run->wanted.count && used < sizeof(run->shown) - 3; i++) {
        if (i > 0)
            used += (size_t)snprintf(run->shown + used, sizeof(run->shown) - used, ", ");
        text_escape_str(run->shown + used, sizeof(run->shown) - used, run->wanted.names[i]);
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
        .argv = run->wanted.argv,
        .on_lost = run->wanted.on_lost,
        .stop_signal = run->wanted.stop_signal,
        .heartbeat_ns = run->wanted.heartbeat_ms * NS_PER_MS,
        .no_new_privs = run->wanted.no_new_privs,
        .verbose = run->wanted.verbose,
        .signals = &run->signals,
    };
    struct hold hold = {.client = client};
    struct guardian guardian;
    int code = EXIT_OK, signal, status = hf_agent_info(client, &agent);

    if (status < 0)
        return refused(run, status);
    if (*agent.shadowed)
        say("%s: taking it with your own agent %s, whose nodes are private (--dev), and not with "
            "the host's; for that: --agent %s",
            run->shown, agent.agent_name, agent.shadowed);
    plan.ttl_ns = (run->wanted.ttl_ms ? run->wanted.ttl_ms : (int64_t)agent.ttl_ms) * NS_PER_MS;
    if (!acquire(run, client, &plan, &guardian, hold.leases, &code))
        return code;
    hold.count = run->wanted.count;
    while ((signal = signal_in_wait(run)) == SIGTSTP)
        kill(getpid(), SIGSTOP);
    if (signal || name_leases(run, &hold) < 0) {
        hold_release(&hold);
        guardians_free(&guardian);
        return signal ? EXIT_BY_SIGNAL + signal : EXIT_FAILED;
    }
    if (run->wanted.verbose)
        say_acquired(run, &hold);
    set_environment(run, &hold);
    return guardians_run(&guardian, &hold);
}

/* Sleeps until the client has news, for `most_ms` at most (-1: no limit). Returns a signal that ends us,
 * or 0. */
static int poll_client(const struct run *run, hf_client *client, int most_ms)
{
    struct pollfd fds[] = {
        {.fd = run->signals.fd, .events = POLLIN},
        {.fd = client ? hf_fd(client) : -1, .events = POLLIN},
    };
    int signal;

    poll(fds, 2, most_ms);
    if (client)
        hf_dispatch(client);
    while ((signal = signal_in_wait(run)) == SIGTSTP)
        kill(getpid(), SIGSTOP);
    return signal;
}

/* HF_OK with a client, or a negative code; a signal that ends us in `ret_signal`. */
static int connect_once(const struct run *run, hf_client **ret_client, int *ret_signal)
{
    hf_client *client = NULL;
    int status = hf_connect_start(run->wanted.agent, &client);

    if (status < 0)
        return status;
    while ((status = hf_connect_result(client)) == HF_EPENDING && !*ret_signal)
        *ret_signal = poll_client(run, client, -1);
    if (status == HF_OK && !*ret_signal)
        *ret_client = client;
    else
        hf_disconnect(client);
    return status;
}

/* The same; with -w an agent that is away is waited for, as one that is there would be. */
static int connect_agent(struct run *run, hf_client **ret_client, int *ret_signal)
{
    int status;

    for (;;) {
        status = connect_once(run, ret_client, ret_signal);
        if (*ret_signal || status != HF_ENOAGENT || run->wanted.wait_ms <= 0 ||
            wait_left_ms(run) <= 1)
            return status;
        if (run->said_reason != HF_ENOAGENT)
            say("%s: waiting: %s", run->shown, hf_last_message());
        run->said_reason = HF_ENOAGENT;
        *ret_signal = poll_client(run, NULL, AGAIN_MS);
        if (*ret_signal)
            return HF_ENOAGENT;
    }
}

int cmd_run(int argc, char **argv)
{
    struct run run = {0};
    bool help = false;
    hf_client *client = NULL;
    const char *slash;
    int signal = 0, status, code = run_options_parse(&run.wanted, argc, argv, &help);

    if (code != EXIT_OK)
        return code;
    if (help) {
        run_options_help();
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
    slash = strrchr(run.wanted.argv[0], '/');
    (void)prctl(PR_SET_NAME, slash ? slash + 1 : run.wanted.argv[0]);
    status = connect_agent(&run, &client, &signal);
    (void)prctl(PR_SET_NAME, "holdfast");
    if (signal)
        return EXIT_BY_SIGNAL + signal;
    if (status < 0)
        return refused(&run, status);
    code = hold_and_run(&run, client);
    hf_disconnect(client);
    free(run.each);
    return code;
}
