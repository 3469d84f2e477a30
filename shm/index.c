/* The reader's side of the name index. */
#include "shm/index.h"

#include <string.h>

#include "shm/assert.h"
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
static int index_find_in(const struct hf_table *table, struct area area, uint32_t hash,
                         const void *name, size_t name_len, struct hf_slot_view *ret_view)
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
static int index_find_unindexed(const struct hf_table *table, const void *name, size_t name_len,
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
        status = index_find_in(table, area, hash, name, name_len, ret_view);
        if (status != HF_ENOTHELD)
            return status;
        if ((seq & 1) == 0 && atomic_load_explicit(&header->index_seq, memory_order_relaxed) == seq)
            return index_find_unindexed(table, name, name_len, ret_view);
    }
    return HF_ETABLE;
}

/* --- the agent's side ------------------------------------------------------------------------- */

/* The agent's side of the name index. */

#define GET(word)        atomic_load_explicit(&(word), memory_order_relaxed)
#define SET(word, value) atomic_store_explicit(&(word), (value), memory_order_release)

#define SIZE_MIN         128

uint32_t hf_index_size_for(uint32_t capacity)
{
    uint32_t size = SIZE_MIN;

    while (size < 2 * capacity)
        size *= 2;
    return size;
}

/* The writer's own counts. */
static void index_write_check(const struct hf_table *table)
{
    hf_assert(table->index_size && (table->index_size & (table->index_size - 1)) == 0,
              "index_size %u", (unsigned)table->index_size);
    hf_assert(table->index_size <= table->index_there, "index_size %u, index_there %u",
              (unsigned)table->index_size, (unsigned)table->index_there);
    hf_assert(table->index_there <= table->index_room, "index_there %u, index_room %u",
              (unsigned)table->index_there, (unsigned)table->index_room);
    hf_assert(table->index_tombs <= table->index_size, "index_tombs %u, index_size %u",
              (unsigned)table->index_tombs, (unsigned)table->index_size);
    hf_assert(table->slots_there <= table->slot_room, "slots_there %u, slot_room %u",
              (unsigned)table->slots_there, (unsigned)table->slot_room);
}

static hf_index_entry *index_write_area_of(const struct hf_table *table, uint32_t area)
{
    hf_assert(area <= 1, "area %u", (unsigned)area);
    return table->index + (size_t)area * table->index_room;
}

static uint32_t index_write_number_in_use(const struct hf_table *table)
{
    return GET(table->header->index_area) & 1;
}

static hf_index_entry *index_write_area_in_use(const struct hf_table *table)
{
    return index_write_area_of(table, index_write_number_in_use(table));
}

/* Puts an entry into the first place that is empty or a tombstone, unless it is there already. */
static bool index_write_put(hf_index_entry *area, uint32_t size, uint32_t hash, uint32_t slot,
                            bool *ret_was_tomb)
{
    const uint64_t wanted = (uint64_t)hash << 32 | (slot + 1);
    hf_index_entry *free_place = NULL;

    *ret_was_tomb = false;
    for (uint32_t probe = 0; probe < HF_INDEX_PROBES; probe++) {
        hf_index_entry *place = &area[hf_index_place(hash, probe, size)];
        uint64_t entry = GET(*place);

        if (entry == wanted)
            return true;
        if (!free_place && (entry == 0 || hf_index_slot_of(entry) == HF_INDEX_TOMB)) {
            free_place = place;
            *ret_was_tomb = entry != 0;
        }
        if (entry == 0)
            break;
    }
    if (!free_place)
        return false;
    SET(*free_place, wanted);
    return true;
}

static void index_write_empty(hf_index_entry *area, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++)
        SET(area[i], 0);
}

/* The area that readers do not use now, emptied. A reader that still uses it began before the last flip: it sees
 * `index_seq` changed and does not trust its miss. */
static hf_index_entry *index_write_begin_rebuild(struct hf_table *table, uint32_t size)
{
    hf_index_entry *area = index_write_area_of(table, !index_write_number_in_use(table));

    hf_assert(size <= table->index_there, "size %u, index_there %u", (unsigned)size,
              (unsigned)table->index_there);
    index_write_empty(area, size);
    return area;
}

/* One store for both: entries of one area mean nothing in the other. */
static void index_write_lead_to(struct hf_table *table, uint32_t area, uint32_t size)
{
    SET(table->header->index_area, hf_index_area_word(area, size));
    table->index_size = size;
}

static void index_write_flip(struct hf_table *table, uint32_t size)
{
    struct hf_table_header *header = table->header;
    uint32_t seq = GET(header->index_seq) | 1; /* already odd if a writer was killed here */

    SET(header->index_seq, seq);
    index_write_lead_to(table, !index_write_number_in_use(table), size);
    SET(header->index_seq, seq + 1);
    table->index_tombs = 0;
}

/* Rebuilds the index in that size, without its tombstones. An entry carries its whole hash, so no slot has to be
 * read. If an entry finds no place, the area in use stays until as many more tombstones have come: they only make
 * lookups slower. */
static void index_write_compact(struct hf_table *table, uint32_t size)
{
    const hf_index_entry *from = index_write_area_in_use(table);
    hf_index_entry *to = index_write_begin_rebuild(table, size);

    table->index_tried = size;
    for (uint32_t i = 0; i < table->index_size; i++) {
        uint64_t entry = GET(from[i]);
        bool was_tomb;

        if (entry != 0 && hf_index_slot_of(entry) != HF_INDEX_TOMB &&
            !index_write_put(to, size, hf_index_hash_of(entry), hf_index_slot_of(entry) - 1,
                             &was_tomb)) {
            table->index_tombs = 0;
            return;
        }
    }
    index_write_flip(table, size);
}

