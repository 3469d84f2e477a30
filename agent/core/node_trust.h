/* What one node's word is worth: its clock, its sentinel, its quarantine. Pure.
 *
 * (!) Clock: every reply gives an interval [TIME - t_receive, TIME - t_send]. It is widened by 1 %
 * drift, both since the last reply and while it was on its way, and intersected with what is known.
 * An empty intersection is a step, in either direction (a midpoint would swallow it); the interval
 * then restarts from that sample. What is known survives reconnects.
 * (!) Sentinel and quarantine as docs/SAFETY.md says: no acquire votes for 1.02 ttl_max + 1 s after
 * a new run_id, an absent or changed sentinel, a clock step, or a first contact with a node whose
 * uptime, sentinel age by node TIME and sentinel age by wall clock do not all exceed that, or whose
 * TIME is over 1 s off the median. Seeing the same nonce and run_id again never restarts a
 * quarantine; a reconnect is no first contact. Each thread keeps one of these per node and judges
 * its own replies; the broker's decides about votes.
 * (!) A step leaves a trace: an agent that saw it replaces the node's nonce, unless somebody has
 * done so since the step. So an agent that was not watching finds the node young. An agent takes
 * its own replacement for no change.
 */
#ifndef HOLDFAST_AGENT_CORE_NODE_TRUST_H
#define HOLDFAST_AGENT_CORE_NODE_TRUST_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/layout.h"
#include "shm/nstime.h"

#define TRUST_NONCE_LEN  32 /* hex characters */
#define TRUST_RUN_ID_LEN 40

/* What INFO said on one connection. */
struct node_facts {
    char run_id[TRUST_RUN_ID_LEN + 1];
    char version[23];
    hf_dur uptime;
    bool replica, cluster, evicts;
    bool replicated; /* a master that has replicas, or that was one itself */
};

/* What the sentinel said. */
struct node_sentinel {
    bool present;
    char nonce[TRUST_NONCE_LEN + 1]; /* "" when absent */
    hf_nodetime created;
    hf_wall created_wall;
    int64_t ttl_max_ms;
    int nodes;
    char list_hash[41];
};

struct node_trust {
    bool contacted; /* run_id known from this or, by the journal, an earlier agent */
    bool judged;    /* age and median were judged */
    bool refused;   /* `refusal` stands */
    enum hf_node_refusal refusal;

    /* --dev or --assume-fresh: at the start its age and one new run_id are not held against it */
    bool fresh_word;
    bool word_run_id, word_age; /* which part of that word is not used up */
    bool word_stands;           /* nothing was seen since that it may have forgotten */

    struct node_facts facts;
    hf_time facts_read;
    struct node_sentinel sentinel; /* the validated one */
    hf_time sentinel_read;         /* HF_TIME_PAST: not yet */

    /* the last nonce in any reply, "" absent; acquires send sentinel.nonce */
    char nonce[TRUST_NONCE_LEN + 1];
    bool nonce_seen, nonce_had; /* some answer told it; some answer had one */
    bool step_shown;            /* by the TIME of the answer whose nonce is read next */
    /* step_nonce: the nonce under which a step was seen, to be replaced; "": none. trace: what
     * replaces it; "": not chosen, or seen since */
    char step_nonce[TRUST_NONCE_LEN + 1], trace[TRUST_NONCE_LEN + 1];
    hf_time first_contact; /* when the nonce was first seen: the node has been watched since then */
    uint32_t mark;         /* sentinel generation: +1 whenever it changed or was absent */

    uint32_t reasons;  /* enum hf_quarantine_reason bits of the running quarantine */
    hf_time until;     /* end of quarantine; HF_TIME_PAST none */
    hf_dur quarantine; /* its length */

    /* clock: node time minus our BOOTTIME lies in [low, high], microseconds, as of `sampled` */
    bool clock_known;
    int64_t low_us, high_us;
    hf_time sampled;
    uint32_t steps; /* clock steps seen */

    /* Of the fleet's view (agent/core/fleet.h), kept here for the next agent. */
    char sure[TRUST_RUN_ID_LEN + 1];
    hf_time shown;
};

