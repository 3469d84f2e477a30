/* Leases that were being released for a client when an earlier agent was killed. */
#ifndef HOLDFAST_AGENT_BROKER_LOCKS_ENDED_H
#define HOLDFAST_AGENT_BROKER_LOCKS_ENDED_H

#include "agent/broker/clients/clients.h"

struct resource;
struct session;

/* A lease that its holder was releasing when an earlier agent was killed: the request comes again. */
struct ended {
    LIST_ENTRY(ended) of_client;
    struct resource *resource; /* its release is under way; NULL once it is over */
    uint32_t slot, generation;
    struct session *session; /* waits for its end; NULL */
    uint64_t request_id;
};

/* Remembers a lease that was being released for this client; `r` NULL: it is over. HF_ENOMEM. */
int ended_add(struct client *c, struct resource *r, uint32_t slot, uint32_t generation);
struct ended *ended_find(struct client *c, uint32_t slot, uint32_t generation);
/* A session of its client ends: nobody waits there any more. */
void ended_drop_session(struct session *s);
/* The client is about to be freed. */
void ended_drop_client(struct client *c);

#endif
