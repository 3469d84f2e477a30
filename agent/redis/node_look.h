/* What each node of a list says of itself, without an agent: one connection to each, on which nothing is written.
 * Blocks. Any thread. */
#ifndef HOLDFAST_AGENT_REDIS_NODE_LOOK_H
#define HOLDFAST_AGENT_REDIS_NODE_LOOK_H

#include "agent/base/address.h"
#include "agent/core/fleet_record.h"
#include "agent/core/node_trust.h"
#include "shm/nstime.h"

enum node_look_outcome {
    NODE_LOOK_AWAY,     /* not reached, no answer in time, or not yet: this may pass */
    NODE_LOOK_REFUSED,  /* it answers, and is no Redis or refuses what an agent needs */
    NODE_LOOK_ANSWERED, /* facts and sentinel are filled in */
};

#define NODE_LOOK_TEXT 160
struct node_look {
    enum node_look_outcome outcome;
    char text[NODE_LOOK_TEXT]; /* what is wrong, without the password; "" when ANSWERED */
    /* ANSWERED: the rights that its user lacks, with which agents do better; "": none. */
    char lacks[NODE_LOOK_TEXT];
    struct node_facts facts;
    struct node_sentinel sentinel;
    char peer[HF_NODE_TEXT_MAX + 1]; /* as a seat */
    /* The fleet's record: HF_OK; HF_ENOTHELD: it has none; HF_EVERSION, HF_EINVAL: it cannot be read. */
    int recorded;
    struct fleet_record record;
    /* node_look_new(): a key of an agent that it has; "": none was found in the time */
    char key[64];
};

/* Looks at all of them at once, for no longer than `patience`. Who has not answered by then is AWAY; its thread is left
 * behind, detached, since looking up a name may take for ever (agent/redis/resolver.h). */
void nodes_look(const struct node_address *addresses, int count, hf_dur patience,
                struct node_look *ret_looks);
/* Looks at one that is to be a node, and for keys of agents there. */
void node_look_new(const struct node_address *address, hf_dur patience, struct node_look *ret_look);

#endif
