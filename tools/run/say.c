#include "tools/run/say.h"

#include <fcntl.h>
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

static int say_fd = STDERR_FILENO;
static bool say_socket, rewriting;

#define AWAY "\r\033[K" /* to the first column; erases the line */

/* O_NONBLOCK belongs to the open file description, which the job shares: so pipes and terminals are
 * reopened. A regular file is used as it is: a reopened one would be overwritten from its start. */
void say_init(void)
{
    struct stat st;
    int fd;

    if (fstat(STDERR_FILENO, &st) < 0)
        return;
    say_socket = S_ISSOCK(st.st_mode);
    if (!S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode))
        return;
    fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0)
        say_fd = fd;
}

static void put(const char *bytes, size_t len)
{
    ssize_t written = say_socket ? send(say_fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL)
                                 : write(say_fd, bytes, len);

    (void)written; /* there is nowhere left to report it */
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
    put(line, strlen(line));
}

bool say_can_rewrite(void)
{
    const char *term = getenv("TERM");

    return isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0 &&
           tcgetpgrp(STDERR_FILENO) == getpgrp();
}

/* Whole characters in so many columns. The last column stays free, since some terminals go on in the next line there. */
static void cut(char *text, int columns)
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
        cut(line + used, size.ws_col);
    else
        cut(line + used, 80);
    rewriting = line[used] != '\0';
    put(line, strlen(line));
}

void say_end(void)
{
    if (say_fd != STDERR_FILENO)
        close(say_fd);
    close(STDERR_FILENO);
    say_fd = -1;
}
