/* What the renewal thread's parts share, from below: renewal_due.c (when each lease is due on each node; notices),
 * renewal_lease.c (carrying out what the state machine decides; what becomes of the keys), renewal_handoff.c,
 * renewal_nodes.c (fence records; trust, links, the fleet's record), renewal_wire.c (scripts, and
 * judging answers), renewal.c (thread, messages). Each calls only those before it. Everything here belongs to that
 * thread. */
#ifndef HOLDFAST_AGENT_RENEWAL_RENEWAL_INTERNAL_H
#define HOLDFAST_AGENT_RENEWAL_RENEWAL_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>

#include "agent/agent.h"
#include "agent/base/log.h"
#include "agent/base/thread.h"
#include "agent/core/age.h"
#include "agent/core/containers.h"
#include "agent/core/cohorts.h"
#include "agent/core/backoff.h"
#include "agent/core/node_trust.h"
#include "agent/core/phases.h"
#include "agent/core/refresh.h"
#include "agent/core/tally.h"
#include "agent/core/server.h"
#include "agent/state/events.h"
#include "agent/redis/link.h"
#include "agent/redis/key_deleter.h"
#include "agent/base/address.h"
#include "agent/renewal/renewal.h"

#define RENEW_KEYS     128       /* per script */
#define RENEWALS_APART hf_ms(10) /* of one lease, from node to node */
#define HEALS_MAX      64        /* heals without an answer, per node */
#define NO_ANSWER      hf_ms(10) /* before a command that the link did not take is sent again */

struct renewal_node;

/* One renew script in flight. It names leases by slot and generation: they may be over when the answer
 * comes. */
struct renew_batch {
    struct renewal_node *node;
    bool busy;
    hf_dur late; /* after the time at which the first of them was due */
    size_t count;
    struct {
        uint32_t slot, generation;
    } keys[RENEW_KEYS];
};

struct renewal_node {
    struct renewal *renewal;
    int number;
    struct link *link;
    struct seat seat;
    char
        another[FLEET_DIGEST_LEN + 1]; /* of the last record but ours that the broker was told of */
    bool seated, astray; /* the link is where the record says; it is elsewhere, to be sent there */
    struct node_trust trust;
    struct node_age age;
    uint32_t first_mark; /* of `trust` in the node records: readopted leases got votes under it */
    /* slots: renewals in their course; alone: those with a time of their own, retries, heals */
    struct cohorts renewals;
    struct renew_batch batches[PACE_MOST];
    struct pace pace;    /* of the renewals */
    int heals;           /* unanswered */
    hf_time ready;       /* since when only this thread can delay a renewal */
    hf_time step_seen;   /* when a reply last showed that its clock had stepped */
    hf_time void_before; /* when a step was found: votes sent before, and not seen yet, are void */
    hf_time forgot;      /* when its mark last moved: leases granted before have the old mark */
    hf_time told;        /* when the broker told the nonce: older answers may not know it */
    hf_time asked;       /* when a probe last asked for the nonce */
    /* The nonce under which its clock went back, until another one is seen: the step's trace. "": none. (!) Until then a
     * renewal may have come while the clock was behind for a moment: its key ends early, and others do not know. */
    char went_back[TRUST_NONCE_LEN + 1];
};

/* The fields per slot beside the lease. */
struct renewal_slot {
    struct lease *lease; /* NULL: none of ours */
    hf_time doubt_until;
    uint16_t doubt; /* bit per node: a heal had no answer, so it may still run until doubt_until */
    /* The same, and the connection ended or was an earlier agent's: the answer to a later command
     * does not end this doubt. */
    uint16_t broken;
    uint32_t same_key; /* by_key's link, while it has a lease */
};

