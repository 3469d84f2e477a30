#include "agent/core/containers.h"
#include "shm/assert.h"

static void heap_put(struct heap *h, size_t i, struct heap_item *item)
{
    hf_assert(i < h->count, "place %zu of %zu", i, h->count);
    h->items[i] = item;
    item->place = (uint32_t)(i + 1);
}

/* Both move the hole at `i` until `item` may stand in it. */
static void heap_sift_up(struct heap *h, size_t i, struct heap_item *item)
{
    while (i > 0) {
        size_t parent = (i - 1) / 2;
        if (!hf_time_before(item->at, h->items[parent]->at))
            break;
        heap_put(h, i, h->items[parent]);
        i = parent;
    }
    heap_put(h, i, item);
}

static void heap_sift_down(struct heap *h, size_t i, struct heap_item *item)
{
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= h->count)
            break;
        if (child + 1 < h->count && hf_time_before(h->items[child + 1]->at, h->items[child]->at))
            child++;
        if (!hf_time_before(h->items[child]->at, item->at))
            break;
        heap_put(h, i, h->items[child]);
        i = child;
    }
    heap_put(h, i, item);
}

static void heap_sift(struct heap *h, size_t i, struct heap_item *item)
{
    if (i > 0 && hf_time_before(item->at, h->items[(i - 1) / 2]->at))
        heap_sift_up(h, i, item);
    else
        heap_sift_down(h, i, item);
}

void heap_insert(struct heap *h, struct heap_item *item, hf_time at)
{
    hf_assert(!heap_has(item), "place %u of %zu", (unsigned)item->place, h->count);
    hf_assert(h->count < h->room, "count %zu, room %zu", h->count, h->room);
    item->at = at;
    heap_sift_up(h, h->count++, item);
}

void heap_move(struct heap *h, struct heap_item *item, hf_time at)
{
    hf_assert(heap_has(item), "place %u of %zu", (unsigned)item->place, h->count);
    hf_assert(item->place <= h->count && h->items[item->place - 1] == item, "place %u of %zu",
              (unsigned)item->place, h->count);
    item->at = at;
    heap_sift(h, item->place - 1, item);
}

void heap_remove(struct heap *h, struct heap_item *item)
{
    size_t i = item->place - 1;
    struct heap_item *last;

    if (!heap_has(item))
        return;
    hf_assert(i < h->count && h->items[i] == item, "place %zu of %zu", i, h->count);
    item->place = 0;
    last = h->items[--h->count];
    if (last != item)
        heap_sift(h, i, last);
}

/* --- chains ----------------------------------------------------------------------------------- */

void chains_add(struct chains *c, uint32_t hash, uint32_t number)
{
    uint32_t *first = &c->first[hash & (c->buckets - 1)];

    hf_assert((c->buckets & (c->buckets - 1)) == 0, "buckets %u", (unsigned)c->buckets);
    hf_assert(*first != number + 1, "item %u is in its chain", (unsigned)number);
    *chains_link(c, number) = *first;
    *first = number + 1;
}

void chains_remove(struct chains *c, uint32_t hash, uint32_t number)
{
    uint32_t *at = &c->first[hash & (c->buckets - 1)];

    while (*at != number + 1) {
        hf_assert(*at, "item %u is not in its chain", (unsigned)number);
        at = chains_link(c, *at - 1);
    }
    *at = *chains_link(c, number);
    *chains_link(c, number) = 0;
}
