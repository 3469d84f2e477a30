/* Which parts of the object have memory, and getting more. */
#include "shm/table_map.h"

#include <errno.h>
#include <fcntl.h>

struct hole {
    uint64_t from, to;
};

/* What need have no memory, in order. */
static void find_holes(const struct hf_table_places *p, struct hole ret_holes[2])
{
    uint64_t area = p->index_size * sizeof(hf_index_entry);
    struct hole index = {p->index + p->index_areas * area, p->index + 2 * area};
    struct hole text = {p->text + p->text_there * HF_TEXT_UNIT,
                        p->text + p->text_units * HF_TEXT_UNIT};

    ret_holes[0] = index.from < text.from ? index : text;
    ret_holes[1] = index.from < text.from ? text : index;
}

uint64_t hf_table_room(const struct hf_table_places *places, uint64_t size)
{
    struct hole hole[2];

    find_holes(places, hole);
    return size - (hole[0].to - hole[0].from) - (hole[1].to - hole[1].from);
}

/* 0 or an errno. */
static int take(int fd, uint64_t from, uint64_t to)
{
    int error = 0;

    if (from < to)
        do
            error = posix_fallocate(fd, (off_t)from, (off_t)(to - from));
        while (error == EINTR);
    return error;
}

int hf_table_take_room(int fd, const struct hf_table_places *places, uint64_t size)
{
    struct hole hole[2];
    int error;

    find_holes(places, hole);
    error = take(fd, 0, hole[0].from);
    if (!error)
        error = take(fd, hole[0].to, hole[1].from);
    return error ? error : take(fd, hole[1].to, size);
}

int hf_table_grow_text(struct hf_table *table, uint64_t units)
{
    uint64_t start = (uint64_t)(table->text - (uint8_t *)table->header);
    uint64_t there = table->text_there;
    int error;

    if (units > table->text_units - there)
        units = table->text_units - there;
    if (units == 0)
        return ENOSPC;
    /* (!) Memory first: without it a store, or a reader's load, would end in SIGBUS. */
    error = take(table->fd, start + there * HF_TEXT_UNIT, start + (there + units) * HF_TEXT_UNIT);
    if (error)
        return error;
    table->text_there = there + units;
    atomic_store_explicit(&table->header->text_there, there + units, memory_order_release);
    return 0;
}

int hf_table_grow_index(struct hf_table *table)
{
    uint64_t area = table->index_size * sizeof(hf_index_entry);
    uint64_t start = (uint64_t)((uint8_t *)table->index - (uint8_t *)table->header);
    int error = table->index_areas < 2 ? take(table->fd, start + area, start + 2 * area) : 0;

    /* (!) Memory first, as above. */
    if (error)
        return error;
    table->index_areas = 2;
    atomic_store_explicit(&table->header->index_areas, 2, memory_order_release);
    return 0;
}