/* The slots that have memory now may need a larger index: hf_table_take_slots() took the memory for it. */
static void index_write_keep_pace(struct hf_table *table)
{
    uint32_t size = hf_index_size_for(table->slots_there);

    if (size > table->index_size && size > table->index_tried)
        index_write_compact(table, size);
}

static void index_write_raise_slots_used(struct hf_table *table, uint32_t slot)
{
    hf_assert(slot < table->slots_there, "slot %u of %u", (unsigned)slot,
              (unsigned)table->slots_there);
    if (GET(table->header->slots_used) <= slot)
        SET(table->header->slots_used, slot + 1);
}

int hf_index_add(struct hf_table *table, const void *name, size_t name_len, uint32_t slot)
{
    uint32_t hash;
    bool was_tomb;

    if (name_len < 1 || name_len > HF_NAME_MAX || slot >= table->slots_there)
        return HF_EINVAL;
    index_write_keep_pace(table);
    index_write_check(table);
    hash = hf_name_hash(table->header->index_key, name, name_len);
    index_write_raise_slots_used(table, slot);
    if (!index_write_put(index_write_area_in_use(table), table->index_size, hash, slot, &was_tomb))
        return HF_EFULL; /* tombstones are reused: a rebuild would find no more room */
    if (was_tomb && table->index_tombs > 0)
        table->index_tombs--;
    return 0;
}

void hf_index_remove(struct hf_table *table, const void *name, size_t name_len, uint32_t slot)
{
    hf_index_entry *area = index_write_area_in_use(table);
    uint32_t hash;

    if (name_len < 1 || name_len > HF_NAME_MAX)
        return;
    index_write_check(table);
    hash = hf_name_hash(table->header->index_key, name, name_len);
    for (uint32_t probe = 0; probe < HF_INDEX_PROBES; probe++) {
        hf_index_entry *place = &area[hf_index_place(hash, probe, table->index_size)];
        uint64_t entry = GET(*place);

        if (entry == 0)
            return;
        if (entry != ((uint64_t)hash << 32 | (slot + 1)))
            continue;
        SET(*place, HF_INDEX_TOMB);
        if (++table->index_tombs >= table->index_size / 4)
            index_write_compact(table, table->index_size);
        return;
    }
}

void hf_index_unindexed(struct hf_table *table, int more)
{
    uint32_t count = GET(table->header->unindexed);

    hf_assert((more == 1 || more == -1) && (more > 0 || count > 0), "unindexed %u",
              (unsigned)count);
    SET(table->header->unindexed, count + (uint32_t)more);
}

void hf_index_rebuild(struct hf_table *table)
{
    uint32_t size = hf_index_size_for(table->slots_there), left_out = 0;
    hf_index_entry *area = index_write_begin_rebuild(table, size);

    SET(table->header->slots_used, 0);
    for (uint32_t slot = 0; slot < table->slots_there; slot++) {
        struct hf_slot_view view;
        bool was_tomb;

        if (hf_slot_read(table, slot, &view) != 0)
            continue;
        if (!index_write_put(area, size,
                             hf_name_hash(table->header->index_key, view.name, view.name_len), slot,
                             &was_tomb))
            left_out++;
        index_write_raise_slots_used(table, slot);
    }
    SET(table->header->unindexed, left_out);
    index_write_flip(table, size);
    index_write_check(table);
}

/* --- the hash of a name ----------------------------------------------------------------------- */

/* SipHash-2-4 (Aumasson and Bernstein, 2012), cut to 32 bits. */

struct sip {
    uint64_t v0, v1, v2, v3;
};

static uint64_t hash_rotate(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static void hash_sip_rounds(struct sip *s, unsigned rounds)
{
    while (rounds--) {
        s->v0 += s->v1;
        s->v1 = hash_rotate(s->v1, 13) ^ s->v0;
        s->v0 = hash_rotate(s->v0, 32);
        s->v2 += s->v3;
        s->v3 = hash_rotate(s->v3, 16) ^ s->v2;
        s->v0 += s->v3;
        s->v3 = hash_rotate(s->v3, 21) ^ s->v0;
        s->v2 += s->v1;
        s->v1 = hash_rotate(s->v1, 17) ^ s->v2;
        s->v2 = hash_rotate(s->v2, 32);
    }
}

static void hash_sip_word(struct sip *s, uint64_t word)
{
    s->v3 ^= word;
    hash_sip_rounds(s, 2);
    s->v0 ^= word;
}

/* Little endian, as in the paper, so that the result is the same on every machine. */
static uint64_t hash_load_le(const uint8_t *bytes, size_t len)
{
    uint64_t word = 0;

    for (size_t i = 0; i < len; i++)
        word |= (uint64_t)bytes[i] << 8 * i;
    return word;
}

uint32_t hf_name_hash(const uint8_t key[16], const void *name, size_t name_len)
{
    const uint8_t *bytes = name;
    uint64_t k0 = hash_load_le(key, 8), k1 = hash_load_le(key + 8, 8), hash;
    struct sip s = {
        k0 ^ UINT64_C(0x736f6d6570736575),
        k1 ^ UINT64_C(0x646f72616e646f6d),
        k0 ^ UINT64_C(0x6c7967656e657261),
        k1 ^ UINT64_C(0x7465646279746573),
    };
    size_t whole = name_len & ~(size_t)7;

    for (size_t i = 0; i < whole; i += 8)
        hash_sip_word(&s, hash_load_le(bytes + i, 8));
    hash_sip_word(&s, (uint64_t)name_len << 56 | hash_load_le(bytes + whole, name_len - whole));
    s.v2 ^= 0xff;
    hash_sip_rounds(&s, 4);
    hash = s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
    return (uint32_t)hash;
}
