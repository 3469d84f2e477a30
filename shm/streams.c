#include "shm/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int hf_streams_hold(int flags)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | flags) != fd)
            return -1;
    return 0;
}

int hf_streams_finish(const char *who, int code, int failed)
{
    bool lost = ferror(stdout);
    int error = 0;

    if (fflush(stdout) < 0 || (close(STDOUT_FILENO) < 0 && errno != EBADF))
        error = errno;
    if (!lost && !error)
        return code;
    fprintf(stderr, "%s: cannot write the output%s%s\n", who, error ? ": " : "",
            error ? strerror(error) : "");
    return failed;
}
