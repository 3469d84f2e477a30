/* The threads that an agent cannot be without. */
#ifndef HOLDFAST_AGENT_BASE_THREAD_H
#define HOLDFAST_AGENT_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

#include "shm/assert.h"
#include "shm/compiler.h"

/* Starts a thread. Where the host has no thread left for this user, tries again for some seconds, with a line in the log that has
 * `what`, or until a signal asks the agent to end. HF_ESYS with errno. */
int thread_start(const char *what, void *(*function)(void *arg), void *arg, pthread_t *ret_thread);

/* Starts a thread for what may wait or compute for long: for disks, for names, for nodes. Nobody joins it. (!) It is of ordinary
 * priority whoever starts it, and takes no signal: they are for the threads that expect them. Any thread. HF_OK or HF_ENOMEM. */
int thread_start_helper(void *(*function)(void *arg), void *arg);

/* A mutex that clang's thread-safety analysis can follow. It is held for a few instructions only,
 * and a thread with leases never waits on one that is held during I/O. */

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

/* Two hints for ThreadSanitizer where liburcu's ordering is inline assembly that it cannot see.
 * Without them it reports races in a correct program. Nothing in other builds. */

#if defined(__SANITIZE_THREAD__)
#define HOLDFAST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HOLDFAST_TSAN 1
#endif
#endif

#ifdef HOLDFAST_TSAN
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
#define tsan_acquire(addr) __tsan_acquire(addr)
#define tsan_release(addr) __tsan_release(addr)
#else
#define tsan_acquire(addr) ((void)(addr))
#define tsan_release(addr) ((void)(addr))
#endif

/* Which thread a function is called in. For clang's thread-safety analysis a role is a capability
 * that nobody takes. While the agent runs each callback asserts its thread, too.
 *
 * IN_BROKER_THREAD, IN_RENEWAL_THREAD and IN_MAIN_THREAD behind a prototype (or a static function's
 * head) say that the function is called in that thread only. Its callers carry the same word, or
 * assert their thread. Callbacks do: loops, links and the hooks of rooms call through
 * pointers, which the analysis does not follow. A function that calls such functions before any
 * thread runs, or after the last one, is BEFORE_OR_AFTER_THREADS and is not analysed. */

struct CAPABILITY("thread") thread_role {
    char none; /* C has no empty struct */
};

/* Defined nowhere: only their names are used. */
extern struct thread_role broker_thread, renewal_thread, main_thread;

#ifndef HF_TEST_IS_EVERY_THREAD
#define IN_BROKER_THREAD        REQUIRES(broker_thread)
#define IN_RENEWAL_THREAD       REQUIRES(renewal_thread)
#define IN_MAIN_THREAD          REQUIRES(main_thread)
#define BEFORE_OR_AFTER_THREADS NO_THREAD_SAFETY
#else
#define IN_BROKER_THREAD
#define IN_RENEWAL_THREAD
#define IN_MAIN_THREAD
#define BEFORE_OR_AFTER_THREADS
#endif

/* A thread takes its role as it begins. The main thread takes its own while there are other threads: before and after, it may call
 * what is theirs. So may threads of tests, which have none. */
enum thread_role_taken {
    THREAD_ROLE_NONE,
    THREAD_ROLE_MAIN,
    THREAD_ROLE_BROKER,
    THREAD_ROLE_RENEWAL,
};
extern _Thread_local enum thread_role_taken thread_role_now;
const char *thread_role_name(void); /* for people */

static inline void thread_role_check(enum thread_role_taken role)
{
    hf_assert(thread_role_now == role || thread_role_now == THREAD_ROLE_NONE,
              "called by thread %d, not %d", (int)thread_role_now, (int)role);
}

/* First in each callback of a thread. */
#define ASSERT_BROKER_THREAD()  thread_role_assert_broker()
#define ASSERT_RENEWAL_THREAD() thread_role_assert_renewal()
#define ASSERT_MAIN_THREAD()    thread_role_assert_main()

static inline void thread_role_assert_broker(void) ASSERT_CAPABILITY(broker_thread)
{
    thread_role_check(THREAD_ROLE_BROKER);
}

static inline void thread_role_assert_renewal(void) ASSERT_CAPABILITY(renewal_thread)
{
    thread_role_check(THREAD_ROLE_RENEWAL);
}

static inline void thread_role_assert_main(void) ASSERT_CAPABILITY(main_thread)
{
    thread_role_check(THREAD_ROLE_MAIN);
}

/* What keeps a busy host from delaying the agent: memory that is never taken away, and a thread that goes before others. */

/* Pages that the process touched or will touch stay in memory (mlockall(2), MCL_ONFAULT). Before there are threads. HF_ESYS: a
 * limit or a right is missing, nothing was locked, and `why` leads with the remedy. (!) Not with a limit that could be
 * reached: beyond it the agent would get no memory at all. */
int real_time_lock_memory(char *why, size_t size);

/* The thread runs before all of ordinary priority (SCHED_FIFO of sched(7)). `priority`: 1 to 99. Any thread. HF_ESYS: as above. */
int real_time_thread(pthread_t thread, int priority, char *why, size_t size);

#endif
