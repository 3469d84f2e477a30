/* The work that both guardians do: judge, wait, kill and release. */
#include "tools/run/guardian.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/common/args.h"
#include "tools/common/text.h"
#include "tools/run/say.h"
#include "tools/run/acquire.h"

#define NS_PER_MS INT64_C(1000000)

/* Passes of SIGKILL: in quick succession first, since a tree may fork while it is killed. */
#define KILL_PAUSE_NS      (5 * NS_PER_MS)
#define KILL_LATE_PAUSE_NS (50 * NS_PER_MS)
#define KILL_COMPLAIN_NS   (1000 * NS_PER_MS)
#define KILL_GIVE_UP_NS    (10000 * NS_PER_MS)

#define STARTING_NS        (10000 * NS_PER_MS)

#define PAGES_AFTER_NS     (100 * NS_PER_MS)

#define TRACED_PAUSE_NS    (200 * NS_PER_MS)
#define TRACED_PATIENCE_NS (1000 * NS_PER_MS) /* for a tracer that is about to reap */

const char *guardian_problem(int error)
{
    switch (error) {
    case EMFILE:
        return "Too many open files; raise the limit on open files (ulimit -n)";
    case ESRCH:
        return "/proc is that of another PID namespace, where no process of the job can be found "
               "to kill it; mount /proc of this one (unshare --mount-proc)";
    case ENOTSUP:
        return "a filter of system calls (seccomp) keeps this program from signalling its own "
               "processes, so the job could not be ended; allow kill, pidfd_send_signal and wait4";
    default:
        return strerror(error);
    }
}

int64_t guardian_patience_ns(const struct guardian *g)
{
    return g->plan->ttl_ns + STARTING_NS;
}

enum timeline_phase guardian_judge(struct guardian *g, int64_t now_ns)
{
    int64_t valid_ns = lease_group_valid_until_ns(&g->leases);
    enum timeline_phase phase;

    timeline_set_ttl(&g->timeline,
                     ttl_now_ns(g->leases.client, g->plan->ttl_ns, g->timeline.ttl_ns));
    phase = timeline_judge(&g->timeline, now_ns, valid_ns,
                           lease_group_state(&g->leases) == HF_STATE_LOSING);
    g->tree.until_ns = g->timeline.kill_at_ns; /* (!) no search may outlast it */
    return phase;
}

static const char *guardian_why_it_lives(char state)
{
    switch (state) {
    case 'D':
        return "it is inside the kernel";
    case 'R':
        return "it gets no processor time";
    default:
        return "it was sent SIGKILL";
    }
}

static void guardian_complain(struct guardian *g, const struct tree_outcome *outcome)
{
    char shown[4 * sizeof(outcome->stubborn.command)];

    g->complained = true;
    if (!outcome->living) {
        say(g->cgroup.events_fd >= 0
                ? "%s: a process in the job's control group does not die; the lock is not released "
                  "while it lives"
                : "%s: whether the job lives cannot be seen, for want of descriptors or memory; "
                  "the lock is not released until it can",
            g->plan->name);
        return;
    }
    say("%s: process %d (%s) does not die (%s); the lock is not released while it lives",
        g->plan->name, (int)outcome->stubborn.pid,
        text_escape_str(shown, sizeof(shown), outcome->stubborn.command),
        outcome->stubborn.error ? strerror(outcome->stubborn.error)
                                : guardian_why_it_lives(outcome->stubborn.state));
}

/* Processes that fork faster than they are killed are no stubborn one: the oldest is another each time. */
static void guardian_judge_stubborn(struct guardian *g, const struct tree_outcome *outcome,
                                    int64_t now_ns)
{
    if (!outcome->living && cgroup_is_empty(&g->cgroup)) {
        g->stubborn.since_ns = 0; /* only zombies are left */
        return;
    }
    if (g->stubborn.since_ns && g->stubborn.pid == outcome->stubborn.pid &&
        g->stubborn.start == outcome->stubborn.start) {
        if (now_ns - g->stubborn.since_ns > KILL_COMPLAIN_NS && !g->complained)
            guardian_complain(g, outcome);
        return;
    }
    g->stubborn.pid = outcome->stubborn.pid;
    g->stubborn.start = outcome->stubborn.start;
    g->stubborn.since_ns = now_ns;
}

/* Ahead of the killed processes, as far as this user may. Where sessions share the processor (autogroup), the inner one's own
 * helps. */
static void guardian_hurry(void)
{
    struct rlimit limit;

    if (setpriority(PRIO_PROCESS, 0, -20) < 0 && getrlimit(RLIMIT_NICE, &limit) == 0)
        (void)setpriority(PRIO_PROCESS, 0, 20 - (limit.rlim_cur < 40 ? (int)limit.rlim_cur : 40));
}

