/* A rate with a burst: `paid` is the instant by which all that was used is paid for. Zeroed before first use. Pure. */
#ifndef HOLDFAST_AGENT_CORE_BUCKET_H
#define HOLDFAST_AGENT_CORE_BUCKET_H

#include <stdbool.h>

#include "shm/nstime.h"

/* When no more than `ahead` is unpaid: `now` or later. From then on more may be used. */
static inline hf_time bucket_next(hf_time paid, hf_dur ahead, hf_time now)
{
    return hf_time_max(now, hf_time_sub(hf_time_max(paid, now), ahead));
}

static inline void bucket_use(hf_time *paid, hf_dur cost, hf_time now)
{
    *paid = hf_time_add(hf_time_max(*paid, now), cost);
}

/* Uses one of those that come one each `each` in the long run, and `burst` at once; false: none is left. */
static inline bool bucket_take(hf_time *paid, hf_dur each, int64_t burst, hf_time now)
{
    if (hf_time_before(now, bucket_next(*paid, hf_ns((burst - 1) * each.ns), now)))
        return false;
    bucket_use(paid, each, now);
    return true;
}

#endif
