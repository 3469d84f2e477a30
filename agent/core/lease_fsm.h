/* The life of one lease after its grant, as a state machine. Pure: takes events with `now`, returns
 * actions.
 *
 * Per node it keeps d_i = a_i + span, or "void" and since when. V = the q-th largest d_i that stands. Rules:
 *  - (!) A reply is judged by a clock read taken when it is processed: if V without that reply has
 *    passed, the lease is lost whatever the reply says; for a run the same at V - 0.3 T with LOSING
 *    for lost.
 *  - (!) After storing an extension the shell reads the clock again and calls lease_fsm_confirm();
 *    if the old V passed in between, the slot is withdrawn and the lease is lost.
 *  - A foreign key voids its d_i at once; a missing one too, unless the node's sentinel changed
 *    with it (the node then is under quarantine, which guards the d_i); a missing key is healed in
 *    either case. A clock step voids d_i until renewed.
 *  - Fewer than q standing d_i: lost at once.
 *  - LOSING is terminal and freezes V; LOST and ENDED are final. A lost lease is never resurrected.
 *  - A failed renewal (error, timeout) changes nothing.
 * States by time: LATE at V - 0.5 T, LOSING at V - 0.3 T, LOST at V. The reason is QUORUM when time
 * ran out, AWAY when the agent was not there to renew, and FOREIGN, FORCED, MISSING or CLOCK when that
 * finding took the vote that was needed. FENCE takes the lease whatever its votes are.
 */
#ifndef HOLDFAST_AGENT_CORE_LEASE_FSM_H
#define HOLDFAST_AGENT_CORE_LEASE_FSM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/timing.h"
#include "shm/compiler.h"
#include "shm/layout.h"
#include "shm/nstime.h"

/* Bits; the shell acts in this order. */
enum lease_action {
    /* check word to 0 now, before anything else */
    LEASE_ACT_WITHDRAW = 1 << 0,
    /* V moved or a d_i became void: journal the d_i, raise or lower the check word, then confirm */
    LEASE_ACT_EXTEND = 1 << 1,
    /* state changed: mark the slot, tell the holder */
    LEASE_ACT_STATE = 1 << 2,
    /* it became LOST: journal ENDING, release on every node, report */
    LEASE_ACT_LOST = 1 << 3,
    /* it became ENDED by release: journal ENDING, release, report */
    LEASE_ACT_ENDED = 1 << 4,
    /* nodes in heal_wanted lack our key */
    LEASE_ACT_HEAL = 1 << 5,
    /* lease_fsm_next() changed */
    LEASE_ACT_TIMER = 1 << 6,
};

#define LEASE_FSM_SMALL 64 /* an extension by less than this part of T is not made alone */

/* There may be a million: small, and of `node` only the first n exist where the memory was made for
 * so many (lease_fsm_size). */
struct lease_fsm {
    uint32_t ttl_ms;
    uint16_t heal_wanted, voided; /* bit per node */
    uint8_t n, q;
    enum hf_slot_state state : 8; /* HELD, LATE, LOSING, LOST, ENDED */
    enum hf_loss_reason reason : 8;
    bool run : 1;          /* stricter: must be extended before V - 0.3 T */
    bool stop_renewal : 1; /* holder gone without a word: no more renewals, lapse */
    bool restored : 1;     /* from a journal, and no tick since */
    bool grace : 1;        /* restored and not renewed since: may be renewed until V */
    hf_time journaled;     /* the latest d of then */
    /* V: the q-th largest d, or T/LEASE_FSM_SMALL less at most while HELD: what a hit adds by less
     * waits for the next; frozen from LOSING on (it may still fall) */
    hf_time valid;
    hf_time max_hold; /* LOSING at this instant at the latest; HF_TIME_NEVER: no limit */
    struct {
        /* d_i while the vote stands; of a void one since when: a hit counts only if sent at or after
         * that. (Of one that stands no such time is needed: it was sent after it, and the next that
         * counts was sent later still.) */
        hf_time at HF_PACKED;
        /* The caller's sentinel generation of the node at the last hit, its lowest bits: between two
         * looks at a lease it does not go round. */
        uint16_t mark;
    } node[HF_NODES_MAX];
};

/* Bytes of one for n nodes. */
static inline size_t lease_fsm_size(int n)
{
    return offsetof(struct lease_fsm, node) +
           (size_t)n * sizeof(((struct lease_fsm *)NULL)->node[0]);
}
static inline bool lease_fsm_is_void(const struct lease_fsm *l, int node)
{
    return l->voided >> node & 1;
}
/* d_i; HF_TIME_PAST: void. */
static inline hf_time lease_fsm_d(const struct lease_fsm *l, int node)
{
    return lease_fsm_is_void(l, node) ? HF_TIME_PAST : l->node[node].at;
}
static inline struct timing lease_fsm_timing(const struct lease_fsm *l)
{
    return timing_of(hf_ms(l->ttl_ms));
}

