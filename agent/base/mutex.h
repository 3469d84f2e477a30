/* A mutex that clang's thread-safety analysis can follow. It is held for a few instructions only,
 * and a thread with leases never waits on one that is held during I/O. */
#ifndef HOLDFAST_AGENT_BASE_MUTEX_H
#define HOLDFAST_AGENT_BASE_MUTEX_H

#include <pthread.h>

#include "shm/compiler.h"

struct CAPABILITY("mutex") mutex {
    pthread_mutex_t inner;
};

static inline void mutex_init(struct mutex *m)
{
    (void)pthread_mutex_init(&m->inner, NULL);
}

static inline void mutex_fini(struct mutex *m)
{
    (void)pthread_mutex_destroy(&m->inner);
}

static inline void mutex_lock(struct mutex *m) ACQUIRES(m) NO_THREAD_SAFETY
{
    (void)pthread_mutex_lock(&m->inner);
}

static inline void mutex_unlock(struct mutex *m) RELEASES(m) NO_THREAD_SAFETY
{
    (void)pthread_mutex_unlock(&m->inner);
}

#endif
