/* Which thread a function is called in, for clang's thread-safety analysis: a role is a capability
 * that nobody takes and that costs nothing.
 *
 * IN_BROKER_THREAD, IN_RENEWAL_THREAD and IN_MAIN_THREAD behind a prototype (or a static function's
 * head) say that the function is called in that thread only. Its callers carry the same word, or
 * state their thread. Callbacks state it: loops, links and the hooks of rooms call through
 * pointers, which the analysis does not follow. A function that calls such functions before any
 * thread runs, or after the last one, is BEFORE_OR_AFTER_THREADS and is not analysed. */
#ifndef HOLDFAST_AGENT_BASE_THREAD_ROLE_H
#define HOLDFAST_AGENT_BASE_THREAD_ROLE_H

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

/* First in a thread's entry point and in each of its callbacks. */
static inline void is_broker_thread(void) ASSERT_CAPABILITY(broker_thread) {}

static inline void is_renewal_thread(void) ASSERT_CAPABILITY(renewal_thread) {}

static inline void is_main_thread(void) ASSERT_CAPABILITY(main_thread) {}

#endif
