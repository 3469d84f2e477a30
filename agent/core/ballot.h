/* One acquire round: N nodes vote once, and the outcome is decided as soon as it is certain. Pure.
 *
 * Rules: a grant needs one set of q nodes, each of another server, that all voted, all accepted this very fence, and
 * together give V >= now + T/2 (V = the q-th largest d of those nodes). (!) It is decided within
 * `round_most` of the round's first byte, whatever its validity: a vote is worth nothing once its
 * node may have forgotten it and been healed for another lease (agent/core/age.h). q is counted of
 * the list, also while nodes are down or in quarantine. A node that was not asked counts
 * as a "no".
 */
#ifndef HOLDFAST_AGENT_CORE_BALLOT_H
#define HOLDFAST_AGENT_CORE_BALLOT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/timing.h"
#include "agent/core/server.h"
#include "shm/layout.h"
#include "shm/nstime.h"

enum ballot_vote {
    BALLOT_NOT_ASKED = 0, /* down, quarantined, refused */
    BALLOT_ASKED,         /* no answer yet */
    BALLOT_YES,           /* our key stands there and the fence was accepted */
    BALLOT_YES_LOW,       /* our key stands there, but the fence was too low */
    BALLOT_TAKEN,         /* another's key (or another type) */
    BALLOT_DOUBTED, /* our key stands there, but its fence is beyond belief (agent/core/fence.h) */
    BALLOT_NO,      /* error, timeout, STALE twice, sentinel changed, ... */
};

enum ballot_outcome {
    BALLOT_UNDECIDED,
    BALLOT_WON,
    BALLOT_RAISE, /* q nodes have our key but too few accepted the fence: raise it and go on */
    BALLOT_TAKEN_BY_OTHER, /* cannot be won, and at least one node says that another holds it */
    BALLOT_FAILED,         /* cannot be won for lack of answers */
    BALLOT_TOO_LATE, /* q votes, but V is less than T/2 ahead, or the round has lasted too long */
};

struct ballot {
    int n, q;
    hf_time begun;
    uint64_t fence;     /* the node part that is proposed now */
    uint64_t limit;     /* fence_limit() */
    struct twins twins; /* the caller keeps it: whose votes are of one server */
    struct {
        enum ballot_vote vote;
        int answers;
        uint64_t shown; /* the node's fence, when it answered first; 0: none */
        hf_time a; /* clock before the first byte of the acquire that hit; HF_TIME_PAST: no hit */
    } node[HF_NODES_MAX];
};

/* Quorum of n configured nodes. */
static inline int ballot_quorum(int n)
{
    return n / 2 + 1;
}

/* How long a round takes that the slowest nodes do not hold up, by their last answers: as long as the q-th fastest. */
hf_dur ballot_round_time(const hf_dur rtt[], int n, int q);

/* How long an answer of a node may take before it is overdue: four times its last one's, `rtt`, at least 50 ms. (!) And no longer than
 * 0.4 s or four times a round: else a node that answers late decides how long all wait for it where the others are split. With less than
 * 0.4 s, one near node that always says "taken" would have far ones left out whose votes are needed. */
hf_dur ballot_patience(hf_dur round_time, hf_dur rtt);

/* Which of the nodes that may vote are asked, bit per node. Where the lock is contended a node with
 * an overdue answer is left out if the others are enough: otherwise hosts that split the others
 * among them would all wait for it, and nobody would have the lock meanwhile. */
uint32_t ballot_electorate(uint32_t may_vote, uint32_t overdue, const struct twins *twins, int q,
                           bool contended);

/* `begun`: read before the first byte is sent. `limit`: fence_limit(). */
void ballot_init(struct ballot *b, int n, int q, uint64_t fence, uint64_t limit, hf_time begun);
/* The node is being asked. It may be asked again after STALE, or for a raise, and then before the
 * next ballot_decide(). An earlier yes keeps its `a`. */
void ballot_ask(struct ballot *b, int node);
/* An answer. For YES and YES_LOW `a` is the clock before the first byte, and `seen` the fence that
 * the node has now. The `a` of a node's first yes stays: a raise does not arm the key again. A YES
 * for any fence but the present one (its answer came during a raise) is a YES_LOW.
 * (!) A node shows its own fence once: from then on, our key stands there and its fence is ours. One that is too low for it
 * again, or that no raise satisfies, is a NO. So a round has an end, whatever a node answers. */
void ballot_answer(struct ballot *b, int node, enum ballot_vote vote, hf_time a, uint64_t seen);
/* How a node's vote counts by what all have shown until now: the vote, or DOUBTED where it is YES_LOW and its fence is not
 * believed. */
enum ballot_vote ballot_vote_of(const struct ballot *b, int node);
/* Whether a node that showed this fence would not be believed. */
bool ballot_doubts(const struct ballot *b, int node, uint64_t fence);
/* Begins the second round: sets `fence` to the highest that is believed + 1 and turns every YES into YES_LOW. Those
 * nodes are asked again with the raise script, and ballot_answer() then makes theirs YES. Returns
 * the new fence. (!) Where no node has shown a higher fence, `fence` and every YES stay, and only
 * the nodes that accepted an earlier fence are asked again: otherwise late answers and raises undo
 * each other without end. */
uint64_t ballot_raise(struct ballot *b);
/* When the round is over at the latest. */
hf_time ballot_ends(const struct ballot *b, const struct timing *timing);
/* `now` is read from the clock for this call. */
enum ballot_outcome ballot_decide(const struct ballot *b, const struct timing *timing, hf_time now);

#endif
