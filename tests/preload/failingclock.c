/* Preloaded into holdfastd, a kernel without CLOCK_BOOTTIME from when the file FAILINGCLOCK_FILE is there: an assertion fails. */
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    const char *path = getenv("FAILINGCLOCK_FILE");

    if (clock == CLOCK_BOOTTIME && path && access(path, F_OK) == 0) {
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_clock_gettime, clock, ret_time);
}
