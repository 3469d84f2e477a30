#include "agent/core/fence.h"

#define WALL_TRUSTED_MS (60 * INT64_C(1000)) /* our wall clock counts only so near the median */

static uint64_t saturate(uint64_t node_part)
{
    return node_part < FENCE_NODE_MAX ? node_part : FENCE_NODE_MAX;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* A clock before 1970 gives the smallest fence there is; 0 stands for "unknown". */
static uint64_t from_clock(hf_wall t)
{
    return t.ms > 0 ? (uint64_t)t.ms : 1;
}

static bool is_near(hf_wall a, hf_wall b)
{
    int64_t apart;

    return !__builtin_sub_overflow(a.ms, b.ms, &apart) && apart >= -WALL_TRUSTED_MS &&
           apart <= WALL_TRUSTED_MS;
}

uint64_t fence_propose(uint64_t own_last_node_part, bool have_median, hf_wall median, hf_wall wall)
{
    uint64_t best = have_median ? from_clock(median) : from_clock(wall);

    if (have_median && is_near(wall, median))
        best = larger(best, from_clock(wall));
    if (own_last_node_part != 0)
        best = larger(best, saturate(own_last_node_part) + 1);
    return saturate(best);
}

uint64_t fence_raise(uint64_t proposed, uint64_t highest_seen)
{
    return saturate(larger(proposed, saturate(highest_seen) + 1));
}
