/* On how many nodes a lease was found to be outbid: the node has a fence higher than the lease's,
 * set by another token. A split leaves such fences behind on some nodes; the same other
 * token on enough of them is a later grant (lease_fsm_outbid()). What was seen is remembered, since a third token may set a
 * still higher fence on some of those nodes.
 *
 * It is kept for few leases, by slot: two leases that meet in one place overwrite each other's
 * until the nodes are asked again. Tokens are told apart by 64 bits of their tags, which are SHA-1s
 * of random bytes. Pure. One thread.
 */
#ifndef HOLDFAST_AGENT_CORE_RIVALS_H
#define HOLDFAST_AGENT_CORE_RIVALS_H

#include <stddef.h>
#include <stdint.h>

#define RIVALS_MOST 16384 /* leases */

struct rivals {
    uint32_t room; /* leases */
    int n;         /* nodes */
    /* Per lease: which lease it is, then for each node the tag seen there, 0: none. */
    uint64_t *words;
};

/* Places for a table of `capacity` leases. The owner makes `words`, rivals_words() of them,
 * zeroed. */
static inline uint32_t rivals_room(uint32_t capacity)
{
    return capacity < RIVALS_MOST ? capacity : RIVALS_MOST;
}
static inline size_t rivals_words(uint32_t room, int n)
{
    return (size_t)room * (size_t)(n + 1);
}

/* The node showed that the token with the tag `id`, 40 hex digits, outbid the lease in `slot`,
 * whose token was granted with `generation` (not 0). Returns the nodes (bit per node) on which that
 * token was seen. */
uint32_t rivals_seen(struct rivals *r, uint32_t slot, uint32_t generation, int node,
                     const char *id);

#endif
