/* Which parts of the object have memory, and allocating more. */
#include "shm/table_map.h"

#include <errno.h>
#include <fcntl.h>

#define HOLES 4

struct hole {
    uint64_t from, to;
};

/* The hole in the index area at `at`, when `there` of its entries have memory. */
static struct hole hole_in_area(const struct hf_table_places *p, uint64_t at, uint32_t there)
{
    return (struct hole){at + there * sizeof(hf_index_entry),
                         at + p->index_room * sizeof(hf_index_entry)};
}

static uint64_t second_area(const struct hf_table_places *p)
{
    return p->index + p->index_room * sizeof(hf_index_entry);
}

/* The possible holes: slots, both areas of the index, text. */
static void list_holes(const struct hf_table_places *p, struct hole ret_holes[HOLES])
{
    ret_holes[0] = (struct hole){p->slots + p->capacity * sizeof(struct hf_slot),
                                 p->slots + p->slot_room * sizeof(struct hf_slot)};
    ret_holes[1] = hole_in_area(p, p->index, p->index_size);
    ret_holes[2] = hole_in_area(p, second_area(p), p->index_areas < 2 ? 0 : p->index_size);
    ret_holes[3] = (struct hole){p->text + p->text_there * HF_TEXT_UNIT,
                                 p->text + p->text_room * HF_TEXT_UNIT};
}

/* The same holes, sorted. */
static void find_holes(const struct hf_table_places *p, struct hole ret_holes[HOLES])
{
    list_holes(p, ret_holes);
    for (int i = 1; i < HOLES; i++)
        for (int k = i; k > 0 && ret_holes[k].from < ret_holes[k - 1].from; k--) {
            struct hole hole = ret_holes[k];

            ret_holes[k] = ret_holes[k - 1];
            ret_holes[k - 1] = hole;
        }
}

uint64_t hf_table_room(const struct hf_table_places *places, uint64_t size)
{
    struct hole hole[HOLES];

    list_holes(places, hole);
    for (int i = 0; i < HOLES; i++)
        size -= hole[i].to - hole[i].from;
    return size;
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
    struct hole hole[HOLES];
    uint64_t from = 0;
    int error = 0;

    find_holes(places, hole);
    for (int i = 0; i < HOLES && !error; from = hole[i++].to)
        error = take(fd, from, hole[i].from);
    return error ? error : take(fd, from, size);
}

/* Memory that stays when this fails does no harm. */
void hf_table_give_room(int fd, const struct hf_table_places *have,
                        const struct hf_table_places *want)
{
    struct hole before[HOLES], after[HOLES];

    list_holes(have, before);
    list_holes(want, after);
    for (int i = 0; i < HOLES; i++)
        if (before[i].from < after[i].from)
            (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)before[i].from,
                            (off_t)(after[i].from - before[i].from));
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
    /* (!) Memory first: without it a store, or a reader's load, would raise SIGBUS. */
    error = take(table->fd, start + there * HF_TEXT_UNIT, start + (there + units) * HF_TEXT_UNIT);
    if (error)
        return error;
    table->text_there = there + units;
    atomic_store_explicit(&table->header->text_there, there + units, memory_order_release);
    return 0;
}

int hf_table_grow_index(struct hf_table *table, uint32_t entries)
{
    uint64_t start =
        (uint64_t)((uint8_t *)(table->index + table->index_room) - (uint8_t *)table->header);
    int error = table->index_areas < 2
                    ? take(table->fd, start, start + entries * sizeof(hf_index_entry))
                    : 0;

    /* (!) Memory first, as above. */
    if (error)
        return error;
    table->index_areas = 2;
    atomic_store_explicit(&table->header->index_areas, 2, memory_order_release);
    return 0;
}
