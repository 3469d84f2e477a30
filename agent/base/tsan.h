/* Two hints for ThreadSanitizer where liburcu's ordering is inline assembly that it cannot see.
 * Without them it reports races in a correct program. Nothing in other builds. */
#ifndef HOLDFAST_AGENT_BASE_TSAN_H
#define HOLDFAST_AGENT_BASE_TSAN_H

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

#endif
