/* The reader's side of the name index. */
#include "shm/index.h"

#include "shm/index_probe.h"
#include "shm/status.h"

#define FIND_TRIES 16

struct area {
    const hf_index_entry *entry;
    uint32_t size;
};

/* (!) Entries without memory are a hole, whose access raises SIGBUS when /dev/shm is full. No agent
 * points there, but damage may. */
static bool index_find_area_to_read(const struct hf_table *table, struct area *ret_area)
{
    const struct hf_table_header *header = table->header;
    uint32_t word = atomic_load_explicit(&header->index_area, memory_order_acquire);
    uint32_t there = atomic_load_explicit(&header->index_size, memory_order_acquire);
    uint32_t area = word & 1, size = hf_index_size_in(word);

    if (size > there || size > table->index_room)
        return false;
    *ret_area = (struct area){table->index + (size_t)area * table->index_room, size};
    return true;
}

/* HF_ENOTHELD here: not found in this area as it was just now. */
static int find_in(const struct hf_table *table, struct area area, uint32_t hash, const void *name,
                   size_t name_len, struct hf_slot_view *ret_view)
{
    bool unreadable = false;

    for (uint32_t probe = 0; probe < HF_INDEX_PROBES; probe++) {
        uint32_t place = hf_index_place(hash, probe, area.size);
        uint64_t entry = atomic_load_explicit(&area.entry[place], memory_order_acquire);
        int status;

        if (entry == 0)
            break;
        if (hf_index_hash_of(entry) != hash || hf_index_slot_of(entry) == HF_INDEX_TOMB)
            continue;
        /* A number out of range is HF_EINVAL: a broken entry, skipped. */
        status = hf_slot_read_named(table, hf_index_slot_of(entry) - 1, name, name_len, ret_view);
        if (status == 0)
            return 0;
        unreadable |= status == HF_ETABLE;
    }
    return unreadable ? HF_ETABLE : HF_ENOTHELD;
}

/* (!) Every local user can take all places of a name: that costs the others time, and no answer. */
static int find_unindexed(const struct hf_table *table, const void *name, size_t name_len,
                          struct hf_slot_view *ret_view)
{
    const struct hf_table_header *header = table->header;
    uint32_t slots = atomic_load_explicit(&header->slots_used, memory_order_acquire);
    bool unreadable = false;

    if (!atomic_load_explicit(&header->unindexed, memory_order_acquire))
        return HF_ENOTHELD;
    for (uint32_t slot = 0; slot < slots; slot++) {
        int status = hf_slot_read_named(table, slot, name, name_len, ret_view);

        if (status == 0)
            return 0;
        if (status == HF_EINVAL)
            break;
        unreadable |= status == HF_ETABLE;
    }
    return unreadable ? HF_ETABLE : HF_ENOTHELD;
}

int hf_index_find(const struct hf_table *table, const void *name, size_t name_len,
                  struct hf_slot_view *ret_view)
{
    const struct hf_table_header *header = table->header;
    uint32_t hash;

    if (name_len < 1 || name_len > HF_NAME_MAX)
        return HF_ENOTHELD;
    hash = hf_name_hash(header->index_key, name, name_len);
    for (int try = 0; try < FIND_TRIES; try++) {
        uint32_t seq = atomic_load_explicit(&header->index_seq, memory_order_acquire);
        struct area area;
        int status;

        if (!index_find_area_to_read(table, &area))
            return HF_ETABLE;
        status = find_in(table, area, hash, name, name_len, ret_view);
        if (status != HF_ENOTHELD)
            return status;
        if ((seq & 1) == 0 && atomic_load_explicit(&header->index_seq, memory_order_relaxed) == seq)
            return find_unindexed(table, name, name_len, ret_view);
    }
    return HF_ETABLE;
}
