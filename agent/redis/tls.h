/* TLS over a connection to a node, by OpenSSL alone: hiredis formats and parses. It works the same with hiredis 0.14,
 * which has no TLS, and with 1.x.
 *
 * Nothing here waits on a descriptor that does not block: a peer that is slow or says nothing costs its own connection
 * only. One thread per connection.
 *
 * (!) A handshake has a thread of its own, of low priority. A peer that has proved nothing chooses what is computed in one: a
 * certificate of 400 bytes was seen to keep OpenSSL for 0.2 s (a key on a curve of its own), and a chain has 150 of them.
 *
 * Who writes: that thread, from tls_open() until tls_shake() says more than TLS_READ; then the connection's thread. A
 * connection that ends before leaves everything to the thread.
 */
#ifndef HOLDFAST_AGENT_REDIS_TLS_H
#define HOLDFAST_AGENT_REDIS_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "agent/base/address.h"
#include "shm/layout.h"

struct redisReader;
struct tls;
struct tls_keys;

enum tls_step {
    TLS_DONE,
    TLS_READ,  /* go on when the descriptor is readable */
    TLS_WRITE, /* ...writable */
    TLS_ENDED, /* see tls_error() */
};

/* Begins TLS over a connected descriptor, which stays the caller's, and its handshake. `keys` NULL: those in use. HF_OK; HF_ENOMEM;
 * HF_EINVAL: there are no keys; HF_EBUSY: a handshake with that peer was given up and is computed yet (TLS_BUSY_TEXT). */
int tls_open(struct tls_keys *keys, const struct node_address *address, int fd,
             struct tls **ret_tls);
void tls_close(struct tls *tls); /* NULL is fine */

/* What becomes readable when the handshake is over. It is gone once tls_shake() says so. */
int tls_shaken_fd(const struct tls *tls);
/* How the handshake has ended; TLS_READ: it has not. (!) Done says that the server is who it should be, not that it wants us: a
 * client certificate that it refuses shows in what is read next. */
enum tls_step tls_shake(struct tls *tls);
/* Reads once, up to a record, into the reader. */
enum tls_step tls_feed(struct tls *tls, struct redisReader *reader);
/* Sends what is in hiredis' output buffer, and takes that out of it. */
enum tls_step tls_send(struct tls *tls, char **buffer);

/* Whether the peer has sent anything. Also while its handshake goes on. */
bool tls_heard(const struct tls *tls);
/* After TLS_ENDED. The text is for people: what is wrong, or the remedy first. */
enum hf_node_error tls_error(const struct tls *tls);
const char *tls_error_text(const struct tls *tls);
#define TLS_BUSY_TEXT "the TLS handshake takes too long"

/* --- which protocol a peer speaks that does not answer in ours --------------------------------- */

/* What is sent to a peer to learn whether it speaks the other protocol: TLS where the address wants none, and Redis'
 * own where it wants TLS. */
const void *tls_knock(const struct node_address *address, size_t *ret_length);
/* Whether the peer's first byte says so: HF_NODE_ERR_WANTS_TLS, HF_NODE_ERR_NO_TLS; otherwise HF_NODE_ERR_NONE. */
enum hf_node_error tls_knocked(const struct node_address *address, unsigned char first);
/* The sentence for these two. */
const char *tls_knocked_text(enum hf_node_error error);

#endif
