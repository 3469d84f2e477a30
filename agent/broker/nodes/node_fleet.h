/* The fleet's record as the nodes show it (agent/core/fleet.h), and the seats of their links. */
#ifndef HOLDFAST_AGENT_BROKER_NODES_NODE_FLEET_H
#define HOLDFAST_AGENT_BROKER_NODES_NODE_FLEET_H

#include "agent/base/thread_role.h"
#include "agent/broker/nodes/nodes.h"

void node_fleet_begin(struct nodes *nodes);
/* After a reload. */
void node_fleet_configure(struct nodes *nodes) IN_BROKER_THREAD;
void node_fleet_up(struct nodes *nodes, int node) IN_BROKER_THREAD;
void node_fleet_down(struct nodes *nodes, int node) IN_BROKER_THREAD;
/* Any answer of a script; of the sentinel's, node_fleet_read() follows. */
void node_fleet_reply(struct nodes *nodes, int node,
                      const struct link_reply *reply) IN_BROKER_THREAD;
void node_fleet_read(struct nodes *nodes, int node,
                     const struct link_reply *reply) IN_BROKER_THREAD;
/* The renewal thread found another record on the node: it is asked now. */
void node_fleet_look(struct nodes *nodes, int node) IN_BROKER_THREAD;

#endif
