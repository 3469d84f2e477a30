/* What the releaser is to do with one token (agent/redis/releaser.h). Orders are made here only: a field that
 * somebody forgets leaves a key on a node, or deletes it too early. */
#ifndef HOLDFAST_AGENT_REDIS_RELEASE_ORDER_H
#define HOLDFAST_AGENT_REDIS_RELEASE_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/layout.h"
#include "shm/nstime.h"

struct lease;
struct link_reply;
struct token;

struct release_outcome {
    int done; /* on how many nodes it is */
    /* (!) A lock that was lost, though nobody had noticed: FOREIGN or MISSING where q nodes did not have the token before
     * `covered`, as far as their word counts; else NONE. A node without an answer proves nothing. */
    enum hf_loss_reason gone;
};
/* `owner` is the releaser's. */
typedef void release_done_fn(const struct release_outcome *outcome, void *arg, void *owner);
/* Whether this node's word that it has not the token counts: it has not forgotten, as far as that is known. */
typedef bool release_counts_fn(int node, const struct link_reply *reply, void *owner);

struct release_order {
    const void *key;
    size_t key_len;
    const struct token *token;
    uint32_t nodes;      /* bit per node that may have it; the others have nothing of it */
    uint32_t in_doubt;   /* of these: an acquire or heal had no answer and its connection broke */
    hf_time doubt_until; /* deadline of the last of those commands */
    hf_time
        covered; /* until then the key must stand where it counts; HF_TIME_PAST: nobody judges */
    hf_dur attempt, ttl;
    release_done_fn *done; /* may be NULL */
    void *arg;
};

/* Nothing is in doubt, and nobody waits for it. Key and token stay the caller's, until releaser_start(). */
struct release_order release_order(const void *key, size_t key_len, const struct token *token,
                                   hf_dur attempt, hf_dur ttl, uint32_t nodes);
/* The same for a lease's key and token. */
struct release_order release_order_of(const struct lease *lease, uint32_t nodes);
/* On these of its nodes a command that had no answer may run until then. */
void release_order_doubt(struct release_order *order, uint32_t nodes, hf_time until);
/* The lease was held until now, and is valid until then: `release_outcome.gone`. */
void release_order_judge(struct release_order *order, hf_time valid);
/* Who waits for it. */
void release_order_tell(struct release_order *order, release_done_fn *done, void *arg);

#endif
