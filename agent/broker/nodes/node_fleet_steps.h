/* What the fleet's record asks of this host: writes it where agent/core/fleet.h says so, keeps the one that this agent goes
 * by for the next agent, and sends links to their seats. */
#ifndef HOLDFAST_AGENT_BROKER_NODES_NODE_FLEET_STEPS_H
#define HOLDFAST_AGENT_BROKER_NODES_NODE_FLEET_STEPS_H

#include "agent/base/thread_role.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/core/fleet_change.h"

/* Takes what steps there are. After every change, and at least every second. */
void node_fleet_review(struct nodes *nodes, hf_time now) IN_BROKER_THREAD;
/* An operator's change: it is put by the next reviews. As fleet_change_begin(). */
int node_fleet_change(struct nodes *nodes, const struct fleet_wish *wish, char *why,
                      size_t size) IN_BROKER_THREAD;

#endif
