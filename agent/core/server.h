/* Which server a node of the list led to, and when. Pure.
 *
 * (!) Two nodes of the list may lead to one server: by an address that slipped, or in the middle of
 * swapping two. It has one vote then, in the name of whichever node it gave that first. So a renewal
 * counts from when no other node's vote for the lease is of the same server. Which of the two is
 * listed first is of no account: the other's vote may be the one that stands. Nor is whether that
 * node's connection is up: its vote stands until its end, and so does one that was sent before the
 * node led elsewhere.
 */
#ifndef HOLDFAST_AGENT_CORE_SERVER_H
#define HOLDFAST_AGENT_CORE_SERVER_H

#include <stdbool.h>

#include "agent/core/node_trust.h"

struct server {
    char run_id[TRUST_RUN_ID_LEN + 1]; /* "" not heard of yet */
    char before[TRUST_RUN_ID_LEN + 1]; /* the one before; "" none */
    hf_time since;                     /* it is this one; HF_TIME_PAST: the first that was met */
};

/* `run_id`: what an earlier agent's records say; "" nothing. */
void server_init(struct server *server, const char *run_id);
/* The node says who it is. `least`: the age from which on what it says counts (agent/core/age.h), so
 * that a server which was there for less has given no vote. */
void server_on_run_id(struct server *server, const char *run_id, hf_dur least, hf_time now);
/* Whether both lead to one server, or did before and after a change. */
bool server_is_shared(const struct server *server, const struct server *other);
/* Whether a vote that was sent to `other` at `a` is of the server that `server` leads to now. */
bool server_gave(const struct server *server, const struct server *other, hf_time a);

#endif
