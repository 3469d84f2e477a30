#include "shm/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
