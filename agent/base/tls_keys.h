/* The certificates and the key for TLS to nodes, as files had them once: whom to trust, and who we are. Immutable and
 * counted: each connection is made with those of its time, and a reload puts others in their place.
 *
 * Threads: any may call any of these. What is in use stands behind a mutex that nobody holds for longer than it takes
 * to copy a pointer.
 */
#ifndef HOLDFAST_AGENT_BASE_TLS_KEYS_H
#define HOLDFAST_AGENT_BASE_TLS_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/core/sha1.h"

struct ssl_ctx_st;
struct tls_keys;

struct tls_files {        /* paths */
    const char *ca;       /* NULL: none, and no server is trusted */
    const char *cert;     /* ours, with the chain behind it; NULL: none */
    const char *key;      /* ours; NULL: it is in the file of the certificate */
    bool check_host;      /* the server's certificate has to be for the node's host */
    const char *names[3]; /* of the settings, for messages: ca, cert, key */
};

/* Reads the files. HF_OK; HF_ENOMEM; HF_EINVAL, with a sentence in `why` that names setting and file. Never asks for a
 * passphrase. */
int tls_keys_load(const struct tls_files *files, struct tls_keys **ret_keys, char *why,
                  size_t why_size);
struct tls_keys *tls_keys_hold(struct tls_keys *keys); /* one reference more; NULL stays NULL */
void tls_keys_drop(struct tls_keys *keys);             /* one less; NULL is fine */

/* From now on new connections use these; takes over the caller's reference. NULL: none. */
void tls_keys_use(struct tls_keys *keys);
struct tls_keys *tls_keys_now(void); /* with a reference; NULL: none */

struct ssl_ctx_st *tls_keys_context(const struct tls_keys *keys);
bool tls_keys_check_host(const struct tls_keys *keys);
bool tls_keys_have_certificate(const struct tls_keys *keys);
/* Of the bytes of all files: the same for the same. */
const char *tls_keys_digest(const struct tls_keys *keys);
/* A sentence: our certificate is over, or will be within two weeks, or every user can read the key; "": none of it. */
const char *tls_keys_warning(const struct tls_keys *keys);

#endif
