/* Who put a record of the fleet, and when, as the nodes keep it beside the record: for people, and for what a way back is. */
#ifndef HOLDFAST_AGENT_BROKER_NODES_NODE_AUTHOR_H
#define HOLDFAST_AGENT_BROKER_NODES_NODE_AUTHOR_H

#include <stdbool.h>
#include <stdint.h>

#define NODE_AUTHOR_BACK " back" /* behind who put it: to give up the change before it */

struct node_author {
    char host[64];
    uint32_t uid;
    int64_t wall_ms;
    bool way_back;
};

/* "HOST UID WALL_MS" or "HOST UID WALL_MS back"; of whatever else it is nothing is known: "", 0, 0. */
struct node_author node_author_read(const char *by);

#endif
