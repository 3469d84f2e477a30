/* The allocator of the text section: one bit per unit, next fit. Its state is the agent's own
 * memory. */
#include "shm/assert.h"
#include "shm/table.h"

#include <stdlib.h>
#include <string.h>

#include "shm/status.h"
#include "shm/table_map.h"
#include "shm/row.h"

#define TEXT_MAX  (HF_NAME_MAX + HF_NOTE_MAX + HF_COMM_MAX)
#define UNITS_MAX ((TEXT_MAX + HF_TEXT_UNIT - 1) / HF_TEXT_UNIT)
#define GROWTH    (UINT64_C(256) * 1024 / HF_TEXT_UNIT) /* units */
_Static_assert(UNITS_MAX <= 64, "a text lies in two words of bits");

struct hf_text_pool {
    struct hf_table *table;
    uint64_t next;    /* where the last search ended: a freed place is reused late */
    unsigned too_big; /* a search for so many units in a row last failed; a drop or more memory
                         resets it */
    uint64_t *taken;  /* bits, and a word more */
};

static unsigned pool_units_of(size_t name_len, size_t note_len, size_t comm_len)
{
    return (unsigned)((name_len + note_len + comm_len + HF_TEXT_UNIT - 1) / HF_TEXT_UNIT);
}

static bool pool_are_lengths_right(size_t name_len, size_t note_len, size_t comm_len)
{
    return name_len >= 1 && name_len <= HF_NAME_MAX && note_len <= HF_NOTE_MAX &&
           comm_len <= HF_COMM_MAX;
}

/* Whether `n` units from `from` on have memory. */
static bool pool_are_there(const struct hf_text_pool *pool, uint64_t from, unsigned n)
{
    uint64_t there = pool->table->text_there;

    return from <= there && n <= there - from;
}

static bool pool_is_taken(const struct hf_text_pool *pool, uint64_t unit)
{
    return pool->taken[unit / 64] >> unit % 64 & 1;
}

/* Everything is counted by this process alone. */
static void pool_check(const struct hf_text_pool *pool)
{
    const struct hf_table *t = pool->table;

    hf_assert(t->text_there <= t->text_units, "text_there %llu, text_units %llu",
              (unsigned long long)t->text_there, (unsigned long long)t->text_units);
    hf_assert(t->text_units <= t->text_room, "text_units %llu, text_room %llu",
              (unsigned long long)t->text_units, (unsigned long long)t->text_room);
    hf_assert(pool->next <= t->text_there, "next %llu, text_there %llu",
              (unsigned long long)pool->next, (unsigned long long)t->text_there);
}

static void pool_take(struct hf_text_pool *pool, uint64_t from, unsigned n)
{
    hf_assert(n >= 1 && n <= UNITS_MAX, "%u units", n);
    hf_assert(pool_are_there(pool, from, n), "%u units at %llu of %llu", n,
              (unsigned long long)from, (unsigned long long)pool->table->text_there);
    for (uint64_t unit = from; unit < from + n; unit++) {
        hf_assert(!pool_is_taken(pool, unit), "unit %llu", (unsigned long long)unit);
        pool->taken[unit / 64] |= UINT64_C(1) << unit % 64;
    }
}

