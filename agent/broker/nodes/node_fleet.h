/* The fleet's record as the nodes show it (agent/core/fleet.h), and the seats of their links. */
#ifndef HOLDFAST_AGENT_BROKER_NODES_NODE_FLEET_H
#define HOLDFAST_AGENT_BROKER_NODES_NODE_FLEET_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/thread.h"
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
void node_fleet_probe(struct nodes *nodes, int node) IN_BROKER_THREAD;

/* Who put a record of the fleet, and when, as the nodes keep it beside the record: for people, and for what a way back is. */

#define NODE_AUTHOR_BACK " back" /* behind who put it: to give up the change before it */

struct node_author {
    char host[64];
    uint32_t uid;
    int64_t wall_ms;
    bool way_back;
};

/* "HOST UID WALL_MS" or "HOST UID WALL_MS back"; of whatever else it is nothing is known: "", 0, 0. */
struct node_author node_author_read(const char *by);

/* What people are shown of the fleet's record and of what each node says of it. */

/* HF_NODE_F_ bits. */
uint32_t node_fleet_flags(const struct nodes *nodes, int node);
/* Shows it, and counts it for metrics. */
void node_fleet_show(struct nodes *nodes, hf_time now);

/* What the fleet's record asks of this host: writes it where agent/core/fleet.h says so, keeps the one that this agent goes
 * by for the next agent, and sends links to their seats. */

/* Takes what steps there are. After every change, and at least every second. */
void node_fleet_review(struct nodes *nodes, hf_time now) IN_BROKER_THREAD;
/* An operator's change: it is put by the next reviews. As fleet_change_begin(). */
int node_fleet_change(struct nodes *nodes, const struct fleet_wish *wish, char *why,
                      size_t size) IN_BROKER_THREAD;

#endif
