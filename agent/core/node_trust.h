/* What one node's word is worth: its clock, its sentinel, its quarantine. Pure.
 *
 * (!) Clock: the interval [TIME - t_receive, TIME - t_send] of every reply, widened by 1 % drift
 * since the last and while it was on its way, is intersected with what is known; an empty intersection is a step, in either
 * direction (a midpoint would swallow it); the interval then restarts from that sample. Baselines
 * survive reconnects.
 * (!) Sentinel and quarantine as docs/SAFETY.md says: no acquire votes for 1.02 ttl_max + 1 s after
 * a new run_id, an absent or changed sentinel, a clock step, or a first contact with a node whose
 * uptime, sentinel age by node TIME and sentinel age by wall clock do not all exceed that, or whose
 * TIME is over 1 s off the median. Seeing the same nonce and run_id again never restarts a
 * quarantine; a reconnect is no first contact. Each thread keeps one of these per node and judges
 * its own replies; the broker's decides about votes.
 * (!) A step leaves a trace: whoever saw it has the node's nonce replaced if it is still the one of before,
 * so that an agent that was not watching finds the node young. Our own replacement is no change to us.
 */
#ifndef HOLDFAST_AGENT_CORE_NODE_TRUST_H
#define HOLDFAST_AGENT_CORE_NODE_TRUST_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/layout.h"
#include "shm/nstime.h"

#define TRUST_NONCE_LEN  32 /* hex characters */
#define TRUST_RUN_ID_LEN 40

/* What INFO and CONFIG GET said on one connection. */
struct node_facts {
    char run_id[TRUST_RUN_ID_LEN + 1];
    char version[23];
    hf_dur uptime;
    bool replica, cluster, durable, evicts;
    bool replicated; /* a master that has replicas, or that was one itself */
    bool sole;       /* it says that it is neither; what does not say it is none of the two */
};

/* What the sentinel key said. */
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
    bool unproven;  /* restarted with a durable AOF: exempt if the sentinel is found the same */
    bool not_sole;  /* once seen: no restart is exempt any more */
    bool refused;   /* `refusal` stands */
    enum hf_node_refusal refusal;

    /* --dev or --assume-fresh: age and one new run_id are not held against it at start */
    bool fresh_word;
    bool word_run_id, word_age; /* what is left of that word */

    struct node_facts facts;
    hf_time facts_read;
    struct node_sentinel sentinel; /* the validated one */
    hf_time sentinel_read;         /* HF_TIME_PAST: not yet */

    /* the last nonce in any reply, "" absent; acquires send sentinel.nonce */
    char nonce[TRUST_NONCE_LEN + 1];
    bool nonce_seen, nonce_had; /* any answer about it; one that was not "absent" */
    bool step_shown;            /* by the TIME of the answer whose nonce comes next */
    /* the nonce that a step was seen under, to be replaced; "" none. And what replaces it: "" not
     * chosen, or seen since */
    char step_nonce[TRUST_NONCE_LEN + 1], trace[TRUST_NONCE_LEN + 1];
    hf_time first_contact; /* when the nonce was first seen: watched from then on */
    uint32_t mark;         /* sentinel generation: +1 whenever it changed or was absent */

    uint32_t reasons;  /* enum hf_quarantine_reason bits of the running quarantine */
    hf_time until;     /* end of quarantine; HF_TIME_PAST none */
    hf_dur quarantine; /* its length */

    /* clock: node time minus our BOOTTIME lies in [low, high], microseconds, as of `sampled` */
    bool clock_known;
    int64_t low_us, high_us;
    hf_time sampled;
    uint32_t steps; /* clock steps seen */
};

/* Bits. */
enum trust_event {
    TRUST_NOTHING = 0,
    /* new run_id: quarantine begun unless exempt; no votes before the sentinel was read */
    TRUST_RESTARTED = 1 << 0,
    /* sentinel absent or changed: quarantine begun, mark moved */
    TRUST_FORGOT = 1 << 1,
    /* clock step: quarantine begun, d_i void until renewed */
    TRUST_STEPPED = 1 << 2,
    /* `refusal` set, changed or taken back */
    TRUST_REFUSED = 1 << 3,
    /* first contact: trust_judge() is wanted once q nodes have given TIME */
    TRUST_FIRST = 1 << 4,
};

void trust_init(struct node_trust *t, hf_dur quarantine, bool fresh_word);
/* Before trust_on_facts(): (!) the word is about what was so at the start. A node that is met a quarantine
 * after it, or later, has none: it may have forgotten since. Whether it has one. */
