/* What outlives the agent or is seen by others: the journal and the table, opened and
 * closed together. Main thread. */
#ifndef HOLDFAST_AGENT_STORES_H
#define HOLDFAST_AGENT_STORES_H

#include <stdbool.h>
#include <stddef.h>

struct agent;

/* Opens or makes DIR/journal, then the table. agent->warm: both are an earlier agent's. The caller
 * has the lock of `dir`, and has filled in config, shm_name, boot id and namespaces. Negative
 * status with a sentence in `why`. */
int stores_open(struct agent *agent, const char *dir, char *why, size_t why_size);

/* No thread uses them any more. Leases of living holders stay, table and journal, for the next
 * agent; otherwise both are removed. `--dev` leaves nothing: its nodes end now. Returns
 * whether anything stays. */
bool stores_close(struct agent *agent);

#endif