struct renewal {
    struct agent *agent;
    const struct config *config; /* the one in force */
    struct fleet_record *fleet;  /* the one that this agent goes by; NULL: none is known */
    char fleet_digest[FLEET_DIGEST_LEN + 1];
    bool fleet_here; /* this host founded it */
    struct loop *loop;
    struct resolver *resolver;
    struct key_deleter *key_deleter;
    int n, q;
    hf_dur age_least; /* of a node, for its heals to count */
    struct renewal_node node[HF_NODES_MAX];
    struct servers servers;     /* that the nodes' addresses lead to */
    struct renewal_slot *slots; /* `capacity` of them */
    uint32_t slots_used;        /* slots from here on never had a lease of ours */
    uint32_t held;              /* leases */
    struct log_limit losses, losses_by_users[SHARES]; /* for log lines about losses */
    struct chains by_key;                             /* slots by the hash of their lease's key */
    uint8_t hash_key[16];
    struct phases phases;
    struct timing timing; /* of the TTL that was computed last */
    /* lease_fsm_next(), or the expiry of a lost lease's keys: slots, looked at some time before that,
     * when it is hardly ever due; alone, once it is near */
    struct cohorts looks;
    struct refresh refresh;
    struct rivals rivals;
    struct loop_timer wake;     /* when the next thing is due */
    struct loop_timer finished; /* after MSG_STOP: the time of the releases is over */
    hf_time started, turn;
    /* This turn is the first after a standstill since then that was longer than an attempt may
     * take. */
    bool away;
    hf_time away_since;
    int64_t turn_max_ns, lag_max_ns, overdue_max_ns;
    uint32_t random;
    bool stopping, closing;
    pthread_t thread;
};

/* Jitter only: nobody gains from guessing it. */
static inline uint32_t renewal_random(struct renewal *r)
{
    return draw_next(&r->random);
}
static inline void renewal_count(struct renewal *r, enum hf_counter counter, int64_t n)
{
    hf_counter_add(&r->agent->table, counter, n);
}
static inline bool lease_is_over(const struct lease *lease)
{
    return lease->fsm.state == HF_SLOT_LOST || lease->fsm.state == HF_SLOT_ENDED;
}
static inline uint32_t renewal_all_nodes(const struct renewal *r)
{
    return (UINT32_C(1) << r->n) - 1;
}

/* --- renewal_due.c ------------------------------------------------------------------------------- */

/* NULL: no such lease, or not any more. A lease that is found may be over, its release under way. */
struct lease *renewal_find(struct renewal *r, uint32_t slot, uint32_t generation) IN_RENEWAL_THREAD;
/* The lease that has that lease's token now: itself, or the one it was handed over to since. A node's
 * answer is true of the token whoever holds it, so answers are judged by this. */
struct lease *renewal_find_token(struct renewal *r, uint32_t slot,
                                 uint32_t generation) IN_RENEWAL_THREAD;
/* A hit counts only if its command was sent after this, unless it is the grant's. */
hf_time renewal_counts_from(const struct renewal_node *node,
                            const struct lease *lease) IN_RENEWAL_THREAD;
/* The nonce last seen on the node; "" absent or unknown. */
const char *renewal_nonce(const struct renewal_node *node) IN_RENEWAL_THREAD;
/* Prefetches the leases in these slots: of a million leases most are not in any
 * cache. */
void renewal_fetch(const struct renewal *r, const uint32_t *slots, size_t count) IN_RENEWAL_THREAD;
/* Plans when the lease is next renewed (or healed, as the state machine decides) on the node. Not
 * while a command for it is unanswered there: the answer sets the time. */
void renewal_schedule(struct renewal_node *node, struct lease *lease, hf_time at) IN_RENEWAL_THREAD;
/* T is the agent's default: scripts carry all leases that are due, whatever their TTL. */
static inline hf_dur renewal_slack(const struct renewal_node *node)
{
    return pace_slack(&node->renewal->config->timing);
}
/* Plans the renewal after a hit that was sent at `a`, `late` after its time. */
void renewal_plan(struct renewal_node *node, struct lease *lease, hf_time a,
                  hf_dur late) IN_RENEWAL_THREAD;
/* The same after a hit that did not count: when the node is of age, if that comes first. */
void renewal_plan_young(struct renewal_node *node, struct lease *lease,
                        hf_time a) IN_RENEWAL_THREAD;
/* The same after a failure. */
void renewal_retry(struct renewal_node *node, struct lease *lease, hf_time now) IN_RENEWAL_THREAD;
/* The same after NOSCRIPT: the script is being sent to the node again, so the first retry follows
 * it at once. If a node drops its scripts all the time there is no other moment. */
void renewal_reloaded(struct renewal_node *node, struct lease *lease,
                      hf_time now) IN_RENEWAL_THREAD;
