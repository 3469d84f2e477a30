/* Whether an operator's change of the fleet may be asked for: looks at the server that is to be a node, at one that is said to be
 * gone, and once more at those that stay. It waits for names and nodes, a few seconds at most, so it has a thread of its own (agent/process/fleet_wishes.c).
 *
 * (!) What a server that is no empty master without replicas would break is in docs/SAFETY.md. What only the record tells (ids,
 * how many stay, what is under way) is judged by agent/core/fleet_change.h afterwards.
 */
#ifndef HOLDFAST_AGENT_PROCESS_FLEET_LOOK_H
#define HOLDFAST_AGENT_PROCESS_FLEET_LOOK_H

#include <stdbool.h>

#include "agent/config/config.h"
#include "agent/core/fleet_change.h"
#include "agent/core/node_trust.h"
#include "agent/record/fleet_shown.h"

/* A copy of all that is looked at: the thread may outlive what it was asked from. */
struct fleet_look {
    /* `seat`: the address as it was given; then the seat of the server there. */
    struct fleet_wish wish;
    struct config config; /* passwords */
    struct fleet_shown shown;
    char run_id[HF_NODES_MAX][TRUST_RUN_ID_LEN + 1]; /* of the configured nodes; "": not known */
    bool good;
    char why[512]; /* if not */
};

/* Fills in `good`, `why` and the wish's seat. */
void fleet_look(struct fleet_look *look);

#endif
