/* What the main thread asks the broker for in an operator's name (MSG_FLEET_CHANGE), and its answer.
 *
 * Who writes: main, before it posts the order; then the broker, up to `taken`. Main frees it after that, or when
 * the broker thread has ended.
 */
#ifndef HOLDFAST_AGENT_RECORD_FLEET_ORDER_H
#define HOLDFAST_AGENT_RECORD_FLEET_ORDER_H

#include <stdatomic.h>

#include "agent/core/fleet_change.h"

struct fleet_order {
    struct fleet_wish wish;
    int rc; /* of fleet_change_begin() */
    char why[512];
    struct fleet_record record; /* HF_OK: what will be put */
    atomic_bool taken;
};

#endif
