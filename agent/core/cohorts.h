/* When a million are due: numbers that are due together stand in one cohort, and only cohorts are
 * sorted. To add or take a number costs O(1) and touches hardly any memory, to begin or end a cohort
 * O(log cohorts). What is due by itself (a retry) is alone, in a heap beside. A number is in one
 * cohort, alone, or in neither. Pure. One thread.
 */
#ifndef HOLDFAST_AGENT_CORE_COHORTS_H
#define HOLDFAST_AGENT_CORE_COHORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/heap.h"

#define COHORT_MOST  128 /* numbers: one renew script */
#define COHORTS_OPEN 512 /* which others may join: of times with the same hash the youngest */

struct cohort {
    struct heap_item item;
    uint16_t count, live;         /* entries of `number`; those that are still in it */
    uint32_t number[COHORT_MOST]; /* an entry counts while `home` of its number is this cohort */
};

/* A number that is due by itself. */
struct cohort_single {
    struct heap_item item;
    uint32_t number;
};
_Static_assert(sizeof(struct cohort_single) == 16, "no padding");

struct cohorts {
    struct heap heap;   /* of those that have somebody in them */
    struct cohort *all; /* `room` of them */
    uint32_t *free;     /* a stack of the unused ones' indices, but for those never used */
    uint32_t *home; /* of each number: its cohort's index + 1, or where it is alone; 0: in none */
    uint32_t room, used, free_count;
    struct heap alone;
    struct cohort_single *singles; /* as many as there may be numbers; likewise */
    uint32_t *free_singles;
    uint32_t singles_used, free_single_count;
    uint32_t open[COHORTS_OPEN]; /* by the hash of when it is due: index + 1; 0: none */
};

/* How many cohorts numbers below `capacity` need, with those that are not full. More than that are
 * refused. The owner makes `all`, `free` and `heap.items` (heap.room one more) of so many, `home`,
 * `singles`, `free_singles` and `alone.items` (alone.room one more) of `capacity`, all zeroed. */
static inline uint32_t cohorts_room(uint32_t capacity)
{
    uint32_t room = capacity / (COHORT_MOST / 2) + 256;

    return room < capacity ? room : capacity;
}

/* `number` is in none. It joins the open cohort that is due at that very time, or begins one: whoever
 * adds rounds `at`, so that there are few of them. False: there is no room; it is due by itself then. */
bool cohorts_add(struct cohorts *c, uint32_t number, hf_time at);
void cohorts_remove(struct cohorts *c, uint32_t number); /* also one that is alone, or in none */
/* Whether it is in a cohort. */
bool cohorts_has(const struct cohorts *c, uint32_t number);
/* When the number's cohort is due; HF_TIME_NEVER: it is in none. */
hf_time cohorts_at(const struct cohorts *c, uint32_t number);

/* The first cohort: when it is due (HF_TIME_NEVER: there is none), and how many are in it. */
hf_time cohorts_next(const struct cohorts *c);
size_t cohorts_first(const struct cohorts *c);
/* Takes up to `most` numbers out of the first cohort. */
size_t cohorts_take(struct cohorts *c, uint32_t *ret_numbers, size_t most);

/* Wherever the number was: it is due by itself, at `at`. There is always room. */
void cohorts_put_alone(struct cohorts *c, uint32_t number, hf_time at);
bool cohorts_is_alone(const struct cohorts *c, uint32_t number);
hf_time cohorts_alone_at(const struct cohorts *c, uint32_t number); /* of one that is */
/* The first of them; NULL: there is none. */
const struct cohort_single *cohorts_first_alone(const struct cohorts *c);

#endif
