/* Until when q nodes surely hold our token. Pure. */
#ifndef HOLDFAST_AGENT_CORE_VALIDITY_H
#define HOLDFAST_AGENT_CORE_VALIDITY_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/layout.h"
#include "shm/nstime.h"

/* The q-th largest of `count` instants; HF_TIME_PAST stands for "no vote", and is returned when
 * count < q. 0 <= count <= HF_NODES_MAX, q >= 1. */
hf_time validity_qth(const hf_time *d, int count, int q);

/* When an agent starts by another record of the fleet (agent/core/fleet_record.h); `counting`: bit per node.
 * (!) What a server told that does not count, or not yet, is no vote any more: an earlier record counted it, and it may not
 * make up a majority with votes by this one. */
void validity_drop(hf_time *d, int count, uint32_t counting);
/* Until when a holder may rely on a lease. (!) It was told a V by what counted before; some of those that stay are
 * in every majority of that, so the last of their d_i is no earlier. `narrow`: the record has not settled, which list, q and
 * counting need not show where a node was removed. */
hf_time validity_relied_on(const hf_time *d, int count, int q, bool narrow);

#endif
