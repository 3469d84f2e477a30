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

#define SLAB_IS_PLAIN 0
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#undef SLAB_IS_PLAIN
#define SLAB_IS_PLAIN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#undef SLAB_IS_PLAIN
#define SLAB_IS_PLAIN 1
#endif
#endif

/* Zeroed, aligned to 8 bytes; NULL without memory. */
void *slab_take(size_t size);
/* `size` as it was taken; NULL is fine. */
void slab_give(void *memory, size_t size);

#endif
