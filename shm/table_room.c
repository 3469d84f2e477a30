/* Which parts of the object have memory, and taking more. */
#include "shm/assert.h"
#include "shm/table_map.h"

#include <errno.h>
#include <fcntl.h>

#include "shm/index.h"
#include "shm/status.h"

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
