/* Memory for objects that are many and stay: names and leases.
 *
 * Cells of one size are in chunks of their own and have no header. What comes and goes beside them
 * (rounds, requests, messages) leaves no holes between them. With malloc() such holes were a sixth
 * of the memory of a million leases, and the padding before aligned chunks a twentieth. A chunk
 * with no cell in use is given back. Chunks are cut from huge pages where the kernel has some: with
 * a million leases a renewal waits for memory most of all. Any thread.
 * With a sanitizer these are plain calloc() and free(), so that the use of a freed cell is
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
/* `size`: the size that was taken. `memory` may be NULL. */
void slab_give(void *memory, size_t size);

#endif
