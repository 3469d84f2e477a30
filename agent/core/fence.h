/* The fencing number: hybrid wall-clock microseconds << 10 | local hand-off count. Pure. Nodes see,
 * store and compare only the microseconds: Lua numbers are exact to 2^53, so until the year 2255.
 * (!) Not milliseconds: every grant of a name counts at least one on, so that more of them a second
 * than the clock counts run ahead of it, and fall when a majority has forgotten them.
 * A fence is never 0, which stands for "unknown". */
#ifndef HOLDFAST_AGENT_CORE_FENCE_H
#define HOLDFAST_AGENT_CORE_FENCE_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/nstime.h"

#define FENCE_NODE_MAX     ((UINT64_C(1) << 53) - 1)
#define FENCE_HANDOFF_BITS 10
#define FENCE_HANDOFFS_MAX ((1u << FENCE_HANDOFF_BITS) - 1)

static inline uint64_t fence_make(uint64_t node_part, uint32_t handoffs)
{
    assert(handoffs <= FENCE_HANDOFFS_MAX);
    return node_part << FENCE_HANDOFF_BITS | handoffs;
}

static inline uint64_t fence_node_part(uint64_t fence)
{
    return fence >> FENCE_HANDOFF_BITS;
}

/* How often the token of that fence was handed over. */
static inline uint32_t fence_handoffs(uint64_t fence)
{
    return (uint32_t)(fence & FENCE_HANDOFFS_MAX);
}

/* Of whoever the token of that fence is handed over to. */
static inline uint64_t fence_handed_over(uint64_t fence)
{
    return fence_make(fence_node_part(fence), fence_handoffs(fence) + 1);
}

/* What an acquire proposes (node part): max(own last + 1 (0: unknown), median TIME of the nodes, our
 * wall clock but only if within 60 s of that median). `have_median` false: no node TIME is known,
 * then the wall clock alone. */
uint64_t fence_propose(uint64_t own_last_node_part, bool have_median, hf_nodetime median,
                       hf_wall wall);

/* After a node said "too low, I have `highest_seen`": that + 1, at least `proposed`; no more than
 * FENCE_NODE_MAX, and then no node can be made to accept it. */
uint64_t fence_raise(uint64_t proposed, uint64_t highest_seen);

#endif
