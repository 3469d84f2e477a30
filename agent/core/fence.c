#include "agent/core/fence.h"

#include "agent/core/handoff.h"
#include "shm/assert.h"

#define AHEAD_MOST_US   (24 * 60 * 60 * INT64_C(1000000))
#define WALL_TRUSTED_US (60 * INT64_C(1000000)) /* our wall clock counts this near to the median */

_Static_assert(HANDOFF_IN_A_ROW <= FENCE_HANDOFFS_MAX, "hand-offs are counted below the clock");

static uint64_t fence_saturate(uint64_t node_part)
{
    return node_part < FENCE_NODE_MAX ? node_part : FENCE_NODE_MAX;
}

static uint64_t fence_larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static int64_t fence_us_of(hf_wall t)
{
    int64_t us;

    if (__builtin_mul_overflow(t.ms, INT64_C(1000), &us))
        us = t.ms < 0 ? INT64_MIN : INT64_MAX;
    return us;
}

/* A clock that is before 1970 gives the smallest fence; 0 stands for "unknown". */
static uint64_t fence_from_clock(int64_t us)
{
    return us > 0 ? (uint64_t)us : 1;
}

static bool fence_is_near(int64_t a_us, int64_t b_us)
{
    int64_t apart_us;

    return !__builtin_sub_overflow(a_us, b_us, &apart_us) && apart_us >= -WALL_TRUSTED_US &&
           apart_us <= WALL_TRUSTED_US;
}

uint64_t fence_propose(uint64_t own_last_node_part, bool have_median, hf_nodetime median,
                       hf_wall wall)
{
    uint64_t best = fence_from_clock(have_median ? median.us : fence_us_of(wall));

    if (have_median && fence_is_near(fence_us_of(wall), median.us))
        best = fence_larger(best, fence_from_clock(fence_us_of(wall)));
    if (own_last_node_part != 0)
        best = fence_larger(best, fence_saturate(own_last_node_part) + 1);
    hf_assert(best != 0, "own %llu", (unsigned long long)own_last_node_part);
    return fence_saturate(best);
}

uint64_t fence_limit(bool have_median, hf_nodetime median, hf_wall wall)
{
    return fence_saturate(
        fence_saturate(fence_from_clock(have_median ? median.us : fence_us_of(wall))) +
        AHEAD_MOST_US);
}

uint64_t fence_believed(uint64_t limit, const uint64_t *shown, const struct twins *twins, int n,
                        int q)
{
    uint64_t best = limit;

    hf_assert(n >= 1 && n <= HF_NODES_MAX && q >= 1 && q <= n, "n %d, q %d", n, q);
    for (int i = 0; i < n; i++) {
        uint32_t as_high = 0;

        for (int k = 0; k < n; k++)
            if (shown[k] >= shown[i])
                as_high |= UINT32_C(1) << k;
        if (twins_count(twins, as_high) >= q)
            best = fence_larger(best, shown[i]);
    }
    return best;
}

uint64_t fence_raise(uint64_t proposed, uint64_t highest_seen)
{
    return fence_saturate(fence_larger(proposed, fence_saturate(highest_seen) + 1));
}
