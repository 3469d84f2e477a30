/* Short holds: leases in their first 50 ms, which the broker keeps to itself. */
#ifndef HOLDFAST_AGENT_BROKER_LOCKS_SHORT_HOLDS_H
#define HOLDFAST_AGENT_BROKER_LOCKS_SHORT_HOLDS_H

#include "agent/broker/locks/resources.h"

void short_holds_create(struct locks *locks);
void short_holds_destroy(struct locks *locks);
/* The lease was granted: it stays here for a moment, or is adopted at once. */
void short_hold_begin(struct resource *r, hf_time now);
/* The renewal thread adopts it. Nothing if it did already. */
void short_hold_adopt(struct resource *r);
void short_holds_adopt(struct locks *locks);
/* Counts a vote that came after the grant, for a command sent after `a`. False: tell the renewal
 * thread. */
bool short_hold_vote(struct resource *r, int node, hf_time a);
/* Whether it is one still. */
bool short_hold_lasts(const struct resource *r, hf_time now);
/* It is none any more; the caller releases its lease, or has the renewal thread adopt it. */
void short_hold_leave(struct resource *r);
void short_hold_post(struct locks *locks, struct lease *lease);

#endif
