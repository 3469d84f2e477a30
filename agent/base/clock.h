/* All clocks are read here: CLOCK_BOOTTIME for every decision, the wall clock only for logs,
 * sentinels and fences, a thread's processor time only to bound what somebody may cost. Any thread, async-signal-safe. */
#ifndef HOLDFAST_AGENT_BASE_CLOCK_H
#define HOLDFAST_AGENT_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/nstime.h"

/* Whose BOOTTIME it is. Times that were written with another boot id or another offset are of another clock. The offset
 * of a time namespace is fixed while a process is in it; the number of a namespace may be used again. */
struct boot_clock {
    uint8_t boot_id[16];
    int64_t offset_ns; /* of this time namespace's CLOCK_BOOTTIME from the host's */
};

hf_time clock_now(void);
hf_wall clock_wall(void);
/* The processor time that the calling thread has had. */
hf_dur clock_of_thread(void);

/* A timerfd(CLOCK_BOOTTIME), non-blocking and close-on-exec; -1 with errno. */
int clock_timerfd(void);
/* Arms it for the absolute instant `at` (past: fires at once; HF_TIME_NEVER: disarms). */
void clock_timerfd_set(int fd, hf_time at);

#endif
