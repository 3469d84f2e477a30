#include "tools/run/witness.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/run/streams.h"

#define PATIENCE_MS 20 /* for a witness that is stopped */

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

static _Noreturn void witness_answer(int link_fd, const struct signals *signals, pid_t parent)
{
    char question;

    (void)prctl(PR_SET_NAME, "holdfast-group");
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    witness_keep_only(link_fd, signals->fd);
    while (getppid() == parent && read(link_fd, &question, 1) == 1) {
        struct signalfd_siginfo info;
        uint64_t seen = 0;

        while (signals_next(signals, &info))
            seen |= UINT64_C(1) << (info.ssi_signo - 1);
        if (send(link_fd, &seen, sizeof(seen), MSG_NOSIGNAL) < 0)
            break;
    }
    _exit(0);
}

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

bool witness_saw(struct witness *witness, int signal)
{
    struct pollfd fd = {.fd = witness->link_fd, .events = POLLIN};
    uint64_t bit = UINT64_C(1) << (signal - 1), seen;
    bool saw, asked = witness->pid > 0 && witness->link_fd >= 0;

    if (asked && send(witness->link_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
        (void)poll(&fd, 1, PATIENCE_MS);
    while (asked &&
           recv(witness->link_fd, &seen, sizeof(seen), MSG_DONTWAIT) == (ssize_t)sizeof(seen))
        witness->seen |= seen;
    saw = witness->seen & bit;
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