/* Bits. */
enum trust_event {
    TRUST_NOTHING = 0,
    /* new run_id: quarantine begun; no votes before the sentinel was read */
    TRUST_RESTARTED = 1 << 0,
    /* sentinel absent or changed: quarantine begun, mark moved */
    TRUST_FORGOT = 1 << 1,
    /* clock step: quarantine begun, d_i void until renewed */
    TRUST_STEPPED = 1 << 2,
    /* `refusal` was set, changed or taken back */
    TRUST_REFUSED = 1 << 3,
    /* first contact: trust_judge() is wanted once q nodes have given TIME */
    TRUST_FIRST = 1 << 4,
};

void trust_init(struct node_trust *t, hf_dur quarantine, bool fresh_word);
/* The operator's word does not count. */
void trust_take_word_back(struct node_trust *t);
/* Call before trust_on_facts(). (!) The operator's word is about the start: a node that is met a
 * quarantine later, or more, may have forgotten since, and loses the word. Returns whether it has
 * one. */
bool trust_has_word(struct node_trust *t, hf_time started, hf_time now);
/* After trust_init(): what an earlier agent of this boot knew. The operator's word stays as
 * trust_init() had it. Of a node that nobody looked at for a quarantine only the clock is taken
 * over: the next contact is a first one, which judges its age and the median.
 *
 * (!) An earlier agent that went by a shorter quarantine counted from what nodes forgot as long as it knew leases to be. It
 * was right about whatever was before `shown`, for no lease could be longer then (fleet_shown()). What came later is
 * counted again by this quarantine, and a node of which that cannot be told is met for the first time. */
void trust_restore(struct node_trust *t, const struct node_trust *before, hf_time shown,
                   hf_time now);

/* What the operator allows, bits. */
enum trust_allowed {
    TRUST_ALLOW_EVICTION = 1 << 0,
    TRUST_ALLOW_REPLICAS = 1 << 1,
};

/* After INFO on a new connection. Sets or clears the refusals REPLICA, CLUSTER, REPLICATED and EVICTION (unless
 * allowed), clears AUTH and NOT_REDIS. A node that was a replica or in cluster mode before may have
 * forgotten: quarantine. */
unsigned trust_on_facts(struct node_trust *t, const struct node_facts *facts, unsigned allowed,
                        hf_time now);
/* A refusal that the caller found (NOT_REDIS, AUTH, FLEET); HF_REFUSED_NOT takes it
 * back. */
unsigned trust_refuse(struct node_trust *t, enum hf_node_refusal refusal);

/* After a sentinel was read (or created: then `created_now`). Makes its nonce the validated one. */
unsigned trust_on_sentinel(struct node_trust *t, const struct node_sentinel *s, bool created_now,
                           hf_time now);
/* The nonce in any script's reply; "": absent. The nonce that was seen last changes nothing. After
 * a change the node has no vote, even after its quarantine, until the whole sentinel was read. */
unsigned trust_on_nonce(struct node_trust *t, const char *nonce, hf_time now);
/* TIME in any reply; `sent`: clock before its command's first byte. Call before trust_on_nonce() of
 * the same reply: if that nonce is the one from before the step, it becomes `step_nonce`. */
unsigned trust_on_time(struct node_trust *t, hf_nodetime node_time, hf_time sent, hf_time received);
/* The other thread saw these events. A running quarantine of the same cause is not begun again.
 * Soon after, read sentinel and TIME on this thread's own connection: what it finds itself always
 * begins a whole quarantine. */
void trust_on_told(struct node_trust *t, unsigned events, hf_time now);

/* The other thread saw a step under this nonce. */
void trust_owe_trace(struct node_trust *t, const char *nonce);
/* `step_nonce` is to be replaced by this nonce, which no node ever had. Call it, and keep the trust
 * for the next agent, before the command leaves. */
void trust_choose_trace(struct node_trust *t, const char *nonce);
/* The command was answered: the node had `step_nonce`, or another nonce. Call it after the answer's
 * TIME and nonce were reported. */
