#include "tools/run/input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tools/common/args.h"
#include "tools/common/exit_code.h"
#include "tools/run/say.h"

#define TERMINAL_AGAIN_NS (INT64_C(500) * 1000000)

/* A pipe that we have open for writing, too ('<>' of a shell), would never end. O_NONBLOCK is for a descriptor of our own. */
static void open_pipe_anew(void)
{
    int fd = open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return;
    dup2(fd, STDIN_FILENO);
    close(fd);
}

int input_open(struct input *input, bool no_stdin)
{
    struct stat st;

    *input = (struct input){.fd = STDIN_FILENO};
    if (no_stdin) {
        input->process = true;
        input->fd = (int)syscall(SYS_pidfd_open, getppid(), 0);
        if (input->fd < 0 &&
            getppid() != 0) { /* 0: a parent in another PID namespace; until a signal */
            say("cannot watch the process that called this one: %s", strerror(errno));
            return EXIT_FAILED;
        }
        return EXIT_OK;
    }
    input->terminal = isatty(STDIN_FILENO);
    if (fstat(STDIN_FILENO, &st) < 0 ||
        (!input->terminal && !S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode)))
        return args_usage("hold",
                          "give a standard input that stays open for as long as the lock is "
                          "wanted, such as a pipe, or --no-stdin; this one is no pipe, "
                          "socket or terminal, and would end at once");
    input->socket = S_ISSOCK(st.st_mode);
    if (S_ISFIFO(st.st_mode))
        open_pipe_anew();
    (void)input_look(input); /* a writer that is gone already is told by no poll() */
    return EXIT_OK;
}

static ssize_t take(const struct input *input, void *bytes, size_t size)
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
        got = take(input, bytes, sizeof(bytes));
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
