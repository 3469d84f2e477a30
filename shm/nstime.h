/* Time, with the clock in the type.
 *
 * hf_time   an instant of CLOCK_BOOTTIME of this host (suspend counts), nanoseconds
 * hf_dur    a span of the same clock, nanoseconds
 * hf_nodetime  an instant of one node's own wall clock as its TIME command tells it, microseconds
 * hf_wall   an instant of CLOCK_REALTIME of some host, milliseconds: only for logs, sentinels, fences
 *
 * The types are structs so that the compiler refuses to mix them. This header reads no clock.
 */
#ifndef HOLDFAST_SHM_NSTIME_H
#define HOLDFAST_SHM_NSTIME_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    int64_t ns;
} hf_time;

typedef struct {
    int64_t ns;
} hf_dur;

typedef struct {
    int64_t us;
} hf_nodetime;

typedef struct {
    int64_t ms;
} hf_wall;

#define HF_NS_PER_US  INT64_C(1000)
#define HF_NS_PER_MS  INT64_C(1000000)
#define HF_NS_PER_SEC INT64_C(1000000000)

/* "Never": later than any deadline. Kept at half the range so that adding
 * a span cannot overflow. */
#define HF_TIME_NEVER ((hf_time){INT64_MAX / 2})
/* "Always past": earlier than any reading of the clock. */
#define HF_TIME_PAST ((hf_time){INT64_MIN / 2})

static inline hf_dur hf_ns(int64_t ns)
{
    return (hf_dur){ns};
}

static inline hf_dur hf_ms(int64_t ms)
{
    return (hf_dur){ms * HF_NS_PER_MS};
}

static inline int64_t hf_dur_ms(hf_dur d)
{
    return d.ns / HF_NS_PER_MS;
}

static inline hf_time hf_time_add(hf_time t, hf_dur d)
{
    return (hf_time){t.ns + d.ns};
}

static inline hf_time hf_time_sub(hf_time t, hf_dur d)
{
    return (hf_time){t.ns - d.ns};
}

/* a - b, saturated: readers meet times from damaged tables. */
static inline hf_dur hf_time_since(hf_time a, hf_time b)
{
    int64_t ns;

    if (__builtin_sub_overflow(a.ns, b.ns, &ns))
        ns = b.ns < 0 ? INT64_MAX : INT64_MIN;
    return (hf_dur){ns};
}

static inline bool hf_time_before(hf_time a, hf_time b)
{
    return a.ns < b.ns;
}

/* True at and after `deadline`: a deadline is the first instant at which something is over. */
static inline bool hf_time_reached(hf_time now, hf_time deadline)
{
    return now.ns >= deadline.ns;
}

static inline hf_time hf_time_min(hf_time a, hf_time b)
{
    return a.ns < b.ns ? a : b;
}

/* The last multiple of `grid` that is not after `t`; `t` is neither "never" nor "always past". */
static inline hf_time hf_time_floor(hf_time t, hf_dur grid)
{
    return (hf_time){t.ns - t.ns % grid.ns};
}

static inline hf_time hf_time_max(hf_time a, hf_time b)
{
    return a.ns > b.ns ? a : b;
}

static inline hf_dur hf_dur_max(hf_dur a, hf_dur b)
{
    return a.ns > b.ns ? a : b;
}

static inline hf_dur hf_dur_min(hf_dur a, hf_dur b)
{
    return a.ns < b.ns ? a : b;
}

/* d * num / den without overflow for |d| < 292 years / num; num, den > 0. */
static inline hf_dur hf_dur_scale(hf_dur d, int64_t num, int64_t den)
{
    return (hf_dur){num == 1 ? d.ns / den : d.ns / den * num + d.ns % den * num / den};
}

/* Spans of time as people write them: "30" and "30s", "500ms", "1.5h", ".3", "7d". Pure; any thread. */

/* Whole milliseconds, and whether a part of one remains; six digits of a fraction count. HF_EINVAL:
 * it is no duration, is negative, or is above `most_ms`. */
int hf_duration_parse(const char *text, int64_t most_ms, int64_t *ret_ms, bool *ret_part);

#endif
