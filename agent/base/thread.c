#include "agent/base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "shm/status.h"

/* Shorter than WatchdogSec= of the units, which the main thread feeds. Leases last longer. */
#define PATIENCE (4 * HF_NS_PER_SEC)
#define PAUSE_MS 100

/* False: a signal asks for the agent's end. It stays pending. */
static bool thread_pause_a_moment(void)
{
    const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000};
    sigset_t pending;

    (void)nanosleep(&pause, NULL);
    (void)sigpending(&pending);
    return !sigismember(&pending, SIGTERM) && !sigismember(&pending, SIGINT);
}

int thread_start(const char *what, void *(*function)(void *arg), void *arg, pthread_t *ret_thread)
{
    hf_time until = hf_time_add(clock_now(), hf_ns(PATIENCE));
    bool said = false;
    int rc;

    while ((rc = pthread_create(ret_thread, NULL, function, arg)) == EAGAIN &&
           hf_time_before(clock_now(), until)) {
        if (!said)
            log_warn("cannot start the %s thread: %s; trying again for %d s, raise the limit of "
                     "processes (LimitNPROC=, TasksMax=, ulimit -u)",
                     what, strerror(rc), (int)(PATIENCE / HF_NS_PER_SEC));
        said = true;
        if (!thread_pause_a_moment())
            break;
    }
    errno = rc;
    return rc == 0 ? HF_OK : HF_ESYS;
}