/* Takes the lease out of every queue. */
void renewal_unschedule(struct renewal *r, struct lease *lease) IN_RENEWAL_THREAD;
/* The nonce of the node is known again: heals there need not wait any longer. */
void renewal_hurry_heals(struct renewal_node *node) IN_RENEWAL_THREAD;
/* A lease enters its slot, and is found by its key from here on; it leaves. */
void renewal_watch(struct renewal *r, struct lease *lease) IN_RENEWAL_THREAD;
void renewal_unwatch(struct renewal *r, const struct lease *lease) IN_RENEWAL_THREAD;
/* Whether renewed keys are to be tracked on the node. */
bool renewal_tracks(const struct renewal_node *node) IN_RENEWAL_THREAD;
/* The first renewal after a grant, whose command was sent at `a`. */
void renewal_plan_first(struct renewal_node *node, struct lease *lease,
                        hf_time a) IN_RENEWAL_THREAD;
/* The pause before a missing key is written again. A person who deletes it by hand on one node after
 * the other gets the time to reach a majority, and the loss is told. */
hf_dur renewal_heal_pause(const struct renewal_node *node,
                          const struct lease *lease) IN_RENEWAL_THREAD;
/* Another program changed the key there: renews it soon. */
void renewal_hurry(struct renewal_node *node, struct lease *lease, hf_time now) IN_RENEWAL_THREAD;
/* For link_events. */
void renewal_noticed(struct link *link, const void *key, size_t key_len,
                     void *arg) IN_RENEWAL_THREAD;

/* --- renewal_lease.c ----------------------------------------------------------------------------- */

/* Adopts a lease that the broker granted. */
void renewal_adopt(struct renewal *r, struct lease *lease, hf_time now) IN_RENEWAL_THREAD;
/* Waits for the first beat anew, and sets the lease's timer. */
void renewal_begin_beats(struct renewal *r, struct lease *lease, hf_time now) IN_RENEWAL_THREAD;
/* Carries out LEASE_ACT_* bits; `before`: the lease as it was before the change. */
void renewal_act(struct renewal *r, struct lease *lease, unsigned actions,
                 const struct lease_before *before) IN_RENEWAL_THREAD;
/* Runs every lease timer that is due; returns when the next one is. */
void renewal_tick(struct renewal *r, hf_time now) IN_RENEWAL_THREAD;
hf_time renewal_next_event(const struct renewal *r) IN_RENEWAL_THREAD;
/* Which command showed that our key stands on a node. */
enum hit { HIT_RENEWED, HIT_HEALED, HIT_GRANT };
/* Our key was renewed or written by a command sent after `a`; `now`: read when the answer is processed.
 * False: the node is too young for that to count, has the vote under another name, or its clock went back. */
bool renewal_hit(struct renewal_node *node, struct lease *lease, hf_time a, enum hit hit,
                 hf_time now) IN_RENEWAL_THREAD;
/* A reply to a command sent after `sent` showed that the node's clock stepped. */
void renewal_stepped(struct renewal_node *node, hf_time sent) IN_RENEWAL_THREAD;
void renewal_vote(struct renewal *r, struct lease *lease, int node, hf_time a) IN_RENEWAL_THREAD;
/* The holder released it or is known to be dead, or (a run) its tree is reaped. */
void renewal_release(struct renewal *r, struct lease *lease,
                     enum hf_loss_reason reason) IN_RENEWAL_THREAD;
/* `killing`: a guardian says that it kills its job. `by`: who asked the holder to stop. */
void renewal_lose(struct renewal *r, struct lease *lease, enum hf_loss_reason reason, bool killing,
                  struct asker by) IN_RENEWAL_THREAD;
void renewal_abandon(struct renewal *r, struct lease *lease) IN_RENEWAL_THREAD;
/* Its holder beats in this page from here on; takes over the reference. */
void renewal_bind_beats(struct renewal *r, struct lease *lease,
                        struct beats *beats) IN_RENEWAL_THREAD;
/* Whether a node's answer to a release says what was there: it has not forgotten (agent/redis/key_deleter.h). */
bool renewal_release_counts(int node, const struct link_reply *reply, void *owner);
/* A release was answered by this error, NULL: not any more. For the broker, which has the nodes' rows. */
void renewal_release_refused(int node, const struct link_reply *reply, void *owner);
/* Releases the token on one node, where it was written too late. */
void renewal_undo(struct renewal_node *node, const void *key, size_t key_len,
                  const struct token *token, hf_dur attempt, hf_dur ttl) IN_RENEWAL_THREAD;

