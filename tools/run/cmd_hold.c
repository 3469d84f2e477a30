/* holdfast hold: holds a lock for a script or a program of any language, until its standard input ends.
 *
 * The worker, the process that called us, learns of a loss by the output: `losing` at V - 0.3 T, then `lost` and the end at
 * V - 0.1 T, as a job would get SIGTERM and SIGKILL. The lease is a plain one, so the agent releases it as soon as this process
 * dies. (!) After a loss this process therefore lives until V: the rest of the validity belongs to a worker that notices the end
 * late. Nothing here may block, since a process that blocks cannot end its output. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libclient/holdfast.h"
#include "libclient/holdfast_sets.h"
#include "tools/common/args.h"
#include "tools/common/process.h"
#include "tools/run/acquire.h"
#include "tools/run/grant.h"
#include "tools/run/guardian.h"
#include "tools/run/lease_group.h"
#include "tools/run/input.h"
#include "tools/run/job.h"
#include "tools/commands.h"
#include "tools/run/run_options.h"
#include "tools/run/say.h"
#include "tools/run/signals.h"
#include "tools/run/tell.h"
#include "tools/run/timeline.h"

#define NS_PER_MS INT64_C(1000000)

struct holding {
    struct run_options wanted;
    struct acquire acquire;
    struct acquire_for by;
    struct signals signals;
    struct input input;
    struct tell tell;
    struct lease_group leases;
    struct timeline timeline;
    int64_t ttl_ns;
    int timer_fd;
    bool late, losing; /* and told */
    char (*each)[TEXT_NAME_SIZE];
};

/* --- the wait --------------------------------------------------------------------------------- */

static bool cmd_hold_gone(void *arg)
{
    struct holding *h = arg;

    return input_look(&h->input);
}

static void cmd_hold_tell_progress(const struct hf_progress *progress, void *arg)
{
    struct holding *h = arg;
    char name[RUN_OPTIONS_NAME_SIZE];
    bool busy = progress->reason == HF_EBUSY;

    tell(&h->tell, &(struct tell_event){
                       .event = "waiting",
                       .name = run_options_name(&h->wanted, (unsigned)progress->index, name),
                       .reason = *progress->text ? progress->text : hf_strerror(progress->reason),
                       .remaining_ms = -1,
                       .waiting = true,
                       .place = busy ? progress->place : 0,
                       .holder = busy ? &progress->holder : NULL,
                   });
}

/* A descriptor of the caller's, such as the other end of our own input, must not be kept open by us. */
static void cmd_hold_close_what_was_inherited(void)
{
    if (syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0) == 0)
        return;
    for (int fd = STDERR_FILENO + 1; fd < 65536; fd++)
        close(fd);
}

/* A signal to the process group of whoever works under the lock, as from timeout(1) or a terminal, is theirs to act on: they end our
 * input when they are done. An interactive shell's job has a group of its own already. */
static void cmd_hold_leave_the_callers_group(const struct input *input)
{
    if (input_is_of_another(input) && getpgid(getppid()) == getpgrp())
        (void)setpgid(0, 0);
}

/* Whoever asks for the holder sees the program that called this one; its own name would tell people nothing. */
static void cmd_hold_go_by_the_callers_name(void)
{
    struct process_stat parent;

    if (process_stat(-1, getppid(), &parent) == 0)
        (void)prctl(PR_SET_NAME, parent.command);
}

static bool cmd_hold_acquire(struct holding *h, hf_client *client, int *ret_code)
{
    hf_op *op = NULL;
    int status = grant_ttl_ns(&h->acquire, client, &h->ttl_ns);

    if (status == HF_OK)
        status = acquire_begin(&h->acquire, client, &op);
    if (status < 0) {
        *ret_code = acquire_refused(&h->acquire, status);
        return false;
    }
    return acquire_await(&h->acquire, client, op, h->leases.lease, ret_code);
}

/* --- the hold --------------------------------------------------------------------------------- */