void trust_on_traced(struct node_trust *t);
/* For the thread that does not replace nonces, instead of trust_on_nonce(): this nonce in a reply
 * is the agent's own replacement. */
void trust_on_own_trace(struct node_trust *t, const char *nonce);

/* Judges age and median at first contact, and sets `judged`. Does nothing before facts, sentinel
 * and TIME are there. `median_us`: that of (node time - our BOOTTIME) over the nodes
 * that have given TIME. `wall`: our wall clock now. */
void trust_judge(struct node_trust *t, int64_t median_us, hf_wall wall, hf_time now);
/* Ends a quarantine whose time is over, or whose only reason was age, once all three ages
 * suffice. */
void trust_tick(struct node_trust *t, hf_wall wall, hf_time now);

/* Whether it still has all that it was told in the last `span`, by its uptime and both ages of its sentinel. With the operator's word it has
 * until it is seen to have forgotten. */
bool trust_remembers(const struct node_trust *t, hf_dur span, hf_wall wall, hf_time now);

/* Whether this node's acquire votes count. */
bool trust_may_vote(const struct node_trust *t, hf_time now);
/* Until when it gives no votes, at most; HF_TIME_PAST: it is not in quarantine; HF_TIME_NEVER:
 * something else must come first (refused, not contacted, sentinel not read). */
hf_time trust_until(const struct node_trust *t, hf_time now);

/* The node's time at `at`, the lower and upper end of what is known; false: unknown. */
bool trust_node_time(const struct node_trust *t, hf_time at, hf_nodetime *ret_low,
                     hf_nodetime *ret_high);

/* How wide the known interval of its clock is, as of the last sample. */
static inline hf_dur trust_width(const struct node_trust *t)
{
    return t->clock_known ? hf_ns((t->high_us - t->low_us) * HF_NS_PER_US) : hf_ns(0);
}

/* The median of the middles of `n` nodes' known clock intervals; NULL: not that node's. Of an even number it is the lower one
 * of the two in the middle. (!) Where these are a minute or more apart, it is the one nearer to `wall`, our own clock: of two
 * nodes that are left, the one whose clock is far behind would make all starts and fences old. Returns how many are known. */
int trust_median(const struct node_trust *const *nodes, int n, hf_wall wall, hf_time now,
                 int64_t *ret_median_us);
/* Of these, as bits, the nodes whose middle is at most `most` off `median_us`. `ret_farthest`: the node that is farthest off,
 * and how far it is ahead; there has to be one. */
uint32_t trust_near(const struct node_trust *const *nodes, int n, int64_t median_us, hf_dur most,
                    int *ret_farthest, int64_t *ret_ahead_us);

/* Whether a node takes writes: what it answered to the last acquires, and to the probe's writes that change
 * nothing and its script, which agents send that take no locks (agent/redis/link_handshake.c). Pure.
 *
 * A node may be out of memory or of disk, may want more replicas, may have become a replica, or may
 * give our user too few rights. Such a node answers everything else and so looks well. It is still
 * asked at every acquire: an acquire is what first shows that it takes writes again.
 */

#define WRITES_TEXT 80 /* with NUL */

struct node_writes {          /* zeroed: it takes writes */
    enum hf_node_error locks; /* why the last acquire was refused; NONE: it was not */
    enum hf_node_error probe; /* the same for the probe: writes that change nothing, and a script */
    hf_time since;
    char text[WRITES_TEXT]; /* of the last refusal */
};

/* NONE: it takes writes. */
enum hf_node_error writes_refused(const struct node_writes *w);
/* An acquire, a raise or a new sentinel was answered: HF_NODE_ERR_NONE if it was written. */
void writes_on_lock(struct node_writes *w, enum hf_node_error error, const char *text, hf_time now);
/* The same for the writes that change nothing, and for the script that reads the sentinel. */
void writes_on_probe(struct node_writes *w, enum hf_node_error error, const char *text,
                     hf_time now);
/* The connection is a new one, perhaps to another server. */
void writes_reset(struct node_writes *w);

#endif