/* From a won ballot: `a[i]` HF_TIME_PAST where the node did not vote (then it is in heal_wanted).
 * `mark[i]`: the node's sentinel generation. HELD. */
void lease_fsm_init(struct lease_fsm *l, int n, int q, const struct timing *timing, bool run,
                    hf_time max_hold, const hf_time *a, const uint32_t *mark);
/* From a journal: d_i as they were. `was_losing`: the stored state (the caller may set `reason`).
 * Run lease_fsm_tick() next. Until q nodes have answered this agent a lease may be renewed until V,
 * for V - 0.3 T may come while it still connects; but a run is LOSING then. */
void lease_fsm_restore(struct lease_fsm *l, int n, int q, const struct timing *timing, bool run,
                       hf_time max_hold, const hf_time *d, const uint32_t *mark, bool was_losing);

/* Each returns LEASE_ACT_* bits. `now` is read when the event is processed. */
unsigned lease_fsm_tick(struct lease_fsm *l, hf_time now);
/* The same for a caller that did nothing between `since` and `now`: what became LATE or worse in that
 * time is its doing (AWAY), not the nodes'. */
unsigned lease_fsm_tick_after(struct lease_fsm *l, hf_time since, hf_time now);
/* Whether that is so. */
bool lease_fsm_missed(const struct lease_fsm *l, hf_time since, hf_time now);
/* Renewed or healed: our key was re-armed by a command whose first byte left after `a`. Counts only
 * with an `a` later than known and, after a void vote, than the finding that made it void. Ignored
 * from LOSING on. */
unsigned lease_fsm_hit(struct lease_fsm *l, int node, hf_time a, uint32_t mark, hf_time now);
/* Our key stands there, by an answer that does not count (agent/core/age.h): no heal is wanted. */
unsigned lease_fsm_stands(struct lease_fsm *l, int node, hf_time now);
/* The renewal found no key. `mark`: the node's sentinel generation now. Wants a heal in either
 * case. */
unsigned lease_fsm_missing(struct lease_fsm *l, int node, uint32_t mark, hf_time now);
unsigned lease_fsm_foreign(struct lease_fsm *l, int node, hf_time now);
/* The same where somebody put a mark in our token's place. */
unsigned lease_fsm_forced(struct lease_fsm *l, int node, hf_time now);
/* A higher fence of one and the same other token was seen on so many nodes: with q of them the lock
 * was granted anew, whatever votes stand, and the lease is LOST (FENCE). */
unsigned lease_fsm_outbid(struct lease_fsm *l, int nodes, hf_time now);
/* The node's clock stepped, as the reply to a command sent after `sent` showed: a vote from before
 * that is void until renewed. One from that very reply stands, so hand in the hits of the reply
 * first. */
unsigned lease_fsm_stepped(struct lease_fsm *l, int node, hf_time sent, hf_time now);
/* The slot was stored after an EXTEND; `previous` is `valid` before it, `now` read after the store.
 */
unsigned lease_fsm_confirm(struct lease_fsm *l, hf_time previous, hf_time now);
/* Asked to stop, max_hold, a guardian acted: LOSING with that reason. */
unsigned lease_fsm_lose(struct lease_fsm *l, enum hf_loss_reason reason, hf_time now);
/* Voluntary end, or the holder died (reason HF_LOSS_HOLDER): ENDED; LOST when V has passed. */
unsigned lease_fsm_release(struct lease_fsm *l, enum hf_loss_reason reason, hf_time now);
/* The holder of a run is gone without a word: no renewals any more. */
unsigned lease_fsm_abandon(struct lease_fsm *l, hf_time now);

/* `l` becomes what `from` is, held by another process of this host from here on; votes and V stand as
 * they are. Only while handoff_judge() allows it. */
void lease_fsm_hand_over(struct lease_fsm *l, const struct lease_fsm *from, bool run,
                         hf_time max_hold);

/* The next instant at which lease_fsm_tick() would do something; HF_TIME_NEVER when over. */
hf_time lease_fsm_next(const struct lease_fsm *l);
/* Whether node should be renewed at all (not LOSING.. , not over, not abandoned). Healing follows
 * the same rule. */
bool lease_fsm_renews(const struct lease_fsm *l);
/* Standing votes (d_i not void and ahead of now). */
int lease_fsm_votes(const struct lease_fsm *l, hf_time now);

#endif
