/* The outer guardian: the process that the user sees. */
#include "tools/run/guardian_outer.h"

#include <sys/wait.h>
#include <unistd.h>

#include "tools/common/exit_code.h"
#include "tools/run/say.h"
#include "tools/run/streams.h"

#define NS_PER_SEC INT64_C(1000000000)

/* The time that a hung agent may delay our exit, once the job is gone. */
#define RELEASE_PATIENCE_NS (5 * NS_PER_SEC)

struct outer {
    struct guardian *g;
    pid_t inner; /* 0 when it is reaped */
    bool lost;
    int64_t reaped_ns; /* when the tree was seen to be empty; 0 not yet */
    bool over;         /* no process of the job runs */
    bool unreleased;   /* the agent did not accept the release */
    bool told_to_end;  /* a signal came after the inner guardian was gone */
};

static void outer_on_reaped(pid_t pid, int status, void *arg)
{
    struct outer *out = arg;

    if (pid == out->inner && !WIFSTOPPED(status) && !WIFCONTINUED(status)) {
        out->inner = 0;
        out->g->tree.spare = 0;
        out->g->peer_gone = true;
    }
    if (pid == out->g->witness.pid && !WIFSTOPPED(status) && !WIFCONTINUED(status))
        out->g->witness.pid = 0;
}

static void outer_forward_signals(struct outer *out)
{
    struct guardian *g = out->g;
    struct signalfd_siginfo info;

    while (signals_next(g->plan->signals, &info)) {
        int word = (int)info.ssi_signo;

        if (word == SIGCHLD)
            continue;
        /* The inner one has us go on because the job does. */
        if (word == SIGCONT && out->inner && info.ssi_pid == (uint32_t)out->inner)
            continue;
        if (!out->inner && signals_ends(word))
            out->told_to_end = true;
        if (witness_saw(&g->witness, word))
            word |= GUARDIAN_OF_GROUP;
        guardian_tell(g, word);
    }
}

/* The job was stopped from the terminal: the shell waits to see this process stopped, too. The
 * inner guardian goes on watching the lease. */
static void outer_hear(const struct outer *out)
{
    int word;

    while (!out->g->peer_gone && guardian_hear(out->g, &word))
        if (word == GUARDIAN_STOPPED)
            kill(getpid(), SIGSTOP);
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
    hold_begin_losing(&g->hold);
    say("%s: the lock is being lost and the inner guardian does nothing; stopping the job",
        g->plan->name);
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
    if (out->inner && now_ns >= since_ns + g->timeline.ttl_ns / 20)
        kill(out->inner, SIGKILL);
}

/* Only the inner guardian's release is left. */
static void outer_await_release(struct outer *out, int64_t now_ns)
{
    struct guardian *g = out->g;

    if (!out->reaped_ns) {
        out->reaped_ns = now_ns;
        witness_end(&g->witness);
        cgroup_remove(&g->cgroup);
    }
    if (now_ns < out->reaped_ns + RELEASE_PATIENCE_NS || out->unreleased)
        return;
    out->unreleased = true;
    say("%s: the agent does not answer; the lock is not released, it lapses", g->plan->name);
    kill(out->inner, SIGKILL);
}

/* The inner guardian is gone. Returns true when nothing is left to do. */
static bool outer_after_inner(struct outer *out, int64_t now_ns)
{
    struct guardian *g = out->g;
    bool first;

    witness_end(&g->witness); /* a child, too, and the tree is empty when there is none */
    if (atomic_load(&g->shared->gave_up) || atomic_load(&g->shared->reaped) || out->over)
        return true;
    first = !g->kill_since_ns && !out->lost;
    guardian_kill_tree(g, now_ns);
    if (first)
        say("%s: the inner guardian was killed; killed the job", g->plan->name);
    return guardian_kill_failed(g, now_ns) || (out->told_to_end && g->complained);
}

static void outer_watch(struct outer *out)
{
    struct guardian *g = out->g;

    for (;;) {
        int64_t now_ns = timeline_now_ns(), next_ns;
        enum timeline_phase phase = guardian_judge(g, now_ns);

        out->over = guardian_is_over(g, tree_reap(&g->tree, outer_on_reaped, out), now_ns);

        /* Checked after the lease: a lease that the inner guardian has released is not lost. */
        if (atomic_load(&g->shared->reaped))
            phase = TIMELINE_HELD;
        if (phase != TIMELINE_HELD)
            out->lost = true;
        if (!out->inner) {
            if (outer_after_inner(out, now_ns))
                return;
        } else if (atomic_load(&g->shared->reaped)) {
            outer_await_release(out, now_ns);
        } else if (phase == TIMELINE_STOP) {
            outer_back_up_stop(out);
        } else if (phase == TIMELINE_KILL) {
            outer_back_up_kill(out, now_ns);
        }
        next_ns = beat_pass_on(&g->beat, &g->hold, now_ns);
        if (timeline_next(&g->timeline, now_ns) < next_ns)
            next_ns = timeline_next(&g->timeline, now_ns);
        if (out->reaped_ns) /* nothing is left to kill, only the release to wait for */
            next_ns = out->reaped_ns + RELEASE_PATIENCE_NS;
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
