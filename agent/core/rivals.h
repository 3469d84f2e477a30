/* On how many nodes a lease was found to be outbid: a fence higher than its own, set by another. On
 * fewer than q nodes that is what a split leaves behind; one and the same token on q nodes is a later
 * grant. What was seen is remembered, for a third may have set a higher one on some of them since.
 *
 * Kept for few leases, by slot: two that meet in one place forget each other's, until the nodes are
 * asked again. Tokens are told apart by 64 bits of their tags, which are SHA-1s of random bytes.
 * Pure. One thread.
 */
#ifndef HOLDFAST_AGENT_CORE_RIVALS_H
#define HOLDFAST_AGENT_CORE_RIVALS_H

#include <stddef.h>
#include <stdint.h>

#define RIVALS_MOST 16384 /* leases */

struct rivals {
    uint32_t room;   /* leases */
    int n;           /* nodes */
    uint64_t *words; /* of each lease which one it is, and of each node the tag, 0: none */
};

/* Places for a table of so many leases. The owner makes `words`, rivals_words() of them, zeroed. */
static inline uint32_t rivals_room(uint32_t capacity)
{
    return capacity < RIVALS_MOST ? capacity : RIVALS_MOST;
}
static inline size_t rivals_words(uint32_t room, int n)
{
    return (size_t)room * (size_t)(n + 1);
}

/* The lease in `slot` whose token was granted with `generation` (not 0) was outbid on the node by
 * whoever has the tag `id`, 40 hex digits. Returns on how many nodes the same one was seen. */
int rivals_seen(struct rivals *r, uint32_t slot, uint32_t generation, int node, const char *id);

#endif
