/* The life of one lease after its grant, as a state machine. Pure: takes events with `now`, returns
 * actions.
 *
 * Per node it keeps d_i = a_i + span or, of a void vote, since when it is void. V = the q-th
 * largest d_i that stands, of nodes that lead to different servers (agent/core/server.h). Rules:
 *  - (!) A reply is judged by a clock read taken when it is processed: if V without that reply has
 *    passed, the lease is lost whatever the reply says. A run is LOSING in the same way once V -
 *    0.3 T has passed.
 *  - (!) After storing an extension the shell reads the clock again and calls lease_fsm_confirm();
 *    if the old V passed in between, the slot is withdrawn and the lease is lost.
 *  - A foreign key voids its d_i at once. So does a missing key, unless the node's sentinel changed
 *    with it: then the node is in quarantine, which guards the d_i. A missing key is healed in
 *    either case. A clock that steps ahead voids d_i until renewed.
 *  - Fewer than q standing d_i: lost at once.
 *  - LOSING is terminal and freezes V; LOST and ENDED are final. A lost lease is never resurrected.
 *  - A hit by which V would be earlier does not count: its server voted by another node before.
 *  - A failed renewal (error, timeout) changes nothing.
 * States by time: LATE at V - 0.5 T, LOSING at V - 0.3 T, LOST at V. The reason is QUORUM when time
 * ran out, AWAY when the agent was not there to renew, and FOREIGN, FORCED, MISSING or CLOCK when
 * that finding took the vote that was needed. FENCE ends the lease whatever its votes are.
 */
#ifndef HOLDFAST_AGENT_CORE_LEASE_FSM_H
#define HOLDFAST_AGENT_CORE_LEASE_FSM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/server.h"
#include "agent/core/timing.h"
#include "shm/compiler.h"
#include "shm/layout.h"
#include "shm/nstime.h"

/* Bits. The shell acts in this order. */
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

/* There may be a million of these, so it is small. Where memory was made for n nodes
 * (lease_fsm_size), only the first n of `node` exist. */
struct lease_fsm {
    const struct servers *servers; /* the owning thread's; NULL: every node is another one */
    uint32_t ttl_ms;
    uint16_t heal_wanted, voided; /* bit per node */
    uint8_t n, q;
    enum hf_slot_state state : 8; /* HELD, LATE, LOSING, LOST, ENDED */
    enum hf_loss_reason reason : 8;
    bool is_job : 1;       /* must be extended before V - 0.3 T, not V */
    bool stop_renewal : 1; /* the holder is gone without a word: no more renewals, it lapses */
    bool readopted : 1;    /* readopted from a journal, and no tick since */
    bool grace : 1;        /* readopted, and not renewed since: may be renewed until V */
    bool frozen : 1;   /* V is of an earlier record of the fleet, as long as all its votes stand */
    hf_time journaled; /* the largest d when it was journaled last */
    /* V: the q-th largest d, or up to T/LEASE_FSM_SMALL less while HELD: an extension smaller than
     * that waits for the next hit. From LOSING on it is frozen, but may still fall. LOST by a
     * finding: V before that finding */
    hf_time valid;
    hf_time max_hold; /* LOSING at this instant at the latest; HF_TIME_NEVER: no limit */
    struct {
        /* d_i while the vote stands. Of a void vote since when: a hit counts only if it was sent at
         * that instant or later. (A vote that stands needs no such instant: it was sent after the
         * last one, and the next hit that counts was sent later still.) */
        hf_time at HF_PACKED;
        /* The lowest bits of the caller's sentinel generation of the node at the last hit: they do
         * not come round between two looks at a lease. */
        uint16_t mark;
    } node[HF_NODES_MAX];
};

/* Bytes of a lease_fsm for n nodes. */
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

/* From a won ballot: HELD. `servers` may be NULL. `a[i]`: HF_TIME_PAST where the node did not vote (then it is in
 * heal_wanted). `mark[i]`: the node's sentinel generation. */
void lease_fsm_init(struct lease_fsm *l, const struct servers *servers, int n, int q,
                    const struct timing *timing, bool is_job, hf_time max_hold, const hf_time *a,
                    const uint32_t *mark);
/* From a journal: d_i as they were. `was_losing`: by the stored state (the caller may set
 * `reason`). Run lease_fsm_tick() next. V - 0.3 T may pass while this agent still connects, so
 * until q nodes have answered it a lease may be renewed until V; a run is LOSING by then all the
 * same. */
