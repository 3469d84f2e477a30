/* What outlives the agent or is seen by others: journal, node records and table, opened and closed
 * together. Main thread. */
#ifndef HOLDFAST_AGENT_RECORD_STORES_H
#define HOLDFAST_AGENT_RECORD_STORES_H

#include <stdbool.h>
#include <stddef.h>

struct agent;
struct node_trust;

/* Opens or makes DIR/nodes and DIR/journal, then the table. agent->warm: both are an earlier agent's. The caller
 * has the lock of `dir`, and has filled in config, shm_name, boot id and namespaces. Negative
 * status with a sentence in `why`. */
int stores_open(struct agent *agent, const char *dir, char *why, size_t why_size);

/* No thread uses them any more. Leases of living holders stay, table and journal, for the next
 * agent; otherwise both are removed. What is known of the nodes always stays. An ephemeral agent leaves
 * nothing: its nodes end now. Returns whether leases stay. */
bool stores_close(struct agent *agent);

/* What an earlier agent knew of a node, as far as it is to be gone by: false otherwise. While broker and renewal
 * thread are made. */
bool stores_known_node(const struct agent *agent, int node, struct node_trust *ret_trust);

#endif
