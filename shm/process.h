/* What the kernel tells of a process, as both ends of the attach socket read it. Any thread. */
#ifndef HOLDFAST_SHM_PROCESS_H
#define HOLDFAST_SHM_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

/* When it started, in clock ticks since the boot: tells a process from a later one with its pid.
 * `pid` 0: the caller. 0 when it is gone (errno ENOENT or ESRCH) or /proc cannot be read. */
uint64_t hf_process_start_time(pid_t pid);

#endif
