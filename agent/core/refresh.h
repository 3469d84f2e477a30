/* When the fence records of held leases are written again, for nodes drop a record seven days after
 * its last acceptance (agent/scripts/common.lua): the slots of the lease table come one after the
 * other, each once a day. So nothing is kept for each lease, and a million of them make no burst.
 * An agent that starts does not know when the one before it came by: its first lap takes an hour and
 * begins anywhere. Pure. One thread.
 */
#ifndef HOLDFAST_AGENT_CORE_REFRESH_H
#define HOLDFAST_AGENT_CORE_REFRESH_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/nstime.h"

struct refresh {
    uint32_t slots, next;
    uint32_t first; /* slots that the first lap has left */
    hf_time due;    /* of `next` */
};

/* `slots` > 0; `random`: any number. */
void refresh_init(struct refresh *r, uint32_t slots, uint32_t random, hf_time now);
/* The slot whose time has come; false: none, for now. To be called until then. Of a standstill it
 * makes up for a second: the lap takes longer by the rest. */
bool refresh_take(struct refresh *r, hf_time now, uint32_t *ret_slot);

#endif
