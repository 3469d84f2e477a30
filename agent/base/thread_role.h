/* Which thread a function is called in, for clang's thread-safety analysis: a role is a capability that nobody takes
 * and that costs nothing.
 *
 * IN_BROKER_THREAD, IN_RENEWAL_THREAD, IN_MAIN_THREAD behind a prototype (or a static function's head) say that it is
 * called in that thread only; whoever calls it says the same, or states it. Callbacks state it: loops, links and
 * the hooks of rooms call through pointers, which are not followed. What calls such functions while no thread runs yet,
 * or none any more, is BEFORE_OR_AFTER_THREADS and is not looked at. */
#ifndef HOLDFAST_AGENT_BASE_THREAD_ROLE_H
#define HOLDFAST_AGENT_BASE_THREAD_ROLE_H

#include "shm/compiler.h"

struct CAPABILITY("thread") thread_role {
    char none; /* C has no empty struct */
};

/* Nowhere defined: only their names are used. */
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
