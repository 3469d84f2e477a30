/* The third killer of a job: the agent, by the job's control group.
 *
 * The guardians of a run hand the group over once the job runs in it, if they are the agent's own user's
 * or root's. The agent kills all processes inside at V - 0.1 T, or at once where the lease is lost at once
 * or both guardians are gone. When the guardians are gone and nobody is inside, the tree is dead as if they
 * had said so, and the lock is released. While one of them lives only it may say so; but that the job was
 * killed the agent tells by itself, because the guardians may find no process left to kill. The agent
 * neither sees nor kills a process that has left the group.
 *
 * (!) The agent kills by the group alone, as it may signal no process by its number. What the kernel does not kill
 * so is frozen: it acts no more. The lock of such a job is not released, it lapses.
 */
#include "agent/broker/jobs/groups.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/base/thread.h"
#include "agent/broker/clients/clients.h"
#include "agent/broker/clients/sessions.h"
#include "agent/broker/clients/users.h"
#include "agent/broker/locks/locks_internal.h"
#include "agent/broker/locks/names.h"
#include "shm/assert.h"
#include "shm/status.h"

/* Until the killed processes are dead. */
#define KILL_AGAIN    hf_ms(100)
#define KILL_PATIENCE hf_ms(1000)

struct groups {
    const struct config *config;
    struct loop *loop;
    unsigned count;
    struct log_limit of_no_use;
};

struct group {
    struct groups *groups;
    struct client *client;
    struct job_group job;
    struct loop_fd watch;    /* of its events */
    struct loop_timer timer; /* the next kill, unless something comes first */
    hf_time killed;          /* first; HF_TIME_NEVER: not yet */
    bool released, told, told_stubborn;
};

static void groups_close_fds(const int *fds, int count)
{
    for (int i = 0; i < count; i++)
        close(fds[i]);
}

/* --- what becomes of it ----------------------------------------------------------------------- */

static bool groups_is_run(const struct name *name)
{
    return name_lease(name)->is_job;
}

/* When the processes inside must die, by the lease that ends first. */
static hf_time groups_kill_at(const struct client *c, hf_time now)
{
    hf_time first = HF_TIME_NEVER;
    const struct name *name;

    LIST_FOREACH (name, &c->held, of_holder) {
        const struct lease *lease = name_lease(name);
        uint8_t state = atomic_load_explicit(&lease->state, memory_order_relaxed);
        hf_time valid = {atomic_load_explicit(&lease->valid_ns, memory_order_relaxed)};

        if (!lease->is_job)
            continue;
        if (state == HF_SLOT_LOST)
            return now;
        if (state == HF_SLOT_LOSING)
            first = hf_time_min(first, hf_time_sub(valid, lease_timing(lease).kill_before));
    }
    return first;
}

/* No guardian and no process is left: the tree is reaped. */
static void groups_release(struct group *g) IN_BROKER_THREAD
{
    struct name *name;

    if (g->released)
        return;
    g->released = true;
    log_info("the job of process %" PRIu32 " (user %" PRIu32
             ") is over, and so are its guardians: its lock is released",
             g->client->pid, g->client->uid);
    LIST_FOREACH (name, &g->client->held, of_holder)
        if (groups_is_run(name))
            release_begin(name, RELEASE_TREE_DEAD);
}

/* (!) Before it is closed: a child of this process may have it open for a moment, too. */
static void groups_unwatch(struct group *g)
{
    loop_fd_remove(g->groups->loop, &g->watch);
}

/* Before their release, which goes through this thread, too. Both guardians may say the same. */
static void groups_tell_killed(struct group *g) IN_BROKER_THREAD
{
    struct name *name;

    g->told = true;
    LIST_FOREACH (name, &g->client->held, of_holder)
        if (groups_is_run(name))
            tell_renewal_guardian_stopping(name, true);
}

