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
/* The latest vote. (!) No holder was shown a V that is later, whatever is known of how it came about. By an earlier record or
 * list other servers counted, and some of those that stay are in every majority of those. Of a void vote the journal tells
 * before the word does, which has the V of before then; where too many are void at once the lease is lost, and the journal
 * has V in place of the latest (agent/record/lease_record.c). */
hf_time validity_latest(const hf_time *d, int count);

#endif
