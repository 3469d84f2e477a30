/* What people are shown of the fleet's record and of what each node says of it. */
#ifndef HOLDFAST_AGENT_BROKER_NODES_NODE_FLEET_SHOWN_H
#define HOLDFAST_AGENT_BROKER_NODES_NODE_FLEET_SHOWN_H

#include "agent/broker/nodes/nodes.h"

/* HF_NODE_F_ bits. */
uint32_t node_fleet_flags(const struct nodes *nodes, int node);
/* Shows it, and counts it for metrics. */
void node_fleet_show(struct nodes *nodes, hf_time now);

#endif
