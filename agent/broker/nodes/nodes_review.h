/* The top of this room: makes the nodes' links, hears their events, and after every change looks at all nodes anew. */
#ifndef HOLDFAST_AGENT_BROKER_NODES_NODES_REVIEW_H
#define HOLDFAST_AGENT_BROKER_NODES_NODES_REVIEW_H

#include "agent/broker/nodes/nodes.h"

/* Makes the links, without connecting. On HF_ENOMEM and HF_ESYS nothing is left behind. */
int nodes_create(struct agent *agent, struct loop *loop, struct resolver *resolver,
                 const struct nodes_owner *owner, struct nodes **ret_nodes);
/* A reload. Links of which the address is another one end, and connect there. */
void nodes_configure(struct nodes *nodes, const struct config *config) IN_BROKER_THREAD;
/* In the broker's thread. */
void nodes_start(struct nodes *nodes) IN_BROKER_THREAD;
/* Ends the links: every command in flight is told that it is over. Releases under way are forgotten: the journal has
 * them. */
void nodes_end(struct nodes *nodes);
void nodes_destroy(struct nodes *nodes); /* NULL is fine */

#endif
