/* Which thread a function is called in. For clang's thread-safety analysis a role is a capability
 * that nobody takes. While the agent runs each callback asserts its thread, too.
 *
 * IN_BROKER_THREAD, IN_RENEWAL_THREAD and IN_MAIN_THREAD behind a prototype (or a static function's
 * head) say that the function is called in that thread only. Its callers carry the same word, or
 * state their thread. Callbacks state it: loops, links and the hooks of rooms call through
 * pointers, which the analysis does not follow. A function that calls such functions before any
 * thread runs, or after the last one, is BEFORE_OR_AFTER_THREADS and is not analysed. */
#ifndef HOLDFAST_AGENT_BASE_THREAD_ROLE_H
#define HOLDFAST_AGENT_BASE_THREAD_ROLE_H

#include "shm/assert.h"
#include "shm/compiler.h"

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
static inline void is_broker_thread(void) ASSERT_CAPABILITY(broker_thread)
{
    thread_role_check(THREAD_ROLE_BROKER);
}

static inline void is_renewal_thread(void) ASSERT_CAPABILITY(renewal_thread)
{
    thread_role_check(THREAD_ROLE_RENEWAL);
}

static inline void is_main_thread(void) ASSERT_CAPABILITY(main_thread)
{
    thread_role_check(THREAD_ROLE_MAIN);
}

#endif
