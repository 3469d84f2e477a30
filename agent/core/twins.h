/* How many servers a set of nodes is, where some nodes lead to one server or say so. Pure.
 *
 * (!) A majority is q nodes, each of another server. Any two majorities have a server in common, also where one server
 * is at two seats. All that is counted to q is counted here. A node that lies about its server loses its own
 * vote at most: the largest set of different servers counts, and honest nodes are different ones.
 */
#ifndef HOLDFAST_AGENT_CORE_TWINS_H
#define HOLDFAST_AGENT_CORE_TWINS_H

#include <stdint.h>

#include "shm/layout.h"
#include "shm/nstime.h"

/* All zero: each node is a server of its own. */
struct twins {
    uint16_t of[HF_NODES_MAX]; /* bit per node: the other nodes of the same server */
};

void twins_pair(struct twins *twins, int one, int other);
/* The largest number of the nodes (bit per node) of which no two are of one server. NULL: as all zero. */
int twins_count(const struct twins *twins, uint32_t nodes);
/* The latest instant that q nodes, each of another server, reach; HF_TIME_PAST stands for "no vote", and is returned
 * when there are fewer. */
hf_time twins_validity(const struct twins *twins, const hf_time *d, int count, int q);

#endif
