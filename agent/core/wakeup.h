/* When to try again for a name that another host holds. Pure.
 *
 * Per node it keeps what the last command there found, and whether the node will tell of the next
 * change (armed). A notice is a hint: it may be of a release, or only of a renewal, and it may
 * never come. So:
 *  - q nodes told of a change, or are known to be free: a round begins at once;
 *  - fewer nodes did, and within a few milliseconds they do not become q: those nodes are
 *    queried, which arms them again, at most every 50 ms each, whatever the holder does;
 *  - (!) besides, a round begins by time alone: when the keys of q nodes have expired; after 50 to
 *    250 ms without notices from q nodes; after 250 to 1000 ms where keys have no expiry, with or
 *    without notices, or where again and again fewer than q nodes tell: the others may never;
 *    and after 10 s in any case. Each of these times is drawn once between two
 *    rounds: queries of a busy lock do not push it back;
 *  - hosts that split the nodes among them draw a growing time before the next round. A vote that
 *    comes when the round is lost already is part of a split, too.
 * A budget bounds how many queries and rounds by time an agent sends in all, and users take turns
 * to spend it (agent/core/share.h). Rounds that notices caused are not counted.
 */
#ifndef HOLDFAST_AGENT_CORE_WAKEUP_H
#define HOLDFAST_AGENT_CORE_WAKEUP_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/layout.h"
#include "shm/nstime.h"

#define WAKEUP_GATHER      hf_ms(3) /* notices of one change come from all nodes within this time */
#define WAKEUP_QUERY_EVERY hf_ms(50)    /* for one name, at one node */
#define WAKEUP_SLEEP_MOST  hf_ms(10000) /* by time alone, even when the nodes tell of changes */
#define WAKEUP_PER_S       200          /* queries and rounds by time of one agent, on each node */

struct wakeup {
    uint8_t n, q;
    uint8_t splits;        /* recent rounds in which the nodes were split among hosts */
    uint8_t splits_before; /* `splits` before the last round */
    uint8_t hints;         /* since the last round, of nodes that were queried for them */
    bool split;            /* the last round was split: perhaps nobody won, so `poll` stays */
    /* bit per node */
    uint32_t armed;                   /* the node tells of the next change */
    uint32_t told;                    /* has told of a change, and was not queried since */
    uint32_t unarmed;                 /* could tell of changes, but was not asked to yet */
    uint32_t querying;                /* a query is unanswered */
    uint32_t free;                    /* had no key at the last command */
    uint32_t lasting;                 /* had a key without expiry */
    hf_time told_at[HF_NODES_MAX];    /* its last notice, whether or not it was queried since */
    hf_time queried_at[HF_NODES_MAX]; /* when the last query was sent */
    hf_time expires[HF_NODES_MAX]; /* when its key expires; NEVER: without expiry, or not known */
    hf_time not_before;            /* no round before this, after a split */
    hf_time poll;                  /* when a round begins by time alone; NEVER: not set */
    /* Drawn once after each round; NEVER: not needed yet */
    hf_time deaf_poll;    /* while fewer than q nodes tell */
    hf_time lasting_poll; /* while keys have no expiry, or after many hints */
    hf_time last_poll;    /* in any case */
};

enum wakeup_step {
    WAKEUP_WAIT,  /* until `at`; then ask again */
    WAKEUP_QUERY, /* at `nodes` */
    WAKEUP_ROUND, /* nodes told that it may be free */
    WAKEUP_POLL,  /* a round because it is time */
};

struct wakeup_plan {
    enum wakeup_step step;
    uint32_t nodes;
    hf_time at;
};

void wakeup_init(struct wakeup *w, int n, int q);
/* A round begins: what was known of the nodes is forgotten. */
void wakeup_round(struct wakeup *w);
/* A node's answer to a command sent at `sent`: a key stands there (`pttl_ms` -1: without expiry;
 * below: not known), or none. `tracked`: the node tells of its next change. */
void wakeup_held(struct wakeup *w, int node, int64_t pttl_ms, bool tracked, hf_time sent,
                 hf_time now);
void wakeup_free(struct wakeup *w, int node, bool tracked, hf_time sent);
/* A query was sent; or it ended without an answer. */
void wakeup_query(struct wakeup *w, int node, hf_time now);
void wakeup_unanswered(struct wakeup *w, int node);
void wakeup_told(struct wakeup *w, int node, hf_time now);
/* Whether the node can tell of changes. What was read there before is not armed. */
void wakeup_telling(struct wakeup *w, int node, bool can);
/* Our own key was written there: nodes do not tell us of that. */
void wakeup_granted(struct wakeup *w, int node);
/* The round is over and another holds the lock: sets when to poll. `won`: nodes that gave us their
 * key, which we gave back. If there are some and no `winner` is known, the nodes were split. `rtt`:
 * of a round. */
void wakeup_lost(struct wakeup *w, uint32_t won, bool winner, hf_dur rtt, uint32_t random,
                 hf_time now);
/* After wakeup_lost() one more node gave us its key, which we gave back, too. If nobody has won,
 * the nodes were split; otherwise the node is to be asked to tell again. */
void wakeup_won_late(struct wakeup *w, int node, bool winner, hf_dur rtt, uint32_t random,
                     hf_time now);
/* A query was answered: sets when to poll, by what is known now. */
void wakeup_rest(struct wakeup *w, uint32_t random, hf_time now);
/* `voting`: the nodes that may vote. */
struct wakeup_plan wakeup_next(const struct wakeup *w, uint32_t voting, hf_time now);

#endif
