#include "tools/run/acquire.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libclient/holdfast_sets.h"
#include "tools/common/args.h"
#include "tools/common/text.h"
#include "tools/common/process.h"
#include "tools/common/since.h"
#include "tools/run/say.h"
#include "tools/run/timeline.h"

/* --- a lock within the same lock -------------------------------------------------------------- */

#define NS_PER_MS INT64_C(1000000)

/* The innermost run, by the environment: nobody but its job has this fence there. */
static bool acquire_innermost_holds(const char *name, uint64_t fence)
{
    for (unsigned i = 1; i <= HF_SET_MAX && fence; i++) {
        char variable[32], suffix[8] = ""; /* tools/run/job.c */
        const char *value;
        uint64_t number;

        if (i > 1)
            snprintf(suffix, sizeof(suffix), "_%u", i);
        snprintf(variable, sizeof(variable), "HOLDFAST_NAME%s", suffix);
        value = getenv(variable);
        if (!value)
            return false;
        if (strcmp(value, name) != 0)
            continue;
        snprintf(variable, sizeof(variable), "HOLDFAST_FENCE%s", suffix);
        value = getenv(variable);
        if (value && args_number(value, 1, UINT64_MAX, &number) == HF_OK && number == fence)
            return true;
    }
    return false;
}

/* Any run around that one. A process that has started after the grant is another one with a reused pid; a program that is no run may
 * release its lock while a child waits for it. */
static bool acquire_ancestor_holds(const struct hf_holder *holder)
{
    int64_t held_ms = wall_now_ms() - holder->since_wall_ms;
    struct process_stat stat;

    return holder->pid && holder->since_wall_ms > 0 && conflict_is_here(holder) &&
           process_stat(-1, (pid_t)holder->pid, &stat) == 0 && !strcmp(stat.command, "holdfast") &&
           process_descends(getppid(), (pid_t)holder->pid, timeline_now_ns() - held_ms * NS_PER_MS);
}

/* Whether this process is in the job of `holder`, who has the lock `name`: to wait for its end would be to wait for oneself.
 * `pids_are_ours`:
 * the holder's is one of this PID namespace, if it is on this host. */
static bool acquire_around_holds(const char *name, const struct hf_holder *holder,
                                 bool pids_are_ours)
{
    return acquire_innermost_holds(name, holder->fence) ||
           (pids_are_ours && acquire_ancestor_holds(holder));
}

/* --- the line of a long wait ------------------------------------------------------------------ */

#define LONG_MS 3000 /* who waits no longer has read the line before */

const char *wait_line_text(char out[WAIT_LINE_SIZE], const struct wait_line *line, const char *name,
                           int64_t waited_ms, int64_t most_ms, int64_t now_wall_ms)
{
    char waited[TEXT_SPAN_SIZE], most[TEXT_SPAN_SIZE + 8] = "", place[32] = "";
    char conflict[CONFLICT_SIZE], span[TEXT_SPAN_SIZE], shown[TEXT_NAME_SIZE];
    bool busy = line->last.reason == HF_EBUSY;

    text_span(waited, sizeof(waited), waited_ms / 1000 * 1000);
    if (most_ms > 0)
        snprintf(most, sizeof(most), " of %s", text_span(span, sizeof(span), most_ms));
    if (busy && line->last.place)
        snprintf(place, sizeof(place), ", place %" PRIu32, line->last.place);
    if (busy)
        conflict_line(conflict, sizeof(conflict), name, &line->last.holder, now_wall_ms);
    else
        snprintf(conflict, sizeof(conflict), "%s: %s", text_escape_str(shown, sizeof(shown), name),
                 line->last.text[0] ? line->last.text : hf_strerror(line->last.reason));
    snprintf(out, WAIT_LINE_SIZE, "waiting for %s%s%s: %s", waited, most, place, conflict);
    return out;
}

bool wait_line_show(const struct wait_line *line, const char *name, int64_t waited_ms,
                    int64_t most_ms)
{
    char text[WAIT_LINE_SIZE];

    if (!line->last.reason || !say_can_rewrite())
        return false;
    if (waited_ms >= LONG_MS)
        say_rewrite("%s", wait_line_text(text, line, name, waited_ms, most_ms, wall_now_ms()));
    return true;
}

/* --- acquiring -------------------------------------------------------------------------------- */

#define NS_PER_MS INT64_C(1000000)

/* An agent that hangs does not end a wait: so long after the wait's end we end it. */
#define PATIENCE_MS 2500

