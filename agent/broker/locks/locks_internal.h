/* How a lease ends: handed over to the next waiter of this host, released by the broker or by the renewal thread, or left to
 * lapse; and what follows when it has ended. Whatever in the broker ends a lease calls release_begin(), whose one switch has
 * the four ways. What the renewal thread ends by itself (a lease that lapses, a hand-off that it refuses) comes to
 * grant_ended() only. */
#ifndef HOLDFAST_AGENT_BROKER_LOCKS_LOCKS_INTERNAL_H
#define HOLDFAST_AGENT_BROKER_LOCKS_LOCKS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/agent.h"
#include "agent/base/thread.h"
#include "agent/broker/clients/clients.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/names.h"
#include "agent/config/config.h"
#include "agent/core/timing.h"
#include "agent/redis/link.h"
#include "agent/state/drain_record.h"
#include "agent/state/lease.h"
#include "agent/state/journal.h"
#include "agent/state/mailbox.h"
#include "shm/wire.h"

/* Why it ends, and what that says of a job: only a lease of whose job nothing lives may go to somebody else. */
enum release_cause {
    RELEASE_UNWANTED, /* its holder's wish, or nobody took it: a job's tree is reaped, or never was */
    RELEASE_UNTOLD,   /* its holder was gone before it was told: no job was started under it */
    RELEASE_HOLDER_GONE, /* its holder is gone, and has said nothing of its job's tree */
    RELEASE_UNSEEN, /* whether its holder lives is not known: renewed no more, and left to lapse */
    RELEASE_TREE_DEAD, /* abandoned before; the agent itself sees that nothing of the job lives */
};

/* Ends the lease of `name`. */
void release_begin(struct name *name, enum release_cause cause) IN_BROKER_THREAD;
/* MSG_ENDED: its keys are gone, or lapse. */
void grant_ended(struct locks *locks, struct lease *lease) IN_BROKER_THREAD;
/* MSG_HANDED_OVER: the renewal thread carried the hand-off out, or refused it. */
void handoff_answered(struct handoff *handoff) IN_BROKER_THREAD;
/* The agent goes away: its round is undone and its waiters are answered; an ephemeral agent ends its lease, too. */
void lease_go_away(struct name *name) IN_BROKER_THREAD;

/* Messages to the renewal thread about a lease. Called in the broker's thread. */

struct locks;
struct name;

/* Posts it. (!) A lease must be adopted before any other message about it is posted. */
void tell_renewal(struct locks *locks, struct message *m) IN_BROKER_THREAD;
/* Its holder is to stop. */
void tell_renewal_stop(struct name *name, enum hf_loss_reason reason) IN_BROKER_THREAD;
/* Its job is being stopped, or killed. */
void tell_renewal_guardian_stopping(struct name *name, bool killing) IN_BROKER_THREAD;

/* From a round that has its quorum to a lease. */

struct round;

/* Makes the lease of a round that has its quorum, publishes it and answers the waiter.
 * HF_EFULL, HF_ELIMIT, HF_ENOMEM: undo. */
int grant_lease(struct round *round, hf_time now) IN_BROKER_THREAD;
/* Links a lease to its name and its holder until MSG_ENDED or MSG_HANDED_OVER. */
void grant_hold(struct name *name, struct lease *lease, struct client *holder) IN_BROKER_THREAD;
void grant_untie(struct name *name) IN_BROKER_THREAD;
/* Answers the client that asked for the release of the lease with this generation; NULL: none did. */
const struct session *grant_answer_released(struct name *name, uint32_t generation, bool lost,
                                            const char *text) IN_BROKER_THREAD;
/* Somebody was granted a lock at `now`, after a wait. */
void grant_measure(struct locks *locks, hf_dur waited, hf_time now) IN_BROKER_THREAD;
void grant_changed(struct locks *locks, struct lease *lease) IN_BROKER_THREAD;
/* The release of a failed round was answered, or timed out. */
void grant_undone(struct name *name) IN_BROKER_THREAD;
/* Tells the client that asked for it. */
void grant_answer(struct session *s, const struct lease *lease) IN_BROKER_THREAD;

/* The broker's part of a hand-off (agent/state/lease.h). */

/* The waiter that may have the lease of `name`, which ends; NULL: none. Notes whether it is the others' turn. */
struct waiter *handoff_next_holder(struct name *name, hf_time now) IN_BROKER_THREAD;
/* Hands it over to that waiter: the renewal thread does it, or releases the lease. HF_ENOMEM, HF_EFULL:
 * nothing was begun. Called by release_begin() only. */
