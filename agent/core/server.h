/* Which server a node of the list leads to, and since when. Pure.
 *
 * (!) Two nodes of the list may lead to one server: an address has come to lead to another node's
 * server, or two addresses are just being swapped. That server has one vote, in the name of the
 * node for which it gave it first. So a renewal counts only once no other node's vote for the lease
 * is of the same server. Which of the two nodes is listed first does not matter: the other one's
 * vote may be the one that stands. Nor does it matter whether that node's connection is up: its
 * vote stands until its end, and so does a vote that was sent before the node led elsewhere.
 */
#ifndef HOLDFAST_AGENT_CORE_SERVER_H
#define HOLDFAST_AGENT_CORE_SERVER_H

#include <stdbool.h>

#include "agent/core/node_trust.h"

struct server {
    char run_id[TRUST_RUN_ID_LEN + 1]; /* "" not heard of yet */
    char before[TRUST_RUN_ID_LEN + 1]; /* the one before; "" none */
    hf_time since; /* since when it is this one; HF_TIME_PAST: the first server that was met */
};

/* `run_id`: from an earlier agent's records; "": they have none. */
void server_init(struct server *server, const char *run_id);
/* The node told its run_id. `least`: the age from which on what a server says counts
 * (agent/core/age.h). A server that was there for less has given no vote. */
void server_on_run_id(struct server *server, const char *run_id, hf_dur least, hf_time now);
/* Whether both nodes lead to one server, or did before or after a change. */
bool server_is_shared(const struct server *server, const struct server *other);
/* Whether a vote that was sent to `other` at `a` was given by the server that `server` leads to
 * now. */
bool server_gave(const struct server *server, const struct server *other, hf_time a);

#endif