#define QUIET_MS    20  /* without news of the client: it has no more to send */
#define AGAIN_MS    200 /* before an agent that is away is looked for again */
#define ROOM_MS                                                                                    \
    300 /* before an agent that is full is asked again: as much more at random, for those that come all at once */

/* "a, b, c", each escaped; cut where there is no room. */
static void acquire_show_names(struct acquire *acquire)
{
    size_t used = 0;

    for (size_t i = 0; i < acquire->wanted->count && used < sizeof(acquire->shown) - 3; i++) {
        if (i > 0)
            used += (size_t)snprintf(acquire->shown + used, sizeof(acquire->shown) - used, ", ");
        text_escape_str(acquire->shown + used, sizeof(acquire->shown) - used,
                        acquire->wanted->names[i]);
        used += strlen(acquire->shown + used);
    }
}

void acquire_init(struct acquire *acquire, const struct run_options *wanted,
                  const struct signals *signals)
{
    *acquire =
        (struct acquire){.wanted = wanted, .signals = signals, .began_ns = timeline_now_ns()};
    acquire_show_names(acquire);
}

/* --- messages ------------------------------------------------------------------ */

/* `index`: the lock that is not free; `shared_by`: how many share it, 0 unless they are in the way. */
static void acquire_say_conflict(const struct acquire *acquire, unsigned index, uint32_t shared_by,
                                 const struct hf_holder *holder, const char *more)
{
    const struct run_options *wanted = acquire->wanted;
    char line[CONFLICT_SIZE], name[RUN_OPTIONS_NAME_SIZE], all[64] = "", shared[64] = "";
    int slots = wanted->slots;

    if (wanted->mode == RUN_SHARED)
        slots = index == HF_EXCLUSIVE_NAME ? 0 : slots ? slots : HF_SET_MAX;
    if (slots > 1)
        snprintf(all, sizeof(all), "; all %d slots are taken", slots);
    if (shared_by)
        snprintf(shared, sizeof(shared), " is held shared by %" PRIu32 ": ", shared_by);
    say("%s%s%s%s%s", shared_by ? acquire->shown : "", shared,
        conflict_line(line, sizeof(line), run_options_name(wanted, index, name), holder,
                      wall_now_ms()),
        all, more);
}

/* Where the lock has slots there are others than the one that the job has; who wants it exclusive needs all. */
static bool acquire_is_around(const struct acquire *acquire, unsigned index,
                              const struct hf_holder *holder)
{
    char name[RUN_OPTIONS_NAME_SIZE];
    enum run_mode mode = acquire->wanted->mode;
    bool others = mode == RUN_SHARED ? index != HF_EXCLUSIVE_NAME
                                     : mode != RUN_EXCLUSIVE && acquire->wanted->slots;

    return !others && holder &&
           acquire_around_holds(run_options_name(acquire->wanted, index, name), holder,
                                acquire->pids_are_ours);
}

#define AROUND_TEXT                                                                                \
    "; that is the job which this command is part of, so the wait would never end: leave out the " \
    "inner holdfast, or give it another name"

/* Says what is waited for: once per change, and each new holder only with --verbose. */
static void acquire_on_progress(const struct hf_progress *progress, void *arg)
{
    struct acquire *acquire = arg;
    char more[64] = "; waiting";
    bool new_text = strncmp(progress->text, acquire->said_text, sizeof(acquire->said_text)) != 0;
    bool new_name = progress->index != acquire->said_index && acquire->wanted->count > 1;

    if (acquire->wanted->wait_ms == 0 || acquire->around)
        return;
    if (progress->reason == HF_EBUSY &&
        acquire_is_around(acquire, (unsigned)progress->index, &progress->holder)) {
        acquire->around = true;
        acquire_say_conflict(acquire, (unsigned)progress->index, progress->holders,
                             &progress->holder, AROUND_TEXT);
        return;
    }
    if (acquire->by && acquire->by->progress) {
        acquire->said_reason = progress->reason;
        acquire->by->progress(progress, acquire->by->arg);
        return;
    }
    acquire->line.last = *progress;
    if (progress->reason == acquire->said_reason &&
        (progress->reason == HF_EBUSY ? !acquire->wanted->verbose && !new_name : !new_text))
        return;
    acquire->said_reason = progress->reason;
    acquire->said_index = progress->index;
    memcpy(acquire->said_text, progress->text, sizeof(acquire->said_text));
    if (progress->reason == HF_EBUSY && progress->place > 1)
        snprintf(more, sizeof(more), "; waiting, place %" PRIu32 " on this host", progress->place);
    if (progress->reason == HF_EBUSY)
        acquire_say_conflict(acquire, (unsigned)progress->index, progress->holders,
                             &progress->holder, more);
    else if (progress->text[0])
        say("%s: waiting: %s", acquire->shown, progress->text);
    else
        say("%s: waiting: %s (%" PRIu32 " nodes up, %" PRIu32 " may vote)", acquire->shown,
            hf_strerror(progress->reason), progress->nodes_up, progress->nodes_voting);
}

