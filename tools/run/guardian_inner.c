/* The inner guardian: the job's parent. */
#include "tools/run/guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/common/args.h"
#include "tools/common/text.h"
#include "tools/run/input.h"
#include "tools/run/job.h"
#include "tools/run/say.h"

/* --- whether the job is due ------------------------------------------------------------------- */

#define NS_PER_MS INT64_C(1000000)
/* (!) Without -w, too: the nodes may have a record of a run that has not begun, which nobody else can begin. */
#define NODES_NS (5000 * NS_PER_MS)
#define AGAIN_MS 200

/* Before the nodes are asked again. False: a signal came, of which the outer guardian tells, or that one is gone. (!) The client's
 * events do not end it: each answer is one. */
static bool due_pause(const struct guardian *g)
{
    struct pollfd fds[] = {
        {.fd = g->plan->signals->fd, .events = POLLIN},
        {.fd = g->link_fd, .events = POLLIN},
        {.fd = g->peer_fd, .events = POLLIN},
    };

    (void)poll(fds, sizeof(fds) / sizeof(fds[0]), AGAIN_MS);
    hf_dispatch(g->leases.client);
    return !fds[0].revents && !fds[1].revents && !fds[2].revents;
}

static bool due_is_held(struct guardian *g)
{
    return guardian_judge(g, timeline_now_ns()) == TIMELINE_HELD;
}

static int due_ask(struct guardian *g)
{
    int64_t until_ns = timeline_now_ns() + NODES_NS, before = 0;
    int status;

    if (until_ns < g->plan->once_until_ns)
        until_ns = g->plan->once_until_ns;
    do { /* nodes come back, as those of an agent that has just started; a loss ends it */
        atomic_store(&g->shared->late_ns, timeline_now_ns() + guardian_patience_ns(g));
        status = lease_group_once(&g->leases, g->plan->once_per_ms, &before);
    } while (status == HF_ENOQUORUM && due_is_held(g) && timeline_now_ns() < until_ns &&
             due_pause(g));
    atomic_store(&g->shared->once_before, before);
    return status;
}

static bool due_outer_is_gone(const struct guardian *g)
{
    struct pollfd outer = {.fd = g->peer_fd, .events = POLLIN};

    return poll(&outer, 1, 0) > 0;
}

/* It was told to start the job. Returns the exit code, if that must not be any more. */
static int due_still(struct guardian *g)
{
    if (!due_is_held(g)) {
        say("%s: the lock was lost before the job was started", g->plan->name);
        return EXIT_LOST;
    }
    return due_outer_is_gone(g) ? EXIT_FAILED : EXIT_OK;
}

/* The job was to run, and could not be started. */
static void due_take_back(const struct guardian *g)
{
    if (g->plan->once_per_ms &&
        lease_group_once_take_back(&g->leases, g->plan->once_per_ms,
                                   atomic_load(&g->shared->once_before)) < 0)
        say("%s: the job was not started, but counts as run in this period: %s", g->plan->name,
            hf_last_message());
}

/* For the inner guardian, with all that the job needs at hand: what waits between the answer and the start makes the next start
 * come too early. False: the job is not to run, with `ret_code`; it has said why, where that is wanted. */
static bool due_now(struct guardian *g, int *ret_code)
{
    int status;

    if (!g->plan->once_per_ms)
        return true;
    status = due_ask(g);
    if (status == HF_OK) {
        *ret_code = due_still(g);
        if (*ret_code != EXIT_OK)
            due_take_back(g);
        return *ret_code == EXIT_OK;
    }
    /* On a terminal, and if asked to: cron makes a mail of each line. */
    if (status != HF_EDONE || g->plan->verbose || say_is_terminal())
        say("%s: not run: %s", g->plan->name, hf_last_message());
    *ret_code = status == HF_EDONE ? g->plan->done_code : exit_code_of(status);
    return false;
}

/* --- the inner guardian ----------------------------------------------------------------------- */

#define NS_PER_MS         INT64_C(1000000)
#define LEFTOVER_GRACE_NS (1000 * NS_PER_MS) /* to end by themselves, and after SIGTERM again */
#define OUTER_PAGES_MS    1000               /* it waits for the outer guardian's pages at most */