void guardian_kill_tree(struct guardian *g, int64_t now_ns)
{
    struct tree_outcome outcome = {0};

    if (g->kill_since_ns == 0) {
        g->kill_since_ns = now_ns;
        guardian_hurry();
    }
    if (now_ns < g->kill_next_ns)
        return;
    g->tree.group = atomic_load(&g->shared->group);
    tree_kill_first(&g->tree, atomic_load(&g->shared->job));
    cgroup_kill(&g->cgroup);
    /* (!) However long it takes: a scan alone is outrun by processes that fork and end. While the inner one lives, orphans are its. */
    if ((!g->tree.spare && tree_hunt(&g->tree, g->on_reaped, g->on_reaped_arg)) ||
        tree_signal(&g->tree, SIGKILL, &outcome) == 0)
        guardian_judge_stubborn(g, &outcome, now_ns); /* the group may not be empty yet */
    g->kill_next_ns = now_ns + (g->complained ? KILL_LATE_PAUSE_NS : KILL_PAUSE_NS);
}

void guardian_kill_in_time(struct guardian *g, int64_t now_ns)
{
    bool first = g->kill_since_ns == 0;

    atomic_store(&g->shared->killing, 1);
    guardian_kill_tree(g, now_ns);
    if (first)
        lease_group_begin_killing(&g->leases);
}

bool guardian_kill_failed(const struct guardian *g, int64_t now_ns)
{
    return g->stubborn.since_ns && now_ns - g->stubborn.since_ns > KILL_GIVE_UP_NS &&
           now_ns > g->timeline.valid_ns;
}

static void guardian_say_traced(const struct guardian *g, const struct tree_traced *traced)
{
    char shown[4 * sizeof(traced->command)], tracer[4 * sizeof(traced->command)];

    text_escape_str(shown, sizeof(shown), traced->command);
    text_escape_str(tracer, sizeof(tracer), traced->tracer_command);
    if (traced->tracer)
        say("%s: process %d (%s) is dead, but process %d (%s) traces it and does not reap it; "
            "the lock is released all the same",
            g->plan->name, (int)traced->pid, shown, (int)traced->tracer, tracer);
    else
        say("%s: process %d (%s) is dead, but a process of another PID namespace traces it and "
            "does not reap it; the lock is released all the same",
            g->plan->name, (int)traced->pid, shown);
}

bool guardian_is_over(struct guardian *g, bool empty, int64_t now_ns)
{
    struct tree_outcome outcome;
    struct tree_traced traced;

    if (empty)
        return cgroup_is_empty(&g->cgroup);
    if (now_ns < g->traced_next_ns)
        return false;
    g->traced_next_ns = now_ns + TRACED_PAUSE_NS;
    if (!tree_is_traced(&g->tree, &traced)) {
        g->traced_since_ns = 0;
        return false;
    }
    if (!g->traced_since_ns)
        g->traced_since_ns = now_ns;
    if (now_ns - g->traced_since_ns < TRACED_PATIENCE_NS || !cgroup_is_empty(&g->cgroup) ||
        tree_signal(&g->tree, 0, &outcome) < 0 || outcome.living)
        return false;
    guardian_say_traced(g, &traced);
    return true;
}

void guardian_say_left(const struct guardian *g)
{
    say("%s: leaving a process that does not die; the lock is not released, it lapses",
        g->plan->name);
}

void guardian_own_pages(struct guardian *g)
{
    own_pages();
    g->pages_at_ns = INT64_MAX;
}

/* Asks for its pages as soon as the job has run for a moment: most that are shorter do without. Until when it may wait. */
static int64_t guardian_look_after_pages(struct guardian *g, int64_t until_ns)
{
    int64_t now_ns = timeline_now_ns();

    if (!g->pages_at_ns)
        g->pages_at_ns = now_ns + PAGES_AFTER_NS;
    if (now_ns >= g->pages_at_ns)
        guardian_own_pages(g);
    return until_ns < g->pages_at_ns ? until_ns : g->pages_at_ns;
}

void guardian_wait(struct guardian *g, int64_t until_ns)
{
    struct pollfd fds[] = {
        {.fd = g->plan->signals->fd, .events = POLLIN},
        {.fd = g->timer_fd, .events = POLLIN},
        {.fd = g->peer_gone ? -1 : g->link_fd, .events = POLLIN},
        {.fd = g->peer_gone ? -1 : g->peer_fd, .events = POLLIN},
        {.fd = g->leases.count ? hf_fd(g->leases.client) : -1, .events = POLLIN},
        {.fd = g->cgroup.events_fd, .events = POLLPRI},
    };

    timeline_arm(g->timer_fd, guardian_look_after_pages(g, until_ns));
    if (poll(fds, sizeof(fds) / sizeof(fds[0]), -1) <= 0) {
        if (errno == EINVAL)
            usleep(GUARDIAN_NAP_US);
        return;
    }
    if (fds[3].revents)
        g->peer_gone = true;
    if (fds[4].revents)
        hf_dispatch(g->leases.client);
    if (fds[5].revents)
        (void)cgroup_is_empty(&g->cgroup); /* makes the descriptor quiet */
}

