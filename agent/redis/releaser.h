/* Releasing a token on nodes, on one thread's own links: never
 * cancellable, and twice where in doubt.
 *
 * Each job sends the token-checked DEL to every node of its mask. A node that is not connected gets
 * it on its next connection. (!) Where the connection broke with an acquire or heal unanswered, it
 * is sent at once on the new connection and again when the lost command's deadline has passed. A
 * job ends when every node answered, or when the key has expired by itself: twice `ttl` after the
 * start, plus 1 %. (!) A node that was stopped may run an earlier renewal as late as the key's end.
 * `done` is called once, when q nodes are known to have nothing of it (they answered, or were never
 * written to), and it is certain whether q nodes did not have the token, or `attempt` passed, whichever is first. Where q were never written to, it is called when
 * the others answered or are overdue.
 * (!) What a node says of the token counts as long as only the first release there can have run, until the lease's
 * validity ends: later our own release, or time, may have taken the key.
 * Belongs to one thread's loop.
 */
#ifndef HOLDFAST_AGENT_REDIS_RELEASER_H
#define HOLDFAST_AGENT_REDIS_RELEASER_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/loop.h"
#include "agent/core/server.h"
#include "agent/redis/release_order.h"
#include "shm/nstime.h"

struct link;
struct releaser;

/* `owner` is handed to every `done`, and to `counts` (agent/redis/release_order.h). */
/* `servers`: that the nodes lead to. */
int releaser_create(struct loop *loop, struct link *const *links, const struct servers *servers,
                    int nodes, int quorum, release_counts_fn *counts, void *owner,
                    struct releaser **ret_releaser);
/* Drops all jobs; leaves keys to their TTL. First let them end: releaser_busy(). */
void releaser_destroy(struct releaser *releaser);

/* HF_OK, HF_ENOMEM. */
int releaser_start(struct releaser *releaser, const struct release_order *order);

/* Sends the jobs that were started in this turn of the loop; else they leave at the next turn. */
void releaser_flush(struct releaser *releaser);
/* A node's link came up: sends the releases that wait for it. */
void releaser_link_up(struct releaser *releaser, int node);
/* Jobs with nodes that have not answered. */
size_t releaser_busy(const struct releaser *releaser);
/* When the last job's `attempt` has passed; HF_TIME_PAST: there is no job. */
hf_time releaser_attempts_over(const struct releaser *releaser);

#endif
