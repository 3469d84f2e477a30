/* The stores that outlive the agent or that others see: journal, node records, drain and table, opened and
 * closed together. Main thread. */
#ifndef HOLDFAST_AGENT_STATE_STORES_H
#define HOLDFAST_AGENT_STATE_STORES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/clock.h"
#include "agent/state/journal.h"

struct agent;
struct node_trust;

/* Opens or makes DIR/nodes and DIR/journal, then the table. If DIR/fleet has a record whose list, which is the
 * configuration's, is another one than that of these files, they are carried over first: by id and address, with all
 * leases. agent->fleet: that record. agent->warm: both are an earlier agent's. The caller
 * has the lock of `dir`, and has filled in config, shm_name, boot id and namespaces. Negative
 * status with a sentence in `why`. */
int stores_open(struct agent *agent, const char *dir, char *why, size_t why_size);

struct config;
/* (!) A table with a living agent is never replaced, whatever directory that agent has. HF_EBUSY with `why`: one lives, and
 * not in the directory `but_in` (NULL: wherever). */
int stores_refuse_second(const struct config *config, const char *but_in, char *why,
                         size_t why_size);

/* What stores_open() would do. Nothing is changed, and the agent may run. */
struct stores_view {
    struct journal_view journal;
    bool warm; /* table and journal would be kept */
};
/* HF_OK: an agent would start; with `warm` false and `why` not "": the leases would end, because of that. HF_ETABLE: it
 * would refuse to, by the sentence in `why`. HF_ENOMEM, HF_ESYS: they cannot be looked at. Close
 * ret_view->journal.journal after HF_OK and HF_ETABLE. */
int stores_dry_run(const struct config *config, const char *dir, const char *shm_name,
                   const struct boot_clock *clock, uint64_t timens_inode,
                   struct stores_view *ret_view, char *why, size_t why_size);

/* When no thread uses them any more. All of them stay for the next agent: leases with their holders, and what happened. An
 * ephemeral agent leaves nothing: its nodes end now. Returns whether the journal has records that are not FREE. */
bool stores_close(struct agent *agent);

/* What an earlier agent knew of a node; false: nothing, or it does not apply. Called while broker and renewal
 * thread are made. */
bool stores_known_node(const struct agent *agent, int node, struct node_trust *ret_trust);

#endif
