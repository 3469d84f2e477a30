/* The allocator of the text section: one bit per unit, next fit. Its state is the agent's own
 * memory. */
#include "shm/table.h"

#include <stdlib.h>
#include <string.h>

#include "shm/status.h"
#include "shm/words.h"

#define TEXT_MAX  (HF_NAME_MAX + HF_NOTE_MAX + HF_COMM_MAX)
#define UNITS_MAX ((TEXT_MAX + HF_TEXT_UNIT - 1) / HF_TEXT_UNIT)

struct hf_text_pool {
    uint8_t *text; /* the section */
    uint64_t units;
    uint64_t next; /* where the last search ended: a place freed is taken again late */
    unsigned
        too_big;     /* so many units in a row were last seen not to be there; dropping resets it */
    uint64_t *taken; /* bits */
};

static unsigned units_of(size_t name_len, size_t note_len, size_t comm_len)
{
    return (unsigned)((name_len + note_len + comm_len + HF_TEXT_UNIT - 1) / HF_TEXT_UNIT);
}

static bool are_lengths_right(size_t name_len, size_t note_len, size_t comm_len)
{
    return name_len >= 1 && name_len <= HF_NAME_MAX && note_len <= HF_NOTE_MAX &&
           comm_len <= HF_COMM_MAX;
}

static bool is_taken(const struct hf_text_pool *pool, uint64_t unit)
{
    return pool->taken[unit / 64] >> unit % 64 & 1;
}

static void take(struct hf_text_pool *pool, uint64_t from, unsigned n)
{
    for (uint64_t unit = from; unit < from + n; unit++)
        pool->taken[unit / 64] |= UINT64_C(1) << unit % 64;
}

int hf_text_pool_create(const struct hf_table *table, struct hf_text_pool **ret_pool)
{
    struct hf_text_pool *pool = calloc(1, sizeof(*pool));

    if (!pool)
        return HF_ENOMEM;
    pool->text = table->text;
    pool->units = table->text_units;
    pool->too_big = UNITS_MAX + 1;
    pool->taken = calloc((size_t)(pool->units / 64 + 1), sizeof(uint64_t));
    if (!pool->taken) {
        free(pool);
        return HF_ENOMEM;
    }
    *ret_pool = pool;
    return 0;
}

void hf_text_pool_destroy(struct hf_text_pool *pool)
{
    if (!pool)
        return;
    free(pool->taken);
    free(pool);
}

/* The first `n` free units in a row of [from, to); `to` when there are none. Full words are passed
 * at once. */
static uint64_t search(const struct hf_text_pool *pool, uint64_t from, uint64_t to, unsigned n)
{
    unsigned run = 0;

    for (uint64_t unit = from; unit < to; unit++) {
        if (unit % 64 == 0 && pool->taken[unit / 64] == UINT64_MAX) {
            run = 0;
            unit += 63;
        } else if (is_taken(pool, unit)) {
            run = 0;
        } else if (++run == n) {
            return unit + 1 - n;
        }
    }
    return to;
}

static int find_room(struct hf_text_pool *pool, unsigned n, uint64_t *ret_from)
{
    uint64_t from, overlap_end = pool->next + n;

    if (n >= pool->too_big)
        return HF_EFULL;
    from = search(pool, pool->next, pool->units, n);
    if (from == pool->units) {
        /* From the start, and over the seam. */
        if (overlap_end > pool->units)
            overlap_end = pool->units;
        from = search(pool, 0, overlap_end, n);
        if (from == overlap_end) {
            pool->too_big = n;
            return HF_EFULL;
        }
    }
    *ret_from = from;
    return 0;
}

int hf_text_put(struct hf_text_pool *pool, const void *name, size_t name_len, const char *note,
                size_t note_len, const char *comm, size_t comm_len, uint32_t *ret_text_off)
{
    char text[UNITS_MAX * HF_TEXT_UNIT] = {0};
    unsigned n = units_of(name_len, note_len, comm_len);
    uint64_t from;
    int status;

    if (!are_lengths_right(name_len, note_len, comm_len))
        return HF_EINVAL;
    if ((status = find_room(pool, n, &from)) != 0)
        return status;
    take(pool, from, n);
    pool->next = from + n;

    memcpy(text, name, name_len);
    if (note_len)
        memcpy(text + name_len, note, note_len);
    if (comm_len)
        memcpy(text + name_len + note_len, comm, comm_len);
    hf_words_store(pool->text + from * HF_TEXT_UNIT, text, (size_t)n * HF_TEXT_UNIT);
    *ret_text_off = (uint32_t)from;
    return 0;
}

void hf_text_drop(struct hf_text_pool *pool, uint32_t text_off, size_t name_len, size_t note_len,
                  size_t comm_len)
{
    unsigned n = units_of(name_len, note_len, comm_len);

    if (!are_lengths_right(name_len, note_len, comm_len) || text_off > pool->units ||
        n > pool->units - text_off)
        return;
    for (uint64_t unit = text_off; unit < (uint64_t)text_off + n; unit++)
        pool->taken[unit / 64] &= ~(UINT64_C(1) << unit % 64);
    pool->too_big = UNITS_MAX + 1;
}

int hf_text_pool_reserve(struct hf_text_pool *pool, uint32_t text_off, size_t name_len,
                         size_t note_len, size_t comm_len)
{
    unsigned n = units_of(name_len, note_len, comm_len);

    if (!are_lengths_right(name_len, note_len, comm_len) || text_off > pool->units ||
        n > pool->units - text_off)
        return HF_EINVAL;
    for (uint64_t unit = text_off; unit < (uint64_t)text_off + n; unit++)
        if (is_taken(pool, unit))
            return HF_EINVAL;
    take(pool, text_off, n);
    return 0;
}
