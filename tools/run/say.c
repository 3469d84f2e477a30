#include "tools/run/say.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int say_fd = STDERR_FILENO;
static bool say_socket;

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

void say(const char *format, ...)
{
    char line[2048];
    size_t used;
    ssize_t written;
    va_list args;

    strcpy(line, "holdfast: ");
    used = strlen(line);
    va_start(args, format);
    vsnprintf(line + used, sizeof(line) - used - 1, format, args);
    va_end(args);
    strcat(line, "\n");
    written = say_socket ? send(say_fd, line, strlen(line), MSG_DONTWAIT | MSG_NOSIGNAL)
                         : write(say_fd, line, strlen(line));
    (void)written; /* there is nowhere left to report it */
}
