/* The fencing number: hybrid wall-clock milliseconds (48 bits) << 16 | local hand-off count (16).
 * Pure. Nodes see, store and compare only the 48-bit part (Lua numbers are exact to 2^53).
 * A fence is never 0, which stands for "unknown". */
#ifndef HOLDFAST_CORE_FENCE_H
#define HOLDFAST_CORE_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/nstime.h"

#define FENCE_NODE_MAX ((UINT64_C(1) << 48) - 1)

static inline uint64_t fence_make(uint64_t node_part, uint16_t handoffs)
{
    return node_part << 16 | handoffs;
}

static inline uint64_t fence_node_part(uint64_t fence)
{
    return fence >> 16;
}

/* How often the token of that fence was handed over. */
static inline uint32_t fence_handoffs(uint64_t fence)
{
    return (uint32_t)(fence & UINT16_MAX);
}

/* What an acquire proposes (48-bit part): max(own last + 1 (0: unknown), median TIME of the nodes
 * in ms, our wall clock but only if within 60 s of that median). `have_median` false: no node TIME
 * is known, then the wall clock alone. */
uint64_t fence_propose(uint64_t own_last_node_part, bool have_median, hf_wall median, hf_wall wall);

/* After a node said "too low, I have `highest_seen`": that + 1, at least `proposed`; no more than
 * FENCE_NODE_MAX, and then no node can be made to accept it. */
uint64_t fence_raise(uint64_t proposed, uint64_t highest_seen);

#endif
