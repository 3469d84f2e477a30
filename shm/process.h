/* Facts of a process from the kernel, read by both ends of the attach socket. Any thread. */
#ifndef HOLDFAST_SHM_PROCESS_H
#define HOLDFAST_SHM_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The start of a process, in clock ticks since the boot: tells it from a later one with its pid.
 * `pid` 0: the caller. Returns 0 when it is gone (errno ENOENT or ESRCH) or /proc cannot be read. */
uint64_t hf_process_start_time(pid_t pid);
/* Whether the kernel gives a descriptor of the process that connected (SO_PEERPIDFD, Linux 6.5), whatever /proc shows. */
bool hf_process_peers_known(void);

#endif
