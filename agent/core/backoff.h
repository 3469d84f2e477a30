/* Growing, jittered delays for retries and reconnects. Pure: the random number is the caller's. */
#ifndef HOLDFAST_AGENT_CORE_BACKOFF_H
#define HOLDFAST_AGENT_CORE_BACKOFF_H

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

#endif