void lease_fsm_readopt(struct lease_fsm *l, const struct servers *servers, int n, int q,
                       const struct timing *timing, bool is_job, hf_time max_hold, const hf_time *d,
                       const uint32_t *mark, bool was_losing);

/* After lease_fsm_readopt(), where the fleet's record now counts less than it did: its holder was told `until`, by votes that
 * all stand. V is no earlier while no vote is found void; nothing extends it. */
void lease_fsm_freeze(struct lease_fsm *l, hf_time until);
/* After lease_fsm_readopt(): the holder of a run went before this agent came. Nothing renews the lease, and its loss says so. */
void lease_fsm_was_abandoned(struct lease_fsm *l);

/* A vote of the grant's round that came after the grant, for a command whose first byte left after `a`, while
 * nobody has renewed or judged the lease yet: it stands, and V stays, which all votes of a round have in common
 * but for what is_small() allows. */
void lease_fsm_vote(struct lease_fsm *l, int node, hf_time a);

/* Each returns LEASE_ACT_* bits. `now` is read as the event is processed. */
unsigned lease_fsm_tick(struct lease_fsm *l, hf_time now);
/* The same for a caller that did nothing between `since` and `now`. If the lease became LATE or
 * worse in that time, that is the caller's doing (AWAY), not the nodes'. */
unsigned lease_fsm_tick_after(struct lease_fsm *l, hf_time since, hf_time now);
/* Whether the lease became LATE or worse because the caller was away. */
bool lease_fsm_missed(const struct lease_fsm *l, hf_time since, hf_time now);
/* Renewed or healed: a command whose first byte left after `a` armed our key again. Counts only
 * with an `a` later than the known one and, after a void vote, later than the finding that voided
 * it. Ignored from LOSING on. */
unsigned lease_fsm_hit(struct lease_fsm *l, int node, hf_time a, uint32_t mark, hf_time now);
/* Our key stands there, but the answer does not count (agent/core/age.h): no heal is wanted. */
unsigned lease_fsm_stands(struct lease_fsm *l, int node, hf_time now);
/* The renewal found no key, and a heal is wanted. `mark`: the node's sentinel generation now. */
unsigned lease_fsm_missing(struct lease_fsm *l, int node, uint32_t mark, hf_time now);
unsigned lease_fsm_foreign(struct lease_fsm *l, int node, hf_time now);
/* The same for a node where somebody put a mark in our token's place. */
unsigned lease_fsm_forced(struct lease_fsm *l, int node, hf_time now);
/* These nodes (bit per node) were seen to have a higher fence, all of the same other token. If they are q servers, and more
 * than a try of another host and one node that lies can be (all of three, four of five), the lock was granted anew, whatever
 * votes stand, and the lease is LOST (FENCE). */
unsigned lease_fsm_outbid(struct lease_fsm *l, uint32_t nodes, hf_time now);
/* The node's clock stepped, as the reply to a command sent after `sent` showed: a vote from before
 * that is void until renewed. A vote from that very reply stands, so report the reply's hits
 * first. */
unsigned lease_fsm_stepped(struct lease_fsm *l, int node, hf_time sent, hf_time now);
/* The slot was stored after an EXTEND. `previous`: `valid` before it. `now`: read after the store.
 */
unsigned lease_fsm_confirm(struct lease_fsm *l, hf_time previous, hf_time now);
/* The holder was asked to stop, max_hold passed, or a guardian acted: LOSING with that reason. */
unsigned lease_fsm_lose(struct lease_fsm *l, enum hf_loss_reason reason, hf_time now);
/* The holder ended the lease, or died (reason HF_LOSS_HOLDER): ENDED; LOST when V has passed. */
unsigned lease_fsm_release(struct lease_fsm *l, enum hf_loss_reason reason, hf_time now);
/* The holder of a run is gone without a word: it is renewed no more. */
unsigned lease_fsm_abandon(struct lease_fsm *l, hf_time now);

/* `l` becomes what `from` is, for another process of this host; votes and V stay as they are. Only
 * while handoff_judge() allows it. */
void lease_fsm_hand_over(struct lease_fsm *l, const struct lease_fsm *from, bool is_job,
                         hf_time max_hold);

/* The next instant at which lease_fsm_tick() would do something; HF_TIME_NEVER when over. */
hf_time lease_fsm_next(const struct lease_fsm *l);
/* Whether the nodes should be renewed at all: not from LOSING on, not when abandoned. The same
 * holds for heals. */
bool lease_fsm_renews(const struct lease_fsm *l);
/* How many servers' votes stand (d_i not void and ahead of now). */
int lease_fsm_votes(const struct lease_fsm *l, hf_time now);

#endif
