#include "tools/run/say.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "tools/common/text.h"
#include "tools/run/job.h"

/* --- a child that writes ---------------------------------------------------------------------- */

/* A child that writes what this process and its forks say, where a write may block: to a file, whose file system may hang, and to a pipe
 * or terminal of another user, which cannot be opened anew without blocking. Whoever sends to it never waits: what it has no room for is
 * lost. It ends when all who may send have ended, and some seconds after its parent at the latest. */

#define LINE_MAX_BYTES 8192
#define AFTER_PARENT_S 5

/* Keeps what it writes to as standard error. */
static void say_writer_keep_only(int link_fd, int fd)
{
    streams_let_go();
    dup2(fd, STDERR_FILENO);
    dup2(link_fd, STDERR_FILENO + 1);
    (void)syscall(SYS_close_range, STDERR_FILENO + 2, ~0U, 0); /* Linux 5.9 */
}

static void say_writer_end_soon(int sig)
{
    (void)sig;
    alarm(AFTER_PARENT_S);
}

/* It heeds nothing but its parent's end: the other guardian may have some words yet, and a reader who never comes is not waited for. */
static void say_writer_take_signals(pid_t parent)
{
    const struct sigaction parent_ends = {.sa_handler = say_writer_end_soon,
                                          .sa_flags = SA_RESTART};
    sigset_t blocked;

    sigfillset(&blocked);
    sigdelset(&blocked, SIGUSR1);
    sigdelset(&blocked, SIGALRM);
    (void)signal(SIGALRM, SIG_DFL);
    sigaction(SIGUSR1, &parent_ends, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGUSR1, 0, 0, 0);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    if (getppid() != parent)
        say_writer_end_soon(SIGUSR1);
}

static _Noreturn void say_writer_write_all(int link_fd, int fd, pid_t parent)
{
    char line[LINE_MAX_BYTES];
    ssize_t got;

    (void)prctl(PR_SET_NAME, "holdfast-writer");
    say_writer_take_signals(parent);
    (void)
        setsid(); /* a signal to the guardians' group leaves it, to write what the other one says */
    say_writer_keep_only(link_fd, fd);
    link_fd = STDERR_FILENO + 1;
    /* It is taken off the queue when it is written, for say_writer_flush(). */
    while ((got = recv(link_fd, line, sizeof(line), MSG_PEEK)) > 0) {
        ssize_t written = write(STDERR_FILENO, line, (size_t)got);

        (void)written;
        (void)recv(link_fd, line, sizeof(line), 0);
    }
    _exit(0);
}

/* Starts a child that writes to `fd`. A socket for send(), one line each; or -1. */
static int say_writer_begin(int fd)
{
    pid_t parent = getpid(), pid;
    int links[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, links) < 0)
        return -1;
    pid = fork();
    if (pid == 0) {
        close(links[0]);
        say_writer_write_all(links[1], fd, parent);
    }
    close(links[1]);
    if (pid > 0)
        return links[0];
    close(links[0]);
    return -1;
}

/* Waits until it has written all, for `most_ms` at most. */
static void say_writer_flush(int link_fd, int most_ms)
{
    const struct timespec pause = {.tv_nsec = 500000};
    int queued;

    for (int i = 0; i < 2 * most_ms && ioctl(link_fd, SIOCOUTQ, &queued) == 0 && queued > 0; i++)
        nanosleep(&pause, NULL);
}

/* --- saying ----------------------------------------------------------------------------------- */

static int say_fd = STDERR_FILENO;
static bool say_socket, say_writer, say_terminal, rewriting;
static unsigned dropped;

#define AWAY     "\r\033[K" /* to the first column; erases the line */
#define FLUSH_MS 500        /* what a healthy file does not need, and a hung one does not get */

static void say_flush(void)
{
    if (say_writer && say_fd >= 0)
        say_writer_flush(say_fd, FLUSH_MS);
}

/* (!) O_NONBLOCK belongs to the open file description, which the job shares: so pipes and terminals are reopened. Another user's cannot
 * be, and a regular file does not know it: a child writes to those. */
void say_init(void)
{
    struct stat st;
    int fd = -1;

    if (fstat(STDERR_FILENO, &st) < 0)
        return;
    say_socket = S_ISSOCK(st.st_mode);
    say_terminal = S_ISCHR(st.st_mode) && isatty(STDERR_FILENO);
    if (say_socket)
        return;
    if (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode))
        fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    say_writer = fd < 0;
    say_fd = fd;
}

void say_prepare(void)
{
    if (!say_writer || say_fd >= 0)
        return;
    say_fd = say_writer_begin(STDERR_FILENO);
    if (say_fd >= 0)
        (void)atexit(say_flush);
}

/* Without a descriptor for the child no lock is asked for: a run only says why it ends. */
static bool say_put_without_child(const char *bytes, size_t len)
{
    struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};

    return len <= PIPE_BUF && poll(&room, 1, 0) == 1 && (room.revents & POLLOUT) &&
           write(STDERR_FILENO, bytes, len) >= 0;
}

static bool say_put(const char *bytes, size_t len)
{
    say_prepare();
    if (say_writer && say_fd < 0)
        return say_put_without_child(bytes, len);
    if (say_socket || say_writer)
        return send(say_fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
    return write(say_fd, bytes, len) >= 0;
}

static void say_put_line(const char *line)
{
    char note[96];

    if (dropped) {
        snprintf(note, sizeof(note), "holdfast: lines that could not be written: %u\n", dropped);
        if (!say_put(note, strlen(note))) {
            dropped++;
            return;
        }
        dropped = 0;
    }
    if (!say_put(line, strlen(line)))
        dropped++;
}

void say(const char *format, ...)
{
    char line[2048 + sizeof(AWAY)];
    size_t used;
    va_list args;

    snprintf(line, sizeof(line), "%sholdfast: ", rewriting ? AWAY : "");
    rewriting = false;
    used = strlen(line);
    va_start(args, format);
    vsnprintf(line + used, sizeof(line) - used - 1, format, args);
    va_end(args);
    strcat(line, "\n");
    say_put_line(line);
}

bool say_is_terminal(void)
{
    return say_terminal;
}

bool say_can_rewrite(void)
{
    const char *term = getenv("TERM");

    return say_terminal && term && *term && strcmp(term, "dumb") != 0 &&
           tcgetpgrp(STDERR_FILENO) == getpgrp();
}

/* Whole characters in so many columns. The last column stays free, since some terminals go on in the next line there. */
static void say_cut(char *text, int columns)
{
    char *end = text + strlen(text);

    while (end > text && text_columns(text) >= columns) {
        do
            end--;
        while (end > text && ((unsigned char)*end & 0xc0) == 0x80);
        *end = '\0';
    }
}

void say_rewrite(const char *format, ...)
{
    char line[4096];
    size_t used = strlen(AWAY);
    struct winsize size = {0};
    va_list args;

    strcpy(line, AWAY);
    va_start(args, format);
    vsnprintf(line + used, sizeof(line) - used, format, args);
    va_end(args);
    if (!line[used] && !rewriting)
        return;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
        say_cut(line + used, size.ws_col);
    else
        say_cut(line + used, 80);
    rewriting = line[used] != '\0';
    (void)say_put(line, strlen(line));
}

void say_end(void)
{
    if (say_fd >= 0 && say_fd != STDERR_FILENO)
        close(say_fd);
    close(STDERR_FILENO);
    say_fd = -1;
    say_socket = say_writer = false;
}
