#include "agent/core/cohorts.h"

#include "shm/assert.h"
#include "shm/compiler.h"

#define ALONE (UINT32_C(1) << 31) /* in `home`: the other bits are a single's index + 1 */

static struct cohort *cohorts_first_of(const struct cohorts *c)
{
    struct heap_item *item = heap_first(&c->heap);

    return item ? HF_CONTAINER(item, struct cohort, item) : NULL;
}

static void cohorts_check(const struct cohorts *c)
{
    hf_assert(c->used <= c->room, "used %u, room %u", (unsigned)c->used, (unsigned)c->room);
    hf_assert(c->free_count + c->heap.count == c->used, "free %u, in use %zu, used %u",
              (unsigned)c->free_count, c->heap.count, (unsigned)c->used);
    hf_assert(c->free_single_count + c->alone.count == c->singles_used,
              "free %u, alone %zu, used %u", (unsigned)c->free_single_count, c->alone.count,
              (unsigned)c->singles_used);
}

static void cohorts_check_cohort(const struct cohort *cohort)
{
    hf_assert(cohort->live <= cohort->count, "live %u, count %u", cohort->live, cohort->count);
    hf_assert(cohort->count <= COHORT_MOST, "count %u", cohort->count);
}

static uint32_t cohorts_mark_of(const struct cohorts *c, const struct cohort *cohort)
{
    return (uint32_t)(cohort - c->all) + 1;
}

static uint32_t *cohorts_open_at(struct cohorts *c, hf_time at)
{
    return &c->open[((uint64_t)at.ns * UINT64_C(0x9e3779b97f4a7c15) >> 32) % COHORTS_OPEN];
}

static struct cohort *cohorts_begin(struct cohorts *c, hf_time at)
{
    struct cohort *cohort;

    if (c->free_count)
        cohort = &c->all[c->free[--c->free_count]];
    else if (c->used < c->room)
        cohort = &c->all[c->used++];
    else
        return NULL;
    cohort->count = cohort->live = 0;
    heap_insert(&c->heap, &cohort->item, at);
    *cohorts_open_at(c, at) = cohorts_mark_of(c, cohort);
    cohorts_check(c);
    return cohort;
}

static void cohorts_end(struct cohorts *c, struct cohort *cohort)
{
    uint32_t *open = cohorts_open_at(c, cohort->item.at);

    hf_assert(cohort->live == 0, "live %u, count %u", cohort->live, cohort->count);
    heap_remove(&c->heap, &cohort->item);
    if (*open == cohorts_mark_of(c, cohort))
        *open = 0;
    c->free[c->free_count++] = cohorts_mark_of(c, cohort) - 1;
    cohorts_check(c);
}

static struct cohort *cohorts_find_open(struct cohorts *c, hf_time at)
{
    uint32_t mark = *cohorts_open_at(c, at);
    struct cohort *cohort = mark ? &c->all[mark - 1] : NULL;

    return cohort && cohort->count < COHORT_MOST && cohort->item.at.ns == at.ns ? cohort : NULL;
}

bool cohorts_add(struct cohorts *c, uint32_t number, hf_time at)
{
    struct cohort *cohort = cohorts_find_open(c, at);

    hf_assert(c->home[number] == 0, "number %u, home %x", (unsigned)number,
              (unsigned)c->home[number]);
    if (!cohort)
        cohort = cohorts_begin(c, at);
    if (!cohort)
        return false;
    cohort->number[cohort->count++] = number;
    cohort->live++;
    cohorts_check_cohort(cohort);
    c->home[number] = cohorts_mark_of(c, cohort);
    return true;
}

static struct cohort_single *cohorts_single_of(const struct cohorts *c, uint32_t number)
{
    hf_assert(cohorts_is_alone(c, number), "number %u, home %x", (unsigned)number,
              (unsigned)c->home[number]);
    return &c->singles[(c->home[number] & ~ALONE) - 1];
}

void cohorts_remove(struct cohorts *c, uint32_t number)
{
    uint32_t home = c->home[number];

    if (cohorts_is_alone(c, number)) {
        heap_remove(&c->alone, &cohorts_single_of(c, number)->item);
        c->free_singles[c->free_single_count++] = (home & ~ALONE) - 1;
    } else if (home) {
        struct cohort *cohort = &c->all[home - 1];

        hf_assert(cohort->live > 0, "number %u, count %u", (unsigned)number, cohort->count);
        if (--cohort->live == 0)
            cohorts_end(c, cohort);
    }
    c->home[number] = 0;
}

bool cohorts_has(const struct cohorts *c, uint32_t number)
{
    return c->home[number] != 0 && !cohorts_is_alone(c, number);
}

hf_time cohorts_at(const struct cohorts *c, uint32_t number)
{
    return cohorts_has(c, number) ? c->all[c->home[number] - 1].item.at : HF_TIME_NEVER;
}

void cohorts_put_alone(struct cohorts *c, uint32_t number, hf_time at)
{
    uint32_t place;

    if (cohorts_is_alone(c, number)) {
        heap_move(&c->alone, &cohorts_single_of(c, number)->item, at);
        return;
    }
    cohorts_remove(c, number);
    place = c->free_single_count ? c->free_singles[--c->free_single_count] : c->singles_used++;
    c->singles[place].number = number;
    c->home[number] = ALONE | (place + 1);
    heap_insert(&c->alone, &c->singles[place].item, at);
    cohorts_check(c);
}

bool cohorts_is_alone(const struct cohorts *c, uint32_t number)
{
    return c->home[number] & ALONE;
}

hf_time cohorts_alone_at(const struct cohorts *c, uint32_t number)
{
    return cohorts_single_of(c, number)->item.at;
}

const struct cohort_single *cohorts_first_alone(const struct cohorts *c)
{
    struct heap_item *item = heap_first(&c->alone);

    return item ? HF_CONTAINER(item, struct cohort_single, item) : NULL;
}

hf_time cohorts_next(const struct cohorts *c)
{
    struct cohort *first = cohorts_first_of(c);

    return first ? first->item.at : HF_TIME_NEVER;
}

size_t cohorts_first(const struct cohorts *c)
{
    struct cohort *first = cohorts_first_of(c);

    return first ? first->live : 0;
}

/* Takes from the end, which costs the others nothing. A number that left and came back has two
 * entries, and the first one met counts. */
size_t cohorts_take(struct cohorts *c, uint32_t *ret_numbers, size_t most)
{
    struct cohort *first = cohorts_first_of(c);
    size_t taken = 0;

    while (first && first->live && taken < most) {
        uint32_t number;

        cohorts_check_cohort(first);
        number = first->number[--first->count];
        if (c->home[number] != cohorts_mark_of(c, first))
            continue;
        c->home[number] = 0;
        first->live--;
        ret_numbers[taken++] = number;
    }
    if (first && !first->live)
        cohorts_end(c, first);
    return taken;
}
