/* What is known of the nodes, and kept for the next agent (agent/record/node_records.h). The broker's thread; the first one also while it is made. */
#ifndef HOLDFAST_AGENT_BROKER_NODES_NODE_KNOWN_H
#define HOLDFAST_AGENT_BROKER_NODES_NODE_KNOWN_H

#include <stdbool.h>

#include "shm/nstime.h"

struct nodes;

/* (!) Whatever is known of the server that was there is forgotten: the next one is judged by the node's record, or as
 * one that is met for the first time. */
void node_known_meet(struct nodes *nodes, int node, hf_time now);
/* What is told and kept of a node is of the server at its seat, by whatever way, not of another one that the
 * configuration leads to. */
bool node_known_is_it(const struct nodes *nodes, int node);
void node_known_keep(struct nodes *nodes, int node);

#endif
