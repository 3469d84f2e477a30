/* Where an entry of the name index may stand; shared by shm/index_find.c and shm/index_write.c.
 *
 * Triangular steps: with a power of two they reach every place, and in the fullest index (half
 * entries, a quarter tombstones) a million names stay far within HF_INDEX_PROBES.
 */
#ifndef HOLDFAST_SHM_INDEX_PROBE_H
#define HOLDFAST_SHM_INDEX_PROBE_H

#include "shm/layout.h"

/* Place number `probe` (from 0) for `hash` in an area of `size` entries. */
static inline uint32_t hf_index_place(uint32_t hash, uint32_t probe, uint32_t size)
{
    return (hash + probe * (probe + 1) / 2) & (size - 1);
}

static inline uint32_t hf_index_hash_of(uint64_t entry)
{
    return (uint32_t)(entry >> 32);
}

/* The header's `index_area`: one word, so that an agent killed between two stores leaves either area in use,
 * with its own size. */
static inline uint32_t hf_index_area_word(uint32_t area, uint32_t size)
{
    return area | (uint32_t)__builtin_ctz(size) << 8;
}

static inline uint32_t hf_index_size_in(uint32_t word)
{
    return UINT32_C(1) << (word >> 8 & 31);
}

/* Slot + 1, HF_INDEX_TOMB, or 0. */
static inline uint32_t hf_index_slot_of(uint64_t entry)
{
    return (uint32_t)entry;
}

#endif
