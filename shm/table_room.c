/* Which parts of the object have memory, and taking more. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "shm/assert.h"
#include "shm/index.h"
#include "shm/status.h"
#include "shm/table_map.h"

#define PARTS (HF_SECTIONS_MAX + 2) /* the header; the index has two */

struct part {
    uint64_t from, size;
};

/* What has memory. The places of the three sections that do not have all of it are in `p`. */
static unsigned table_room_list_parts(const struct hf_table_header *header,
                                      const struct hf_table_places *p, struct part ret_parts[PARTS])
{
    unsigned n = 0;

    ret_parts[n++] = (struct part){0, HF_TABLE_HEADER};
    ret_parts[n++] = (struct part){p->slots, p->slots_there * sizeof(struct hf_slot)};
    ret_parts[n++] = (struct part){p->text, p->text_there * HF_TEXT_UNIT};
    for (unsigned area = 0; area < 2; area++)
        ret_parts[n++] = (struct part){p->index + area * p->index_room * sizeof(hf_index_entry),
                                       p->index_there * sizeof(hf_index_entry)};
    for (unsigned i = 0; i < HF_SECTIONS_MAX && n < PARTS; i++) {
        const struct hf_section *s = &header->sections[i];

        if (s->type != HF_SECTION_SLOTS && s->type != HF_SECTION_TEXT &&
            s->type != HF_SECTION_INDEX && s->length)
            ret_parts[n++] = (struct part){s->offset, s->length};
    }
    return n;
}

uint64_t hf_table_room(const struct hf_table_header *header, const struct hf_table_places *places)
{
    struct part part[PARTS];
    unsigned n = table_room_list_parts(header, places, part);
    uint64_t size = 0;

    while (n > 0)
        size += part[--n].size;
    return size;
}

/* 0 or an errno. */
static int table_room_take(int fd, uint64_t from, uint64_t size)
{
    int error = 0;

    if (size)
        do
            error = posix_fallocate(fd, (off_t)from, (off_t)size);
        while (error == EINTR);
    return error;
}

int hf_table_take_room(int fd, const struct hf_table_header *header,
                       const struct hf_table_places *places)
{
    struct part part[PARTS];
    unsigned n = table_room_list_parts(header, places, part);
    int error = 0;

    while (n > 0 && !error) {
        n--;
        error = table_room_take(fd, part[n].from, part[n].size);
    }
    return error;
}

int hf_table_grow_text(struct hf_table *table, uint64_t units)
{
    uint64_t start = (uint64_t)(table->text - (uint8_t *)table->header);
    uint64_t there = table->text_there;
    int error;

    hf_assert(there <= table->text_units, "there %llu, text_units %llu", (unsigned long long)there,
              (unsigned long long)table->text_units);
    if (units > table->text_units - there)
        units = table->text_units - there;
    if (units == 0)
        return ENOSPC;
    /* (!) Memory first: without it a store, or a reader's load, would raise SIGBUS. */
    error = table_room_take(table->fd, start + there * HF_TEXT_UNIT, units * HF_TEXT_UNIT);
    if (error)
        return error;
    table->text_there = there + units;
    atomic_store_explicit(&table->header->text_there, there + units, memory_order_release);
    return 0;
}

/* Memory for `entries` of both areas. */
static int table_room_take_index(const struct hf_table *table, uint32_t entries)
{
    int error = 0;

    for (unsigned area = 0; area < 2 && !error; area++) {
        const hf_index_entry *end = table->index + (size_t)area * table->index_room;

        end += table->index_there;
        error =
            table_room_take(table->fd, (uint64_t)((const uint8_t *)end - (uint8_t *)table->header),
                            (entries - table->index_there) * sizeof(*end));
    }
    return error;
}

int hf_table_take_slots(struct hf_table *table, uint32_t slots)
{
    const struct hf_slot *end = table->slots + table->slots_there;
    uint32_t entries = hf_index_size_for(slots);
    int error;

    hf_assert(table->writable, "%u slots", (unsigned)slots);
    if (slots <= table->slots_there)
        return 0;
    if (slots > table->slot_room)
        return HF_EFULL;
    if (entries < table->index_there)
        entries = table->index_there;
    error = table_room_take(table->fd, (uint64_t)((const uint8_t *)end - (uint8_t *)table->header),
                            (slots - table->slots_there) * sizeof(*end));
    if (!error)
        error = table_room_take_index(table, entries);
    /* (!) Memory first, as above. What was taken in vain is used by the next try. */
    if (error)
        return HF_EFULL;
    hf_assert(entries >= table->index_there && entries <= table->index_room,
              "entries %u, there %u, room %u", (unsigned)entries, (unsigned)table->index_there,
              (unsigned)table->index_room);
    table->index_there = entries;
    atomic_store_explicit(&table->header->index_size, entries, memory_order_release);
    table->slots_there = slots;
    atomic_store_explicit(&table->header->slots_there, slots, memory_order_release);
    return 0;
}

/* --- sizes ------------------------------------------------------------------------------------ */

#define COUNTER_ROOM                                                                               \
    64 /* counters are laid out in blocks of this, so that later ones have a place */
