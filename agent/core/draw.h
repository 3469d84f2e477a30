/* Random numbers from a state that the caller keeps, and spans of time from them. Pure. */
#ifndef HOLDFAST_AGENT_CORE_DRAW_H
#define HOLDFAST_AGENT_CORE_DRAW_H

#include "shm/assert.h"
#include "shm/nstime.h"

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
