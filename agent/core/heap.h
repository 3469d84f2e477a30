/* A binary min-heap of timers, intrusive: O(log n). It allocates nothing; the owner grows the
 * array. Pure. One thread. */
#ifndef HOLDFAST_AGENT_CORE_HEAP_H
#define HOLDFAST_AGENT_CORE_HEAP_H

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

#endif
