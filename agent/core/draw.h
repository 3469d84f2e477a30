/* Turning a random number of the caller's into a span of time. Pure. */
#ifndef HOLDFAST_CORE_DRAW_H
#define HOLDFAST_CORE_DRAW_H

#include "shm/nstime.h"

/* Uniform in [0, span]; span >= 0. The lowest bit of `random` is not used. */
static inline hf_dur draw_within(hf_dur span, uint32_t random)
{
    return hf_dur_scale(hf_ns(span.ns + 1), random >> 1, INT64_C(1) << 31);
}

/* Uniform in [least, most]. */
static inline hf_dur draw_between(hf_dur least, hf_dur most, uint32_t random)
{
    return hf_ns(least.ns + draw_within(hf_ns(most.ns - least.ns), random).ns);
}

#endif
