/* Preloaded into a process, shifts the clocks it reads, so that a test can step one node's clock, or
 * make a host believe that it was suspended, without touching the machine's. CLOCKSHIFT_FILE names a
 * file of three 64-bit numbers in microseconds: what to add to the wall clock, to CLOCK_MONOTONIC,
 * and to CLOCK_BOOTTIME. They may change at any time; what is missing is 0.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum shift { SHIFT_WALL, SHIFT_MONOTONIC, SHIFT_BOOTTIME, SHIFTS };

static const int64_t no_shift[SHIFTS];
static const int64_t *shifts_us = no_shift;

__attribute__((constructor)) static void map_shifts(void)
{
    const char *path = getenv("CLOCKSHIFT_FILE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *map;

    if (fd < 0)
        return;
    map = mmap(NULL, sizeof(no_shift), PROT_READ, MAP_SHARED, fd, 0);
    if (map != MAP_FAILED)
        shifts_us = map;
    close(fd);
}

static void add(struct timespec *time, enum shift which)
{
    int64_t us = __atomic_load_n(&shifts_us[which], __ATOMIC_RELAXED);
    int64_t ns = (int64_t)time->tv_nsec + us % 1000000 * 1000;

    time->tv_sec += us / 1000000 + (ns >= 1000000000) - (ns < 0);
    time->tv_nsec = (ns + 1000000000) % 1000000000;
}

int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    int status = (int)syscall(SYS_clock_gettime, clock, ret_time);

    if (status != 0)
        return status;
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
        add(ret_time, SHIFT_WALL);
        break;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_MONOTONIC_RAW:
        add(ret_time, SHIFT_MONOTONIC);
        break;
    case CLOCK_BOOTTIME:
        add(ret_time, SHIFT_BOOTTIME);
        break;
    default:
        break;
    }
    return 0;
}

int gettimeofday(struct timeval *restrict ret_time, void *restrict zone)
{
    struct timespec now;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    ret_time->tv_sec = now.tv_sec;
    ret_time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *ret_time)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (ret_time)
        *ret_time = now.tv_sec;
    return now.tv_sec;
}
