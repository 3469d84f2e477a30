/* The outer guardian: the process that the user sees. */
#include "tools/run/job.h"
#include "tools/run/guardian.h"

#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/common/args.h"
#include "tools/run/say.h"
#include "tools/run/input.h"

#define NS_PER_SEC INT64_C(1000000000)

/* The time that a hung agent may delay our exit, once the job is gone. */
#define RELEASE_PATIENCE_NS (5 * NS_PER_SEC)
/* The same for the end of an inner guardian that has nothing left to do. */
#define END_PATIENCE_NS (1 * NS_PER_SEC)
/* So long an inner guardian is seen to do nothing before anything is done about it. */
#define LATE_NS (2 * NS_PER_SEC)

struct outer {
    struct guardian *g;
    pid_t inner; /* 0 when it is reaped */
    bool lost;
    int64_t reaped_ns; /* when the tree was seen to be empty; 0 not yet */
    bool over;         /* no process of the job runs */
    bool unreleased;   /* the agent did not accept the release */
    int64_t ousted_ns; /* when it killed the inner guardian; 0: it did not */
    int64_t late_ns;   /* since when that one is seen to be late; 0: it is not */
    bool late_told;    /* for so long that it was told: this one passes signals on itself */
    bool told_to_end;  /* a signal came after the inner guardian was gone, or late */
};

/* (!) It may be there to be reaped for as long as another process traces it. */
static void outer_inner_is_gone(struct outer *out)
{
    out->inner = 0;
    out->g->tree.spare = 0;
    out->g->peer_gone = true;
}

static void outer_on_reaped(pid_t pid, int status, void *arg)
{
    struct outer *out = arg;

    if (pid == out->inner && !WIFSTOPPED(status) && !WIFCONTINUED(status))
        outer_inner_is_gone(out);
    if (pid == out->g->witness.pid && !WIFSTOPPED(status) && !WIFCONTINUED(status))
        out->g->witness.pid = 0;
}

static bool outer_is_for_the_job(const struct outer *out, const struct signalfd_siginfo *info)
{
    const struct guardian *g = out->g;

    if (info->ssi_signo == SIGCHLD)
        return false;
    /* The inner one has us go on because the job does. */
    if (info->ssi_signo == SIGCONT && out->inner && info->ssi_pid == (uint32_t)out->inner)
        return false;
    /* The witness has this process alone go on. */
    return info->ssi_signo != SIGCONT || g->witness.pid <= 0 ||
           info->ssi_pid != (uint32_t)g->witness.pid;
}

static void outer_pass_on(struct outer *out, int sig)
{
    struct guardian *g = out->g;

    if ((!out->inner || out->late_told) && signals_ends(sig))
        out->told_to_end = true;
    if (g->kill_since_ns) /* the job hears nothing any more */
        return;
    if (out->late_told)
        tree_signal(&g->tree, sig, NULL);
    else
        guardian_tell(g, witness_saw(&g->witness, sig) ? sig | GUARDIAN_OF_GROUP : sig);
}

/* (!) Some at a time, and the witness, which may keep this one waiting, is asked once for them. */
static void outer_forward_signals(struct outer *out)
{
    struct guardian *g = out->g;
    struct signalfd_siginfo info;
    int passed[SIGNALS_AT_ONCE];
    size_t count = 0;

    for (int i = 0; i < SIGNALS_AT_ONCE && signals_next(g->plan->signals, &info); i++)
        if (outer_is_for_the_job(out, &info))
            passed[count++] = (int)info.ssi_signo;
    if (count && !out->late_told && !g->kill_since_ns)
        witness_look(&g->witness);
    for (size_t i = 0; i < count; i++)
        outer_pass_on(out, passed[i]);
}

/* It may have been killed, or there was no process to be had. */
static bool outer_has_stand_in(struct outer *out)
{
    struct guardian *g = out->g;

    if (witness_stand_in(&g->witness, out->inner, g->shared))
        return true;
    witness_end(&g->witness); /* (!) reaped with others: its end may wait for a file system */
    witness_begin(&g->witness, g->plan->signals);
    return witness_stand_in(&g->witness, out->inner, g->shared);
}

/* The job was stopped from the terminal: the shell waits to see this process stopped, too. The
 * inner guardian goes on watching the lease, and (!) the witness the inner guardian: without one this process stays, and the job goes on.
 * An inner one that had to wait for a processor wakes this one, which then runs on beside the stopped job. */