int acquire_refused(const struct acquire *acquire, int status)
{
    char message[256];
    struct hf_holder holder;
    int code = exit_code_of(status);

    snprintf(message, sizeof(message), "%s", hf_last_message());
    /* The wait is over, and no holder was the cause. */
    if (status == HF_ETIMEDOUT && acquire->said_reason && acquire->said_reason != HF_EBUSY)
        code = exit_code_of(acquire->said_reason);
    if (code == EXIT_BUSY) {
        bool known = hf_conflict(&holder) == HF_OK;
        int index = hf_conflict_index();
        unsigned none = acquire->wanted->mode ? HF_EXCLUSIVE_NAME : 0;
        unsigned which = index < 0 ? none : (unsigned)index;

        acquire_say_conflict(acquire, which, (uint32_t)hf_conflict_count(), known ? &holder : NULL,
                             known && acquire_is_around(acquire, which, &holder) ? AROUND_TEXT
                             : acquire->wanted->wait_ms > 0 ? "; the wait is over"
                                                            : "");
        return acquire->wanted->busy_code;
    }
    if (hf_conflict_index() >= 0) { /* the message begins with that name */
        say("%s", message);
        return code;
    }
    say("%s: %s", acquire->shown, message[0] ? message : hf_strerror(status));
    return code;
}

int acquire_given_up(const struct acquire *acquire)
{
    say("%s: not granted: standard input has ended, so nobody waits for it", acquire->shown);
    return EXIT_BUSY;
}

int acquire_signal(const struct acquire *acquire)
{
    struct signalfd_siginfo info;

    for (int i = 0; i < SIGNALS_AT_ONCE && signals_next(acquire->signals, &info); i++)
        if (acquire->by && acquire->by->hears_terminal && signals_from_terminal(&info) &&
            info.ssi_signo != SIGTSTP)
            continue;
        else if (info.ssi_signo == SIGTSTP || signals_ends((int)info.ssi_signo))
            return (int)info.ssi_signo;
    return 0;
}

/* The rest of the wait: -1 for ever; at least 1 for a wait, since 0 is a try. */
static int64_t acquire_wait_left_ms(const struct acquire *acquire)
{
    int64_t left_ms = acquire->wanted->wait_ms;

    if (left_ms > 0) {
        left_ms -= (timeline_now_ns() - acquire->began_ns) / NS_PER_MS;
        left_ms = left_ms > 0 ? left_ms : 1;
    }
    return left_ms;
}

/* --- the agent -------------------------------------------------------------------------------- */

static void acquire_look_for_whom(struct acquire *acquire, const struct pollfd *fd)
{
    if (acquire->by && fd->revents && acquire->by->gone(acquire->by->arg))
        acquire->given_up = true;
}

/* Sleeps until the client has news, for `most_ms` at most (-1: no limit). Returns a signal that ends
 * this process, or 0. */
static int acquire_poll_client(struct acquire *acquire, hf_client *client, int most_ms)
{
    struct pollfd fds[] = {
        {.fd = acquire->signals->fd, .events = POLLIN},
        {.fd = client ? hf_fd(client) : -1, .events = POLLIN},
        {.fd = acquire->by ? acquire->by->fd : -1, .events = POLLIN},
    };
    int signal;

    if (poll(fds, 3, most_ms) > 0)
        acquire_look_for_whom(acquire, &fds[2]);
    if (client)
        hf_dispatch(client);
    while ((signal = acquire_signal(acquire)) == SIGTSTP)
        kill(getpid(), SIGSTOP);
    return signal;
}

/* HF_OK with a client, or a negative code; `ret_signal` gets a signal that ends this process. */
static int acquire_connect_once(struct acquire *acquire, hf_client **ret_client, int *ret_signal)
{
    struct hf_agent_info agent = HF_AGENT_INFO_INIT;
    hf_client *client = NULL;
    int status = hf_connect_start(acquire->wanted->agent, &client);

    if (status < 0)
        return status;
    status = hf_fd(client); /* from here on it is there, for every poll() */
    if (status < 0) {
        hf_disconnect(client);
        return status;
    }
    while ((status = hf_connect_result(client)) == HF_EPENDING && !*ret_signal &&
           !acquire->given_up)
        *ret_signal = acquire_poll_client(acquire, client, -1);
    if (status == HF_OK && !*ret_signal) {
        acquire->pids_are_ours =
            hf_agent_info(client, &agent) == HF_OK && process_pids_are_of(agent.agent_pidns);
        *ret_client = client;
    } else {
        hf_disconnect(client);
    }
    return acquire->given_up && status == HF_EPENDING ? HF_ECANCELED : status;
}

