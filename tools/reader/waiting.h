/* Who waits for locks on this host, from the table: also of an agent that hangs. One thread. */
#ifndef HOLDFAST_TOOLS_READER_WAITING_H
#define HOLDFAST_TOOLS_READER_WAITING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/waiters.h"
#include "tools/reader/life.h"
#include "tools/reader/reader.h"

struct waiting_one {
    struct hf_waiter_row row;
    uint32_t place; /* among those of this host for the name, from 1 */
};

struct waiting {
    bool known; /* false: the agent is gone, and nobody waits for it */
    struct waiting_one *items;
    size_t count;
    uint64_t all; /* that wait for any name: more than the table can show, perhaps */
};

/* Those whose names begin with `prefix`, or have that `whole` name; by name, then by place. Ends the program if memory runs
 * out. */
void waiting_read(const struct hf_table *table, const struct life *life, const void *prefix,
                  size_t prefix_len, bool whole, struct waiting *ret_waiting);
void waiting_free(struct waiting *waiting);

#endif
