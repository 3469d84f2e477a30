/* Which parts of the object have memory, and getting more. */
#include "shm/table_map.h"

#include <errno.h>
#include <fcntl.h>

uint64_t hf_table_room(const struct hf_table_places *places, uint64_t size)
{
    return size - (places->text_units - places->text_there) * HF_TEXT_UNIT;
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
    int error = take(fd, 0, places->text + places->text_there * HF_TEXT_UNIT);

    return error ? error : take(fd, places->text + places->text_units * HF_TEXT_UNIT, size);
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
