/* A trial of addresses: connects to each as a link would, greets it, and hangs up. Says who answers there
 * and whether it lets this user in. For a thread of its own: it waits. */
#ifndef HOLDFAST_AGENT_REDIS_TRIAL_H
#define HOLDFAST_AGENT_REDIS_TRIAL_H

#include <stdbool.h>

#include "agent/base/address.h"
#include "agent/core/node_trust.h"
#include "shm/layout.h"
#include "shm/nstime.h"

struct tls_keys;

struct trial {
    const struct node_address *address; /* in */
    struct tls_keys *keys;              /* in: for TLS; NULL: those in use */
    bool told;                          /* out: the rest is known */
    bool connected;                     /* somebody is there, whoever */
    bool answered;                      /* it is a Redis, and let us in */
    /* NONE; or why not; with `answered` why it refuses our writes */
    enum hf_node_error error;
    char run_id[TRUST_RUN_ID_LEN + 1];
    char text[160]; /* of `error`, without passwords */
};

/* All at once, for so long at most: then `error` is TIMEOUT. HF_OK, HF_ENOMEM, HF_ESYS. */
int trial_run(struct trial *trials, int count, hf_dur most);

#endif
