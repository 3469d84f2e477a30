/* The chunks of agent/base/slab.h that cells lie in, and which of those the kernel has not got back. */
#ifndef HOLDFAST_TESTS_CHUNKS_H
#define HOLDFAST_TESTS_CHUNKS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#define CHUNK       ((size_t)64 * 1024) /* as slab.c cuts them, at multiples of it */
#define CHUNKS_MOST 4096

struct chunks {
    uintptr_t at[CHUNKS_MOST];
    size_t count;
};

/* The chunk around this cell counts once. */
static inline void chunks_note(struct chunks *c, const void *cell)
{
    uintptr_t chunk = (uintptr_t)cell / CHUNK * CHUNK;

    for (size_t i = c->count; i > 0; i--)
        if (c->at[i - 1] == chunk)
            return;
    if (c->count < CHUNKS_MOST)
        c->at[c->count++] = chunk;
}

/* The first page of a chunk may stay for good. */
static inline size_t chunks_kept(const struct chunks *c)
{
    const uintptr_t page = 4096;
    unsigned char here;
    size_t kept = 0;

    for (size_t i = 0; i < c->count; i++) {
        /* NOLINTNEXTLINE(performance-no-int-to-ptr): it came from a pointer. */
        if (mincore((void *)(c->at[i] + page), page, &here) == 0 && (here & 1))
            kept++;
    }
    return kept;
}

#endif