bool trust_has_word(struct node_trust *t, hf_time started, hf_time now);
/* After trust_init(): what an earlier agent of this boot knew. The word stays the one of trust_init().
 * Of a node that was not looked at for a quarantine only the clock is taken over: it is contacted for
 * the first time again, so that its age and the median are judged. */
void trust_restore(struct node_trust *t, const struct node_trust *before, hf_time now);

/* What the operator allows, bits. */
enum trust_allowed {
    TRUST_ALLOW_EVICTION = 1 << 0,
    TRUST_ALLOW_REPLICAS = 1 << 1,
    /* the operator's word that what a durable node comes back with is all that it had */
    TRUST_ALLOW_DURABLE = 1 << 2,
};

/* After INFO on a new connection. Sets or clears the refusals REPLICA, CLUSTER, REPLICATED and EVICTION (unless
 * allowed), clears AUTH and NOT_REDIS. A node that was a replica or in cluster mode before may have
 * forgotten: quarantine. */
unsigned trust_on_facts(struct node_trust *t, const struct node_facts *facts, unsigned allowed,
                        hf_time now);
/* A refusal found elsewhere (DUPLICATE, NOT_REDIS, AUTH, FLEET); HF_REFUSED_NOT takes it back. */
unsigned trust_refuse(struct node_trust *t, enum hf_node_refusal refusal);

/* After a sentinel was read (or created: then `created_now`). Makes its nonce the validated one. */
unsigned trust_on_sentinel(struct node_trust *t, const struct node_sentinel *s, bool created_now,
                           hf_time now);
/* The nonce in any script's reply; "" absent. Same as last seen: nothing. After a change the node
 * has no vote, also not after its quarantine, until the whole sentinel was read. */
unsigned trust_on_nonce(struct node_trust *t, const char *nonce, hf_time now);
/* TIME in any reply; `sent`: clock before its command's first byte. Before trust_on_nonce() of the
 * same reply: if that is the nonce of before a step, it becomes `step_nonce`. */
unsigned trust_on_time(struct node_trust *t, hf_nodetime node_time, hf_time sent, hf_time received);
/* The other thread saw these events. Does nothing that repeats a running quarantine of the same
 * cause. Read sentinel and TIME on the own connection soon after: an own finding always begins a
 * whole quarantine. */
void trust_on_told(struct node_trust *t, unsigned events, hf_time now);

/* The other thread saw a step under this nonce. */
void trust_owe_trace(struct node_trust *t, const char *nonce);
/* `step_nonce` is to be replaced by this one, which no node ever had; to be called, and kept for the
 * next agent, before the command leaves. */
void trust_choose_trace(struct node_trust *t, const char *nonce);
/* The command was answered: the node had `step_nonce`, or another one. After the answer's TIME and nonce
 * were handed in. */
void trust_on_traced(struct node_trust *t);
/* For the thread that does not replace nonces: this one, in a reply, is our own replacement. Instead of
 * trust_on_nonce(). */
void trust_on_own_trace(struct node_trust *t, const char *nonce);

/* Judges age and median at first contact; `median_us`: the lower median of (node time - our
 * BOOTTIME) of the nodes that have given TIME. `wall` is our wall clock now. Then `judged`. Does
 * nothing before facts, sentinel and TIME are there. */
void trust_judge(struct node_trust *t, int64_t median_us, hf_wall wall, hf_time now);
/* Ends a quarantine whose time is over, or of which only age was wanting and all three ages suffice
 * now. */
void trust_tick(struct node_trust *t, hf_wall wall, hf_time now);

/* Acquire votes of this node count. */
bool trust_may_vote(const struct node_trust *t, hf_time now);
/* Until when at most, HF_TIME_PAST if not in quarantine, HF_TIME_NEVER if that hangs on something
 * else: refused, not contacted, sentinel not read. */
hf_time trust_until(const struct node_trust *t, hf_time now);

/* Node time at `at`, lower and upper end of what is known; false: unknown. */
bool trust_node_time(const struct node_trust *t, hf_time at, hf_nodetime *ret_low,
                     hf_nodetime *ret_high);

/* How wide the interval of its clock is, as of the last sample. */
static inline hf_dur trust_width(const struct node_trust *t)
{
    return t->clock_known ? hf_ns((t->high_us - t->low_us) * HF_NS_PER_US) : hf_ns(0);
}

/* The lower median of the middle of the known clock intervals, of `count` nodes; false: none known.
 */
bool trust_median(const struct node_trust *const *nodes, int count, hf_time now,
                  int64_t *ret_median_us);

#endif
