/* When the fence records of held leases are written again: nodes drop a record seven to eight days after its
 * last acceptance (agent/scripts/common.lua). The slots of the lease table come one after the
 * other, each once a day. So nothing is kept for each lease, and a million leases make no burst. An
 * agent that starts does not know when the agent before it wrote them: its first lap takes an hour
 * and begins anywhere. Pure. One thread.
 */
#ifndef HOLDFAST_AGENT_CORE_REFRESH_H
#define HOLDFAST_AGENT_CORE_REFRESH_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/nstime.h"

struct refresh {
    uint32_t slots, next;
    uint32_t first; /* slots left in the first lap */
    hf_time due;    /* when `next` is due */
};

/* `slots` > 0; `random`: any number. */
void refresh_init(struct refresh *r, uint32_t slots, uint32_t random, hf_time now);
/* The slot whose time has come; false: none for now. Call until false. After a standstill it makes
 * up for one second; the lap takes longer by the rest. */
bool refresh_take(struct refresh *r, hf_time now, uint32_t *ret_slot);

#endif