static bool acquire_is_full(int status)
{
    return status == HF_EFULL || status == HF_ELIMIT;
}

/* Whether the wait goes on after such a refusal: other clients end, and agents come back. */
static bool acquire_waits_on(const struct acquire *acquire, int status)
{
    int64_t left_ms = acquire_wait_left_ms(acquire);

    if (acquire_is_full(status))
        return left_ms < 0 || left_ms > 1;
    return (status == HF_ENOAGENT || status == HF_ESHUTDOWN) && left_ms > 1;
}

/* Sleeps a moment after such a refusal. Returns a signal that ends this process, or 0. */
static int acquire_wait_on(struct acquire *acquire, int status)
{
    int pause_ms =
        acquire_is_full(status) ? ROOM_MS + (int)((unsigned)getpid() % ROOM_MS) : AGAIN_MS;

    if (acquire->said_reason != status)
        say("%s: waiting: %s", acquire->shown, hf_last_message());
    acquire->said_reason = status;
    return acquire_poll_client(acquire, NULL, pause_ms);
}

int acquire_connect(struct acquire *acquire, hf_client **ret_client, int *ret_signal)
{
    int status;

    for (;;) {
        status = acquire_connect_once(acquire, ret_client, ret_signal);
        if (*ret_signal || !acquire_waits_on(acquire, status))
            return status;
        *ret_signal = acquire_wait_on(acquire, status);
        if (*ret_signal)
            return status;
        if (acquire->given_up)
            return HF_ECANCELED;
    }
}

bool acquire_sleep(const struct acquire *acquire, hf_client *client)
{
    struct pollfd fds[] = {
        {.fd = acquire->signals->fd, .events = POLLIN},
        {.fd = hf_fd(client), .events = POLLIN},
    };

    if (acquire->wanted->wait_ms <= 0 || acquire_wait_left_ms(acquire) <= 1)
        return false;
    (void)poll(fds, 2, AGAIN_MS);
    hf_dispatch(client);
    return !fds[0].revents;
}

/* --- the lock --------------------------------------------------------------------------------- */

int acquire_begin(struct acquire *acquire, hf_client *client, hf_op **ret_op)
{
    struct hf_name names[HF_SET_MAX];
    struct hf_acquire_options wanted = {
        .size = sizeof(wanted),
        .ttl_ms = (uint32_t)acquire->wanted->ttl_ms,
        .max_hold_ms = (uint32_t)acquire->wanted->max_hold_ms,
        .wait_ms = acquire_wait_left_ms(acquire),
        .flags = acquire->by ? 0 : HF_ACQUIRE_JOB | HF_ACQUIRE_SECOND_GUARDIAN,
        .heartbeat_ms = (uint32_t)acquire->wanted->heartbeat_ms,
        .note = acquire->wanted->note,
        .progress = acquire_on_progress,
        .arg = acquire,
    };

    if (acquire->wanted->count > 1) {
        for (size_t i = 0; i < acquire->wanted->count; i++)
            names[i] = hf_str(acquire->wanted->names[i]);
        return hf_acquire_all_start(client, &wanted, names, acquire->wanted->count, ret_op);
    }
    wanted.name = acquire->wanted->names[0];
    wanted.name_len = strlen(acquire->wanted->names[0]);
    if (acquire->wanted->mode == RUN_EXCLUSIVE)
        return hf_acquire_exclusive_start(client, &wanted, ret_op);
    if (acquire->wanted->mode == RUN_SHARED)
        return hf_acquire_shared_start(client, &wanted, (unsigned)acquire->wanted->slots, ret_op);
    return acquire->wanted->slots
               ? hf_acquire_slot_start(client, &wanted, (unsigned)acquire->wanted->slots, ret_op)
               : hf_acquire_start(client, &wanted, ret_op);
}

static void acquire_show_line(struct acquire *acquire, int64_t *most_ms)
{
    char name[RUN_OPTIONS_NAME_SIZE];

    if (!wait_line_show(&acquire->line,
                        run_options_name(acquire->wanted, (unsigned)acquire->line.last.index, name),
                        (timeline_now_ns() - acquire->began_ns) / NS_PER_MS,
                        acquire->wanted->wait_ms))
        return;
    if (*most_ms < 0 || *most_ms > WAIT_LINE_EVERY_MS)
        *most_ms = WAIT_LINE_EVERY_MS;
}

