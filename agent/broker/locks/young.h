/* Leases in their first moments, which the broker keeps. */
#ifndef HOLDFAST_AGENT_BROKER_LOCKS_YOUNG_H
#define HOLDFAST_AGENT_BROKER_LOCKS_YOUNG_H

#include "agent/broker/locks/resources.h"

void young_create(struct locks *locks);
void young_destroy(struct locks *locks);
/* The lease was granted: it stays here for a moment, or is adopted at once. */
void young_begin(struct resource *r, hf_time now);
/* Gives it to the renewal thread with the votes that came meanwhile. Nothing if it is there already. */
void young_hand_in(struct resource *r);
void young_hand_in_all(struct locks *locks);
/* A vote that came after the grant, for a command sent after `a`. False: tell the renewal
 * thread. */
bool young_vote(struct resource *r, int node, hf_time a);
/* Ends the lease and releases it from here. False: tell the renewal thread. */
bool young_release(struct resource *r, enum hf_loss_reason reason);

#endif
