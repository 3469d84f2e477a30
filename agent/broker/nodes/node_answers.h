/* What an answer shows of the node itself: its clock, whether it has forgotten, which fleet's record it has. */
#ifndef HOLDFAST_AGENT_BROKER_NODES_NODE_ANSWERS_H
#define HOLDFAST_AGENT_BROKER_NODES_NODE_ANSWERS_H

#include "agent/broker/nodes/nodes.h"

struct message;

/* A reply of any script on a broker's link: clock, nonce, counters. Returns enum trust_event bits. */
unsigned nodes_on_reply(struct nodes *nodes, int node,
                        const struct link_reply *reply) IN_BROKER_THREAD;
/* Logs, records and passes on what a reply or a connection showed: TRUST_* bits. */
void nodes_note(struct nodes *nodes, int node, unsigned events, hf_time now) IN_BROKER_THREAD;
/* The same from the renewal thread. */
void nodes_on_told(struct nodes *nodes, const struct message *m) IN_BROKER_THREAD;

#endif