/* Sleeps until something happens. Returns false when the wait is over here, whatever the agent
 * does. */
static bool acquire_wait_for_news(struct acquire *acquire, hf_client *client)
{
    struct pollfd fds[] = {
        {.fd = acquire->signals->fd, .events = POLLIN},
        {.fd = hf_fd(client), .events = POLLIN},
        {.fd = acquire->by ? acquire->by->fd : -1, .events = POLLIN},
    };
    int64_t left_ms = -1;

    if (acquire->wanted->wait_ms >= 0) {
        left_ms = acquire->wanted->wait_ms + PATIENCE_MS -
                  (timeline_now_ns() - acquire->began_ns) / NS_PER_MS;
        if (left_ms <= 0)
            return false;
    }
    acquire_show_line(acquire, &left_ms);
    if (poll(fds, 3, left_ms > INT32_MAX ? INT32_MAX : (int)left_ms) <= 0)
        return true;
    acquire_look_for_whom(acquire, &fds[2]);
    if (fds[1].revents)
        hf_dispatch(client);
    return true;
}

/* A cancelled op may leave more to be given back than the agent takes at once. */
static void acquire_send_rest(hf_client *client)
{
    struct pollfd fd = {.fd = hf_fd(client), .events = POLLIN};

    for (int i = 0; i < 100 && poll(&fd, 1, QUIET_MS) > 0; i++)
        hf_dispatch(client);
}

/* Stopped from the terminal. A set, or what stands at a gate, releases its leases meanwhile, since others wait
 * for them. */
static int acquire_stop_in_wait(struct acquire *acquire, hf_client *client, hf_op **op)
{
    say_rewrite("%s", "");
    if (acquire->wanted->count == 1 && !acquire->wanted->mode) {
        kill(getpid(), SIGSTOP);
        return HF_OK;
    }
    hf_op_cancel(*op);
    acquire_send_rest(client);
    kill(getpid(), SIGSTOP);
    return acquire_begin(acquire, client, op);
}

/* HF_OK: granted. HF_ECANCELED: it ends here, with `ret_code`. Else refused. */
static int acquire_wait(struct acquire *acquire, hf_client *client, hf_op *op,
                        hf_lease **ret_leases, int *ret_code)
{
    int status = HF_OK;

    while (status == HF_OK && (status = hf_op_result(op, ret_leases)) == HF_EPENDING) {
        int signal = acquire_signal(acquire);

        if (signal == SIGTSTP) {
            status = acquire_stop_in_wait(acquire, client, &op);
            continue;
        }
        if (signal) {
            hf_op_cancel(op);
            *ret_code = EXIT_BY_SIGNAL + signal;
            return HF_ECANCELED;
        }
        if (acquire->given_up || acquire->around) {
            hf_op_cancel(op);
            *ret_code = acquire->around ? acquire->wanted->busy_code : acquire_given_up(acquire);
            return HF_ECANCELED;
        }
        if (!acquire_wait_for_news(acquire, client)) {
            hf_op_cancel(op);
            say("%s: the agent does not answer", acquire->shown);
            *ret_code = EXIT_UNAVAILABLE;
            return HF_ECANCELED;
        }
        status = HF_OK; /* undecided */
    }
    return status;
}

bool acquire_await(struct acquire *acquire, hf_client *client, hf_op *op, hf_lease **ret_leases,
                   int *ret_code)
{
    int status = acquire_wait(acquire, client, op, ret_leases, ret_code);

    /* A limit of locks may stand for ever, as where one hold needs more than that: only a wait with an end waits for it. */
    while (acquire_is_full(status) && acquire->wanted->wait_ms > 0 &&
           acquire_waits_on(acquire, status)) {
        int signal = acquire_wait_on(acquire, status);

        if (signal)
            *ret_code = EXIT_BY_SIGNAL + signal;
        else if (acquire->given_up)
            *ret_code = acquire_given_up(acquire);
        if (signal || acquire->given_up)
            return false;
        status = acquire_begin(acquire, client, &op);
        if (status == HF_OK)
            status = acquire_wait(acquire, client, op, ret_leases, ret_code);
    }
    say_rewrite("%s", "");
    if (status < 0 && status != HF_ECANCELED)
        *ret_code = acquire_refused(acquire, status);
    return status == HF_OK;
}