static void guardian_take_back(const struct guardian *g)
{
    if (lease_group_once_take_back(&g->leases, g->plan->once_per_ms,
                                   atomic_load(&g->shared->once_before)) < 0)
        say("%s: the job failed, but counts as run in this period: %s", g->plan->name,
            hf_last_message());
}

/* (!) Only a proof takes a run back: that the job did not begin, or that it failed by itself. Whatever else happens it may have done all
 * its work.
 *
 *   the lock was lost, or run killed, before the start   nothing was started   taken back (guardian_inner.c:due_now)
 *   no new process (fork)                                nothing was started   taken back (guardian_inner.c)
 *   the command could not be executed                    `exec_failed`         taken back
 *   it ended with 126 or 127                             waitpid()             taken back
 *   it ended with another code than 0, or by a signal    waitpid()             taken back with --retry-failed
 *   it ended with 0                                                            counts
 *   it was stopped: lock lost or asked for, --max-hold   `cut_short`           counts
 *   a guardian was killed, by whomever                   `cut_short`           counts
 *   both were                                            nobody looks          counts
 *   its end is unknown: a tracer does not reap it        `job_status` -1       counts
 *
 * 126 and 127 are a typo, or a script that ends with what it could not start, and use up no period. */
static bool guardian_has_run(const struct guardian *g)
{
    int status = g->shared->job_status, code;

    if (atomic_load(&g->shared->exec_failed))
        return false;
    if (g->shared->cut_short || status < 0)
        return true;
    code = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_BY_SIGNAL;
    return code != EXIT_CANNOT_RUN && code != EXIT_NOT_FOUND &&
           (!g->plan->retry_failed || code == 0);
}

/* For people: a failure is none. */
static void guardian_tell_end(const struct guardian *g)
{
    int status = g->shared->job_status, end = HF_ONCE_OPEN, code = 0;

    if (g->shared->lost) {
        end = HF_ONCE_LOST;
    } else if (status >= 0 && WIFEXITED(status)) {
        end = HF_ONCE_EXITED;
        code = WEXITSTATUS(status);
    } else if (status >= 0 && WIFSIGNALED(status)) {
        end = HF_ONCE_KILLED;
        code = WTERMSIG(status);
    }
    (void)lease_group_once_ended(&g->leases, g->plan->once_per_ms, end, code);
}

void guardian_release(struct guardian *g)
{
    bool ran_held =
        lease_group_state(&g->leases) < HF_STATE_LOST && atomic_load(&g->shared->started);
    int status;

    /* Both guardians kill and tell the agent on their own rings: it hears of the kill before the release. */
    if (atomic_load(&g->shared->killing))
        lease_group_begin_killing(&g->leases);
    if (ran_held && g->plan->once_per_ms && atomic_load(&g->shared->reaped)) {
        if (guardian_has_run(g))
            guardian_tell_end(g);
        else
            guardian_take_back(g);
    }
    status = lease_group_release(&g->leases);
    /* The nodes show what nobody had noticed: another may have held the lock while the job ran. */
    if (ran_held && status == HF_ELOST) {
        say("%s: %s", g->plan->name, hf_last_message());
        g->shared->exit_code = EXIT_LOST;
    }
    atomic_store(&g->shared->released, 1);
    if (status < 0 && status != HF_ELOST && status != HF_ENOTHELD)
        say("%s: not released: %s; its key ends by itself within the TTL", g->plan->name,
            hf_strerror(status));
    else if (g->plan->verbose)
        say("%s: released", g->plan->name);
}

void guardian_tell(const struct guardian *g, int word)
{
    ssize_t sent = send(g->link_fd, &word, sizeof(word), MSG_DONTWAIT | MSG_NOSIGNAL);

    (void)sent; /* the other guardian's death is noticed elsewhere */
}

bool guardian_hear(const struct guardian *g, int *ret_word)
{
    return recv(g->link_fd, ret_word, sizeof(*ret_word), MSG_DONTWAIT) ==
           (ssize_t)sizeof(*ret_word);
}

/* --- the TTL that the timeline goes by -------------------------------------------------------- */

#define NS_PER_MS INT64_C(1000000)

int64_t ttl_now_ns(hf_client *client, int64_t asked_ns, int64_t told_ns)
{
    struct hf_agent_info agent = HF_AGENT_INFO_INIT;

    if (!client || hf_agent_info(client, &agent) < 0)
        return told_ns;
    return agent.ttl_max_ms * NS_PER_MS < asked_ns ? agent.ttl_max_ms * NS_PER_MS : asked_ns;
}