/* --- renewal_handoff.c --------------------------------------------------------------------------- */

/* Hands a lease over to the next holder, or releases it. */
void renewal_hand_over(struct renewal *r, struct handoff *handoff) IN_RENEWAL_THREAD;

/* The arguments about a lease for a node's scripts, without a deadline. Points into both. */
struct link_lock renewal_lock(const struct renewal_node *node,
                              const struct lease *lease) IN_RENEWAL_THREAD;
/* Writes the present holder into a node's fence record, after the node's renewal: one command for each node and
 * hand-off (none for a hold that ends before its first renewal), and about daily. Nothing waits for it. */
void renewal_describe(struct renewal_node *node, struct lease *lease,
                      hf_time now) IN_RENEWAL_THREAD;
/* An answer to that, or to a heal, had a fence: another's may be higher. On all of three nodes that means a later
 * grant, and the lease is lost. Returns whether it is over. */
bool renewal_outbid(struct renewal_node *node, struct lease *lease,
                    const struct link_reply *reply) IN_RENEWAL_THREAD;
/* Writes the records again that are due. */
void renewal_refresh(struct renewal *r, hf_time now) IN_RENEWAL_THREAD;

/* --- renewal_nodes.c ----------------------------------------------------------------------------- */

/* What an earlier agent knew of the node, and its link. HF_ENOMEM. */
int renewal_node_begin(struct renewal *r, int node);
/* Its options or its seat are other ones now. */
void renewal_configure_link(struct renewal_node *node) IN_RENEWAL_THREAD;
/* Judges a reply's TIME and nonce, and tells the broker what they show. Returns enum trust_event
 * bits: the caller counts the reply's hits first, and then calls renewal_stepped() on
 * TRUST_STEPPED, which stands for a step ahead here: a clock that goes back ends no key. */
unsigned renewal_learn(struct renewal_node *node, const struct link_reply *reply) IN_RENEWAL_THREAD;
/* Events of the broker's link. */
void renewal_told(struct renewal_node *node, const struct message *message) IN_RENEWAL_THREAD;
/* Before the links are made: what an earlier agent went by. */
void renewal_fleet_begin(struct renewal *r);
void renewal_fleet_end(struct renewal *r);
/* From now on; takes the record over. `here`: this host founded it. */
void renewal_take_fleet(struct renewal *r, struct fleet_record *record,
                        bool here) IN_RENEWAL_THREAD;
void renewal_seat_up(struct renewal_node *node) IN_RENEWAL_THREAD; /* the link is up */
/* Links that came up elsewhere than at their seats: not from inside their callbacks. */
void renewal_mend_seats(struct renewal *r) IN_RENEWAL_THREAD;
/* Tells the broker, once, of another record than ours that the node told. */
void renewal_tell_another(struct renewal_node *node,
                          const struct link_reply *reply) IN_RENEWAL_THREAD;
/* (!) Whether what the node answered counts: it goes by our record, which counts it, and is at its seat. While none is
 * known: it has none either. */
bool renewal_counts(const struct renewal_node *node,
                    const struct link_reply *reply) IN_RENEWAL_THREAD;

/* --- renewal_wire.c ------------------------------------------------------------------------------ */

/* Sends what is due. */
void renewal_pump(struct renewal *r) IN_RENEWAL_THREAD;
/* When renewal_pump() has work again; HF_TIME_NEVER: only after an answer or an
 * event. */
hf_time renewal_next_due(const struct renewal *r) IN_RENEWAL_THREAD;
/* One heal in flight, with what is needed to undo it if its lease is over by the answer. */
struct heal {
    struct renewal_node *node;
    uint32_t slot, generation;
    uint32_t mark; /* of the sentinel that it names */
    hf_dur attempt, ttl;
    struct token token;
    size_t key_len;
    uint8_t key[];
};
/* What becomes of an answer. */
void renewal_on_renewed(struct link *link, const struct link_reply *reply,
                        void *arg) IN_RENEWAL_THREAD;
void renewal_on_healed(struct link *link, const struct link_reply *reply,
                       void *arg) IN_RENEWAL_THREAD;

#endif
