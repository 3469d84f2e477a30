#include "shm/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "shm/nstime.h"
#include "shm/status.h"

#define START_TIME_FIELD 22

uint64_t hf_process_start_time(pid_t pid)
{
    char path[48], text[1024], *at;
    ssize_t length;
    int fd;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    fd = open(pid ? path : "/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    length = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (length <= 0)
        return 0;
    text[length] = '\0';
    /* Field 2 is the command in parentheses, which may contain anything. */
    at = strrchr(text, ')');
    for (int field = 2; at && field < START_TIME_FIELD; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) : 0;
}

#ifndef PID_FS_MAGIC
#define PID_FS_MAGIC 0x50494446
#endif

uint64_t hf_process_birth(int pidfd)
{
    struct statfs fs;
    struct stat st;

    /* Before Linux 6.9 all pidfds have the same inode. */
    if (fstatfs(pidfd, &fs) < 0 || fs.f_type != PID_FS_MAGIC || fstat(pidfd, &st) < 0)
        return 0;
    return (uint64_t)st.st_ino | HF_BIRTH_OF_PIDFD;
}

/* --- who is at the other end of a socket ------------------------------------------------------ */

/* What the kernel tells of a process that connects. */

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

bool hf_process_peers_known(void)
{
    int pair[2], pidfd = -1;
    socklen_t length = sizeof(pidfd);
    bool known;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return false;
    known = getsockopt(pair[0], SOL_SOCKET, SO_PEERPIDFD, &pidfd, &length) == 0;
    if (known)
        close(pidfd);
    close(pair[0]);
    close(pair[1]);
    return known;
}

/* --- a file, whatever its name ---------------------------------------------------------------- */

int hf_file_id(int fd, struct hf_file_id *ret_id)
{
    struct statx sx;

    if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &sx) < 0)
        return HF_ESYS;
    *ret_id = (struct hf_file_id){
        .device = (uint64_t)sx.stx_dev_major << 32 | sx.stx_dev_minor,
        .inode = sx.stx_ino,
    };
    if (sx.stx_mask & STATX_BTIME)
        ret_id->born_ns = sx.stx_btime.tv_sec * HF_NS_PER_SEC + sx.stx_btime.tv_nsec;
    return 0;
}

/* --- standard streams ------------------------------------------------------------------------- */

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
