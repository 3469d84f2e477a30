#include "agent/base/given_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shm/status.h"

int given_file_unread(const char *path, int error, char *why, size_t why_size)
{
    snprintf(why, why_size, "%s%.160s cannot be read: %s",
             error == EACCES ? "let the agent's user read it: " : "", path, strerror(error));
    return HF_EINVAL;
}

int given_file_open(const char *path, struct stat *ret_status, char *why, size_t why_size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), rc;
    struct stat status;

    if (fd < 0)
        return given_file_unread(path, errno, why, why_size);
    if (fstat(fd, &status) < 0) {
        rc = given_file_unread(path, errno, why, why_size);
    } else if (!S_ISREG(status.st_mode)) {
        snprintf(why, why_size, "%.160s is no regular file", path);
        rc = HF_EINVAL;
    } else {
        *ret_status = status;
        return fd;
    }
    (void)close(fd);
    return rc;
}
