/* The work that both guardians do: judge, wait, kill and release. */
#include "tools/common/text.h"
#include "tools/run/guardian.h"

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/common/exit_code.h"
#include "tools/run/say.h"
#include "tools/run/ttl.h"

#define NS_PER_MS INT64_C(1000000)

/* Passes of SIGKILL: in quick succession first, since a tree may fork while it is killed. */
#define KILL_PAUSE_NS      (5 * NS_PER_MS)
#define KILL_LATE_PAUSE_NS (50 * NS_PER_MS)
#define KILL_COMPLAIN_NS   (1000 * NS_PER_MS)
#define KILL_GIVE_UP_NS    (10000 * NS_PER_MS)

enum timeline_phase guardian_judge(struct guardian *g, int64_t now_ns)
{
    int64_t valid_ns = hold_valid_until_ns(&g->hold);

    timeline_set_ttl(&g->timeline, ttl_now_ns(g->hold.client, g->plan->ttl_ns, g->timeline.ttl_ns));
    return timeline_judge(&g->timeline, now_ns, valid_ns, hold_state(&g->hold) == HF_STATE_LOSING);
}

void guardian_signal_tree(struct guardian *g, int signal)
{
    tree_signal(&g->tree, signal, NULL);
    tree_signal(&g->tree, SIGCONT, NULL);
}

static void complain(struct guardian *g, const struct tree_outcome *outcome)
{
    char command[4 * sizeof(outcome->command)];

    g->complained = true;
    if (!outcome->living) {
        say("%s: a process in the job's control group does not die; the lock is not released while "
            "it lives",
            g->plan->name);
        return;
    }
    say("%s: process %d (%s) does not die (%s); the lock is not released while it lives",
        g->plan->name, (int)outcome->stubborn,
        text_escape_str(command, sizeof(command), outcome->command),
        outcome->error ? strerror(outcome->error) : "it is inside the kernel");
}

void guardian_kill_tree(struct guardian *g, int64_t now_ns)
{
    struct tree_outcome outcome;
    bool long_since;

    if (g->kill_since_ns == 0) {
        g->kill_since_ns = now_ns;
        (void)setpriority(PRIO_PROCESS, 0, -20); /* ahead of the killed processes, if permitted */
    }
    if (now_ns < g->kill_next_ns)
        return;
    long_since = now_ns - g->kill_since_ns > KILL_COMPLAIN_NS;
    g->kill_next_ns = now_ns + (long_since ? KILL_LATE_PAUSE_NS : KILL_PAUSE_NS);
    cgroup_kill(&g->cgroup);
    if (!long_since && tree_hunt(&g->tree, g->on_reaped, g->on_reaped_arg))
        return;
    if (tree_signal(&g->tree, SIGKILL, &outcome) == 0 && long_since && !g->complained &&
        (outcome.living || !cgroup_is_empty(&g->cgroup)))
        complain(g, &outcome);
}

void guardian_kill_in_time(struct guardian *g, int64_t now_ns)
{
    bool first = g->kill_since_ns == 0;

    atomic_store(&g->shared->killing, 1);
    guardian_kill_tree(g, now_ns);
    if (first)
        hold_begin_killing(&g->hold);
}

bool guardian_kill_failed(const struct guardian *g, int64_t now_ns)
{
    return g->kill_since_ns && now_ns - g->kill_since_ns > KILL_GIVE_UP_NS &&
           now_ns > g->timeline.valid_ns;
}

void guardian_say_left(const struct guardian *g)
{
    say("%s: leaving a process that does not die; the lock is not released, it lapses",
        g->plan->name);
}

void guardian_wait(struct guardian *g, int64_t until_ns)
{
    struct pollfd fds[] = {
        {.fd = g->plan->signals->fd, .events = POLLIN},
        {.fd = g->timer_fd, .events = POLLIN},
        {.fd = g->peer_gone ? -1 : g->link_fd, .events = POLLIN},
        {.fd = g->peer_gone ? -1 : g->peer_fd, .events = POLLIN},
        {.fd = g->hold.count ? hf_fd(g->hold.client) : -1, .events = POLLIN},
        {.fd = g->cgroup.events_fd, .events = POLLPRI},
    };

    timeline_arm(g->timer_fd, until_ns);
    if (poll(fds, sizeof(fds) / sizeof(fds[0]), -1) <= 0)
        return;
    if (fds[3].revents)
        g->peer_gone = true;
    if (fds[4].revents)
        hf_dispatch(g->hold.client);
    if (fds[5].revents)
        (void)cgroup_is_empty(&g->cgroup); /* makes the descriptor quiet */
}

static void take_back(const struct guardian *g)
{
    if (hold_once_take_back(&g->hold, g->plan->once_per_ms, g->plan->once_before) < 0)
        say("%s: the job failed, but counts as run in this period: %s", g->plan->name,
            hf_last_message());
}

/* A command that could not be started, or a script that ends with what it could not start, has not run: a typo uses up no
 * period. */
static bool has_run(const struct guardian *g)
{
    int code = g->shared->exit_code;

    return code != EXIT_CANNOT_RUN && code != EXIT_NOT_FOUND &&
           (!g->plan->retry_failed || code == 0);
}

/* For people: a failure is none. */
static void tell_end(const struct guardian *g)
{
    int status = g->shared->job_status, end = HF_ONCE_OPEN, code = 0;

    if (g->shared->exit_code == EXIT_LOST) {
        end = HF_ONCE_LOST;
    } else if (status >= 0 && WIFEXITED(status)) {
        end = HF_ONCE_EXITED;
        code = WEXITSTATUS(status);
    } else if (status >= 0 && WIFSIGNALED(status)) {
        end = HF_ONCE_KILLED;
        code = WTERMSIG(status);
    }
    (void)hold_once_ended(&g->hold, g->plan->once_per_ms, end, code);
}

void guardian_release(struct guardian *g)
{
    bool held = hold_state(&g->hold) < HF_STATE_LOST;
    int status;

    /* Both guardians kill and tell the agent on their own rings: it hears of the kill before the release. */
    if (atomic_load(&g->shared->killing))
        hold_begin_killing(&g->hold);
    if (held && g->plan->once_per_ms && atomic_load(&g->shared->reaped)) {
        if (has_run(g))
            tell_end(g);
        else
            take_back(g);
    }
    status = hold_release(&g->hold);
    /* The nodes show what nobody had noticed: another may have held the lock while the job ran. */
    if (held && status == HF_ELOST) {
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

/* Otherwise a process at the other end of the pipe would not notice that the job has closed it. */
void guardian_let_go_of_streams(void)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (fd < 0)
        return;
    dup2(fd, STDIN_FILENO);
    dup2(fd, STDOUT_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}
