#include "tools/run/writer.h"

#include <linux/sockios.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "tools/run/streams.h"

#define LINE_MAX_BYTES 8192
#define AFTER_PARENT_S 5

/* Keeps what it writes to as standard error. */
static void writer_keep_only(int link_fd, int fd)
{
    streams_let_go();
    dup2(fd, STDERR_FILENO);
    dup2(link_fd, STDERR_FILENO + 1);
    (void)syscall(SYS_close_range, STDERR_FILENO + 2, ~0U, 0); /* Linux 5.9 */
}

static void writer_end_soon(int sig)
{
    (void)sig;
    alarm(AFTER_PARENT_S);
}

/* It heeds nothing but its parent's end: the other guardian may have some words yet, and a reader who never comes is not waited for. */
static void writer_take_signals(pid_t parent)
{
    const struct sigaction parent_ends = {.sa_handler = writer_end_soon, .sa_flags = SA_RESTART};
    sigset_t blocked;

    sigfillset(&blocked);
    sigdelset(&blocked, SIGUSR1);
    sigdelset(&blocked, SIGALRM);
    (void)signal(SIGALRM, SIG_DFL);
    sigaction(SIGUSR1, &parent_ends, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGUSR1, 0, 0, 0);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    if (getppid() != parent)
        writer_end_soon(SIGUSR1);
}

static _Noreturn void writer_write_all(int link_fd, int fd, pid_t parent)
{
    char line[LINE_MAX_BYTES];
    ssize_t got;

    (void)prctl(PR_SET_NAME, "holdfast-writer");
    writer_take_signals(parent);
    (void)
        setsid(); /* a signal to the guardians' group leaves it, to write what the other one says */
    writer_keep_only(link_fd, fd);
    link_fd = STDERR_FILENO + 1;
    /* It is taken off the queue when it is written, for writer_flush(). */
    while ((got = recv(link_fd, line, sizeof(line), MSG_PEEK)) > 0) {
        ssize_t written = write(STDERR_FILENO, line, (size_t)got);

        (void)written;
        (void)recv(link_fd, line, sizeof(line), 0);
    }
    _exit(0);
}

int writer_begin(int fd)
{
    pid_t parent = getpid(), pid;
    int links[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, links) < 0)
        return -1;
    pid = fork();
    if (pid == 0) {
        close(links[0]);
        writer_write_all(links[1], fd, parent);
    }
    close(links[1]);
    if (pid > 0)
        return links[0];
    close(links[0]);
    return -1;
}

void writer_flush(int link_fd, int most_ms)
{
    const struct timespec pause = {.tv_nsec = 500000};
    int queued;

    for (int i = 0; i < 2 * most_ms && ioctl(link_fd, SIOCOUTQ, &queued) == 0 && queued > 0; i++)
        nanosleep(&pause, NULL);
}
