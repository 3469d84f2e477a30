/* Whether a node takes writes: what it answered to the last acquires, and to a write that changes
 * nothing (agent/redis/link_handshake.c), which an agent sends that takes no locks. Pure.
 *
 * A node that is out of memory or of disk, that wants more replicas or has become one, or that gives
 * our user too few rights, answers everything else and so looks well. It is asked at every acquire all
 * the same: that tells first when it is over.
 */
#ifndef HOLDFAST_AGENT_CORE_NODE_WRITES_H
#define HOLDFAST_AGENT_CORE_NODE_WRITES_H

#include <stdbool.h>

#include "shm/layout.h"
#include "shm/nstime.h"

#define WRITES_TEXT 80 /* with NUL */

struct node_writes {          /* zeroed: it takes writes */
    enum hf_node_error locks; /* the acquire that was refused last; NONE: none since one was not */
    enum hf_node_error probe; /* the same of the write that changes nothing */
    hf_time since;
    char text[WRITES_TEXT]; /* of the last refusal */
};

/* NONE: it takes them. */
enum hf_node_error writes_refused(const struct node_writes *w);
/* An acquire, a raise or a new sentinel was answered: HF_NODE_ERR_NONE if it was written. */
void writes_on_lock(struct node_writes *w, enum hf_node_error error, const char *text, hf_time now);
/* The same of the write that changes nothing. */
void writes_on_probe(struct node_writes *w, enum hf_node_error error, const char *text,
                     hf_time now);
/* Another connection, perhaps to another server. */
void writes_reset(struct node_writes *w);

#endif
