/* When a round begins again while another host has the lock. */
#ifndef HOLDFAST_AGENT_BROKER_LOCKS_WAKEUPS_H
#define HOLDFAST_AGENT_BROKER_LOCKS_WAKEUPS_H

#include "agent/base/thread_role.h"
#include "agent/broker/locks/resources.h"
#include "agent/redis/link.h"

struct round;
struct waiter;

int wakeups_create(struct locks *locks);
void wakeups_destroy(struct locks *locks);
/* A round begins. True: somebody waits, so nodes are to track the keys that its acquires read. */
bool wakeups_round(struct round *round);
/* A final answer to one of its acquires, before or after the decision. */
void wakeups_vote(struct locks *locks, struct round *round, int node,
                  const struct link_reply *reply);
/* The round failed and somebody waits: sets the retry. `won`: bit per node that had given us its
 * key; `winner`: another is known to have a quorum. */
void wakeups_lost(struct resource *r, uint32_t won, bool winner, bool tracked, int64_t pttl_ms,
                  hf_time now);
/* The same when too few nodes voted. */
void wakeups_failed(struct resource *r, hf_time again);
/* The retry is due: whether a round may begin. If not, the retry is set again. */
bool wakeups_due(struct resource *r, hf_time now) IN_BROKER_THREAD;
/* A waiter came. */
void wakeups_joined(struct waiter *waiter);
/* Nobody waits any more. */
void wakeups_forget(struct resource *r);
/* A key has changed on a node; NULL: any may have. */
void wakeups_noticed(struct locks *locks, int node, const void *key,
                     size_t key_len) IN_BROKER_THREAD;
/* Whether the node tells of changes. */
void wakeups_telling(struct locks *locks, int node, bool can);

#endif
