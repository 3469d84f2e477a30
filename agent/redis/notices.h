/* The connection on which a node tells that a key which was read has changed: CLIENT TRACKING in
 * RESP2 redirects the notices of another connection (the link's) to one that is subscribed to
 * __redis__:invalidate.
 *
 * A notice is a hint: it is lost with its connection, it does not say what happened, and it comes
 * seconds late for a key that expires. One object is one connection: it is opened, gets ready, and
 * ends; its owner opens it again. Threads: it belongs to the loop on which it was
 * made.
 */
#ifndef HOLDFAST_AGENT_REDIS_NOTICES_H
#define HOLDFAST_AGENT_REDIS_NOTICES_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/address.h"
#include "agent/base/loop.h"
#include "shm/nstime.h"

struct notices;

/* No callback runs from inside notices_open() or notices_close(); notices_close() may be called in
 * any of them. */
struct notices_events {
    /* Subscribed. `client_id`: this connection's, for REDIRECT. */
    void (*ready)(int64_t client_id, void *arg);
    /* A key that was read has changed; NULL: any may have (FLUSHALL). It costs most with NULL, which is told once in 100 ms
     * at most: at once or, after another one, later, and then behind keys that changed after it. */
    void (*changed)(const void *key, size_t key_len, void *arg);
    /* It ended, or could not be made. `refused`: the node answers, but does not allow it. `text`:
     * may repeat what we sent, so it is for link_copy_text(). */
    void (*ended)(bool refused, const char *text, void *arg);
};

/* `address` must outlive it. HF_ENOMEM. */
int notices_create(struct loop *loop, const struct node_address *address, hf_dur silence,
                   const struct notices_events *events, void *arg, struct notices **ret_notices);
void notices_destroy(struct notices *notices);
/* For the connections from now on. The earlier address is not used any more. */
void notices_configure(struct notices *notices, const struct node_address *address, hf_dur silence);
/* Connects to `host`, a numeric address or a socket's path. Closes an open connection first. */
void notices_open(struct notices *notices, const char *host);
void notices_close(struct notices *notices);

#endif
