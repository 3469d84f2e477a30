#include "agent/base/thread.h"

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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

/* --- helpers ---------------------------------------------------------------------------------- */

#define HELPER_STACK (2 * 1024 * 1024)

int thread_start_helper(void *(*function)(void *arg), void *arg)
{
    const struct sched_param ordinary = {.sched_priority = 0};
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;
    int rc;

    if (pthread_attr_init(&attr) != 0)
        return HF_ENOMEM;
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attr, HELPER_STACK);
    (void)pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
    (void)pthread_attr_setschedpolicy(&attr, SCHED_OTHER);
    (void)pthread_attr_setschedparam(&attr, &ordinary);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&thread, &attr, function, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
    return rc == 0 ? HF_OK : HF_ENOMEM;
}

/* --- roles ------------------------------------------------------------------------------------ */

_Thread_local enum thread_role_taken thread_role_now;

const char *thread_role_name(void)
{
    static const char *const names[] = {
        [THREAD_ROLE_NONE] = "starting or another",
        [THREAD_ROLE_MAIN] = "main",
        [THREAD_ROLE_BROKER] = "broker",
        [THREAD_ROLE_RENEWAL] = "renewal",
    };

    return names[thread_role_now];
}

/* --- what keeps a busy host from delaying the agent ------------------------------------------- */

/* For a process with CAP_IPC_LOCK the limit does not hold. */
static bool real_time_is_limited(struct rlimit *ret_limit)
{
    const struct rlimit most = {RLIM_INFINITY, RLIM_INFINITY};
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};

    if (syscall(SYS_capget, &header, data) == 0 &&
        data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK))
        return false;
    *ret_limit = (struct rlimit){0, 0};
    return setrlimit(RLIMIT_MEMLOCK, &most) != 0 &&
           (getrlimit(RLIMIT_MEMLOCK, ret_limit) != 0 || ret_limit->rlim_cur != RLIM_INFINITY);
}

int real_time_lock_memory(char *why, size_t size)
{
    struct rlimit most;

    if (real_time_is_limited(&most)) {
        snprintf(why, size,
                 "set LimitMEMLOCK=infinity in the unit, or ulimit -l unlimited, for lock_memory: "
                 "the limit is %llu KiB, and beyond it the agent would get no memory",
                 (unsigned long long)most.rlim_cur / 1024);
        return HF_ESYS;
    }
    if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0) {
        snprintf(why, size,
                 "let the agent lock memory (LimitMEMLOCK=infinity in the unit), or drop "
                 "lock_memory: %s",
                 strerror(errno));
        return HF_ESYS;
    }
    return HF_OK;
}

int real_time_thread(pthread_t thread, int priority, char *why, size_t size)
{
    const struct sched_param param = {.sched_priority = priority};
    int rc = pthread_setschedparam(thread, SCHED_FIFO, &param);

    if (rc == 0)
        return HF_OK;
    snprintf(why, size,
             "set LimitRTPRIO=%d in the unit (and no RestrictRealtime=), or ulimit -r %d, for "
             "renewal_priority: %s",
             priority, priority, strerror(rc));
    return HF_ESYS;
}
