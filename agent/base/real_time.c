#include "agent/base/real_time.h"

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shm/status.h"

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
