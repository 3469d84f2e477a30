/* Whose turn it is to send commands, of which an agent sends a bounded number a second. Pure.
 *
 * (!) One queue for all users would let a user with thousands of wants delay everybody else's by
 * seconds. So each user has a queue of wants, and users take turns: a user's only want is served
 * once each other user with wants has had one turn.
 */
#ifndef HOLDFAST_AGENT_CORE_TURNS_H
#define HOLDFAST_AGENT_CORE_TURNS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "shm/nstime.h"

/* Zeroed: no user's. */
struct turns_want {
    TAILQ_ENTRY(turns_want) of_user;
    struct turns_user *user; /* in whose queue it is; NULL: in none */
};

/* Zeroed: wants nothing. */
struct turns_user {
    TAILQ_ENTRY(turns_user) ring; /* while it wants anything */
    TAILQ_HEAD(turns_wants, turns_want) wants;
    uint32_t count;
};

struct turns {
    TAILQ_HEAD(turns_ring, turns_user) ring; /* whose turn it is comes first */
    hf_dur each;                             /* per command */
    hf_dur ahead;                            /* this much may be spent at once */
    hf_time spent;                           /* everything sent so far is paid for by then */
};

void turns_init(struct turns *t, uint32_t per_second);
/* When the next want may be served: `now` or later. */
hf_time turns_next(const struct turns *t, hf_time now);
/* Whether somebody waits for a turn. */
bool turns_wanted(const struct turns *t);
/* The want goes to the end of the user's queue; it is in none. */
void turns_want(struct turns *t, struct turns_user *user, struct turns_want *want);
/* Does nothing when it is in no queue. */
void turns_drop(struct turns *t, struct turns_want *want);
/* The want to be served next, which is in no queue any more; NULL. The next turn is another user's. */
struct turns_want *turns_take(struct turns *t);
/* So many commands are sent. */
void turns_spend(struct turns *t, uint32_t commands, hf_time now);

#endif
