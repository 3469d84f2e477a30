/* Runs a function in a child process one instruction at a time, so that it can be stopped, and thus
 * killed, between any two of its stores: of the very code that ships, without hooks in it.
 *
 * What the child stores into shared mappings outlives it, as it does an agent. Everything else dies
 * with it. One child at a time; not for threads.
 */
#ifndef HOLDFAST_TESTS_STEP_H
#define HOLDFAST_TESTS_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct stepped {
    pid_t pid;
    unsigned long steps;
    bool over; /* the function has returned; the child is stopped behind it */
};

/* Forks; the child stands before the first instruction of `fn`. False: no ptrace here. */
bool step_begin(struct stepped *s, void (*fn)(void *arg), void *arg);
/* One instruction; false when the function has returned. A child that dies ends the test. */
bool step_one(struct stepped *s);
/* Lets the rest of the function run. */
void step_finish(struct stepped *s);
/* kill -9 where it stands. */
void step_kill(struct stepped *s);
/* The instruction that comes next, as an address that `addr2line -e PROGRAM` takes. */
uint64_t step_at(const struct stepped *s);

/* Shared memory whose states are of interest. */
struct region {
    void *at;
    size_t size;
};

/* A state of the regions, one behind the other. */
struct moment {
    uint64_t ip;         /* of the instruction after the store */
    unsigned long steps; /* before it */
    uint8_t *bytes;
};

/* Every state that killing `fn` at some instruction can leave: the one before it first, the one
 * after it last. Freed by moments_free(). The regions are left as `fn` leaves them. */
struct moments {
    const struct region *regions;
    int region_count;
    size_t size;
    struct moment *moment;
    int count;
};
bool moments_of(void (*fn)(void *arg), void *arg, const struct region *regions, int region_count,
                struct moments *ret_moments);
void moments_restore(const struct moments *m, int i);
void moments_free(struct moments *m);

#endif
