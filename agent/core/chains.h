/* Numbers found by a hash: each stands in the chain of its bucket, beside the others of it. Two to a
 * bucket as a rule; whoever looks one up compares what the number stands for. To add is O(1), to find
 * or remove as long as the chain. 6 bytes for each number that there may be. Pure. One thread.
 *
 * The links may lie in an array of their own, or each in what the owner keeps of its number anyway.
 */
#ifndef HOLDFAST_AGENT_CORE_CHAINS_H
#define HOLDFAST_AGENT_CORE_CHAINS_H

#include <stddef.h>
#include <stdint.h>

struct chains {
    uint32_t *first; /* of each bucket, number + 1; 0: none */
    void *links;     /* of each number the next one's uint32_t, likewise: the first of them */
    size_t step;     /* bytes from each link to the next number's */
    uint32_t buckets;
};

/* A power of two. The owner makes `first` of so many, links of `capacity` numbers, all zeroed. */
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

/* `number` is in no chain; it is removed by the hash that it was added with. */
void chains_add(struct chains *c, uint32_t hash, uint32_t number);
void chains_remove(struct chains *c, uint32_t hash, uint32_t number);

/* For (uint32_t at = chains_first(c, hash); at; at = chains_next(c, at)): at - 1 is a number of the
 * bucket. */
static inline uint32_t chains_first(const struct chains *c, uint32_t hash)
{
    return c->first[hash & (c->buckets - 1)];
}
static inline uint32_t chains_next(const struct chains *c, uint32_t at)
{
    return *chains_link(c, at - 1);
}

#endif
