/* What the agent knows of the nodes (run_id, nonce, clock interval, quarantine, a trace that it owes), for the next
 * agent of this boot. The file stays when the agent ends, whether leases are left or not, and whatever the next
 * agent's capacity. An agent that began anew would believe clocks that were seen to step.
 *
 * One record of two halves per node (agent/state/state_file.h) in DIR/nodes, 0600 (agent/state/state_file.h). The broker writes;
 * broker and renewal thread read while they are made.
 */
#ifndef HOLDFAST_AGENT_STATE_NODE_RECORDS_H
#define HOLDFAST_AGENT_STATE_NODE_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/clock.h"
#include "agent/core/node_trust.h"

struct node_records;
struct list_change;

/* Makes DIR/nodes, if it is of the list before, one of the next list: what is known of a server stays with it, and
 * nothing is known of the others. Whatever else is there, or nothing, is left to node_records_open(). HF_ESYS, or
 * HF_EBUSY for a file that a living agent owns: nothing is changed. */
int node_records_carry(const char *dir, const struct boot_clock *clock,
                       const struct list_change *change, char *why, size_t why_size);
/* Opens or makes DIR/nodes. A file of another boot, list or layout, or one with a damaged header, begins anew (every node is
 * judged as on first contact); a file that is not ours, or that a living agent owns (HF_EBUSY), is refused in words. HF_OK,
 * HF_ENOMEM, HF_ESYS, HF_ETABLE. */
int node_records_open(const char *dir, int nodes, const char *list_hash,
                      const struct boot_clock *clock, struct node_records **ret_records, char *why,
                      size_t why_size);
/* Whether node_records_open() would refuse what is there; nothing is changed. HF_OK, or HF_ETABLE or HF_ESYS with a
 * sentence in `why`. */
int node_records_dry_run(const char *dir, char *why, size_t why_size);
void node_records_close(struct node_records *records); /* keeps the file */
/* The start is refused: removes the file unless an earlier agent left it. */
void node_records_undo(struct node_records *records);
void node_records_remove(struct node_records *records);

void node_records_put(struct node_records *records, int node, const struct node_trust *trust);
/* HF_ENOTHELD: nothing is known of the node. */
int node_records_get(const struct node_records *records, int node, struct node_trust *ret_trust);

#endif