#define EVENTS_OFTEN 1024 /* entries of a ring: grants, ends */
#define EVENTS_NODES 512
#define EVENTS_MOST  16384 /* 3 MiB */

static uint64_t table_sizes_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t table_sizes_most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

uint32_t hf_table_capacity_of(const struct hf_table_spec *spec)
{
    return (uint32_t)table_sizes_most(spec->capacity, spec->slots_live);
}

static uint32_t table_slot_room_of(const struct hf_table_spec *spec)
{
    return spec->slot_room ? spec->slot_room : HF_SLOTS_MAX;
}

/* Slots that have memory from the start. */
static uint32_t table_slots_first_of(const struct hf_table_spec *spec)
{
    return (uint32_t)table_sizes_most(table_sizes_least(spec->capacity, HF_SLOTS_FIRST),
                                      spec->slots_live);
}

uint64_t hf_table_text_units_of(const struct hf_table_spec *spec, uint32_t slots)
{
    return spec->text_units ? spec->text_units : (uint64_t)slots * (HF_TEXT_MOST / HF_TEXT_UNIT);
}

/* How many of `units` have memory from the start. */
static uint64_t table_text_first_of(uint32_t slots, uint64_t units)
{
    return table_sizes_least((uint64_t)slots * (HF_TEXT_FIRST / HF_TEXT_UNIT), units);
}

/* Room for the events when all leases end at once; of very many leases only for the newest, since
 * the others will have ended alike. */
static uint32_t table_losses_kept(const struct hf_table_spec *spec)
{
    uint32_t count = EVENTS_OFTEN;

    while (count < hf_table_capacity_of(spec) && count < EVENTS_MOST)
        count *= 2;
    return count;
}

static uint64_t table_add_section(struct hf_table_header *header, unsigned i,
                                  enum hf_section_type type, uint32_t elem_size,
                                  uint64_t elem_count, uint64_t offset)
{
    uint64_t length = elem_size * elem_count;

    length = (length + HF_CACHE_LINE - 1) / HF_CACHE_LINE * HF_CACHE_LINE;
    header->sections[i] = (struct hf_section){type, elem_size, elem_count, offset, length};
    return offset + length;
}

/* The node section always has all rows, so that the node list does not change sizes. */
void hf_table_lay_out(struct hf_table_header *header, const struct hf_table_spec *spec)
{
    const uint32_t events[HF_EVENT_RINGS] = {[HF_EVENTS_GRANTS] = EVENTS_OFTEN,
                                             [HF_EVENTS_NODES] = EVENTS_NODES,
                                             [HF_EVENTS_ENDS] = EVENTS_OFTEN,
                                             [HF_EVENTS_LOSSES] = table_losses_kept(spec)};
    uint32_t first = table_slots_first_of(spec), room = table_slot_room_of(spec);
    uint32_t entries = hf_index_size_for(first);
    uint64_t units = hf_table_text_units_of(spec, room);
    uint64_t end = HF_TABLE_HEADER;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    end = table_add_section(header, 0, HF_SECTION_SLOTS, sizeof(struct hf_slot), room, end);
    end = table_add_section(header, 1, HF_SECTION_NODES, sizeof(struct hf_node_row), HF_NODES_MAX,
                            end);
    end = table_add_section(header, 2, HF_SECTION_COUNTERS, sizeof(uint64_t),
                            (HF_COUNTERS + COUNTER_ROOM - 1) / COUNTER_ROOM * COUNTER_ROOM, end);
    end = table_add_section(header, 3, HF_SECTION_INDEX, sizeof(hf_index_entry),
                            2 * (uint64_t)hf_index_size_for(room), end);
    for (unsigned ring = 0; ring < HF_EVENT_RINGS; ring++)
        end = table_add_section(header, 5 + ring, (enum hf_section_type)(HF_SECTION_EVENTS + ring),
                                sizeof(struct hf_event), events[ring], end);
    end = table_add_section(header, 5 + HF_EVENT_RINGS, HF_SECTION_RENEWALS,
                            sizeof(struct hf_renewal), (uint64_t)HF_NODES_MAX * HF_RENEWALS_KEPT,
                            end);
    end = table_add_section(header, 6 + HF_EVENT_RINGS, HF_SECTION_MEASURES,
                            sizeof(struct hf_measures), 1, end);
    end = table_add_section(header, 7 + HF_EVENT_RINGS, HF_SECTION_WAITERS,
                            sizeof(struct hf_waiter_row), HF_WAITERS_SHOWN, end);
    if (HF_TEST_MINOR)
        end = table_add_section(header, 8 + HF_EVENT_RINGS, HF_SECTION_TEST, HF_CACHE_LINE, 1000,
                                end);
    /* Last, because most of it is a hole. */
    end = table_add_section(header, 4, HF_SECTION_TEXT, HF_TEXT_UNIT, units, end);
    atomic_store_explicit(&header->slots_there, first, memory_order_relaxed);
    atomic_store_explicit(&header->text_there, table_text_first_of(first, units),
                          memory_order_relaxed);
    atomic_store_explicit(&header->index_size, entries, memory_order_relaxed);
    atomic_store_explicit(&header->index_area, hf_index_area_word(0, entries),
                          memory_order_relaxed);
    header->total_size = (end + page - 1) / page * page;
}
