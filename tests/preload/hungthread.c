/* Preloaded into holdfastd, hangs one of its threads: the one whose name stands in the file HUNGTHREAD_FILE. A thread asks
 * as it reads a clock, which each does in every turn, and goes on when the file has another name or is empty. Signals do
 * not end it, as they would not end a loop without an end. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int read_file(char name[32])
{
    const char *path = getenv("HUNGTHREAD_FILE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t got = fd >= 0 ? read(fd, name, 31) : -1;

    if (fd >= 0)
        close(fd);
    if (got <= 0)
        return 0;
    name[got] = '\0';
    name[strcspn(name, "\n")] = '\0';
    return 1;
}

static int is_to_hang(void)
{
    char own[16] = "", name[32];

    return read_file(name) && pthread_getname_np(pthread_self(), own, sizeof(own)) == 0 &&
           strcmp(own, name) == 0;
}

int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    const struct timespec moment = {.tv_nsec = 10000000};

    while (is_to_hang())
        (void)syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &moment, NULL);
    return (int)syscall(SYS_clock_gettime, clock, ret_time);
}
