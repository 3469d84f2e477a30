/* All clocks are read here: CLOCK_BOOTTIME for every decision, the wall clock only for logs,
 * sentinels and fences. Any thread, async-signal-safe. */
#ifndef HOLDFAST_AGENT_BASE_CLOCK_H
#define HOLDFAST_AGENT_BASE_CLOCK_H

#include "shm/nstime.h"

hf_time clock_now(void);
hf_wall clock_wall(void);

/* A timerfd(CLOCK_BOOTTIME), non-blocking and close-on-exec; -1 with errno. */
int clock_timerfd(void);
/* Arms it for the absolute instant `at` (past: fires at once; HF_TIME_NEVER: disarms). */
void clock_timerfd_set(int fd, hf_time at);

#endif
