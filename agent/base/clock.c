#include "agent/base/clock.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <time.h>

#include "shm/assert.h"

hf_time clock_now(void)
{
    struct timespec t;
    int rc = clock_gettime(CLOCK_BOOTTIME, &t);

    hf_assert(rc == 0, "clock_gettime: %d, errno %d", rc, errno);
    return (hf_time){(int64_t)t.tv_sec * HF_NS_PER_SEC + t.tv_nsec};
}

hf_wall clock_wall(void)
{
    struct timespec t;
    int rc = clock_gettime(CLOCK_REALTIME, &t);

    hf_assert(rc == 0, "clock_gettime: %d, errno %d", rc, errno);
    return (hf_wall){(int64_t)t.tv_sec * 1000 + t.tv_nsec / HF_NS_PER_MS};
}

hf_dur clock_of_thread(void)
{
    struct timespec t;
    int rc = clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);

    hf_assert(rc == 0, "clock_gettime: %d, errno %d", rc, errno);
    return hf_ns((int64_t)t.tv_sec * HF_NS_PER_SEC + t.tv_nsec);
}

int clock_timerfd(void)
{
    return timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
}

void clock_timerfd_set(int fd, hf_time at)
{
    struct itimerspec spec = {0};

    if (at.ns < HF_TIME_NEVER.ns) {
        /* Zero would disarm, so the past is one nanosecond after boot. */
        int64_t ns = at.ns > 0 ? at.ns : 1;

        spec.it_value.tv_sec = (time_t)(ns / HF_NS_PER_SEC);
        spec.it_value.tv_nsec = (long)(ns % HF_NS_PER_SEC);
    }
    (void)timerfd_settime(fd, TFD_TIMER_ABSTIME, &spec, NULL);
}
