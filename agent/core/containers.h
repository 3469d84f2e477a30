/* A binary min-heap of timers, intrusive: O(log n). It allocates nothing; the owner grows the
 * array. Pure. One thread. */
#ifndef HOLDFAST_AGENT_CORE_CONTAINERS_H
#define HOLDFAST_AGENT_CORE_CONTAINERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/compiler.h"
#include "shm/nstime.h"

/* 12 bytes: a million leases have several each. */
struct heap_item {
    hf_time at HF_PACKED;
    uint32_t place; /* index + 1 in the array; 0: not in the heap */
};
_Static_assert(sizeof(struct heap_item) == 12, "no padding");

struct heap {
    struct heap_item **items;
    size_t count, room;
};

/* `room` must exceed `count`: the owner grows `items` first (see loop.c, renewal.c). */
void heap_insert(struct heap *h, struct heap_item *item, hf_time at);
void heap_move(struct heap *h, struct heap_item *item, hf_time at);
void heap_remove(struct heap *h,
                 struct heap_item *item); /* does nothing when it is not in the heap */
static inline struct heap_item *heap_first(const struct heap *h)
{
    return h->count ? h->items[0] : NULL;
}
static inline bool heap_has(const struct heap_item *item)
{
    return item->place != 0;
}

/* Numbers found by a hash: each number is in the chain of its bucket. A bucket has two numbers as a
 * rule; whoever looks one up compares what the number stands for. To add one is O(1), to find or
 * remove one takes time by the chain's length. 6 bytes for each possible number. Pure. One thread.
 *
 * The links may be an array of their own, or each a field of what the owner keeps for its number.
 */

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
