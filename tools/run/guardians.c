/* Sets up the two guardians and forks the second. */
#include "tools/run/guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/common/args.h"
#include "tools/run/job.h"
#include "tools/run/say.h"

static int guardians_pidfd_open_(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* Asks about this process, and waits for itself, which is no child of its: only a filter of system calls (seccomp) refuses that. The job's
 * tree is killed by the first two calls, and reaped by the last. */
static bool guardians_may_signal(int own_fd)
{
    return kill(getpid(), 0) == 0 && syscall(SYS_pidfd_send_signal, own_fd, 0, NULL, 0) == 0 &&
           (waitpid(getpid(), NULL, WNOHANG) >= 0 || errno == ECHILD);
}

/* A tracer of both, as `strace -f`, stops them whenever it is stopped itself: by an output that nobody reads, say. */
static void guardians_say_if_traced(const struct guardian *g)
{
    pid_t tracer = tree_tracer(&g->tree, getpid());

    if (tracer)
        say("%s: process %d traces this command; while it keeps the guardians stopped nobody ends "
            "the job in time",
            g->plan->name, (int)tracer);
}

static int guardians_prepare_all(struct guardian *g)
{
    int links[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, links) < 0)
        return -1;
    g->link_fd = links[0];
    g->inner_link_fd = links[1];
    g->outer_fd = guardians_pidfd_open_(getpid());
    if (g->outer_fd < 0)
        return -1;
    if (!guardians_may_signal(g->outer_fd)) {
        errno = ENOTSUP;
        return -1;
    }
    if (beat_make(&g->beat, g->plan->heartbeat_ns) < 0)
        return -1;
    g->timer_fd = timeline_timer();
    if (g->timer_fd < 0 || tree_init(&g->tree, 0) < 0)
        return -1;
    guardians_say_if_traced(g);
    say_prepare();
    return tree_leave_alone(&g->tree); /* what is there before the job is no part of it */
}

/* What the guardians open after the grant: a client that joins, its events, the job's group, and a process of /proc that they
 * look at. The limit is a process's, so room here is room in the second guardian. */
#define LATER_DESCRIPTORS 16

static int guardians_look_for_room(int fd)
{
    int fds[LATER_DESCRIPTORS], count = 0, error;

    while (count < LATER_DESCRIPTORS && (fds[count] = fcntl(fd, F_DUPFD_CLOEXEC, 0)) >= 0)
        count++;
    error = errno;
    for (int i = 0; i < count; i++)
        close(fds[i]);
    errno = error;
    return count == LATER_DESCRIPTORS ? 0 : -1;
}

int guardians_prepare(struct guardian *g, const struct guardian_plan *plan)
{
    int error;

    *g = (struct guardian){.plan = plan};
    g->shared =
        mmap(NULL, sizeof(*g->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (g->shared == MAP_FAILED)
        return -1;
    g->pages_at_once = own_pages_at_once(OWN_PAGES_GROUPS, OWN_PAGES_ROOT);
    cgroup_plan(&g->cgroup);
    if (guardians_prepare_all(g) == 0 && guardians_look_for_room(g->link_fd) == 0)
        return 0;
    error = errno;
    guardians_free(g);
    errno = error;
    return -1;
}

/* Its descriptors close with the process. */
void guardians_free(struct guardian *g)
{
    cgroup_remove(&g->cgroup);
    tree_free(&g->tree);
    munmap(g->shared, sizeof(*g->shared));
}

/* No job was started: nothing to reap. */
static int guardians_fail(struct guardian *g, const char *what, const char *why)
{
    say("%s: %s%s", g->plan->name, what, why);
    lease_group_release(&g->leases);
    guardians_free(g);
    return EXIT_FAILED;
}

int guardians_run(struct guardian *g, const struct lease_group *leases)
{
    struct hf_ticket tickets[HF_EXCLUSIVE_LEASES];
    pid_t inner;
    int code;

    g->leases = *leases;
    g->group = getpgrp();
    g->session = getsid(0);
    if (lease_group_tickets(leases, tickets) < 0)
        return guardians_fail(g, "", hf_last_message());
    atomic_store(&g->shared->late_ns, timeline_now_ns() + guardian_patience_ns(g));
    inner = fork();
    if (inner < 0)
        return guardians_fail(g, "fork: ", strerror(errno));
    if (inner == 0) {
        close(g->link_fd);
        close(g->timer_fd);
        tree_free(&g->tree);
        g->link_fd = g->inner_link_fd;
        g->peer_fd = g->outer_fd;
        guardian_inner(g, tickets);
    }
    witness_begin(&g->witness, g->plan->signals);
    close(g->inner_link_fd);
    close(g->outer_fd);
    g->peer_fd = guardians_pidfd_open_(inner); /* without one its SIGCHLD is enough */
    explicit_bzero(tickets, sizeof(tickets));
    code = guardian_outer(g, inner);
    witness_free(&g->witness);
    lease_group_free(&g->leases); /* the leases that are left to lapse */
    guardians_free(g);
    streams_give_up();
    return code;
}