struct inner {
    struct guardian g;
    pid_t job; /* 0 when it is reaped */
    int job_status;
    bool job_told; /* a guardian had told it to stop by then */
    pid_t hook;    /* 0 none */
    int hook_status;
    bool hook_ended;
    bool late;     /* and reported, if wanted */
    bool stopping; /* STOP or KILL was acted on, and reported */
    bool lost;     /* that time came before the job ended by itself */
    int64_t
        leftover_next_ns; /* when survivors of the job are signalled next; 0: there are none yet */
    bool leftovers_told;  /* SIGTERM was sent to them */
    bool told_to_end;     /* a signal came after the job had ended */
};

static void inner_on_reaped(pid_t pid, int status, void *arg)
{
    struct inner *in = arg;

    /* (!) A pass may take long, and an inner guardian that does nothing is killed. */
    if (in->g.kill_since_ns)
        atomic_store(&in->g.shared->hunted_ns, timeline_now_ns());
    if (WIFSTOPPED(status)) {
        int sig = WSTOPSIG(status);

        if (pid == in->job && (sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU))
            guardian_tell(&in->g, GUARDIAN_STOPPED);
    } else if (WIFCONTINUED(status)) {
        /* Only the job was continued: continue the outer guardian too. */
        if (pid == in->job && !in->g.peer_gone)
            syscall(SYS_pidfd_send_signal, in->g.peer_fd, SIGCONT, NULL, 0);
    } else if (pid == in->job) {
        in->job = 0;
        in->job_status = status;
        in->job_told = atomic_load(&in->g.shared->stopping) || atomic_load(&in->g.shared->killing);
    } else if (pid == in->hook) {
        in->hook = 0;
        in->hook_status = status;
        in->hook_ended = true;
    }
}

