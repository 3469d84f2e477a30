/* Makes sentinels, and writes a trace on nodes whose clock stepped. */
#ifndef HOLDFAST_AGENT_BROKER_NODES_SENTINELS_H
#define HOLDFAST_AGENT_BROKER_NODES_SENTINELS_H

#include "agent/broker/nodes/nodes.h"

/* Whose each node is, by what is known now. */
void sentinels_judge(struct nodes *nodes);
/* Makes one where there is none; with --reset-fleet replaces those of another list. */
void sentinels_make(struct nodes *nodes, hf_time now);
/* Replaces the nonce of nodes whose clock stepped under it. */
void sentinels_trace(struct nodes *nodes, hf_time now);
/* Reads sentinel and record now, unless that is under way. */
void sentinel_reread(struct nodes *nodes, int node, hf_time now);
/* A sentinel was read. Returns enum trust_event bits. */
unsigned sentinel_adopt(struct nodes *nodes, int node, const struct link_reply *reply, hf_time now);
/* Whether the node's sentinel is another fleet's, and in `ret_text` how it differs. Any thread. */
bool sentinel_differs(const struct node_sentinel *sentinel, const struct config *config, int node,
                      char *ret_text, size_t size);

#endif
