/* Which waiters stand in the table for people to see (shm/waiters.h): the oldest, as many as it has rows for. */
#ifndef HOLDFAST_AGENT_BROKER_LOCKS_SHOWN_WAITERS_H
#define HOLDFAST_AGENT_BROKER_LOCKS_SHOWN_WAITERS_H

#include <stdint.h>
#include <sys/queue.h>

#include "agent/base/thread_role.h"
#include "shm/layout.h"

#define SHOWN_WAITERS_NONE UINT32_MAX /* no row */

struct locks;
struct waiter;

struct shown_waiters {
    uint32_t free[HF_WAITERS_SHOWN], free_count;
    uint64_t number;                    /* of the last one */
    TAILQ_HEAD(, waiter) without_a_row; /* the oldest first */
};

void shown_waiters_create(struct locks *locks);
/* It waits from now on. It is never a try. */
void shown_waiters_add(struct waiter *w) IN_BROKER_THREAD;
/* It waits no more; its row goes to the oldest one without. */
void shown_waiters_remove(struct waiter *w) IN_BROKER_THREAD;

#endif