/* A job that may need the terminal stays in the process group that the shell knows. */
static bool inner_has_terminal(void)
{
    int fd = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* (!) Both guardians have left each other's process group before the job runs: else one SIGKILL to the group would take both, and
 * leave a job that has left it. */
static int inner_start_job(struct inner *in)
{
    const struct job_start start = {
        .argv = in->g.plan->argv,
        .signals = in->g.plan->signals,
        .cgroup = &in->g.cgroup,
        .no_new_privs = in->g.plan->no_new_privs,
        .own_group = !inner_has_terminal(),
        .leave_session = true,
        .failed = &in->g.shared->exec_failed,
    };
    struct signalfd_siginfo info;
    sigset_t before;
    bool inside;
    int rc;

    sigemptyset(&before);
    for (int i = 0; i < SIGNALS_AT_ONCE && signals_next(in->g.plan->signals, &info); i++)
        sigaddset(&before, (int)info.ssi_signo);
    /* (!) First: the outer guardian stops a job only if there is one. */
    atomic_store(&in->g.shared->started, 1);
    rc = job_start(&start, &in->job, &inside);
    if (rc < 0)
        atomic_store(&in->g.shared->started, 0);
    if (rc == 0)
        atomic_store(&in->g.shared->job, in->job);
    if (rc == 0 && start.own_group)
        atomic_store(&in->g.shared->group, in->job);
    /* The group got these before the job was in it, so the job has not. */
    for (int sig = 1; rc == 0 && sig <= SIGRTMAX; sig++)
        if (sig != SIGCHLD && sigismember(&before, sig) && !start.own_group)
            kill(in->job, sig);

    /* (!) If the job were outside the group, the agent would take it for over. */
    if (rc == 0 && inside)
        lease_group_tell_cgroup(&in->g.leases, in->g.cgroup.fd);
    return rc;
}

static void inner_start_hook(struct inner *in, const char *reason)
{
    char *argv[] = {"/bin/sh", "-c", (char *)in->g.plan->on_lost, NULL};
    const struct job_start start = {
        .argv = argv,
        .signals = in->g.plan->signals,
        .cgroup = &in->g.cgroup,
        .output_to_stderr = true,
        .no_new_privs = in->g.plan->no_new_privs,
        .own_group = true,
        .failed = &in->g.shared->hook_failed,
    };
    char pid[16];
    bool inside;

    snprintf(pid, sizeof(pid), "%d", (int)in->job);
    setenv("HOLDFAST_PID", pid, 1);
    setenv("HOLDFAST_REASON", reason, 1);
    if (job_start(&start, &in->hook, &inside) < 0)
        tree_signal(&in->g.tree, in->g.plan->stop_signal, NULL);
}

/* V - 0.3 T, or asked to stop: from here on there is no way back. */
static void inner_begin_stop(struct inner *in, int64_t now_ns)
{
    struct guardian *g = &in->g;
    const char *name, *why = lease_group_reason(&g->leases, &name);
    const char *reason = *why ? why : "it was not renewed in time";
    char span[TEXT_SPAN_SIZE];
    int mine = 0;

    in->stopping = true;
    if (atomic_compare_exchange_strong(&g->shared->stopping, &mine, 1)) {
        if (g->plan->on_lost && in->job)
            inner_start_hook(in, reason);
        else
            tree_signal(&g->tree, g->plan->stop_signal, NULL);
    }
    lease_group_begin_losing(&g->leases);
    say("%s: the lock is being lost: %s; %s, SIGKILL in %s", name, reason,
        in->hook ? "running the on-lost command" : "stopping the job",
        text_span(span, sizeof(span), (g->timeline.kill_at_ns - now_ns) / NS_PER_MS));
}

static void inner_tell_lost(struct inner *in)
{
    const char *name, *reason = lease_group_reason(&in->g.leases, &name);

    if (!in->stopping)
        say("%s: the lock is lost: %s; killed the job", name, reason);
    in->stopping = true;
}

/* What the command has started and not waited for is otherwise ended without a word. */
static void inner_say_leftovers(const struct guardian *g, const struct tree_outcome *left,
                                const char *what)
{
    char text[TREE_SOME * (4 * sizeof(left->some[0].command) + 32)] = "", shown[64];
    size_t used = 0;

    for (unsigned i = 0; i < left->living && i < TREE_SOME; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%d (%s)", i ? ", " : "",
                                 (int)left->some[i].pid,
                                 text_escape_str(shown, sizeof(shown), left->some[i].command));
    if (left->living)
        say("%s: %s %u process%s: %s%s", g->plan->name, what, left->living,
            left->living > 1 ? "es" : "", text, left->living > TREE_SOME ? ", ..." : "");
}

static void inner_term_leftovers(struct inner *in, int64_t now_ns)
{
    struct guardian *g = &in->g;
    struct tree_outcome left = {0};

    in->leftovers_told = true;
    in->told_to_end = false;
    in->leftover_next_ns = now_ns + LEFTOVER_GRACE_NS;
    if (tree_signal(&g->tree, SIGTERM, &left) == 0 && !in->stopping && !WIFSIGNALED(in->job_status))
        inner_say_leftovers(g, &left,
                            "the command has ended and left processes behind; SIGTERM to");
}

/* Survivors of the job. What reads its output, as tee or gzip, ends by itself and must not lose the rest: so it is left alone for a
 * second, unless the job is to stop. Then SIGTERM, and SIGKILL after another second. Who is stopped by a signal need not be told of its
 * children. */
static void inner_end_leftovers(struct inner *in, int64_t now_ns)
{
    struct guardian *g = &in->g;
    struct tree_outcome left = {0};

    if (!in->leftover_next_ns)
        in->leftover_next_ns = in->stopping ? now_ns : now_ns + LEFTOVER_GRACE_NS;
    if (now_ns < in->leftover_next_ns && !in->told_to_end)
        return;
    if (!in->leftovers_told) {
        inner_term_leftovers(in, now_ns);
        return;
    }
    if (g->kill_since_ns == 0 && tree_signal(&g->tree, 0, &left) == 0)
        inner_say_leftovers(g, &left, "SIGKILL to what the command has left behind,");
    guardian_kill_tree(g, now_ns);
}

/* Half of the TTL is left, and renewals fail. */
static void inner_tell_late(struct inner *in)
{
    bool late = lease_group_state(&in->g.leases) == HF_STATE_LATE;

    if (late != in->late && in->g.plan->verbose)
        say("%s: %s", in->g.plan->name, late ? "renewals are late" : "renewed again");
    in->late = late;
}

static void inner_act(struct inner *in, enum timeline_phase phase, int64_t now_ns)
{
    struct guardian *g = &in->g;

    if (phase == TIMELINE_KILL || g->peer_gone) {
        bool first = g->kill_since_ns == 0;

        if (phase == TIMELINE_KILL)
            guardian_kill_in_time(g, now_ns);
        else
            guardian_kill_tree(g, now_ns);
        if (first && phase == TIMELINE_KILL)
            inner_tell_lost(in);
        else if (first)
            say("%s: the outer guardian was killed; killing the job", g->plan->name);
        return;
    }
    if (phase == TIMELINE_HELD)
        inner_tell_late(in);
    if (phase == TIMELINE_STOP && !in->stopping)
        inner_begin_stop(in, now_ns);
    if (in->hook_ended) {
        in->hook_ended = false;
        if (!WIFEXITED(in->hook_status) || WEXITSTATUS(in->hook_status) != 0)
            tree_signal(&g->tree, g->plan->stop_signal, NULL);
    }
    if (!in->job && !in->hook)
        inner_end_leftovers(in, now_ns);
}

static int64_t inner_next_look(const struct inner *in, int64_t now_ns)
{
    int64_t next = timeline_next(&in->g.timeline, now_ns);

    if (in->g.kill_since_ns && in->g.kill_next_ns < next)
        next = in->g.kill_next_ns;
    if (in->leftover_next_ns > now_ns && in->leftover_next_ns < next)
        next = in->leftover_next_ns;
    return next;
}

/* A twentieth of T behind its next look, whoever watches it takes the inner guardian for stopped. */
static void inner_promise_look(struct inner *in, int64_t next_ns)
{
    atomic_store(&in->g.shared->late_ns, next_ns + in->g.timeline.ttl_ns / 20);
}

/* A signal for the guardians' group is one for the job's. If that is the same group the job has it already. */
static void inner_pass_on(const struct inner *in, int sig, bool of_group)
{
    pid_t group = getpgid(in->job);

    if (!of_group || (group != in->g.group && group != in->job))
        kill(in->job, sig);
    else if (group == in->job)
        kill(-group, sig);
}

/* Signals that the outer one forwards. */
static void inner_hear(struct inner *in)
{
    int word;

    for (int i = 0; i < SIGNALS_AT_ONCE && guardian_hear(&in->g, &word); i++) {
        int sig = word & GUARDIAN_SIGNAL;

        if (in->job)
            inner_pass_on(in, sig, word & GUARDIAN_OF_GROUP);
        else if (signals_ends(sig))
            in->told_to_end = true;
    }
}

/* Runs until the tree is empty (true) or does not die. */
static bool inner_watch(struct inner *in)
{
    struct guardian *g = &in->g;

    inner_promise_look(in, inner_next_look(in, timeline_now_ns()));
    for (;;) {
        int64_t now_ns = timeline_now_ns(), next_ns;
        /* Judged before anything is reaped: a job that ended after V was not covered by the lock. */
        enum timeline_phase phase = guardian_judge(g, now_ns);
        struct signalfd_siginfo info;

        if (phase != TIMELINE_HELD && in->job)
            in->lost = true;
        if (guardian_is_over(g, tree_reap(&g->tree, inner_on_reaped, in), now_ns))
            return true;
        inner_act(in, phase, now_ns);
        if (g->kill_since_ns)
            atomic_store(&g->shared->hunted_ns, timeline_now_ns());
        if (guardian_kill_failed(g, now_ns) ||
            (g->kill_since_ns && in->told_to_end && g->complained))
            return false;
        next_ns = inner_next_look(in, now_ns);
        inner_promise_look(in, next_ns);
        guardian_wait(g, next_ns);
        for (int i = 0; i < SIGNALS_AT_ONCE && signals_next(g->plan->signals, &info); i++)
            ; /* only wakes us: the outer guardian gets them too, and forwards them */
        inner_hear(in);
    }
}

static int inner_exit_code(const struct inner *in)
{
    int failed = atomic_load(&in->g.shared->exec_failed);

    if (in->lost)
        return EXIT_LOST;
    if (in->g.peer_gone || in->job)
        return EXIT_FAILED;
    if (failed)
        return job_exec_exit_code(failed);
    return job_exit_code(in->job_status);
}

static void inner_say_how_it_ended(struct inner *in)
{
    const struct guardian *g = &in->g;
    int failed = atomic_load(&g->shared->exec_failed);

    if (in->lost)
        inner_tell_lost(in); /* in case the other guardian was first */
    else if (failed)
        say("cannot run '%s': %s", g->plan->argv[0], strerror(failed));
    else if (g->plan->verbose && !in->job)
        say("%s: the job ended with %d", g->plan->name, job_exit_code(in->job_status));
}

/* (!) A job that fills a group without an OOM killer has both guardians wait for the next page that they lack, for ever. */
static void inner_own_pages(struct guardian *g)
{
    if (!g->pages_at_once)
        return;
    guardian_own_pages(g);
    for (int ms = 0; ms < OUTER_PAGES_MS && !atomic_load(&g->shared->outer_ready); ms++)
        usleep(1000);
}

/* No process of the job exists. */
static _Noreturn void inner_end_without_job(struct guardian *g, int code)
{
    g->shared->exit_code = code;
    atomic_store(&g->shared->left_to_outer, 1);
    atomic_store(&g->shared->reaped, 1);
    _exit(code);
}

/* (!) The lock is released even if the outer guardian was killed meanwhile: the agent takes one that two guardians have joined, and
 * both leave, for that of a job which may run. */
static _Noreturn void inner_end_not_due(struct guardian *g, int code)
{
    g->shared->exit_code = code;
    atomic_store(&g->shared->reaped, 1);
    guardian_release(g);
    cgroup_remove(&g->cgroup);
    _exit(code);
}

_Noreturn void guardian_inner(struct guardian *given, const struct hf_ticket *tickets)
{
    static struct inner in; /* static: not on a stack that is unwound */
    struct guardian *g = &in.g;
    hf_client *inherited = given->leases.client;
    int status, code;

    in.g = *given;
    g->on_reaped = inner_on_reaped;
    g->on_reaped_arg = &in;
    /* An agent that is just restarting gets at least the time that a new lock has. */
    status = lease_group_join_patiently(&g->leases, tickets, g->plan->ttl_ns / 2, g->peer_fd,
                                        &g->leases);
    hf_disconnect(inherited);
    if (status < 0) {
        say("%s: the second guardian cannot join the lease: %s", g->plan->name, hf_last_message());
        inner_end_without_job(g, exit_code_of(status));
    }
    timeline_init(&g->timeline, g->plan->ttl_ns, 0);
    g->timer_fd = timeline_timer();
    if (g->timer_fd < 0 || tree_init(&g->tree, 0) < 0) {
        say("%s: cannot prepare the second guardian: %s", g->plan->name, guardian_problem(errno));
        inner_end_without_job(g, EXIT_FAILED);
    }
    inner_own_pages(g); /* before the lock is judged: it may take its time */
    if (guardian_judge(g, timeline_now_ns()) != TIMELINE_HELD) {
        say("%s: the lock was lost before the job was started", g->plan->name);
        inner_end_without_job(g, EXIT_LOST);
    }
    cgroup_make(&g->cgroup);
    if (g->plan->verbose && g->cgroup.fd < 0 && geteuid() != 0 && !g->plan->no_new_privs)
        say("%s: no control group can be made here, so that a set-uid program of the job could "
            "outlive the lock; run it under "
            "'systemd-run --user --scope', or with --no-new-privs",
            g->plan->name);
    if (!due_now(g, &code))
        inner_end_not_due(g, code);
    /* (!) Nothing waits from here to the job's start: the nodes have its time by now. */
    if (inner_start_job(&in) < 0) {
        say("%s: fork: %s", g->plan->name, strerror(errno));
        due_take_back(g);
        inner_end_without_job(g, EXIT_FAILED);
    }
    streams_let_go();
    cgroup_sweep(&g->cgroup);

    if (!inner_watch(&in)) {
        guardian_say_left(g);
        g->shared->exit_code = in.lost ? EXIT_LOST : EXIT_FAILED;
        atomic_store(&g->shared->gave_up, 1);
        _exit(g->shared->exit_code);
    }
    g->shared->exit_code = inner_exit_code(&in);
    g->shared->lost = in.lost;
    g->shared->cut_short = in.lost || in.job_told || g->peer_gone;
    g->shared->job_status = in.job ? -1 : in.job_status;
    atomic_store(&g->shared->reaped, 1);
    inner_say_how_it_ended(&in);
    guardian_release(g);
    if (g->peer_gone) /* else the other guardian does so meanwhile */
        cgroup_remove(&g->cgroup);
    _exit(g->shared->exit_code);
}
