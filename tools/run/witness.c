#include "tools/run/job.h"
#include "tools/run/guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/run/input.h"
#include "tools/run/say.h"
#include "tools/run/timeline.h"

#define PATIENCE_MS      20                    /* for a witness that is stopped */
#define ANSWERED_AT_ONCE (4 * SIGNALS_AT_ONCE) /* the rest is for the next answer */
#define CONTINUE_MS      20 /* between two SIGCONT to a parent that is still silent */

/* The job's pipes and the session with the agent must end without it. */
static void witness_keep_only(int link_fd, int signals_fd)
{
    unsigned low = (unsigned)(link_fd < signals_fd ? link_fd : signals_fd);
    unsigned high = (unsigned)(link_fd < signals_fd ? signals_fd : link_fd);

    streams_let_go();
    /* On Linux before 5.9 they end with it, which is at once. */
    if (low > STDERR_FILENO + 1)
        (void)syscall(SYS_close_range, STDERR_FILENO + 1, low - 1, 0);
    if (high > low + 1)
        (void)syscall(SYS_close_range, low + 1, high - 1, 0);
    (void)syscall(SYS_close_range, high + 1, ~0U, 0);
}

/* --- the witness itself ------------------------------------------------------------------------ */

/* What it is asked for. WHICH_SIGNALS is answered with the signals that it has had. */
struct request {
    enum { WHICH_SIGNALS, STAND_IN, GO_ON } what;
    pid_t inner;
    struct guardian_shared *shared;
};

/* Until the parent speaks again. (!) More than one SIGCONT: the first may come before the parent has stopped. */
static void witness_watch(int link_fd, const struct request *request, pid_t parent)
{
    struct pollfd fds[] = {
        {.fd = link_fd, .events = POLLIN},
        {.fd = (int)syscall(SYS_pidfd_open, request->inner, 0), .events = POLLIN},
        {.fd = timeline_timer(), .events = POLLIN},
    };
    bool wake = fds[1].fd < 0 || fds[2].fd < 0;

    while (!wake) {
        int64_t due_ns = atomic_load(&request->shared->late_ns);

        timeline_arm(fds[2].fd, due_ns);
        if (poll(fds, 3, -1) < 0) {
            fds[0].revents = fds[1].revents = 0;
            if (errno == EINVAL)
                usleep(GUARDIAN_NAP_US);
        }
        if (fds[0].revents)
            break;
        wake = fds[1].revents ||
               (timeline_now_ns() >= due_ns && atomic_load(&request->shared->late_ns) <= due_ns);
    }
    while (wake && kill(parent, SIGCONT) == 0 && poll(fds, 1, CONTINUE_MS) == 0)
        ;
    close(fds[1].fd);
    close(fds[2].fd);
}

static _Noreturn void witness_answer(int link_fd, const struct signals *signals, pid_t parent)
{
    struct request request;

    (void)prctl(PR_SET_NAME, "holdfast-group");
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    witness_keep_only(link_fd, signals->fd);
    while (getppid() == parent &&
           read(link_fd, &request, sizeof(request)) == (ssize_t)sizeof(request)) {
        struct signalfd_siginfo info;
        uint64_t seen = 0;

        if (request.what == STAND_IN)
            witness_watch(link_fd, &request, parent);
        if (request.what != WHICH_SIGNALS)
            continue;
        for (int i = 0; i < ANSWERED_AT_ONCE && signals_next(signals, &info); i++)
            seen |= UINT64_C(1) << (info.ssi_signo - 1);
        if (send(link_fd, &seen, sizeof(seen), MSG_NOSIGNAL) < 0)
            break;
    }
    _exit(0);
}

/* --- its parent -------------------------------------------------------------------------------- */

void witness_begin(struct witness *witness, const struct signals *signals)
{
    pid_t parent = getpid();
    int links[2];

    *witness = (struct witness){.link_fd = -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, links) < 0)
        return;
    witness->pid = fork();
    if (witness->pid == 0)
        witness_answer(links[1], signals, parent);
    close(links[1]);
    witness->link_fd = links[0];
    if (witness->pid < 0)
        witness_free(witness);
}

static bool witness_ask(const struct witness *witness, const struct request *request)
{
    return witness->pid > 0 && witness->link_fd >= 0 &&
           send(witness->link_fd, request, sizeof(*request), MSG_DONTWAIT | MSG_NOSIGNAL) ==
               (ssize_t)sizeof(*request);
}

bool witness_stand_in(struct witness *witness, pid_t inner, struct guardian_shared *shared)
{
    return witness_ask(witness,
                       &(struct request){.what = STAND_IN, .inner = inner, .shared = shared});
}

void witness_stand_down(struct witness *witness)
{
    (void)witness_ask(witness, &(struct request){.what = GO_ON});
}

void witness_look(struct witness *witness)
{
    struct pollfd fd = {.fd = witness->link_fd, .events = POLLIN};
    uint64_t seen;
    bool asked = witness->pid > 0 && witness->link_fd >= 0;

    if (asked && witness_ask(witness, &(struct request){.what = WHICH_SIGNALS}))
        (void)poll(&fd, 1, PATIENCE_MS);
    while (asked &&
           recv(witness->link_fd, &seen, sizeof(seen), MSG_DONTWAIT) == (ssize_t)sizeof(seen))
        witness->seen |= seen;
}

bool witness_saw(struct witness *witness, int signal)
{
    uint64_t bit = UINT64_C(1) << (signal - 1);
    bool saw = witness->seen & bit;

    witness->seen &= ~bit;
    return saw;
}

/* (!) It ends with its link, too: where it may not be killed (seccomp), who waits for it would wait for ever. */
void witness_end(struct witness *witness)
{
    if (witness->link_fd >= 0)
        close(witness->link_fd);
    witness->link_fd = -1;
    if (witness->pid > 0)
        kill(witness->pid, SIGKILL);
}

void witness_free(struct witness *witness)
{
    witness_end(witness);
    if (witness->pid > 0)
        (void)waitpid(witness->pid, NULL, __WALL);
    *witness = (struct witness){.link_fd = -1};
}