/* Until `lost` is told, if nothing is renewed. */
static int64_t cmd_hold_remaining_ms(const struct holding *h, int64_t valid_ns, int64_t now_ns)
{
    int64_t left_ns = valid_ns - h->timeline.ttl_ns / 10 - now_ns;

    return left_ns > 0 ? left_ns / NS_PER_MS : 0;
}

static void cmd_hold_tell_granted(struct holding *h)
{
    char name[RUN_OPTIONS_NAME_SIZE];
    int64_t valid_ns = lease_group_valid_until_ns(&h->leases);
    size_t first = grant_first(&h->wanted);

    for (size_t i = first; i < first + grant_told(&h->wanted); i++)
        tell(&h->tell, &(struct tell_event){
                           .event = "granted",
                           .name = grant_name(&h->wanted, &h->leases, i, name),
                           .fence = hf_fence(h->leases.lease[i]),
                           .ttl_ms = h->timeline.ttl_ns / NS_PER_MS,
                           .remaining_ms = cmd_hold_remaining_ms(h, valid_ns, timeline_now_ns()),
                       });
}

/* Nobody works under a lock of which nobody could be told. A reader that has gone is another thing: the input decides. */
static bool cmd_hold_is_untold(const struct holding *h)
{
    return h->tell.fd < 0 && h->tell.error != EPIPE;
}

static int cmd_hold_not_told(const struct holding *h)
{
    say("%s: give it a standard output that takes its lines: the grant cannot be told: %s",
        h->acquire.shown, strerror(h->tell.error));
    return EXIT_FAILED;
}

/* Of the lease that is in the worst state. */
static const char *cmd_hold_worst_name(const struct holding *h,
                                       char ret_name[RUN_OPTIONS_NAME_SIZE])
{
    return grant_name(&h->wanted, &h->leases, lease_group_worst(&h->leases), ret_name);
}

static void cmd_hold_tell_of_worst(struct holding *h, const char *event, const char *reason,
                                   int64_t now_ns)
{
    char name[RUN_OPTIONS_NAME_SIZE];

    tell(&h->tell, &(struct tell_event){
                       .event = event,
                       .name = cmd_hold_worst_name(h, name),
                       .reason = reason,
                       .remaining_ms =
                           cmd_hold_remaining_ms(h, lease_group_valid_until_ns(&h->leases), now_ns),
                   });
}

static const char *cmd_hold_reason_of(const struct holding *h)
{
    const char *name, *reason = lease_group_reason(&h->leases, &name);

    return *reason ? reason : "it was not renewed in time";
}

static void cmd_hold_tell_changes(struct holding *h, enum timeline_phase phase, int64_t now_ns)
{
    bool late = lease_group_state(&h->leases) == HF_STATE_LATE;

    if (phase == TIMELINE_STOP && !h->losing) {
        h->losing = true;
        cmd_hold_tell_of_worst(h, "losing", cmd_hold_reason_of(h), now_ns);
        lease_group_begin_losing(&h->leases);
    }
    if (phase == TIMELINE_HELD && late != h->late) {
        h->late = late;
        cmd_hold_tell_of_worst(h, late ? "late" : "held", NULL, now_ns);
    }
}

static int cmd_hold_tell_lost(struct holding *h, const char *name, const char *reason)
{
    tell(&h->tell,
         &(struct tell_event){.event = "lost", .name = name, .reason = reason, .remaining_ms = -1});
    say("%s: the lock is lost: %s", h->acquire.shown, reason);
    return EXIT_LOST;
}

static void cmd_hold_sleep_until(struct holding *h, int64_t at_ns)
{
    int64_t look_ns = input_prepare(&h->input, timeline_now_ns());
    struct pollfd fds[] = {
        {.fd = h->signals.fd, .events = POLLIN},
        {.fd = h->timer_fd, .events = POLLIN},
        {.fd = hf_fd(h->leases.client), .events = POLLIN},
        {.fd = h->input.fd, .events = POLLIN},
        {.fd = h->tell.used ? h->tell.fd : -1, .events = POLLOUT},
    };

    timeline_arm(h->timer_fd, look_ns < at_ns ? look_ns : at_ns);
    if (poll(fds, sizeof(fds) / sizeof(fds[0]), -1) > 0 && fds[2].revents)
        hf_dispatch(h->leases.client);
}

