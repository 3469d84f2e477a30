/* When to try again for a name that another host holds. Pure.
 *
 * Per node it keeps what the last command there found, and whether the node will tell of the next
 * change (armed). What nodes tell is a hint: it may be a release, or only a renewal, and it may
 * never come. So:
 *  - q nodes that told of a change or are known to be free: a round begins at once;
 *  - fewer, and it does not become q within a few milliseconds: those nodes are looked at, which
 *    arms them again; at most every 50 ms each, whatever the holder does;
 *  - (!) underneath, a round begins by time alone: when the keys of q nodes have expired; without
 *    notices from q nodes after 50 to 250 ms; where keys have no expiry after 250 to 1000 ms,
 *    notices or not; and never later than 10 s. Each of these times is drawn once in a wait from
 *    one round to the next: looks at a busy lock do not push it ahead;
 *  - hosts that split the nodes among them draw a growing time before the next round. A node whose
 *    vote comes when the round is lost already was split off, too.
 * How many looks and rounds by time an agent sends in all is bounded by a budget; a round that
 * notices asked for is not.
 */
#ifndef HOLDFAST_AGENT_CORE_WAKEUP_H
#define HOLDFAST_AGENT_CORE_WAKEUP_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/layout.h"
#include "shm/nstime.h"

#define WAKEUP_GATHER     hf_ms(3)     /* the nodes' notices of one change come within this */
#define WAKEUP_LOOK_EVERY hf_ms(50)    /* for one name, at one node */
#define WAKEUP_SLEEP_MOST hf_ms(10000) /* by time alone, though the nodes tell */
#define WAKEUP_PER_S      200          /* looks and rounds by time of an agent, on each node */

struct wakeup {
    uint8_t n, q;
    uint8_t splits;        /* rounds of late in which the nodes were split among hosts */
    uint8_t splits_before; /* the last round */
    bool split;            /* the last one was: nobody may have won, so `poll` stays */
    /* bit per node */
    uint32_t armed;                  /* tells of the next change */
    uint32_t told;                   /* has told of one that was not looked at since */
    uint32_t unarmed;                /* could tell, but was not asked to yet */
    uint32_t looking;                /* a look is unanswered */
    uint32_t free;                   /* had no key */
    uint32_t lasting;                /* had a key without expiry */
    hf_time told_at[HF_NODES_MAX];   /* the last time, whether looked at since or not */
    hf_time looked_at[HF_NODES_MAX]; /* when the last look was sent */
    hf_time
        expires[HF_NODES_MAX]; /* of the key that is there; NEVER: without expiry, or not known */
    hf_time not_before;        /* a round, after a split */
    hf_time poll;              /* when a round begins by time alone; NEVER: not set */
    /* Since the last round, once drawn; NEVER: was not needed yet */
    hf_time deaf_poll;    /* while fewer than q nodes tell */
    hf_time lasting_poll; /* while keys have no expiry */
    hf_time last_poll;    /* in any case */
};

enum wakeup_step {
    WAKEUP_WAIT,  /* until `at`; then ask again */
    WAKEUP_LOOK,  /* at `nodes` */
    WAKEUP_ROUND, /* nodes told that it may be free */
    WAKEUP_POLL,  /* a round because it is time */
};

struct wakeup_plan {
    enum wakeup_step step;
    uint32_t nodes;
    hf_time at;
};

void wakeup_init(struct wakeup *w, int n, int q);
/* A round begins: what was known of the nodes is not any more. */
void wakeup_round(struct wakeup *w);
/* A node's answer to a command sent at `sent`: a key stands there (`pttl_ms` -1: without expiry;
 * below: not known), or none. `tracked`: the node tells of its next change. */
void wakeup_held(struct wakeup *w, int node, int64_t pttl_ms, bool tracked, hf_time sent,
                 hf_time now);
void wakeup_free(struct wakeup *w, int node, bool tracked, hf_time sent);
/* A look was sent; it has no answer. */
void wakeup_look(struct wakeup *w, int node, hf_time now);
void wakeup_unanswered(struct wakeup *w, int node);
void wakeup_told(struct wakeup *w, int node, hf_time now);
/* Whether the node can tell of changes. Nothing that was read before is armed. */
void wakeup_telling(struct wakeup *w, int node, bool can);
/* Our own key was written there: that is not told of. */
void wakeup_granted(struct wakeup *w, int node);
/* The round is over, another holds the lock: sets when to poll. `won`: nodes that had given us
 * their key, which was given back. Some, and no `winner` is known: the nodes were split. `rtt`: of
 * a round. */
void wakeup_lost(struct wakeup *w, uint32_t won, bool winner, hf_dur rtt, uint32_t random,
                 hf_time now);
/* After that one node more gave us its key, which was given back, too. Where nobody has won, the
 * nodes were split; else the node is to be asked to tell again. */
void wakeup_won_late(struct wakeup *w, int node, bool winner, hf_dur rtt, uint32_t random,
                     hf_time now);
/* A look was answered: sets when to poll, by what is known now. */
void wakeup_rest(struct wakeup *w, uint32_t random, hf_time now);
/* `voting`: nodes whose word counts. */
struct wakeup_plan wakeup_next(const struct wakeup *w, uint32_t voting, hf_time now);

/* --- the budget: so many commands a second and no more, however many names are waited for ------- */

struct wakeup_budget {
    hf_dur each;   /* per command */
    hf_dur ahead;  /* so much may be spent at once */
    hf_time spent; /* everything booked so far is due before this */
};

void wakeup_budget_init(struct wakeup_budget *b, uint32_t per_second);
/* Books `commands`; they may be sent at the instant returned, `now` or later. */
hf_time wakeup_budget_book(struct wakeup_budget *b, uint32_t commands, hf_time now);

#endif