static void outer_stop(struct outer *out)
{
    struct guardian *g = out->g;

    if (!outer_has_stand_in(out)) {
        say("%s: the job is not stopped: no process could be started that watches the lock "
            "meanwhile",
            g->plan->name);
        guardian_tell(g, SIGCONT);
        return;
    }
    kill(getpid(), SIGSTOP);
    witness_stand_down(&g->witness);
}

static void outer_hear(struct outer *out)
{
    struct guardian *g = out->g;
    int word;

    for (int i = 0; i < SIGNALS_AT_ONCE && !g->peer_gone && guardian_hear(g, &word); i++)
        if (word == GUARDIAN_STOPPED && out->inner)
            outer_stop(out);
}

/* The inner guardian acts 0.02 T earlier. If it did not, this one does. */
static void outer_back_up_stop(struct outer *out)
{
    struct guardian *g = out->g;
    int mine = 0;

    if (!atomic_load(&g->shared->started) ||
        !atomic_compare_exchange_strong(&g->shared->stopping, &mine, 1))
        return;
    tree_signal(&g->tree, g->plan->stop_signal, NULL);
    lease_group_begin_losing(&g->leases);
    say("%s: the lock is being lost and the inner guardian does nothing; stopping the job",
        g->plan->name);
}

/* Its children become ours. */
static void outer_oust(struct outer *out, int64_t now_ns)
{
    kill(out->inner, SIGKILL);
    if (!out->ousted_ns)
        out->ousted_ns = now_ns;
}

/* An inner guardian that has not reaped the tree halfway between KILL and V, and has made no pass of killing for as long, is killed: its
 * children become ours. */
static void outer_back_up_kill(struct outer *out, int64_t now_ns)
{
    struct guardian *g = out->g;
    int64_t since_ns = atomic_load(&g->shared->hunted_ns);

    if (atomic_load(&g->shared->started))
        guardian_kill_in_time(g, now_ns);
    if (since_ns < g->timeline.kill_at_ns)
        since_ns = g->timeline.kill_at_ns;
    /* It may just have been reaped. */
    if (!out->inner || now_ns < since_ns + g->timeline.ttl_ns / 20)
        return;
    if (!out->ousted_ns)
        say("%s: the inner guardian did not kill the job in time; killing both", g->plan->name);
    outer_oust(out, now_ns);
}

/* No process of a job exists: an inner guardian that was killed before it started one executes nothing any more, though it may not die
 * before a file system answers. */
static bool outer_needs_no_inner(const struct outer *out, int64_t now_ns)
{
    return out->ousted_ns && now_ns >= out->ousted_ns + END_PATIENCE_NS &&
           !atomic_load(&out->g->shared->started);
}

/* Whether it has done nothing for so long, by this one's own looks: after a sleep of the host either may be the first to run. */
static bool outer_inner_is_late(struct outer *out, int64_t now_ns)
{
    if (now_ns < atomic_load(&out->g->shared->late_ns)) {
        out->late_ns = 0;
        out->late_told = false;
        return false;
    }
    if (!out->late_ns)
        out->late_ns = now_ns;
    return now_ns >= out->late_ns + LATE_NS;
}

/* The lock is held. Whoever has stopped the inner guardian may have it go on; a signal to this process has the job end. */
static void outer_look_after_inner(struct outer *out, int64_t now_ns)
{
    struct guardian *g = out->g;
    struct tree_outcome left = {0};

    if (out->ousted_ns || !outer_inner_is_late(out, now_ns))
        return;
    if (!atomic_load(&g->shared->started)) {
        say("%s: the job is not started: the inner guardian hangs and was killed; look for a file "
            "system that hangs, and run it again",
            g->plan->name);
        outer_oust(out, now_ns);
        return;
    }
    if (!out->late_told)
        say("%s: the inner guardian, process %d, is stopped or hangs, and the lock is held; have "
            "it go on (kill -CONT %d), or end this command by a signal",
            g->plan->name, (int)out->inner, (int)out->inner);
    out->late_told = true;
    if (!out->told_to_end)
        return;
    witness_end(&g->witness); /* a child, too */
    if (tree_signal(&g->tree, 0, &left) == 0 && !left.living && cgroup_is_empty(&g->cgroup))
        outer_oust(out, now_ns);
}

/* Only the inner guardian's release is left, and its end. (!) Nobody waits long for that: what it has open may be of a file system that
 * hangs. True when nothing is left to wait for. */
