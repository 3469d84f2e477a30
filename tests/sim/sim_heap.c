/* The agents' heaps. With AddressSanitizer every block is a malloc() of its own, so that it sees
 * what it should; else they are cut from one region per agent. */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"

struct sim_heap *sim_heap_now;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
void __wrap_free(void *block);

#if defined(__SANITIZE_ADDRESS__)
#define PLAIN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PLAIN 1
#endif
#endif

#ifdef PLAIN

struct block {
    struct block *next, *prev;
    struct sim_heap *heap;
    size_t size;
};

struct sim_heap {
    struct block all;
};

struct sim_heap *sim_heap_new(size_t size)
{
    struct sim_heap *heap = __real_calloc(1, sizeof(*heap));

    (void)size;
    heap->all.next = heap->all.prev = &heap->all;
    return heap;
}

void sim_heap_reset(struct sim_heap *heap)
{
    while (heap->all.next != &heap->all) {
        struct block *b = heap->all.next;

        heap->all.next = b->next;
        b->next->prev = &heap->all;
        __real_free(b);
    }
}

static void *take(struct sim_heap *heap, size_t size)
{
    struct block *b = __real_malloc(sizeof(*b) + size);

    b->heap = heap;
    b->size = size;
    b->next = heap->all.next;
    b->prev = &heap->all;
    b->next->prev = b;
    heap->all.next = b;
    return b + 1;
}

static size_t size_of(const void *block)
{
    return ((const struct block *)block)[-1].size;
}

static void give(void *block)
{
    struct block *b = (struct block *)block - 1;

    b->next->prev = b->prev;
    b->prev->next = b->next;
    __real_free(b);
}

#else

#define CLASSES 40

struct block {
    struct sim_heap *heap;
    uint32_t class;
    uint32_t size;
};

struct sim_heap {
    size_t size, used;
    void *free[CLASSES];
    _Alignas(16) char bytes[];
};

struct sim_heap *sim_heap_new(size_t size)
{
    struct sim_heap *heap = __real_malloc(sizeof(*heap) + size);

    if (!heap)
        abort();
    heap->size = size;
    sim_heap_reset(heap);
    return heap;
}

void sim_heap_reset(struct sim_heap *heap)
{
    heap->used = 0;
    memset(heap->free, 0, sizeof(heap->free));
}

/* Four classes per power of two, from 32 bytes on. */
static uint32_t find_class(size_t size, size_t *ret_room)
{
    size_t room = 32;
    uint32_t class = 0;

    while (room < size) {
        size_t quarter = room / 4;

        for (size_t r = room + quarter; r <= 2 * room; r += quarter) {
            class ++;
            if (r >= size) {
                *ret_room = r;
                return class;
            }
        }
        room *= 2;
    }
    *ret_room = room;
    return class;
}

/* The same, looked up for what is asked for most. */
static uint32_t class_of(size_t size, size_t *ret_room)
{
    static struct {
        uint32_t class, room;
    } known[65];
    size_t i = (size + 15) / 16, room;

    if (i >= HF_LENGTH(known))
        return find_class(size, ret_room);
    if (!known[i].room) {
        known[i].class = find_class(16 * i, &room);
        known[i].room = (uint32_t)room;
    }
    *ret_room = known[i].room;
    return known[i].class;
}

static void *take(struct sim_heap *heap, size_t size)
{
    struct block *b;
    size_t room;
    uint32_t class = class_of(size, &room);

    if (class < CLASSES && heap->free[class]) {
        void *block = heap->free[class];

        memcpy(&heap->free[class], block, sizeof(void *));
        ((struct block *)block)[-1].size = (uint32_t)size;
        return block;
    }
    room = (room + sizeof(*b) + 15) & ~(size_t)15;
    if (heap->used + room > heap->size) {
        fputs("sim: an agent's heap is full\n", stderr);
        abort();
    }
    b = (struct block *)(heap->bytes + heap->used);
    heap->used += room;
    *b = (struct block){heap, class, (uint32_t)size};
    return b + 1;
}

static size_t size_of(const void *block)
{
    return ((const struct block *)block)[-1].size;
}

static void give(void *block)
{
    struct block *b = (struct block *)block - 1;

    if (b->class >= CLASSES)
        return;
    memcpy(block, &b->heap->free[b->class], sizeof(void *));
    b->heap->free[b->class] = block;
}

#endif

/* Whoever calls these is the product, or libmalloc's other users before the first schedule: blocks
 * never cross. */
void *__wrap_malloc(size_t size)
{
    return sim_heap_now ? take(sim_heap_now, size) : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    void *block;

    if (!sim_heap_now)
        return __real_calloc(count, size);
    block = take(sim_heap_now, count * size);
    memset(block, 0, count * size);
    return block;
}

void *__wrap_realloc(void *block, size_t size)
{
    void *to;

    if (!sim_heap_now)
        return __real_realloc(block, size);
    to = take(sim_heap_now, size);
    if (block) {
        memcpy(to, block, size_of(block) < size ? size_of(block) : size);
        give(block);
    }
    return to;
}

void __wrap_free(void *block)
{
    if (!block)
        return;
    if (sim_heap_now)
        give(block);
    else
        __real_free(block);
}

/* Slabs outlive an agent that is killed: what it had there would never come back. */

void *__wrap_slab_take(size_t size);
void *__wrap_slab_take(size_t size)
{
    return __wrap_calloc(1, size);
}

void __wrap_slab_give(void *memory, size_t size);
void __wrap_slab_give(void *memory, size_t size)
{
    (void)size;
    __wrap_free(memory);
}

/* --- Lua's ------------------------------------------------------------------------------------ */

void *sim_lua_alloc(void *heap, void *block, size_t before, size_t size)
{
    void *to = NULL;

    if (size)
        to = take(heap, size);
    if (block && to)
        memcpy(to, block, before < size ? before : size);
    if (block)
        give(block);
    return to;
}

/* --- the simulator's own ---------------------------------------------------------------------- */

#define CHUNK ((size_t)128 << 20)

static struct sim_heap *own;

void *sim_alloc(size_t size)
{
    void *block;

    if (!own)
        own = sim_heap_new(CHUNK);
    block = take(own, size);
    memset(block, 0, size);
    return block;
}

void sim_free(void *block)
{
    if (block)
        give(block);
}

void sim_alloc_reset(void)
{
    if (own)
        sim_heap_reset(own);
}