static void groups_tell_stubborn(struct group *g)
{
    char path[JOB_GROUP_PATH_MAX];

    g->told_stubborn = true;
    job_group_path(&g->job, path);
    log_warn("the job of process %" PRIu32 " (user %" PRIu32
             ") does not die, as a process whose main thread has ended and whose others run; it is "
             "frozen, so it acts no more, and its lock is not released, it lapses; end it as root: "
             "xargs kill -9 < %s/cgroup.procs",
             g->client->pid, g->client->uid, path);
}

static void groups_kill_all(struct group *g, hf_time now, bool empty)
{
    if (g->killed.ns == HF_TIME_NEVER.ns)
        g->killed = now;
    job_group_kill(&g->job);
    if (!empty && !g->told_stubborn && hf_time_reached(now, hf_time_add(g->killed, KILL_PATIENCE)))
        groups_tell_stubborn(g);
}

static void groups_look(struct group *g, hf_time now) IN_BROKER_THREAD
{
    const struct client *c = g->client;
    bool orphan = LIST_EMPTY(&c->sessions) && !c->ghost, empty = job_group_is_empty(&g->job);
    hf_time at = orphan ? now : groups_kill_at(c, now);

    hf_assert(c->group == g, "process %u", (unsigned)c->pid);
    if (g->job.removed)
        groups_unwatch(g);
    if (orphan && empty) {
        groups_release(g);
        return;
    }
    if (hf_time_reached(now, at)) {
        groups_kill_all(g, now, empty);
        if (!orphan && !empty && !g->told)
            groups_tell_killed(g);
        at = hf_time_add(now, KILL_AGAIN);
    }
    if (at.ns != HF_TIME_NEVER.ns)
        loop_timer_set(g->groups->loop, &g->timer, at);
}

static void groups_on_timer(struct loop_timer *timer, hf_time now)
{
    ASSERT_BROKER_THREAD();
    groups_look(HF_CONTAINER(timer, struct group, timer), now);
}

void groups_review(struct client *c)
{
    if (c->group)
        groups_look(c->group, clock_now());
}

void groups_drop(struct client *c)
{
    struct group *g = c->group;

    if (!g)
        return;
    loop_timer_cancel(g->groups->loop, &g->timer);
    if (g->killed.ns != HF_TIME_NEVER.ns && !g->told_stubborn && !job_group_is_empty(&g->job))
        groups_tell_stubborn(g); /* a short lease */
    groups_unwatch(g);
    job_group_close(&g->job);
    hf_assert(c->user->groups > 0 && g->groups->count > 0, "groups %u, of its user %u",
              (unsigned)g->groups->count, (unsigned)c->user->groups);
    c->user->groups--;
    g->groups->count--;
    c->group = NULL;
    free(g);
}

static bool groups_has_run(const struct client *c)
{
    const struct name *name;

    LIST_FOREACH (name, &c->held, of_holder)
        if (groups_is_run(name))
            return true;
    return false;
}

void groups_lease_over(struct client *c)
{
    if (c->group && !groups_has_run(c))
        groups_drop(c);
}

static void groups_on_event(struct loop_fd *watch)
{
    ASSERT_BROKER_THREAD();
    groups_look(HF_CONTAINER(watch, struct group, watch), clock_now());
}

/* --- taking one ------------------------------------------------------------------------------- */

/* A run has two sessions. */
static bool groups_is_too_many(const struct groups *groups, const struct session *s)
{
    const struct config *c = groups->config;

    return groups->count >= c->groups_max ||
           (c->clients_per_uid && s->user->groups >= c->clients_per_uid / 2);
}