int hf_text_pool_create(struct hf_table *table, struct hf_text_pool **ret_pool)
{
    struct hf_text_pool *pool = calloc(1, sizeof(*pool));

    if (!pool)
        return HF_ENOMEM;
    pool->table = table;
    pool->too_big = UNITS_MAX + 1;
    pool->taken = calloc((size_t)(table->text_units / 64 + 2), sizeof(uint64_t));
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

/* The units of `word` (64) at which `n` free ones in a row begin. */
static uint64_t pool_starts_in(const struct hf_text_pool *pool, uint64_t word, unsigned n)
{
    uint64_t low = ~pool->taken[word], high = ~pool->taken[word + 1];

    for (unsigned sure = 1, step; low && sure < n; sure += step) {
        step = sure < n - sure ? sure : n - sure;
        low &= low >> step | high << (64 - step);
        high &= high >> step;
    }
    return low;
}

/* The first `n` free units in a row of [from, to); `to` when there are none. */
static uint64_t pool_search(const struct hf_text_pool *pool, uint64_t from, uint64_t to, unsigned n)
{
    uint64_t wanted = UINT64_MAX << from % 64;

    for (uint64_t word = from / 64; word * 64 < to; word++) {
        uint64_t starts = pool_starts_in(pool, word, n) & wanted;

        if (starts) {
            uint64_t found = word * 64 + (uint64_t)__builtin_ctzll(starts);

            return found < to && n <= to - found ? found : to;
        }
        wanted = UINT64_MAX;
    }
    return to;
}

/* Searches the units with memory: after the last find, then from the start across that point.
 * `there` when there are none. */
static uint64_t pool_find_there(struct hf_text_pool *pool, unsigned n)
{
    uint64_t there = pool->table->text_there, seam = pool->next + n;
    uint64_t found;

    if (n >= pool->too_big)
        return there;
    found = pool_search(pool, pool->next, there, n);
    if (found < there)
        return found;
    if (seam > there)
        seam = there;
    found = pool_search(pool, 0, seam, n);
    if (found < seam)
        return found;
    pool->too_big = n;
    return there;
}

static int pool_find_room(struct hf_text_pool *pool, unsigned n, uint64_t *ret_from)
{
    uint64_t there = pool->table->text_there, from = pool_find_there(pool, n);

    if (from == there) {
        if (hf_table_grow_text(pool->table, GROWTH) != 0)
            return HF_EFULL;
        pool->too_big = UNITS_MAX + 1;
        from = pool_search(pool, there < n ? 0 : there - n, pool->table->text_there, n);
        if (from == pool->table->text_there)
            return HF_EFULL;
    }
    *ret_from = from;
    return 0;
}

int hf_text_put(struct hf_text_pool *pool, const void *name, size_t name_len, const char *note,
                size_t note_len, const char *comm, size_t comm_len, uint32_t *ret_text_off)
{
    char text[UNITS_MAX * HF_TEXT_UNIT] = {0};
    unsigned n = pool_units_of(name_len, note_len, comm_len);
    uint64_t from;
    int status;

    if (!pool_are_lengths_right(name_len, note_len, comm_len))
        return HF_EINVAL;
    if ((status = pool_find_room(pool, n, &from)) != 0)
        return status;
    pool_take(pool, from, n);
    pool->next = from + n;
    pool_check(pool);

    memcpy(text, name, name_len);
    if (note_len)
        memcpy(text + name_len, note, note_len);
    if (comm_len)
        memcpy(text + name_len + note_len, comm, comm_len);
    hf_words_store(pool->table->text + from * HF_TEXT_UNIT, text, (size_t)n * HF_TEXT_UNIT);
    *ret_text_off = (uint32_t)from;
    return 0;
}

void hf_text_drop(struct hf_text_pool *pool, uint32_t text_off, size_t name_len, size_t note_len,
                  size_t comm_len)
{
    unsigned n = pool_units_of(name_len, note_len, comm_len);

    if (!pool_are_lengths_right(name_len, note_len, comm_len) || !pool_are_there(pool, text_off, n))
        return;
    for (uint64_t unit = text_off; unit < (uint64_t)text_off + n; unit++) {
        hf_assert(pool_is_taken(pool, unit), "unit %llu of the text at %u",
                  (unsigned long long)unit, (unsigned)text_off);
        pool->taken[unit / 64] &= ~(UINT64_C(1) << unit % 64);
    }
    pool->too_big = UNITS_MAX + 1;
    pool_check(pool);
}

int hf_text_pool_reserve(struct hf_text_pool *pool, uint32_t text_off, size_t name_len,
                         size_t note_len, size_t comm_len)
{
    unsigned n = pool_units_of(name_len, note_len, comm_len);

    if (!pool_are_lengths_right(name_len, note_len, comm_len) || !pool_are_there(pool, text_off, n))
        return HF_EINVAL;
    for (uint64_t unit = text_off; unit < (uint64_t)text_off + n; unit++)
        if (pool_is_taken(pool, unit))
            return HF_EINVAL;
    pool_take(pool, text_off, n);
    return 0;
}