/* The end that a signal or the input asks for; -1: none. */
static int cmd_hold_asked_to_end(struct holding *h)
{
    int signal = acquire_signal(&h->acquire);

    if (signal == SIGTSTP) { /* what else has come is for the next look */
        kill(getpid(), SIGSTOP);
        signal = 0;
    }
    if (signal == SIGTERM || signal == SIGINT || signal == SIGHUP)
        return EXIT_OK;
    if (signal)
        return EXIT_BY_SIGNAL + signal;
    return input_look(&h->input) ? EXIT_OK : -1;
}

/* A reader of the lines must see the end with them, also one that reads standard error along. */
static void cmd_hold_end_output(struct holding *h)
{
    tell_end(&h->tell);
    say_end();
}

/* For a worker that has seen the end of the output, an end of the input or a signal says that it has stopped. */
static void cmd_hold_live_until_v(struct holding *h)
{
    int64_t valid_ns = lease_group_valid_until_ns(&h->leases);

    while (timeline_now_ns() < valid_ns && cmd_hold_asked_to_end(h) < 0)
        cmd_hold_sleep_until(h, valid_ns);
}

static int cmd_hold_lose(struct holding *h)
{
    char name[RUN_OPTIONS_NAME_SIZE];
    int code = cmd_hold_tell_lost(h, cmd_hold_worst_name(h, name), cmd_hold_reason_of(h));

    cmd_hold_end_output(h);
    cmd_hold_live_until_v(h);
    lease_group_free(&h->leases);
    return code;
}

/* True: all answered, with the first failure among the results. */
static bool cmd_hold_is_released(hf_op **ops, size_t count, int *status)
{
    bool all = true;

    for (size_t i = 0; i < count; i++) {
        int result = ops[i] ? hf_op_result(ops[i], NULL) : HF_OK;

        if (result == HF_EPENDING) {
            all = false;
            continue;
        }
        ops[i] = NULL;
        if (*status == HF_OK)
            *status = result;
    }
    return all;
}

/* Like hf_release_all(), but without an answer it returns at `by_ns`: the output must not outlive that. */
static int cmd_hold_release_by(struct holding *h, int64_t by_ns)
{
    hf_op *ops[HF_EXCLUSIVE_LEASES] = {0};
    size_t count = h->leases.count;
    int status = HF_OK;

    for (size_t i = 0; i < count; i++) {
        int result = hf_release_start(h->leases.lease[i], &ops[i]);

        if (status == HF_OK)
            status = result;
    }
    h->leases.count = 0;
    while (!cmd_hold_is_released(ops, count, &status)) {
        struct pollfd fds[] = {
            {.fd = h->timer_fd, .events = POLLIN},
            {.fd = hf_fd(h->leases.client), .events = POLLIN},
        };

        if (timeline_now_ns() >= by_ns) {
            status = HF_ETIMEDOUT;
            break;
        }
        timeline_arm(h->timer_fd, by_ns);
        (void)poll(fds, 2, -1);
        hf_dispatch(h->leases.client);
    }
    for (size_t i = 0; i < count; i++)
        hf_op_cancel(ops[i]);
    return status;
}

static int cmd_hold_release(struct holding *h, int code)
{
    char buffer[RUN_OPTIONS_NAME_SIZE];
    const char *name = cmd_hold_worst_name(h, buffer);
    int64_t by_ns = lease_group_valid_until_ns(&h->leases) - h->timeline.ttl_ns / 10;
    int status = cmd_hold_release_by(h, by_ns);

    if (status == HF_ELOST || status == HF_ENOTHELD)
        return cmd_hold_tell_lost(h, name, "it was over before it was released");
    if (status < 0)
        say("%s: not released: %s; its key ends by itself within the TTL", h->acquire.shown,
            hf_strerror(status));
    else if (h->wanted.verbose)
        say("%s: released", h->acquire.shown);
    tell(&h->tell, &(struct tell_event){.event = "released", .remaining_ms = -1});
    return code;
}

