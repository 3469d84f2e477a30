/* What each of many may use of something scarce: some at once, then one after the other. Those who use it are told apart by a
 * keyed hash, so two may have one share, and nobody can choose with whom. Pure. */
#ifndef HOLDFAST_AGENT_CORE_SHARE_H
#define HOLDFAST_AGENT_CORE_SHARE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "shm/nstime.h"

#define SHARES 64

struct shares {
    uint64_t key;            /* random */
    hf_time used_to[SHARES]; /* zeroed before first use; each use moves it on by `each` */
};

unsigned share_of(const struct shares *shares, uint32_t who); /* below SHARES */
/* Uses one of that share, if one is left: `burst` at once, and one more after each `each`. */
bool share_take(struct shares *shares, unsigned share, unsigned burst, hf_dur each, hf_time now);

/* A rate with a burst: `paid` is the instant by which all that was used is paid for. Zeroed before first use. Pure. */

/* When no more than `ahead` is unpaid: `now` or later. From then on more may be used. */
static inline hf_time bucket_next(hf_time paid, hf_dur ahead, hf_time now)
{
    return hf_time_max(now, hf_time_sub(hf_time_max(paid, now), ahead));
}

static inline void bucket_use(hf_time *paid, hf_dur cost, hf_time now)
{
    *paid = hf_time_add(hf_time_max(*paid, now), cost);
}

/* Uses one of those that come one each `each` in the long run, and `burst` at once; false: none is left. */
static inline bool bucket_take(hf_time *paid, hf_dur each, int64_t burst, hf_time now)
{
    if (hf_time_before(now, bucket_next(*paid, hf_ns((burst - 1) * each.ns), now)))
        return false;
    bucket_use(paid, each, now);
    return true;
}

/* Whose the subordinate uids of this host are (subuid(5)): a user can start processes with each of them, so a share of the agent
 * is for the user and not for the uid. Pure. */

#define SUBUIDS_MAX      512 /* ranges */
#define SUBUIDS_NAME_MAX 64

struct subuids {
    int count;
    struct subuid_range {
        uint32_t first, count, owner;
    } range[SUBUIDS_MAX];
};

/* "NAME:FIRST:COUNT", a name or a number first. False: no such line. */
bool subuids_parse(const char *line, char ret_name[SUBUIDS_NAME_MAX + 1], uint32_t *ret_first,
                   uint32_t *ret_count);
/* False: there is no room for more. */
bool subuids_add(struct subuids *subuids, uint32_t first, uint32_t count, uint32_t owner);
/* By the first range that has it; a uid in none is its own. */
uint32_t subuids_owner(const struct subuids *subuids, uint32_t uid);

/* Whose turn it is to send commands, of which an agent sends a bounded number a second. Pure.
 *
 * (!) One queue for all users would let a user with thousands of wants delay everybody else's by
 * seconds. So each user has a queue of wants, and users take turns: a user's only want is served
 * once each other user with wants has had one turn.
 */

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