int handoff_begin(struct name *name, struct waiter *w, enum hf_loss_reason reason,
                  hf_time now) IN_BROKER_THREAD;
/* The waiter's session ends. */
static inline void handoff_forget_waiter(struct handoff *h)
{
    h->waiter = NULL;
}
static inline void handoff_cancel(struct handoff *h)
{
    h->unwanted = true;
}
/* (!) The journal may name it as the owner by now, for the next agent too: it gets no answer until that of
 * the hand-off is known. */
static inline bool handoff_is_to(const struct name *name, const struct waiter *w)
{
    return name->state->handoff && name->state->handoff->waiter == w;
}
/* Of all names, as the agent ends. */
void handoffs_destroy(struct locks *locks);

/* Short holds: leases in their first 50 ms, which the broker keeps to itself. */

void short_holds_create(struct locks *locks);
void short_holds_destroy(struct locks *locks);
/* The lease was granted: it stays here for a moment, or is adopted at once. */
void short_hold_begin(struct name *name, hf_time now);
void short_holds_adopt(struct locks *locks);
/* Counts a vote that came after the grant, for a command sent after `a`. False: tell the renewal
 * thread. */
bool short_hold_vote(struct name *name, int node, hf_time a);
/* Whether it is one still. */
bool short_hold_lasts(const struct name *name, hf_time now);
/* It is none any more; the caller releases its lease, or has the renewal thread adopt it. */
void short_hold_leave(struct name *name);
void short_hold_post(struct locks *locks, struct lease *lease);

/* Gaps between this host's holds, in which programs that poll have their chance (agent/core/handoff.h). */

/* Whether a gap follows this release, so that programs that poll have their chance. */
bool gap_is_owed(const struct name *name, hf_time now) IN_BROKER_THREAD;
/* Begins the gap: no round of this host for a while. */
void gap_leave(struct name *name, hf_time now) IN_BROKER_THREAD;

/* Requests of clients: each is judged and answered. */

struct client;
struct locks;
struct session;

/* Each sends its own answer. */
void request_acquire(struct locks *locks, struct session *s,
                     const struct hf_request_entry *r) IN_BROKER_THREAD;
void request_release(struct locks *locks, struct session *s,
                     const struct hf_request_entry *r) IN_BROKER_THREAD;
void request_cancel(struct session *s, uint64_t id) IN_BROKER_THREAD;
void request_stop_holder(struct locks *locks, struct session *s,
                         const struct hf_request_entry *r) IN_BROKER_THREAD;
void request_losing(struct locks *locks, struct session *s,
                    const struct hf_request_entry *r) IN_BROKER_THREAD;
/* After a reload that changed the rules: who waits and may not any more is told so. A hand-off that is under way is completed. */
void requests_look_at_rules(struct locks *locks) IN_BROKER_THREAD;
/* A session ended: its waiters are dropped. */
void requests_drop_session(struct session *s) IN_BROKER_THREAD;
/* Its client ended: its leases are released; those of a run that may have a job are abandoned. */
void requests_client_gone(struct locks *locks, struct client *c) IN_BROKER_THREAD;
/* Its holder came back with this session: its beats come in this session's page now. */
void requests_rebind(struct locks *locks, struct session *s) IN_BROKER_THREAD;
/* The agent ends: waiters are answered and rounds undone; an ephemeral agent ends its leases, too. */
void requests_go_away(struct locks *locks) IN_BROKER_THREAD;

/* What comes next for a name, once for each name that something happened to, at the end of the broker's turn. Whatever happens
 * to a name calls name_touch(); agent/core/name_step.h says what follows, and here it is carried out. */

struct waiter;

void step_init(struct locks *locks);
/* At the end of the turn, before commands to nodes and answers to clients leave. */
void locks_step(struct locks *locks) IN_BROKER_THREAD;
/* A waiter has come. (!) Where nobody can go on it alone is told: all others know, and may be thousands. */
void step_join(struct waiter *w) IN_BROKER_THREAD;
/* The nodes changed: names that wait for votes may go on. */
void step_stalled(struct locks *locks) IN_BROKER_THREAD;

/* When a round begins again while another host has the lock. */

struct round;
struct waiter;

int wakeups_create(struct locks *locks);
void wakeups_destroy(struct locks *locks);
/* A round begins. True: somebody waits, so nodes are to track the keys that its acquires read. */
bool wakeups_round(struct round *round);
/* A final answer to one of its acquires, before or after the decision. */
void wakeups_vote(struct locks *locks, struct round *round, int node,
                  const struct link_reply *reply);
