/* What is known of the nodes, and kept for the next agent (agent/record/node_records.h). In the broker's thread; meeting a
 * node also while the broker is made. */
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
/* fleet_shown() for all that is kept. (!) What is kept of a node that was not met in this run is of an earlier one, which may
 * have had a shorter quarantine: then it is the instant that this run began with. */
hf_time node_known_shown(const struct nodes *nodes);

#endif
