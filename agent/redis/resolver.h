/* Host names to addresses, off the I/O threads: getaddrinfo may block for as long as it likes
 * (hiredis 0.14.1 was seen to block its caller for 20 s), so each name has a thread of its own
 * while it is being looked up. */
#ifndef HOLDFAST_AGENT_REDIS_RESOLVER_H
#define HOLDFAST_AGENT_REDIS_RESOLVER_H

#include <stdbool.h>

#include "agent/base/address.h"
#include "agent/base/loop.h"

struct resolver;

/* One per loop. */
int resolver_create(struct loop *loop, struct resolver **ret_resolver);
/* Lookups that never end do not hold this up: their threads are left behind, detached,
 * and touch nothing of ours. */
void resolver_destroy(struct resolver *resolver);

/* Calls `fn` on the loop's thread: with numeric addresses, best first, or `count` 0 and a text. At
 * most one lookup per `arg` at a time; resolver_cancel() drops it. */
#define RESOLVER_ADDRESSES 4
typedef void resolver_fn(void *arg, const char (*addresses)[64], int count, const char *error);
int resolver_ask(struct resolver *resolver, const char *host, resolver_fn *fn, void *arg);
void resolver_cancel(struct resolver *resolver, void *arg);
/* Called from the loop's wake hook: delivers finished lookups. */
void resolver_deliver(struct resolver *resolver);

#endif
