/* When a million numbers are due: those due together are one cohort, and only cohorts are sorted.
 * To add or take a number costs O(1) and touches hardly any memory; to begin or end a cohort costs
 * O(log cohorts). A number that is due by itself (a retry) is alone, in a second heap. A number is
 * in one cohort, or alone, or neither. Pure. One thread.
 */
#ifndef HOLDFAST_AGENT_CORE_COHORTS_H
#define HOLDFAST_AGENT_CORE_COHORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/containers.h"

#define COHORT_MOST  128 /* numbers: one renew script */
#define COHORTS_OPEN 512 /* cohorts that others may join; of times with one hash the youngest */

struct cohort {
    struct heap_item item;
    uint16_t count, live;         /* entries of `number`; how many of them are still in it */
    uint32_t number[COHORT_MOST]; /* an entry counts while `home` of that number is this cohort */
};

/* A number that is due by itself. */
struct cohort_single {
    struct heap_item item;
    uint32_t number;
};
_Static_assert(sizeof(struct cohort_single) == 16, "no padding");

struct cohorts {
    struct heap heap;   /* the cohorts that are not empty */
    struct cohort *all; /* `room` cohorts */
    uint32_t *free;     /* a stack: indices of cohorts that were used once and are free now */
    uint32_t *home;     /* of each number: its cohort's index + 1, or its single's; 0: neither */
    uint32_t room, used, free_count;
    struct heap alone;
    struct cohort_single *singles; /* one for each number that there may be; free ones as above */
    uint32_t *free_singles;
    uint32_t singles_used, free_single_count;
    uint32_t open[COHORTS_OPEN]; /* by the hash of the time: cohort's index + 1; 0: none */
};

/* How many cohorts the numbers below `capacity` need, partly filled ones included; beyond that
 * cohorts_add() refuses. The owner makes `all`, `free` and `heap.items` (heap.room one more) of so
 * many, and `home`, `singles`, `free_singles` and `alone.items` (alone.room one more) of
 * `capacity`, all zeroed. */
static inline uint32_t cohorts_room(uint32_t capacity)
{
    uint32_t room = capacity / (COHORT_MOST / 2) + 256;

    return room < capacity ? room : capacity;
}

/* `number` is in no cohort and not alone. It joins the open cohort that is due at exactly `at`, or
 * begins one. Callers round `at`, so that there are few cohorts. False: there is no room; put the
 * number alone. */
bool cohorts_add(struct cohorts *c, uint32_t number, hf_time at);
void cohorts_remove(struct cohorts *c, uint32_t number); /* also one that is alone, or nowhere */
/* Whether the number is in a cohort. */
bool cohorts_has(const struct cohorts *c, uint32_t number);
/* When the number's cohort is due; HF_TIME_NEVER: it is in no cohort. */
hf_time cohorts_at(const struct cohorts *c, uint32_t number);

/* The first cohort: when it is due (HF_TIME_NEVER: there is none), and how many are in it. */
hf_time cohorts_next(const struct cohorts *c);
size_t cohorts_first(const struct cohorts *c);
/* Takes up to `most` numbers out of the first cohort. */
size_t cohorts_take(struct cohorts *c, uint32_t *ret_numbers, size_t most);

/* Wherever the number was, it is now due by itself, at `at`. There is always room. */
void cohorts_put_alone(struct cohorts *c, uint32_t number, hf_time at);
bool cohorts_is_alone(const struct cohorts *c, uint32_t number);
hf_time cohorts_alone_at(const struct cohorts *c, uint32_t number); /* of a number that is alone */
/* The first number that is alone; NULL: there is none. */
const struct cohort_single *cohorts_first_alone(const struct cohorts *c);

#endif
