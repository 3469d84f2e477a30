/* The fence: wall-clock microseconds << 10 | hand-offs on this host. Pure. Nodes see, store and
 * compare only the microseconds: Lua numbers are exact to 2^53, which lasts until the year 2255.
 * (!) Milliseconds would not do: every grant of a name counts the fence up by at least one. More
 * grants a second than the clock has ticks would run ahead of the clock, and fences would fall once
 * a majority of nodes has forgotten them. A fence is never 0, which stands for "unknown". */
#ifndef HOLDFAST_AGENT_CORE_FENCE_H
#define HOLDFAST_AGENT_CORE_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/server.h"
#include "shm/assert.h"
#include "shm/nstime.h"

#define FENCE_NODE_MAX     ((UINT64_C(1) << 53) - 1)
#define FENCE_HANDOFF_BITS 10
#define FENCE_HANDOFFS_MAX ((1u << FENCE_HANDOFF_BITS) - 1)

static inline uint64_t fence_make(uint64_t node_part, uint32_t handoffs)
{
    hf_assert(handoffs <= FENCE_HANDOFFS_MAX, "handoffs %u", (unsigned)handoffs);
    return node_part << FENCE_HANDOFF_BITS | handoffs;
}

static inline uint64_t fence_node_part(uint64_t fence)
{
    return fence >> FENCE_HANDOFF_BITS;
}

/* How often the lease with that fence was handed over. */
static inline uint32_t fence_handoffs(uint64_t fence)
{
    return (uint32_t)(fence & FENCE_HANDOFFS_MAX);
}

/* The fence of the next holder, once the lease with that fence is handed over. */
static inline uint64_t fence_handed_over(uint64_t fence)
{
    hf_assert(fence != 0, "handoffs %u", (unsigned)fence_handoffs(fence));
    return fence_make(fence_node_part(fence), fence_handoffs(fence) + 1);
}

/* The node part that an acquire proposes: the largest of our own last one + 1 (0: unknown), the
 * nodes' median TIME, and our wall clock, which counts only within 60 s of that median.
 * `have_median` false: no node's TIME is known, and the wall clock alone counts. */
uint64_t fence_propose(uint64_t own_last_node_part, bool have_median, hf_nodetime median,
                       hf_wall wall);

/* The highest fence that is believed of a single node, as node parts: one day ahead of the nodes' median TIME. */
uint64_t fence_limit(bool have_median, hf_nodetime median, hf_wall wall);

/* The highest fence that is believed of nodes that have `shown` these, 0 for none: `limit`, or what `q` nodes of different servers show,
 * each that or more. (!) A node that lies, or has a poisoned record, has no say in how high fences are: by one answer it would
 * use up all fences there are. A majority has: fences rise by what it remembers, also after its clocks were set back.
 *   N = 1  the node is believed, whatever it shows
 *   N = 2  the lower of both, as far as it is above the limit
 *   N = 3  the second highest; a node that is alone with its fence is no vote, and the other two grant
 *   N = 5  the third highest; two nodes may lie */
uint64_t fence_believed(uint64_t limit, const uint64_t *shown, const struct twins *twins, int n,
                        int q);

/* Whether any node can be made to accept a fence above this one. */
static inline bool fence_can_rise(uint64_t node_part)
{
    return node_part < FENCE_NODE_MAX;
}

/* After a node answered that the fence is too low and it has `highest_seen`: that + 1, at least
 * `proposed`, at most FENCE_NODE_MAX. At that limit no node can be made to accept a fence. */
uint64_t fence_raise(uint64_t proposed, uint64_t highest_seen);

#endif
