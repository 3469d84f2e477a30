/* Numbers found by a hash: each number is in the chain of its bucket. A bucket has two numbers as a
 * rule; whoever looks one up compares what the number stands for. To add one is O(1), to find or
 * remove one takes time by the chain's length. 6 bytes for each possible number. Pure. One thread.
 *
 * The links may be an array of their own, or each a field of what the owner keeps for its number.
 */
#ifndef HOLDFAST_AGENT_CORE_CHAINS_H
#define HOLDFAST_AGENT_CORE_CHAINS_H

#include <stddef.h>
#include <stdint.h>

struct chains {
    uint32_t *first; /* of each bucket its first number + 1; 0: none */
    void *links; /* of each number the next number + 1; 0: none. Points to number 0's uint32_t */
    size_t step; /* bytes from one number's link to the next number's */
    uint32_t buckets;
};

/* A power of two. The owner makes `first` of this many, and links for `capacity` numbers, all
 * zeroed. */
static inline uint32_t chains_buckets(uint32_t capacity)
{
    uint32_t buckets = 1;

    while (buckets < capacity / 2)
        buckets *= 2;
    return buckets;
}

static inline uint32_t *chains_link(const struct chains *c, uint32_t number)
{
    return (void *)((char *)c->links + number * c->step);
}

/* To be added, `number` is in no chain; to be removed, it was added with the same hash. */
void chains_add(struct chains *c, uint32_t hash, uint32_t number);
void chains_remove(struct chains *c, uint32_t hash, uint32_t number);

/* Loop: for (uint32_t at = chains_first(c, hash); at; at = chains_next(c, at)): at - 1 is a number
 * of the bucket. */
static inline uint32_t chains_first(const struct chains *c, uint32_t hash)
{
    return c->first[hash & (c->buckets - 1)];
}
static inline uint32_t chains_next(const struct chains *c, uint32_t at)
{
    return *chains_link(c, at - 1);
}

#endif
