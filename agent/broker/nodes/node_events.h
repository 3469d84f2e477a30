/* Each thing that happens to a node is logged and told by one event. */
#ifndef HOLDFAST_AGENT_BROKER_NODES_NODE_EVENTS_H
#define HOLDFAST_AGENT_BROKER_NODES_NODE_EVENTS_H

#include "agent/broker/nodes/nodes.h"

/* Events that an earlier agent has told count as told. */
void node_events_begin(struct nodes *nodes, int node);
void node_events_up(struct nodes *nodes, int node, const char *version);
void node_events_down(struct nodes *nodes, int node, enum hf_node_error error, const char *text);
/* `events`: enum trust_event bits that this thread found. */
void node_events_found(struct nodes *nodes, int node, unsigned events);
/* The same for events that the renewal thread found. */
void node_events_heard(struct nodes *nodes, int node, unsigned events);
/* Tells refusals and quarantines that differ from those told last. */
void node_events_review(struct nodes *nodes, int node, hf_time now);

#endif
