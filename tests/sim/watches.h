/* CLIENT TRACKING as the agents use it: which keys a node watches for whom, and the connections on
 * which it tells of them. Replaces agent/redis/notices.c at its interface.
 *
 * What a node tells is lost with its connection, may come late, and may be of a key that nobody
 * changed. Of a key that lapses it tells when it next looks at it.
 */
#ifndef HOLDFAST_TESTS_SIM_WATCHES_H
#define HOLDFAST_TESTS_SIM_WATCHES_H

#include "tests/sim/fake_hiredis.h"
#include "tests/sim/vnode.h"

void watches_reset(void);

/* --- for the nodes ---------------------------------------------------------------------------- */

/* CLIENT TRACKING ON REDIRECT id. False: no such connection. */
bool watches_on(struct sim_connection *reader, int id);
/* The script of `reader` looked at the key, after CLIENT CACHING YES. */
void watches_read(struct vnode *node, struct sim_connection *reader, const char *key);
/* The key was changed: by a script of `writer`, or (NULL) because it lapsed. */
void watches_changed(struct vnode *node, const struct sim_connection *writer, const char *key);
/* Its server has restarted. */
void watches_forget(const struct sim_connection *reader);
void watches_flushed(struct vnode *node);

/* --- for the faults --------------------------------------------------------------------------- */

void watches_agent_gone(const struct sim_host *host);
void watches_node_gone(const struct vnode *node);
/* Some of the node's connections are reset; `told`: the agents learn of it. */
void watches_break(const struct vnode *node, bool told);
/* What was held up by the network arrives now. */
void watches_hurry(void);

#endif
