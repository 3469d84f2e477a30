#include "agent/base/slab.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>

#include "agent/base/thread.h"
#include "shm/assert.h"
#include "shm/compiler.h"

#define UNIT       8
#define LARGEST    1024 /* bytes; larger ones are rare and malloc()'s */
#define CHUNK      ((size_t)64 * 1024)
#define CHUNK_HEAD ((size_t)64)
#define CHUNKS     32
#define REGION     (CHUNKS * CHUNK) /* a huge page */
#define PAGE       ((size_t)4096)

#if SLAB_IS_PLAIN
#define IS_PLAIN(size) true
#else
#define IS_PLAIN(size) ((size) > LARGEST)
#endif

struct cell {
    struct cell *next;
};

/* At a multiple of its own size, so that each cell finds its chunk. */
struct chunk {
    LIST_ENTRY(chunk) with_room;
    struct cell *free;
    uint32_t fresh; /* offset of the cells that were never taken */
    uint32_t used;
};

/* Chunks are cut from it; it is at a multiple of its size, too. */
struct region {
    struct chunk first;
    LIST_ENTRY(region) with_room;
    uint32_t free; /* bit per chunk */
};
_Static_assert(sizeof(struct region) <= CHUNK_HEAD, "before the first cell");

LIST_HEAD(chunks, chunk);
LIST_HEAD(regions, region);

static struct mutex lock = {PTHREAD_MUTEX_INITIALIZER};
static struct chunks with_room[LARGEST / UNIT + 1] GUARDED_BY(lock); /* by units of a cell */
static struct regions regions GUARDED_BY(lock);                      /* those with a free chunk */
static size_t region_count GUARDED_BY(lock);

static size_t slab_units_of(size_t size)
{
    return size ? (size + UNIT - 1) / UNIT : 1;
}

static void *slab_round_down(void *memory, size_t to)
{
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): it is the pointer of the chunk or region around. */
    return (void *)((uintptr_t)memory / to * to);
}

static bool slab_has_room(const struct chunk *chunk, size_t cell)
{
    return chunk->free || chunk->fresh + cell <= CHUNK;
}

/* --- regions ---------------------------------------------------------------------------------- */

static struct region *slab_region_new(void) REQUIRES(lock)
{
    char *map = mmap(NULL, 2 * REGION, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct region *region;
    size_t before;

    if (map == MAP_FAILED)
        return NULL;
    region = slab_round_down(map + REGION - 1, REGION);
    before = (size_t)((char *)region - map);
    if (before)
        (void)munmap(map, before);
    if (before < REGION)
        (void)munmap((char *)region + REGION, REGION - before);
    /* An agent with few leases needs no two megabytes for them. */
    if (region_count > 0)
        (void)madvise(region, REGION, MADV_HUGEPAGE);
    region->free = UINT32_MAX;
    LIST_INSERT_HEAD(&regions, region, with_room);
    region_count++;
    return region;
}

static struct chunk *slab_chunk_new(struct chunks *list) REQUIRES(lock)
{
    struct region *region = LIST_FIRST(&regions);
    struct chunk *chunk;
    int number;

    if (!region && !(region = slab_region_new()))
        return NULL;
    hf_assert(region->free != 0, "regions %zu", region_count);
    number = __builtin_ctz(region->free);
    region->free &= ~(UINT32_C(1) << number);
    if (!region->free)
        LIST_REMOVE(region, with_room);
    chunk = (struct chunk *)(void *)((char *)region + (size_t)number * CHUNK);
    *chunk = (struct chunk){.fresh = CHUNK_HEAD};
    LIST_INSERT_HEAD(list, chunk, with_room);
    return chunk;
}

/* One region is kept. Of the other chunks the first page stays: it may have the region's head. */
static void slab_chunk_give(struct chunk *chunk) REQUIRES(lock)
{
    struct region *region = slab_round_down(chunk, REGION);

    LIST_REMOVE(chunk, with_room);
    if (!region->free)
        LIST_INSERT_HEAD(&regions, region, with_room);
    hf_assert(chunk->used == 0, "used %u", (unsigned)chunk->used);
    region->free |= UINT32_C(1) << ((char *)chunk - (char *)region) / (ptrdiff_t)CHUNK;
    if (region->free == UINT32_MAX && region_count > 1) {
        LIST_REMOVE(region, with_room);
        region_count--;
        (void)munmap(region, REGION);
    } else {
        (void)madvise((char *)chunk + PAGE, CHUNK - PAGE, MADV_DONTNEED);
    }
}

/* --- cells ------------------------------------------------------------------------------------ */

void *slab_take(size_t size)
{
    size_t cell = slab_units_of(size) * UNIT;
    struct chunks *list;
    struct chunk *chunk;
    struct cell *taken = NULL;

    if (IS_PLAIN(size))
        return calloc(1, size);
    mutex_lock(&lock);
    list = &with_room[cell / UNIT];
    chunk = LIST_FIRST(list);
    if (!chunk)
        chunk = slab_chunk_new(list);
    if (chunk) {
        taken = chunk->free;
        if (taken) {
            chunk->free = taken->next;
        } else {
            taken = (struct cell *)(void *)((char *)chunk + chunk->fresh);
            chunk->fresh += (uint32_t)cell;
        }
        hf_assert(chunk->fresh <= CHUNK, "cell of %zu bytes, fresh %u", cell,
                  (unsigned)chunk->fresh);
        chunk->used++;
        if (!slab_has_room(chunk, cell))
            LIST_REMOVE(chunk, with_room);
    }
    mutex_unlock(&lock);
    return taken ? memset(taken, 0, cell) : NULL;
}

void slab_give(void *memory, size_t size)
{
    struct chunk *chunk = slab_round_down(memory, CHUNK);
    size_t cell = slab_units_of(size) * UNIT;
    struct cell *given = memory;
    struct chunks *list;

    if (!memory)
        return;
    if (IS_PLAIN(size)) {
        free(memory);
        return;
    }
    mutex_lock(&lock);
    list = &with_room[cell / UNIT];
    if (!slab_has_room(chunk, cell))
        LIST_INSERT_HEAD(list, chunk, with_room);
    given->next = chunk->free;
    chunk->free = given;
    hf_assert(chunk->used > 0, "cell of %zu bytes", cell);
    chunk->used--;
    /* One empty chunk is kept, so that a single lease that comes and goes does not make one each
     * time. */
    if (chunk->used == 0 && (LIST_FIRST(list) != chunk || LIST_NEXT(chunk, with_room)))
        slab_chunk_give(chunk);
    mutex_unlock(&lock);
}
