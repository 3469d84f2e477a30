/* Messages to the renewal thread about a lease. Called in the broker's thread. */
#ifndef HOLDFAST_AGENT_BROKER_LOCKS_ORDERS_H
#define HOLDFAST_AGENT_BROKER_LOCKS_ORDERS_H

#include "agent/base/thread_role.h"
#include "agent/record/mailbox.h"

struct locks;
struct resource;

/* Posts it. (!) A lease must be adopted before any other message about it is posted. */
void order_renewal(struct locks *locks, struct message *m) IN_BROKER_THREAD;
/* Its holder is to stop. */
void order_lose(struct resource *r, enum hf_loss_reason reason) IN_BROKER_THREAD;
/* Its job is being stopped, or killed. */
void order_losing(struct resource *r, bool killing) IN_BROKER_THREAD;

#endif
