/* Whether the agent is drained, in its table's header.
 *
 * Who writes: the agent; main while it starts, the broker thread from then on. Who reads: everybody. Ordering:
 * `drained_wall_ms` is stored last (release) and loaded first (acquire); a reader that finds it changed after it
 * has read the others begins anew. */
#ifndef HOLDFAST_SHM_DRAINED_H
#define HOLDFAST_SHM_DRAINED_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/table.h"

struct hf_drained {
    bool stands;
    int64_t since_wall_ms; /* Unix time; 0: not known, nor who it was */
    uint32_t uid, pid;
};

void hf_drained_publish(struct hf_table *table, const struct hf_drained *drained);
/* Not drained in the table of an agent that knows of no drains: what stands there is an earlier agent's. */
void hf_drained_read(const struct hf_table *table, struct hf_drained *ret_drained);

#endif