static int cmd_hold_keep(struct holding *h)
{
    for (;;) {
        int code = cmd_hold_asked_to_end(h);
        int64_t now_ns = timeline_now_ns();
        enum timeline_phase phase;

        timeline_set_ttl(&h->timeline, ttl_now_ns(h->leases.client, h->ttl_ns, h->timeline.ttl_ns));
        phase = timeline_judge(&h->timeline, now_ns, lease_group_valid_until_ns(&h->leases),
                               lease_group_state(&h->leases) == HF_STATE_LOSING);
        if (phase == TIMELINE_KILL)
            return cmd_hold_lose(h);
        if (code >= 0)
            return cmd_hold_release(h, code);
        cmd_hold_tell_changes(h, phase, now_ns);
        tell_flush(&h->tell);
        if (h->input.some) {
            h->input.some = false;
            lease_group_beat(&h->leases);
        }
        cmd_hold_sleep_until(h, timeline_next(&h->timeline, now_ns));
    }
}

static int hold_lock(struct holding *h, hf_client *client)
{
    int code = EXIT_OK;

    h->leases = (struct lease_group){.client = client};
    h->timer_fd = timeline_timer();
    if (h->timer_fd < 0) {
        say("%s: no timer: %s", h->acquire.shown, strerror(errno));
        return EXIT_FAILED;
    }
    if (!cmd_hold_acquire(h, client, &code))
        return code;
    h->leases.count = run_options_leases(&h->wanted);
    timeline_init(&h->timeline, h->ttl_ns, 0);
    if (grant_names(&h->acquire, &h->leases, &h->each) < 0) {
        lease_group_release(&h->leases);
        return EXIT_FAILED;
    }
    if (h->wanted.verbose)
        grant_say(&h->acquire, &h->leases);
    cmd_hold_tell_granted(h);
    code = cmd_hold_is_untold(h) ? cmd_hold_release(h, cmd_hold_not_told(h)) : cmd_hold_keep(h);
    tell_flush(&h->tell);
    return code;
}

int cmd_hold(int argc, char **argv)
{
    static struct holding h;
    bool help = false;
    hf_client *client = NULL;
    int signal = 0, status, code = run_options_parse(&h.wanted, OF_HOLD, argc, argv, &help);

    if (code != EXIT_OK)
        return code;
    if (help) {
        run_options_help(OF_HOLD);
        return EXIT_OK;
    }
    cmd_hold_close_what_was_inherited();
    code = input_open(&h.input, h.wanted.no_stdin);
    if (code != EXIT_OK)
        return code;
    cmd_hold_leave_the_callers_group(&h.input);
    h.by = (struct acquire_for){
        .fd = h.input.fd,
        .gone = cmd_hold_gone,
        .hears_terminal = input_is_of_another(&h.input),
        .progress = h.wanted.json ? cmd_hold_tell_progress : NULL,
        .arg = &h,
    };
    acquire_init(&h.acquire, &h.wanted, &h.signals);
    h.acquire.by = &h.by;
    streams_look();
    say_init();
    own_pages();
    tell_init(&h.tell, h.wanted.json);
    if (signals_take(&h.signals) < 0) {
        say("signals: %s", strerror(errno));
        return EXIT_FAILED;
    }
    cmd_hold_go_by_the_callers_name();
    status = acquire_connect(&h.acquire, &client, &signal);
    (void)prctl(PR_SET_NAME, "holdfast");
    if (signal)
        return EXIT_BY_SIGNAL + signal;
    if (status < 0)
        return h.acquire.given_up ? acquire_given_up(&h.acquire)
                                  : acquire_refused(&h.acquire, status);
    code = hold_lock(&h, client);
    hf_disconnect(client);
    free(h.each);
    return code;
}
