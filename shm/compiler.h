/* Attributes and clang's thread-safety annotations; nothing else lives here. */
#ifndef HOLDFAST_SHM_COMPILER_H
#define HOLDFAST_SHM_COMPILER_H

#if defined(__clang__)
#define HF_TSA(x) __attribute__((x))
#else
#define HF_TSA(x)
#endif

#define CAPABILITY(name)                HF_TSA(capability(name))
#define GUARDED_BY(x)                   HF_TSA(guarded_by(x))
#define PT_GUARDED_BY(x)                HF_TSA(pt_guarded_by(x))
#define REQUIRES(...)                   HF_TSA(requires_capability(__VA_ARGS__))
#define EXCLUDES(...)                   HF_TSA(locks_excluded(__VA_ARGS__))
#define ACQUIRES(...)                   HF_TSA(acquire_capability(__VA_ARGS__))
#define RELEASES(...)                   HF_TSA(release_capability(__VA_ARGS__))
#define ASSERT_CAPABILITY(x)            HF_TSA(assert_capability(x))
#define NO_THREAD_SAFETY                HF_TSA(no_thread_safety_analysis)

#define HF_PRINTF(fmt, args)            __attribute__((format(printf, fmt, args)))
#define HF_MUST_CHECK                   __attribute__((warn_unused_result))
#define HF_UNUSED                       __attribute__((unused))
#define HF_PACKED                       __attribute__((packed)) /* a member: behind the last one, without a gap */
#define HF_CACHE_LINE                   64

#define HF_LENGTH(array)                (sizeof(array) / sizeof((array)[0]))
#define HF_CONTAINER(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

#endif
