/* Events: what happened to leases and nodes, put into the table for `history` and `watch`.
 *
 * One function per thing that happens, called once where it is known to have happened: a loss, a
 * voided vote, an escalation is one event, whoever else finds it again. Events are published and
 * never read back: nothing is decided by them. An event is a few stores into the table: it never
 * waits, never fails, and a successful renewal writes none.
 *
 * Threads: a ring has one writing thread (shm/layout.h). The broker's functions may also be called
 * while it is made, before any thread runs; those of a lease only by the thread that owns it.
 */
#ifndef HOLDFAST_AGENT_STATE_EVENTS_H
#define HOLDFAST_AGENT_STATE_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/node_trust.h"
#include "agent/core/rules.h"
#include "agent/state/lease.h"
#include "agent/state/mailbox.h"
#include "shm/layout.h"
#include "shm/nstime.h"

struct agent;
struct journal_identity;
struct journal_lease;

/* After the table was opened: event numbers continue an earlier agent's. */
void events_begin(struct agent *agent);

/* --- broker: leases --------------------------------------------------------------------------- */

/* `waited`: since the request came. */
void event_granted(struct agent *agent, const struct lease *lease, hf_dur waited);
/* A lease that ends before the renewal thread adopted it. */
void event_released(struct agent *agent, const struct lease *lease);
/* A start that is none: a run that was started so long ago counts for this period. */
void event_skipped(struct agent *agent, const struct lease *lease, int64_t ago_ms);
/* After that: the nodes' answers to the release show that it had been lost. */
void event_found_lost(struct agent *agent, const struct lease *lease, enum hf_loss_reason reason);
/* A grant by hand-off, without a round. `valid`, `voting`: at that time. */
void event_taken_over(struct agent *agent, const struct lease *lease, hf_time valid,
                      uint16_t voting, hf_dur waited);
void event_readopted(struct agent *agent, const struct lease *lease);
/* While the broker is made: a lease of the journal that is not readopted. Nothing if its end is among
 * the events already. */
void event_not_readopted(struct agent *agent, uint32_t slot, const struct journal_identity *id,
                         const struct journal_lease *state, enum hf_event_kind kind,
                         enum hf_loss_reason reason);

/* A hold of `name` was forced out on `nodes` nodes, by order of process `pid` of user `uid`. */
void event_forced(struct agent *agent, const void *name, size_t name_len, uint64_t fence,
                  uint32_t pid, uint32_t uid, int nodes);

/* Process `pid` of user `uid` wants to do that with the name, and may not. */
void event_denied(struct agent *agent, enum right right, const void *name, size_t name_len,
                  uint32_t pid, uint32_t uid);

/* --- broker: the agent and its nodes ---------------------------------------------------------- */

void event_agent_started(struct agent *agent);
void event_agent_ending(struct agent *agent);
/* The text: what changed, or why it was refused. */
void event_reload(struct agent *agent, bool applied, const char *text);
/* It goes by that version of the fleet's record. `host`, `uid`: who put it; "" not known. */
void event_fleet(struct agent *agent, enum hf_fleet_step step, uint64_t version, const char *host,
                 uint32_t uid);
/* It is drained, or not any more, by order of process `pid` of user `uid`. */
void event_drained(struct agent *agent, bool drained, uint32_t pid, uint32_t uid);
/* Before any event of the new list: the node at that place has another id from now on. */
void event_node_place(struct agent *agent, int place, const char *id);
void event_node_up(struct agent *agent, int node, const char *version);
void event_node_down(struct agent *agent, int node, enum hf_node_error error, const char *text);
/* `refusal` HF_REFUSED_NOT: the node is no longer refused. */
void event_node_refused(struct agent *agent, int node, enum hf_node_refusal refusal,
                        const char *text);
/* `error` HF_NODE_ERR_NONE: it takes writes again. */
void event_node_writes(struct agent *agent, int node, enum hf_node_error error, const char *text);
void event_node_restarted(struct agent *agent, int node, const char *run_id);
void event_node_forgot(struct agent *agent, int node);
void event_node_stepped(struct agent *agent, int node, int64_t step_us);
/* `reasons`: enum hf_quarantine_reason bits. */
void event_quarantine(struct agent *agent, int node, uint32_t reasons, hf_time until);
void event_quarantine_over(struct agent *agent, int node);
/* Whether an earlier agent told the start of the node's last quarantine, and not its end. */
bool event_quarantine_stands(const struct agent *agent, int node);

/* --- renewal thread --------------------------------------------------------------------------- */

/* A lease as it was before something happened to it, and what happened. */
struct lease_before {
    hf_time valid;
    enum hf_slot_state state;
    int node;     /* the node whose answer or clock it is about; -1 none */
    hf_time vote; /* its d_i */
    /* FOREIGN, FORCED, MISSING or CLOCK; AWAY; NONE: a hit, or no answer */
    enum hf_loss_reason finding;
    struct asker by; /* who asked the holder to stop; zeroed: nobody */
};
struct lease_before lease_before(const struct lease *lease, int node, enum hf_loss_reason finding);

/* Tells what the state machine changed: a vote that is void now, or counts again; LATE, back in time,
 * LOSING, LOST, ENDED. Nothing if nothing changed. */
void events_of_lease(struct agent *agent, struct lease *lease, const struct lease_before *before);
/* Our key was written again on before->node. */
void event_healed(struct agent *agent, const struct lease *lease,
                  const struct lease_before *before);
/* A hand-off: the holder's end, and another process of this host is next; `reason` as for a release.
 * Returns a bit per node whose vote stands. */
uint16_t event_handed_over(struct agent *agent, const struct lease *lease,
                           enum hf_loss_reason reason);
/* A standstill: the thread did nothing for so long. */
void event_agent_away(struct agent *agent, hf_dur gap);
void event_abandoned(struct agent *agent, const struct lease *lease);
/* A lease's job was stopped or killed: HF_EVENT_JOB_STOPPED or HF_EVENT_JOB_KILLED. Once each, though two
 * guardians and the agent say so. */
void event_job(struct agent *agent, struct lease *lease, enum hf_event_kind kind);

#endif
