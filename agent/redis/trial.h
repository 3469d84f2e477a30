/* A trial of addresses: connects to each as a link would, greets it, and hangs up. Says who answers there
 * and whether it lets this user in. Nothing is written there. For a thread of its own, or none: it waits. */
#ifndef HOLDFAST_AGENT_REDIS_TRIAL_H
#define HOLDFAST_AGENT_REDIS_TRIAL_H

#include <stdbool.h>

#include "agent/base/address.h"
#include "agent/core/fleet_record.h"
#include "agent/core/node_trust.h"
#include "shm/layout.h"
#include "shm/nstime.h"

struct tls_keys;

#define TRIAL_TEXT 160
struct trial {
    /* in: */
    const struct node_address *address;
    struct tls_keys *keys; /* for TLS; NULL: those in use */
    bool asks_rights;      /* for each right that its user needs: without them it is refused */
    bool seeks_keys;       /* of agents */

    /* out: */
    bool told;      /* the rest is known */
    bool connected; /* somebody is there, whoever */
    bool answered;  /* it is a Redis, and let us in */
    /* NONE; or why not; with `answered` why it refuses our writes */
    enum hf_node_error error;
    char text[TRIAL_TEXT]; /* of `error`, without passwords */

    /* with `answered`: */
    struct node_facts facts;
    struct node_sentinel sentinel;   /* none of a replica, nor in cluster mode; nor a record */
    char peer[HF_NODE_TEXT_MAX + 1]; /* as a seat */
    char lacks[TRIAL_TEXT];          /* the rights with which agents do better; "": none */
    /* The fleet's record: HF_OK; HF_ENOTHELD: it has none; HF_EVERSION, HF_EINVAL: it cannot be read. */
    int recorded;
    struct fleet_record record;
    char key[64]; /* of an agent; "": none was found in half of the time */
};

/* All at once, for so long at most: then `error` is TIMEOUT. HF_OK, HF_ENOMEM, HF_ESYS. */
int trial_run(struct trial *trials, int count, hf_dur most);
/* It has not answered, for a reason that may pass by itself: it is away, or not ready yet. */
bool trial_may_pass(const struct trial *trial);

#endif
