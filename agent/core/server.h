/* Which servers the nodes of the list lead to, and since when. Pure.
 *
 * (!) Two nodes of the list may lead to one server: an address has come to lead to another node's
 * server, two addresses are just being swapped, or a server says that it is another one. All these nodes
 * are asked, and their votes are one vote (agent/core/server.h), which lasts as long as the latest of
 * them. Nobody can know which of them lies, so no node is refused.
 * (!) A vote is of the server that was there when it was sent. While it stands it counts as one with votes of the
 * server that is there now, and of the one before: that may be a restart, and what was started anew gives no second vote by
 * way of another node.
 */
#ifndef HOLDFAST_AGENT_CORE_SERVER_H
#define HOLDFAST_AGENT_CORE_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/node_trust.h"
#include "shm/layout.h"
#include "shm/nstime.h"

/* How many servers a set of nodes is, where some nodes lead to one server or say so. Pure.
 *
 * (!) A majority is q nodes, each of another server. Any two majorities have a server in common, also where one server
 * is at two seats. All that is counted to q is counted here. A node that lies about its server loses its own
 * vote at most: the largest set of different servers counts, and honest nodes are different ones.
 */

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

struct server {
    char run_id[TRUST_RUN_ID_LEN + 1]; /* "" not heard of yet */
    char before[TRUST_RUN_ID_LEN + 1]; /* the one before; "" none */
    hf_time since; /* since when it is this one; HF_TIME_PAST: the first server that was met */
};

/* Those of the whole list. */
struct servers {
    struct server node[HF_NODES_MAX];
    bool alike; /* two nodes may have a server in common: else there is nothing to look for */
};

/* `run_id`: from an earlier agent's records; "": they have none. */
void servers_meet(struct servers *servers, int node, const char *run_id);
/* The node told its run_id. `least`: the age from which on what a server says counts
 * (agent/core/age.h). A server that was there for less has given no vote. */
void servers_on_run_id(struct servers *servers, int node, const char *run_id, hf_dur least,
                       hf_time now);
/* Whose votes are of one server. `a`: when each vote was sent; NULL: all are sent now. NULL for `servers`: none. */
void servers_twins(const struct servers *servers, const hf_time *a, int count,
                   struct twins *ret_twins);
/* V of votes that last until `d`, HF_TIME_PAST: no vote, and were sent `span` before. */
hf_time servers_validity(const struct servers *servers, const hf_time *d, hf_dur span, int count,
                         int q);
/* How many servers' votes last longer than until `now`. */
int servers_votes(const struct servers *servers, const hf_time *d, hf_dur span, int count,
                  hf_time now);
/* How many servers these nodes (bit per node) are now. */
int servers_count(const struct servers *servers, uint32_t nodes);
/* The first other node of the list that says it is the same server as this one now; -1: none. */
int servers_twin(const struct servers *servers, int node);

#endif
