/* One acquire on the nodes. */
#ifndef HOLDFAST_AGENT_BROKER_LOCKS_ROUNDS_H
#define HOLDFAST_AGENT_BROKER_LOCKS_ROUNDS_H

#include "agent/base/thread.h"
#include "agent/base/token.h"
#include "agent/broker/locks/names.h"
#include "agent/config/config.h"
#include "agent/core/ballot.h"
#include "agent/core/timing.h"
#include "agent/redis/link.h"
#include "shm/wire.h"

struct waiter;

/* One acquire on the nodes with one token. Lives until every node's acquire had its final answer.
 */
struct round {
    LIST_ENTRY(round) all;
    struct locks *locks;
    struct name *name;     /* NULL once the name has no part in it any more */
    struct waiter *waiter; /* NULL once decided, or cancelled */
    struct ballot ballot;
    struct timing timing;
    hf_time started;
    hf_time sent[HF_NODES_MAX], deadline[HF_NODES_MAX]; /* of the newest command per node */
    uint32_t asked;                                     /* bit per node: may have been written to */
    uint32_t written;    /* of these, may have our key: neither TAKEN nor STALE nor SENTINEL */
    uint32_t unanswered; /* final answer outstanding */
    uint32_t broken;     /* its connection ended first: in doubt */
    uint32_t foreign;    /* has a key that no agent wrote, or another's fence record */
    uint32_t errors;     /* answered with an error */
    uint32_t stale_retried, reloaded; /* sent once more: after STALE, after NOSCRIPT */
    uint8_t why[HF_NODES_MAX];        /* enum round_why, of a NO */
    bool late;                        /* enough voted, too late */
    bool track;         /* somebody waits: nodes are to tell when the key in the way changes */
    bool decided, over; /* over: its lease ended, or it was undone: late successes are released */
    int calls;          /* commands outstanding */
    struct loop_timer overdue;     /* contended and undecided: no longer waits for slow nodes */
    uint64_t in_way[HF_NODES_MAX]; /* fence of the lease a node has; 0: none, or unknown */
    struct hf_wire_holder holder;
    struct link_holder described;
    struct link_words words;
    struct token token;
    struct holder who; /* as the waiter's; since: when the round began */
    size_t key_len;
    uint8_t key[CONFIG_KEY_MAX];
};

int round_begin(struct name *name, struct waiter *w) IN_BROKER_THREAD;
/* The waiter went away: undo. */
void round_cancel(struct round *round) IN_BROKER_THREAD;
/* The lease of this round ended: acquires that are still unanswered are released when they answer.
 */
void round_lease_over(struct round *round);
void rounds_destroy(struct locks *locks);
bool rounds_busy(const struct locks *locks);
/* Whether one and the same lease is known to stand on a quorum: then a rival has the lock. */
bool round_has_winner(const struct round *round);
/* No key is known to be in the way, but nodes do not answer. NULL: no. */
bool round_is_slow(const struct round *round, hf_time now);

#endif
