/* Until when q nodes surely hold our token. Pure. */
#ifndef HOLDFAST_AGENT_CORE_VALIDITY_H
#define HOLDFAST_AGENT_CORE_VALIDITY_H

#include "shm/layout.h"
#include "shm/nstime.h"

/* The q-th largest of `count` instants; HF_TIME_PAST stands for "no vote", and is returned when
 * count < q. 0 <= count <= HF_NODES_MAX, q >= 1. */
hf_time validity_qth(const hf_time *d, int count, int q);

#endif
