/* Releasing a token on nodes, on one thread's own links: never
 * cancellable, and twice where in doubt.
 *
 * Each job sends the token-checked DEL to every node of its mask. A node that is not connected gets
 * it on its next connection. (!) Where the connection broke with an acquire or heal unanswered, it
 * is sent at once on the new connection and again when the lost command's deadline has passed. A
 * job ends when every node answered, or when the key has expired by itself: twice `ttl` after the
 * start, plus 1 %. (!) A node that was stopped may run an earlier renewal as late as the key's end.
 * `done` is called once, when q nodes are known to have nothing of it (they answered, or were never written to), and it is
 * certain whether q nodes did not have the token, or `attempt` passed, whichever is first. Where q were never written to, it
 * is called when the others answered or are overdue.
 * A node that answers with an error is tried again as a whole, after 0.1 s: one job goes first, then as many more
 * as were answered. (!) So one node that refuses all releases costs neither time nor memory: of a node that refuses, is away
 * or does not answer at most KEY_DELETER_MOST jobs wait. Beyond that the oldest one is dropped there, if nobody waits for it:
 * that node's key ends by its TTL.
 * (!) What a node says of the token counts as long as only the first release there can have run, until the lease's
 * validity ends: later our own release, or time, may have taken the key.
 * Belongs to one thread's loop.
 */
#ifndef HOLDFAST_AGENT_REDIS_KEY_DELETER_H
#define HOLDFAST_AGENT_REDIS_KEY_DELETER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/loop.h"
#include "agent/core/server.h"
#include "shm/layout.h"
#include "shm/nstime.h"

/* What the key deleter is to do with one token (agent/redis/key_deleter.h). Requests are made here only: a field that
 * somebody forgets leaves a key on a node, or deletes it too early. */

struct lease;
struct link_reply;
struct token;

struct release_outcome {
    int done; /* on how many nodes it is */
    /* (!) A lock that was lost, though nobody had noticed: FOREIGN or MISSING where q nodes did not have the token before
     * `covered`, as far as their word counts; else NONE. A node without an answer proves nothing. */
    enum hf_loss_reason gone;
};
/* `owner` is the `arg` of the key deleter's owner. */
typedef void release_done_fn(const struct release_outcome *outcome, void *arg, void *owner);
struct key_deleter_owner {
    /* Whether this node's word that it has not the token counts: it has not forgotten, as far as that is known. */
    bool (*counts)(int node, const struct link_reply *reply, void *arg);
    /* A node answered with this error; NULL: it did before, and does not any more. May be NULL. */
    void (*refused)(int node, const struct link_reply *reply, void *arg);
    void *arg;
};

struct delete_request {
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

/* Nothing is in doubt, and nobody waits for it. Key and token stay the caller's, until key_deleter_start(). */
struct delete_request delete_request(const void *key, size_t key_len, const struct token *token,
                                     hf_dur attempt, hf_dur ttl, uint32_t nodes);
/* The same for a lease's key and token. */
struct delete_request delete_request_of(const struct lease *lease, uint32_t nodes);
/* On these of its nodes a command that had no answer may run until then. */
void delete_request_doubt(struct delete_request *request, uint32_t nodes, hf_time until);
/* The lease was held until now, and is valid until then: `release_outcome.gone`. */
void delete_request_judge(struct delete_request *request, hf_time valid);
/* Who waits for it. */
void delete_request_tell(struct delete_request *request, release_done_fn *done, void *arg);

struct link;
struct key_deleter;

#define KEY_DELETER_MOST 16384

/* `servers`: that the nodes lead to. */
int key_deleter_create(struct loop *loop, struct link *const *links, const struct servers *servers,
                       int nodes, int quorum, const struct key_deleter_owner *owner,
                       struct key_deleter **ret_key_deleter);
/* Drops all jobs; leaves keys to their TTL. First let them end: key_deleter_busy(). */
void key_deleter_destroy(struct key_deleter *key_deleter);

/* HF_OK, HF_ENOMEM. */
int key_deleter_start(struct key_deleter *key_deleter, const struct delete_request *request);

/* Sends the jobs that were started in this turn of the loop; else they leave at the next turn. */
void key_deleter_flush(struct key_deleter *key_deleter);
/* A node's link came up: sends the releases that wait for it. */
void key_deleter_link_up(struct key_deleter *key_deleter, int node);
/* Jobs with nodes that have not answered. */
size_t key_deleter_busy(const struct key_deleter *key_deleter);
/* When the last job's `attempt` has passed; HF_TIME_PAST: there is no job. */
hf_time key_deleter_attempts_over(const struct key_deleter *key_deleter);

#endif
