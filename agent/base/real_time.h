/* What keeps a busy host from delaying the agent: memory that is never taken away, and a thread that goes before others. */
#ifndef HOLDFAST_AGENT_BASE_REAL_TIME_H
#define HOLDFAST_AGENT_BASE_REAL_TIME_H

#include <pthread.h>
#include <stddef.h>

/* Pages that the process touched or will touch stay in memory (mlockall(2), MCL_ONFAULT). Before there are threads. HF_ESYS: a
 * limit or a right is missing, nothing was locked, and `why` leads with the remedy. (!) Not with a limit that could be
 * reached: beyond it the agent would get no memory at all. */
int real_time_lock_memory(char *why, size_t size);

/* The thread runs before all of ordinary priority (SCHED_FIFO of sched(7)). `priority`: 1 to 99. Any thread. HF_ESYS: as above. */
int real_time_thread(pthread_t thread, int priority, char *why, size_t size);

#endif
