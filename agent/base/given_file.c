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

int given_file_try(const char *path, struct stat *ret_status)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), rc, error;
    struct stat status;

    if (fd < 0)
        return HF_ESYS;
    rc = fstat(fd, &status) < 0 ? HF_ESYS : S_ISREG(status.st_mode) ? HF_OK : HF_EINVAL;
    if (rc == HF_OK) {
        *ret_status = status;
        return fd;
    }
    error = errno;
    (void)close(fd);
    errno = error;
    return rc;
}

int given_file_open(const char *path, struct stat *ret_status, char *why, size_t why_size)
{
    int fd = given_file_try(path, ret_status);

    if (fd == HF_ESYS)
        return given_file_unread(path, errno, why, why_size);
    if (fd < 0)
        snprintf(why, why_size, "%.160s is no regular file", path);
    return fd;
}
