#include "shm/table_sizes.h"

#include <unistd.h>

#include "shm/index.h"
#include "shm/index_probe.h"

#define COUNTER_ROOM                                                                               \
    64 /* counters are laid out in blocks of this, so that later ones have a place */
#define EVENTS_OFTEN 1024 /* entries of a ring: grants, ends */
#define EVENTS_NODES 512
#define EVENTS_MOST  16384 /* 3 MiB */

static uint64_t sizes_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t sizes_most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

uint32_t hf_table_capacity_of(const struct hf_table_spec *spec)
{
    return (uint32_t)sizes_most(spec->capacity, spec->slots_live);
}

static uint32_t sizes_slot_room_of(const struct hf_table_spec *spec)
{
    return spec->slot_room ? spec->slot_room : HF_SLOTS_MAX;
}

/* Slots that have memory from the start. */
static uint32_t sizes_slots_first_of(const struct hf_table_spec *spec)
{
    return (uint32_t)sizes_most(sizes_least(spec->capacity, HF_SLOTS_FIRST), spec->slots_live);
}

uint64_t hf_table_text_units_of(const struct hf_table_spec *spec, uint32_t slots)
{
    return spec->text_units ? spec->text_units : (uint64_t)slots * (HF_TEXT_MOST / HF_TEXT_UNIT);
}

/* How many of `units` have memory from the start. */
static uint64_t sizes_text_first_of(uint32_t slots, uint64_t units)
{
    return sizes_least((uint64_t)slots * (HF_TEXT_FIRST / HF_TEXT_UNIT), units);
}

/* Room for the events when all leases end at once; of very many leases only for the newest, since
 * the others will have ended alike. */
static uint32_t sizes_losses_kept(const struct hf_table_spec *spec)
{
    uint32_t count = EVENTS_OFTEN;

    while (count < hf_table_capacity_of(spec) && count < EVENTS_MOST)
        count *= 2;
    return count;
}

static uint64_t sizes_add_section(struct hf_table_header *header, unsigned i,
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
                                             [HF_EVENTS_LOSSES] = sizes_losses_kept(spec)};
    uint32_t first = sizes_slots_first_of(spec), room = sizes_slot_room_of(spec);
    uint32_t entries = hf_index_size_for(first);
    uint64_t units = hf_table_text_units_of(spec, room);
    uint64_t end = HF_TABLE_HEADER;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    end = sizes_add_section(header, 0, HF_SECTION_SLOTS, sizeof(struct hf_slot), room, end);
    end = sizes_add_section(header, 1, HF_SECTION_NODES, sizeof(struct hf_node_row), HF_NODES_MAX,
                            end);
    end = sizes_add_section(header, 2, HF_SECTION_COUNTERS, sizeof(uint64_t),
                            (HF_COUNTERS + COUNTER_ROOM - 1) / COUNTER_ROOM * COUNTER_ROOM, end);
    end = sizes_add_section(header, 3, HF_SECTION_INDEX, sizeof(hf_index_entry),
                            2 * (uint64_t)hf_index_size_for(room), end);
    for (unsigned ring = 0; ring < HF_EVENT_RINGS; ring++)
        end = sizes_add_section(header, 5 + ring, (enum hf_section_type)(HF_SECTION_EVENTS + ring),
                                sizeof(struct hf_event), events[ring], end);
    end = sizes_add_section(header, 5 + HF_EVENT_RINGS, HF_SECTION_RENEWALS,
                            sizeof(struct hf_renewal), (uint64_t)HF_NODES_MAX * HF_RENEWALS_KEPT,
                            end);
    end = sizes_add_section(header, 6 + HF_EVENT_RINGS, HF_SECTION_MEASURES,
                            sizeof(struct hf_measures), 1, end);
    end = sizes_add_section(header, 7 + HF_EVENT_RINGS, HF_SECTION_WAITERS,
                            sizeof(struct hf_waiter_row), HF_WAITERS_SHOWN, end);
    if (HF_TEST_MINOR)
        end = sizes_add_section(header, 8 + HF_EVENT_RINGS, HF_SECTION_TEST, HF_CACHE_LINE, 1000,
                                end);
    /* Last, because most of it is a hole. */
    end = sizes_add_section(header, 4, HF_SECTION_TEXT, HF_TEXT_UNIT, units, end);
    atomic_store_explicit(&header->slots_there, first, memory_order_relaxed);
    atomic_store_explicit(&header->text_there, sizes_text_first_of(first, units),
                          memory_order_relaxed);
    atomic_store_explicit(&header->index_size, entries, memory_order_relaxed);
    atomic_store_explicit(&header->index_area, hf_index_area_word(0, entries),
                          memory_order_relaxed);
    header->total_size = (end + page - 1) / page * page;
}