static bool outer_await_release(struct outer *out, int64_t now_ns)
{
    struct guardian *g = out->g;

    if (!out->reaped_ns) {
        out->reaped_ns = now_ns;
        witness_end(&g->witness);
        cgroup_remove(&g->cgroup);
    }
    if (atomic_load(&g->shared->released) || atomic_load(&g->shared->left_to_outer))
        return now_ns >= out->reaped_ns + END_PATIENCE_NS;
    if (now_ns < out->reaped_ns + RELEASE_PATIENCE_NS)
        return false;
    out->unreleased = true;
    say("%s: the agent does not answer; the lock is not released, it lapses", g->plan->name);
    outer_oust(out, now_ns);
    return true;
}

/* The inner guardian is gone. Returns true when nothing is left to do. */
static bool outer_after_inner(struct outer *out, int64_t now_ns)
{
    struct guardian *g = out->g;
    bool first;

    witness_end(&g->witness); /* a child, too, and the tree is empty when there is none */
    if (atomic_load(&g->shared->gave_up) || atomic_load(&g->shared->reaped) || out->over)
        return true;
    first = !g->kill_since_ns && !out->lost && !out->ousted_ns;
    guardian_kill_tree(g, now_ns);
    if (first)
        say("%s: the inner guardian was killed; killed the job", g->plan->name);
    return guardian_kill_failed(g, now_ns) || (out->told_to_end && g->complained);
}

/* Returns true when nothing is left to do. */
static bool outer_act(struct outer *out, enum timeline_phase phase, int64_t now_ns)
{
    if (!out->inner)
        return outer_after_inner(out, now_ns);
    if (atomic_load(&out->g->shared->reaped))
        return outer_await_release(out, now_ns);
    if (outer_needs_no_inner(out, now_ns)) {
        out->over = true;
        return true;
    }
    if (phase == TIMELINE_STOP)
        outer_back_up_stop(out);
    else if (phase == TIMELINE_KILL)
        outer_back_up_kill(out, now_ns);
    else
        outer_look_after_inner(out, now_ns);
    return false;
}

static void outer_watch(struct outer *out)
{
    struct guardian *g = out->g;

    for (;;) {
        int64_t now_ns = timeline_now_ns(), next_ns;
        enum timeline_phase phase = guardian_judge(g, now_ns);

        out->over = guardian_is_over(g, tree_reap(&g->tree, outer_on_reaped, out), now_ns);
        if (g->peer_gone && out->inner)
            outer_inner_is_gone(out);

        /* Checked after the lease: a lease that the inner guardian has released is not lost. */
        if (atomic_load(&g->shared->reaped))
            phase = TIMELINE_HELD;
        if (phase != TIMELINE_HELD)
            out->lost = true;
        if (outer_act(out, phase, now_ns))
            return;
        next_ns = beat_pass_on(&g->beat, &g->leases, now_ns);
        if (timeline_next(&g->timeline, now_ns) < next_ns)
            next_ns = timeline_next(&g->timeline, now_ns);
        if (out->reaped_ns) /* nothing is left to kill, only the release to wait for */
            next_ns =
                out->reaped_ns +
                (now_ns < out->reaped_ns + END_PATIENCE_NS ? END_PATIENCE_NS : RELEASE_PATIENCE_NS);
        else if (g->kill_since_ns && g->kill_next_ns < next_ns)
            next_ns = g->kill_next_ns;
        guardian_wait(g, next_ns);
        outer_forward_signals(out);
        outer_hear(out);
    }
}

int guardian_outer(struct guardian *g, pid_t inner)
{
    struct outer out = {.g = g, .inner = inner};
    struct guardian_shared *shared = g->shared;

    g->tree.spare = inner;
    g->on_reaped = outer_on_reaped;
    g->on_reaped_arg = &out;
    timeline_init(&g->timeline, g->plan->ttl_ns, g->plan->ttl_ns / 50);
    streams_let_go();
    if (g->pages_at_once) {
        guardian_own_pages(g);
        atomic_store(&shared->outer_ready, 1);
    }
    outer_watch(&out);

    if (atomic_load(&shared->gave_up))
        return shared->exit_code;
    if (!atomic_load(&shared->reaped) && !out.over &&
        (!tree_reap(&g->tree, outer_on_reaped, &out) || !cgroup_is_empty(&g->cgroup))) {
        guardian_say_left(g);
        return out.lost ? EXIT_LOST : EXIT_FAILED;
    }
    if (!atomic_load(&shared->released) && !out.unreleased)
        guardian_release(g);
    if (atomic_load(&shared->reaped))
        return shared->exit_code;
    return out.lost ? EXIT_LOST : EXIT_FAILED;
}
