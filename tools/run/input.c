#include "tools/run/input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tools/common/args.h"
#include "tools/run/say.h"

#define TERMINAL_AGAIN_NS (INT64_C(500) * 1000000)

/* A pipe that we have open for writing, too ('<>' of a shell), would never end. O_NONBLOCK is for a descriptor of our own. */
static void input_open_pipe_anew(void)
{
    int fd = open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return;
    dup2(fd, STDIN_FILENO);
    close(fd);
}

/* systemd 248 names the process that it starts; an earlier one gives a variable that all below it have, too. */
static bool input_service_manager_called_us(void)
{
    const char *pid = getenv("SYSTEMD_EXEC_PID");

    return pid ? strtol(pid, NULL, 10) == getpid() : getenv("INVOCATION_ID") != NULL;
}

/* An orphan has another parent than the process that called it, and the kernel does not tell. But a session is inherited, or one's own. */
static bool input_is_orphan(pid_t parent)
{
    if (getsid(0) == getsid(parent))
        return false;
    return getsid(0) != getpid() || (parent == 1 && !input_service_manager_called_us());
}

/* Process 0 is a parent in another PID namespace: then until a signal. */
static int input_watch_parent(struct input *input)
{
    pid_t parent = getppid();

    input->process = true;
    input->fd = parent ? (int)syscall(SYS_pidfd_open, parent, 0) : -1;
    if (input->fd < 0 && parent && errno != ESRCH) {
        say("cannot watch the process that called this one: %s", strerror(errno));
        return EXIT_FAILED;
    }
    if (parent && (input->fd < 0 || getppid() != parent || input_is_orphan(parent)))
        return args_usage(
            "hold",
            "the process that called it has ended already; with --no-stdin call it from "
            "one that lives for as long as the lock is wanted, or give a pipe as standard input");
    return EXIT_OK;
}

int input_open(struct input *input, bool no_stdin)
{
    struct stat st;

    *input = (struct input){.fd = STDIN_FILENO};
    if (no_stdin)
        return input_watch_parent(input);
    input->terminal = isatty(STDIN_FILENO);
    if (fstat(STDIN_FILENO, &st) < 0 ||
        (!input->terminal && !S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode)))
        return args_usage("hold",
                          "give a standard input that stays open for as long as the lock is "
                          "wanted, such as a pipe, or --no-stdin; this one is no pipe, "
                          "socket or terminal, and would end at once");
    input->socket = S_ISSOCK(st.st_mode);
    if (S_ISFIFO(st.st_mode))
        input_open_pipe_anew();
    (void)input_look(input); /* a writer that is gone already is told by no poll() */
    return EXIT_OK;
}

static ssize_t input_take(const struct input *input, void *bytes, size_t size)
{
    struct pollfd fd = {.fd = input->fd, .events = POLLIN};

    if (input->socket)
        return recv(input->fd, bytes, size, MSG_DONTWAIT);
    /* The descriptor of a pipe that could not be opened anew, or of a terminal, may block. */
    if (!(fcntl(input->fd, F_GETFL) & O_NONBLOCK) && poll(&fd, 1, 0) == 0) {
        errno = EAGAIN;
        return -1;
    }
    return read(input->fd, bytes, size);
}

bool input_look(struct input *input)
{
    char bytes[4096];
    ssize_t got;

    if (input->process) {
        struct pollfd fd = {.fd = input->fd, .events = POLLIN};

        input->ended = input->ended || (input->fd >= 0 && poll(&fd, 1, 0) == 1);
        return input->ended;
    }
    if (input->ended || input->fd < 0)
        return input->ended;
    do
        got = input_take(input, bytes, sizeof(bytes));
    while (got < 0 && errno == EINTR);
    if (got > 0)
        input->some = true;
    else if (got == 0 || errno != EAGAIN)
        input->ended = !(input->terminal && got < 0 && tcgetpgrp(STDIN_FILENO) != getpgrp());
    return input->ended;
}

bool input_is_of_another(const struct input *input)
{
    return !input->process && !input->terminal;
}

/* Reading from the background is refused (SIGTTIN). */
int64_t input_prepare(struct input *input, int64_t now_ns)
{
    if (!input->terminal)
        return INT64_MAX;
    input->fd =
        tcgetpgrp(STDIN_FILENO) == getpgrp() || tcgetpgrp(STDIN_FILENO) < 0 ? STDIN_FILENO : -1;
    return input->fd < 0 ? now_ns + TERMINAL_AGAIN_NS : INT64_MAX;
}
