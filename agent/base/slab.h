/* Memory for what is there in great numbers and stays: names and leases.
 *
 * Cells of one size lie in chunks of their own, without a header each, and what comes and goes
 * beside them (rounds, requests, messages) leaves no holes between them: of a million leases that was
 * a sixth of the memory, and what malloc() left before each aligned chunk a twentieth. A chunk without
 * cells in use is given back. Chunks are cut from huge pages, where the kernel has some: with a million
 * leases a renewal waits for memory most of all. Any thread.
 * Built with a sanitizer these are plain calloc() and free(), so that a cell used after its end is
 * found. */
#ifndef HOLDFAST_AGENT_BASE_SLAB_H
#define HOLDFAST_AGENT_BASE_SLAB_H

#include <stddef.h>

/* Zeroed, aligned to 8 bytes; NULL without memory. */
void *slab_take(size_t size);
/* `size` as it was taken; NULL is fine. */
void slab_give(void *memory, size_t size);
/* Bytes of all chunks. */
size_t slab_bytes(void);

#endif
