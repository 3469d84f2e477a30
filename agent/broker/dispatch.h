/* Sends each request to the room that answers it. Called in the broker's thread. */
#ifndef HOLDFAST_AGENT_BROKER_DISPATCH_H
#define HOLDFAST_AGENT_BROKER_DISPATCH_H

#include "agent/base/thread_role.h"

#include "shm/wire.h"

struct locks;
struct queries;
struct session;

/* A request, copied out of the ring, with a place for its answer reserved. The request may free `s`. */
void dispatch_request(struct locks *locks, struct queries *queries, struct session *s,
                      const struct hf_request_entry *q) IN_BROKER_THREAD;

#endif
