/* Whether a node takes writes: what it answered to the last acquires, and to the probe's writes that change
 * nothing and its script, which agents send that take no locks (agent/redis/link_handshake.c). Pure.
 *
 * A node may be out of memory or of disk, may want more replicas, may have become a replica, or may
 * give our user too few rights. Such a node answers everything else and so looks well. It is still
 * asked at every acquire: an acquire is what first shows that it takes writes again.
 */
#ifndef HOLDFAST_AGENT_CORE_NODE_WRITES_H
#define HOLDFAST_AGENT_CORE_NODE_WRITES_H

#include <stdbool.h>

#include "shm/layout.h"
#include "shm/nstime.h"

#define WRITES_TEXT 80 /* with NUL */

struct node_writes {          /* zeroed: it takes writes */
    enum hf_node_error locks; /* why the last acquire was refused; NONE: it was not */
    enum hf_node_error probe; /* the same for the probe: writes that change nothing, and a script */
    hf_time since;
    char text[WRITES_TEXT]; /* of the last refusal */
};

/* NONE: it takes writes. */
enum hf_node_error writes_refused(const struct node_writes *w);
/* An acquire, a raise or a new sentinel was answered: HF_NODE_ERR_NONE if it was written. */
void writes_on_lock(struct node_writes *w, enum hf_node_error error, const char *text, hf_time now);
/* The same for the writes that change nothing, and for the script that reads the sentinel. */
void writes_on_probe(struct node_writes *w, enum hf_node_error error, const char *text,
                     hf_time now);
/* The connection is a new one, perhaps to another server. */
void writes_reset(struct node_writes *w);

#endif