/* Why it is of no use; NULL: it was taken, together with all descriptors but the directory's. */
static const char *groups_take_one(struct groups *groups, struct session *s,
                                   const int fds[HF_GROUP_FDS]) IN_BROKER_THREAD
{
    struct group *g;
    const char *why = "";
    dev_t hierarchy;

    if (s->client->group)
        return "its job has a group already";
    if (!groups_has_run(s->client))
        return "the process has no lease for a job";
    if (groups_is_too_many(groups, s))
        return "the limit of groups is reached (clients_per_uid, LimitNOFILE)";
    if (!job_group_hierarchy(&hierarchy))
        return "the agent sees no control groups (v2) here";
    g = calloc(1, sizeof(*g));
    if (!g)
        return "out of memory";
    if (job_group_open(hierarchy, fds[HF_FD_GROUP], fds[HF_FD_GROUP_KILL], fds[HF_FD_GROUP_FREEZE],
                       &g->job, &why) < 0) {
        free(g);
        return why;
    }
    if (loop_fd_watch(groups->loop, &g->watch, g->job.events_fd, LOOP_PRIORITY, groups_on_event) <
        0) {
        why = strerror(errno);
        close(g->job.events_fd);
        free(g);
        return why;
    }
    g->groups = groups;
    g->client = s->client;
    g->killed = HF_TIME_NEVER;
    g->timer.fn = groups_on_timer;
    s->client->group = g;
    s->user->groups++;
    groups->count++;
    groups_look(g, clock_now());
    return NULL;
}

/* Whether the next datagram is a guardian's group; it stays in the socket with its descriptors. */
static bool groups_is_offered(const struct session *s)
{
    struct hf_group message;

    return s->guardian && !s->gave_group &&
           recv(s->socket.fd, &message, sizeof(message), MSG_DONTWAIT | MSG_PEEK | MSG_TRUNC) ==
               (ssize_t)sizeof(message) &&
           message.magic == HF_GROUP_MAGIC;
}

/* A library does not know whose groups are taken. The kernel drops the descriptors that came along; it does not flush
 * them as close() does. */
static bool groups_ignore(struct session *s)
{
    struct hf_group message;

    s->gave_group = true;
    return recv(s->socket.fd, &message, sizeof(message), MSG_DONTWAIT) == (ssize_t)sizeof(message);
}

bool groups_take(struct groups *groups, struct session *s)
{
    union {
        struct cmsghdr header; /* for its alignment */
        char bytes[CMSG_SPACE(sizeof(int) * HF_GROUP_FDS)];
    } control;
    struct hf_group message;
    struct iovec part = {.iov_base = &message, .iov_len = sizeof(message)};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = CMSG_LEN(sizeof(int) * HF_GROUP_FDS)}; /* not one more */
    const struct cmsghdr *c;
    const char *why = "it came without its descriptors";
    int fds[HF_GROUP_FDS] = {-1, -1, -1}, count = 0;

    if (!groups_is_offered(s))
        return false;
    if (!session_is_own(s))
        return groups_ignore(s);
    if (recvmsg(s->socket.fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(message))
        return false;
    s->gave_group = true;
    c = CMSG_FIRSTHDR(&m);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(fds, CMSG_DATA(c), (size_t)count * sizeof(int));
    }
    if (count == HF_GROUP_FDS)
        why = groups_take_one(groups, s, fds);
    /* Descriptors that were taken are the group's. */
    groups_close_fds(fds, why ? count : HF_FD_GROUP + 1);
    if (why && log_allows(&groups->of_no_use, LOG_LIMIT, clock_now()))
        log_info("the control group that process %" PRIu32 " (user %" PRIu32
                 ") handed over cannot be used: %s",
                 s->pid, s->uid, why);
    return true;
}

int groups_create(struct agent *agent, struct loop *loop, struct groups **ret_groups)
{
    struct groups *groups = calloc(1, sizeof(*groups));

    if (!groups)
        return HF_ENOMEM;
    groups->config = agent->config;
    groups->loop = loop;
    *ret_groups = groups;
    return HF_OK;
}

void groups_configure(struct groups *groups, const struct config *config)
{
    groups->config = config;
}

void groups_destroy(struct groups *groups)
{
    if (!groups)
        return;
    free(groups);
}
