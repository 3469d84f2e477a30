#include "agent/slab.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "agent/mutex.h"
#include "shm/compiler.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLAB_PLAIN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLAB_PLAIN 1
#endif
#endif

#define UNIT       16
#define LARGEST    1024 /* bytes; larger ones are rare and malloc()'s */
#define CHUNK      ((size_t)64 * 1024)
#define CHUNK_HEAD ((size_t)64)
#define CHUNK_END  (CHUNK - 64) /* malloc()'s own head of the next one fits before its beginning */

#ifdef SLAB_PLAIN
#define IS_PLAIN(size) true
#else
#define IS_PLAIN(size) ((size) > LARGEST)
#endif

struct cell {
    struct cell *next;
};

/* At a multiple of its own size, so that each cell finds it. */
struct chunk {
    LIST_ENTRY(chunk) with_room;
    struct cell *free;
    uint32_t fresh; /* offset of the cells that were never taken */
    uint32_t used;
};
_Static_assert(sizeof(struct chunk) <= CHUNK_HEAD, "before the first cell");

LIST_HEAD(chunks, chunk);

static struct mutex lock = {PTHREAD_MUTEX_INITIALIZER};
static struct chunks with_room[LARGEST / UNIT + 1] GUARDED_BY(lock); /* by units of a cell */
static size_t bytes GUARDED_BY(lock);

static size_t units_of(size_t size)
{
    return size ? (size + UNIT - 1) / UNIT : 1;
}

static bool has_room(const struct chunk *chunk, size_t cell)
{
    return chunk->free || chunk->fresh + cell <= CHUNK_END;
}

static struct chunk *chunk_new(struct chunks *list) REQUIRES(lock)
{
    struct chunk *chunk;
    void *memory;

    if (posix_memalign(&memory, CHUNK, CHUNK_END) != 0)
        return NULL;
    chunk = memory;
    *chunk = (struct chunk){.fresh = CHUNK_HEAD};
    LIST_INSERT_HEAD(list, chunk, with_room);
    bytes += CHUNK;
    return chunk;
}

void *slab_take(size_t size)
{
    size_t cell = units_of(size) * UNIT;
    struct chunks *list;
    struct chunk *chunk;
    struct cell *taken = NULL;

    if (IS_PLAIN(size))
        return calloc(1, size);
    mutex_lock(&lock);
    list = &with_room[cell / UNIT];
    chunk = LIST_FIRST(list);
    if (!chunk)
        chunk = chunk_new(list);
    if (chunk) {
        taken = chunk->free;
        if (taken) {
            chunk->free = taken->next;
        } else {
            taken = (struct cell *)(void *)((char *)chunk + chunk->fresh);
            chunk->fresh += (uint32_t)cell;
        }
        chunk->used++;
        if (!has_room(chunk, cell))
            LIST_REMOVE(chunk, with_room);
    }
    mutex_unlock(&lock);
    return taken ? memset(taken, 0, cell) : NULL;
}

void slab_give(void *memory, size_t size)
{
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): rounded down, it is the pointer of the chunk around it. */
    struct chunk *chunk = (struct chunk *)((uintptr_t)memory / CHUNK * CHUNK);
    size_t cell = units_of(size) * UNIT;
    struct cell *given = memory;
    bool had_room;

    if (!memory)
        return;
    if (IS_PLAIN(size)) {
        free(memory);
        return;
    }
    mutex_lock(&lock);
    had_room = has_room(chunk, cell);
    given->next = chunk->free;
    chunk->free = given;
    chunk->used--;
    if (!had_room)
        LIST_INSERT_HEAD(&with_room[cell / UNIT], chunk, with_room);
    /* One is kept, so that a lease that comes and goes alone makes none each time. */
    if (chunk->used == 0 &&
        (LIST_FIRST(&with_room[cell / UNIT]) != chunk || LIST_NEXT(chunk, with_room))) {
        LIST_REMOVE(chunk, with_room);
        bytes -= CHUNK;
    } else {
        chunk = NULL;
    }
    mutex_unlock(&lock);
    free(chunk);
}

size_t slab_bytes(void)
{
    size_t now;

    mutex_lock(&lock);
    now = bytes;
    mutex_unlock(&lock);
    return now;
}
