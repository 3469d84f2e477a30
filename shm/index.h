/* Name -> slot, in the table: open addressing with bounded probes.
 *
 * Who writes: the broker thread. Who reads: anybody who mapped the table. Ordering: slot and text are filled first,
 * then the entry is stored with release. A delete leaves a tombstone; when a quarter of the area is tombstones the
 * index is rebuilt in the second area and the two are flipped under `index_seq`. It grows in the same way as more slots get
 * memory: a reader takes area and size from the header each time. A miss counts only if `index_seq`
 * was even and unchanged. SipHash-2-4 with the key in the header: remote users cannot make names collide; local users
 * can read the key, hence the bounded probes: if all are taken the writer gets HF_EFULL. It counts such slots in the header,
 * and while there are any, a miss makes the reader look at each slot.
 */
#ifndef HOLDFAST_SHM_INDEX_H
#define HOLDFAST_SHM_INDEX_H

#include "shm/layout.h"
#include "shm/slot.h"
#include "shm/table.h"

#define HF_INDEX_PROBES 64

/* Entries per area for `capacity` slots: a power of two, at most half full. */
uint32_t hf_index_size_for(uint32_t capacity);

uint32_t hf_name_hash(const uint8_t key[16], const void *name, size_t name_len);

/* Writer. The slot's identity (published or about to be) must carry this name; adding the same name
 * and slot again changes nothing. Raises the header's slots_used if `slot` needs it. HF_EFULL: all
 * places within the probes are taken. */
int hf_index_add(struct hf_table *table, const void *name, size_t name_len, uint32_t slot);
void hf_index_remove(struct hf_table *table, const void *name, size_t name_len, uint32_t slot);
/* `more`: 1, a published slot whose name hf_index_add() had no place for; -1: it is no longer such a slot. */
void hf_index_unindexed(struct hf_table *table, int more);
/* Rebuilds from the slots that are not FREE, with places for all that have memory; used at a warm restart,
 * while no other thread writes a slot. Slots with an impossible text are left out. Those for which there is no
 * place are counted until the next rebuild. */
void hf_index_rebuild(struct hf_table *table);

/* Reader: copies the slot that carries `name`. HF_ENOTHELD: none does.
 * HF_ETABLE: could not be read. */
int hf_index_find(const struct hf_table *table, const void *name, size_t name_len,
                  struct hf_slot_view *ret_view);

/* Where an entry of the name index may stand; shared by shm/index.c and shm/index.c.
 *
 * Triangular steps: with a power of two they reach every place, and in the fullest index (half
 * entries, a quarter tombstones) a million names stay far within HF_INDEX_PROBES.
 */

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
