/* Growing, jittered delays for retries and reconnects. Pure: the random number is the caller's. */
#ifndef HOLDFAST_AGENT_CORE_BACKOFF_H
#define HOLDFAST_AGENT_CORE_BACKOFF_H

#include "shm/assert.h"
#include "shm/nstime.h"

struct backoff {
    hf_dur first, max; /* first <= max, both > 0 */
    hf_dur next;
};

void backoff_init(struct backoff *b, hf_dur first, hf_dur max);
void backoff_reset(struct backoff *b);
/* The delay to wait now: uniform in [next/2, next]; doubles `next` up to max. */
hf_dur backoff_step(struct backoff *b, uint32_t random);

/* The same for a caller that keeps only the number of delays since the last reset, in one byte:
 * `count`. */
hf_dur backoff_next(hf_dur first, hf_dur max, uint8_t *count, uint32_t random);

/* Between two rounds for a name that another host holds: uniform in 50..250 ms, and no longer than
 * `pttl` of its key + 1 ms when that is known (pttl < 0: unknown or no expiry). */
hf_dur backoff_contend(int64_t pttl_ms, uint32_t random);

/* Random numbers from a state that the caller keeps, and spans of time from them. Pure. */

/* The next number of a sequence, for delays (xorshift); never 0. `*state` is not 0. */
static inline uint32_t draw_next(uint32_t *state)
{
    hf_assert(*state != 0, "state %u", (unsigned)*state);
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* Uniform in [0, span]; span >= 0. The lowest bit of `random` is not used. */
static inline hf_dur draw_within(hf_dur span, uint32_t random)
{
    hf_assert(span.ns >= 0, "span %lld", (long long)span.ns);
    return hf_dur_scale(hf_ns(span.ns + 1), random >> 1, INT64_C(1) << 31);
}

/* Uniform in [least, most]. */
static inline hf_dur draw_between(hf_dur least, hf_dur most, uint32_t random)
{
    return hf_ns(least.ns + draw_within(hf_ns(most.ns - least.ns), random).ns);
}

#endif
