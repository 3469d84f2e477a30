/* The fleet's record in the broker: reads it from the nodes, writes it where agent/core/fleet.h says so, keeps the one
 * that this agent goes by for the next agent, and sends links to their seats. */
#ifndef HOLDFAST_AGENT_BROKER_NODES_NODE_FLEET_H
#define HOLDFAST_AGENT_BROKER_NODES_NODE_FLEET_H

#include "agent/base/thread_role.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/core/fleet_change.h"

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
/* Takes what steps there are. After every change, and at least every second. */
void node_fleet_review(struct nodes *nodes, hf_time now) IN_BROKER_THREAD;
/* For fleet_text of the node: why its record is not for this host; or "". */
bool node_fleet_objects(const struct nodes *nodes, int node, char *ret_text, size_t size);
/* An operator's change: it is put by the next reviews. As fleet_change_begin(). */
int node_fleet_change(struct nodes *nodes, const struct fleet_wish *wish, char *why,
                      size_t size) IN_BROKER_THREAD;

#endif
