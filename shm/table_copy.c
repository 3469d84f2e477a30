/* A reader's private copy of a table whose owner it does not trust: a mapping would raise SIGBUS when the owner truncates the object. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "shm/status.h"
#include "shm/table_map.h"

#define TRIES 16
#define CHUNK 1024 /* slots */

/* What has memory. Holes stay as they are in the copy: zero. */
static int copy_bytes(int fd, char *base, off_t size)
{
    off_t at = 0, end;

    while (at < size) {
        off_t from = lseek(fd, at, SEEK_DATA);

        /* Nothing but a hole is left; or it was truncated, which shows at the end. */
        if (from < 0 && errno == ENXIO)
            break;
        end = from < 0 ? -1 : lseek(fd, from, SEEK_HOLE);
        if (end < 0)
            return HF_ESYS;
        if (end > size)
            end = size;
        for (at = from; at < end;) {
            ssize_t got = pread(fd, base + at, (size_t)(end - at), at);

            if (got <= 0)
                return HF_ETABLE;
            at += got;
        }
    }
    return HF_OK;
}

/* Whether the header's slot count and index are as they were when the copy began. */
static bool table_copy_index_stands(const struct hf_table *table, const struct hf_table_header *now)
{
    uint32_t seq = atomic_load_explicit(&now->index_seq, memory_order_relaxed);

    return !(seq & 1) &&
           seq == atomic_load_explicit(&table->header->index_seq, memory_order_relaxed);
}

/* (!) A slot was copied byte by byte, and its text after it: the copy is of one moment only if its count is the same now. What is not
 * gets an odd count, as of a writer that was killed inside. Returns how many; negative: the object is shorter. */
static int table_copy_judge_slots(struct hf_table *table)
{
    uint32_t used = atomic_load_explicit(&table->header->slots_used, memory_order_relaxed);
    off_t base = (char *)table->slots - (char *)table->header;
    struct hf_slot now[CHUNK];
    int changed = 0;

    if (used > table->slot_room)
        used = table->slot_room;
    for (uint32_t i = 0; i < used; i += CHUNK) {
        uint32_t count = used - i < CHUNK ? used - i : CHUNK;

        if (pread(table->fd, now, count * sizeof(*now), base + (off_t)i * (off_t)sizeof(*now)) !=
            (ssize_t)(count * sizeof(*now)))
            return HF_ETABLE;
        for (uint32_t j = 0; j < count; j++) {
            struct hf_slot *slot = &table->slots[i + j];
            uint32_t seq = atomic_load_explicit(&slot->seq, memory_order_relaxed);

            if (seq == atomic_load_explicit(&now[j].seq, memory_order_relaxed))
                continue;
            atomic_store_explicit(&slot->seq, seq | 1, memory_order_relaxed);
            changed++;
        }
    }
    return changed;
}

int hf_table_refresh(struct hf_table *table)
{
    int rc = HF_OK;

    if (table->fd < 0 || table->writable)
        return HF_OK;
    for (int i = 0; i < TRIES; i++) {
        struct hf_table_header now;
        bool stands;

        rc = copy_bytes(table->fd, (char *)table->header, (off_t)table->size);
        if (rc < 0)
            return rc;
        if (hf_table_read_header(table->fd, "", &now, NULL, 0) != 0)
            return HF_ETABLE;
        stands = table_copy_index_stands(table, &now);
        rc = table_copy_judge_slots(table);
        if (rc < 0)
            return rc;
        if (stands && rc == 0)
            return HF_OK;
        if (i == TRIES - 1)
            return stands ? HF_OK : HF_ETABLE; /* some slots cannot be read */
    }
    return HF_OK;
}