/* The round failed and somebody waits: sets the retry. `won`: bit per node that had given us its
 * key; `winner`: another is known to have a quorum. */
void wakeups_lost(struct name *name, uint32_t won, bool winner, bool tracked, int64_t pttl_ms,
                  hf_time now);
/* The same when too few nodes voted. */
void wakeups_failed(struct name *name, hf_time again);
/* The retry is due: whether a round may begin. If not, the retry is set again. */
bool wakeups_due(struct name *name, hf_time now) IN_BROKER_THREAD;
/* A waiter came. */
void wakeups_joined(struct waiter *waiter);
/* Nobody waits any more. */
void wakeups_forget(struct name *name);
/* A key has changed on a node; NULL: any may have. */
void wakeups_noticed(struct locks *locks, int node, const void *key,
                     size_t key_len) IN_BROKER_THREAD;
/* Whether the node tells of changes. */
void wakeups_telling(struct locks *locks, int node, bool can);

/* The drain: an operator has this host grant nothing new.
 *
 * (!) From the answer to the operator on no lock is granted: not to a try, not to who waits, not by a hand-off. A round
 * under way is undone, whatever votes it has; a hand-off under way is not told to its waiter, and the lease is
 * released. Who waits goes on waiting, and hears why. Leases that stand are not touched. */

struct hf_request_entry;
struct session;

#define DRAINS_TEXT DRAIN_RECORD_TEXT

static inline bool drains_stands(const struct locks *locks)
{
    return locks->agent->drained.stands;
}
/* The sentence for who is refused or waits. */
static inline void drains_explain(const struct locks *locks, char ret_text[DRAINS_TEXT])
{
    drain_record_say(&locks->agent->drained, locks->config->name, ret_text);
}
/* HF_OP_DRAIN. */
void drains_ask(struct locks *locks, struct session *s,
                const struct hf_request_entry *q) IN_BROKER_THREAD;

/* What an earlier agent left in the journal: leases of living holders are readopted, all others are released. */

struct locks;

int readopt(struct locks *locks);
/* Drops the releases that wait for V; the journal has them. */
void readopt_destroy(struct locks *locks);

/* --- what --check-config asks, too: without looking at table or holder ------------------------- */

/* A process may hold it, as the journal says. */
bool readopt_is_held(const struct journal_lease *state);
/* Whether the lease's TTL is one that an agent with this configuration may grant; else a sentence in `why`. */
bool readopt_fits(const struct config *config, const struct journal_identity *id,
                  struct timing *ret_timing, char *why, size_t why_size);

/* What an earlier agent of this host promised the holder of a lease: V, as the journal and the table's slot have it. For the
 * leases of an earlier agent (agent/broker/locks/locks_internal.h). */

struct locks;

/* An agent that is killed between the journal's d_i and the check word that follows from them leaves an
 * earlier word. Of a grant it leaves none: nobody has seen that lease yet. */
bool earlier_validity_ran_out(const struct locks *locks, uint32_t slot, uint32_t generation,
                              hf_time now);
/* The latest V that the guardians of a run knew of: the journal has every d_i that stands (of a lost lease one
 * that is not before V), and the table the V that they were shown, if it still has that lease. Without that
 * table only the TTL bounds it. */
hf_time earlier_validity_latest(const struct locks *locks, const struct journal_identity *identity,
                                const struct journal_lease *state, uint32_t slot);
/* (!) Where less counts than by the record of the fleet before, the V that the holder was shown stands nevertheless: the votes
 * that it was made of all stand, and none of them is mixed with what counts now. HF_TIME_PAST: nothing is left of it. */
hf_time earlier_validity_frozen(const struct locks *locks, const struct journal_lease *state,
                                uint32_t slot);

/* Leases that were being released for a client when an earlier agent was killed. */

struct name;
struct session;

/* A lease that its holder was releasing when an earlier agent was killed: the request comes again. */
struct pending_release {
    LIST_ENTRY(pending_release) of_client;
    struct name *name; /* its release is under way; NULL once it is over */
    uint32_t slot, generation;
    struct session *session; /* waits for its end; NULL */
    uint64_t request_id;
};

/* Remembers a lease that was being released for this client; `name` NULL: it is over. HF_ENOMEM. */
int pending_release_add(struct client *c, struct name *name, uint32_t slot, uint32_t generation);
struct pending_release *pending_release_find(struct client *c, uint32_t slot, uint32_t generation);
/* A session of its client ends: nobody waits there any more. */
void pending_release_drop_session(struct session *s);
/* The client is about to be freed. */
void pending_release_drop_client(struct client *c);

#endif
