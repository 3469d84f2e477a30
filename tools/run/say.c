#include "tools/run/say.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/common/text.h"
#include "tools/run/writer.h"

static int say_fd = STDERR_FILENO;
static bool say_socket, say_writer, rewriting;
static unsigned dropped;

#define AWAY     "\r\033[K" /* to the first column; erases the line */
#define FLUSH_MS 500        /* what a healthy file does not need, and a hung one does not get */

static void say_flush(void)
{
    if (say_writer && say_fd >= 0)
        writer_flush(say_fd, FLUSH_MS);
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
    say_fd = writer_begin(STDERR_FILENO);
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

bool say_can_rewrite(void)
{
    const char *term = getenv("TERM");

    return isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0 &&
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
