/* Every timeout of Holdfast, derived in one place from TTL and ttl_max. Pure.
 *
 * The worked timeline of one node's vote and of the lease (T = TTL; seconds for T = 30 s):
 *
 *   a               clock read before the first byte of the last acquire, heal or renew
 *                   that hit                                                               0
 *   a + T/3         renew that node (phases.h draws the time: 9.0 .. 10.3 as a rule,
 *                   earlier after a standstill, never after 11.0)                     10.000
 *   + T/15          an attempt is given up (2 s; never under 50 ms); retry after a
 *                   backoff of up to T/10
 *   d = a + 0.99 T - 2 ms   the vote is surely still there before d                   29.698
 *   V               the q-th largest d: the lease is valid before V                   29.698
 *   V - 0.5 T       late: an event, and a state that the holder can see               14.698
 *   V - 0.3 T       losing: on-lost hook, SIGTERM to a run's job; terminal            20.698
 *   V - 0.1 T       SIGKILL to the whole tree                                         26.698
 *   V               lost
 *   a + T           the node's key ends, by its own clock: 0.01 T + 2 ms after d,
 *                   which is the drift allowance                                      30.000
 *
 * A round is decided within 2 T/15 of its first byte (4 s; never under 200 ms), or undone. What a node
 * answers to a heal counts once it is older than that of any TTL: 2.04 ttl_max/15 + 200 ms after it
 * forgot (8.36 s for ttl_max = 60 s; agent/core/age.h).
 *
 * The drift allowance covers steps of a node's clock that nobody sees, too: sampling_unseen().
 *
 * So a node has at least (0.69 T - 2 ms) - 1.1 T/3 for its renewal before SIGTERM, and that must
 * hold two full attempts. Refused otherwise:
 *
 *   1.1 T/3 + 2 max(T/15, 50 ms) < 0.99 T - 2 ms - 0.3 T
 *   0.1 T >= 50 ms            the time between KILL and V: kernels were seen to wake up 15 ms late
 *   T <= ttl_max <= 24 h
 */
#ifndef HOLDFAST_AGENT_CORE_TIMING_H
#define HOLDFAST_AGENT_CORE_TIMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/layout.h"
#include "shm/nstime.h"

struct timing {
    hf_dur ttl;
    hf_dur span;         /* d - a: 0.99 T - 2 ms */
    hf_dur renew_after;  /* T/3 */
    hf_dur renew_jitter; /* 10 % of that: no renewal is due more than this much later */
    hf_dur attempt;      /* T/15, at least 50 ms: also the deadline of an acquire, heal, release */
    hf_dur retry_first;  /* T/60 */
    hf_dur retry_max;    /* T/10 */
    hf_dur late_before, losing_before, kill_before; /* 0.5 T, 0.3 T, 0.1 T before V */
    hf_dur grant_least; /* T/2: a grant with less validity ahead is undone */
    hf_dur round_most;  /* 2 T/15, at least 200 ms: a grant that is decided later is undone */
};

#define TIMING_ATTEMPT_LEAST hf_ms(50) /* an answer takes a scheduler's turn on both hosts */
#define TIMING_ROUND_LEAST                                                                         \
    hf_ms(200) /* a round trip, a second one for the fence, and as much noise */
#define TIMING_SPAN_ALLOWANCE hf_ms(2) /* expiry in Redis has a resolution of 1 ms, and it rounds */

/* For a TTL that timing_derive() accepts. Inline: a lease keeps only its TTL, and a caller that
 * wants one of these values computes just that one. */
static inline struct timing timing_of(hf_dur ttl)
{
    hf_dur renew_after = hf_dur_scale(ttl, 1, 3);

    return (struct timing){
        .ttl = ttl,
        .span = hf_ns(hf_dur_scale(ttl, 99, 100).ns - TIMING_SPAN_ALLOWANCE.ns),
        .renew_after = renew_after,
        .renew_jitter = hf_dur_scale(renew_after, 1, 10),
        .attempt = hf_dur_max(hf_dur_scale(ttl, 1, 15), TIMING_ATTEMPT_LEAST),
        .retry_first = hf_dur_scale(ttl, 1, 60),
        .retry_max = hf_dur_scale(ttl, 1, 10),
        .late_before = hf_dur_scale(ttl, 1, 2),
        .losing_before = hf_dur_scale(ttl, 3, 10),
        .kill_before = hf_dur_scale(ttl, 1, 10),
        .grant_least = hf_dur_scale(ttl, 1, 2),
        .round_most = hf_dur_max(hf_dur_scale(ttl, 2, 15), TIMING_ROUND_LEAST),
    };
}

/* HF_OK; or HF_ETTL, with the inequality that does not hold, its numbers and the remedy in
 * `why`. */
int timing_derive(hf_dur ttl, hf_dur ttl_max, struct timing *ret_timing, char *why,
                  size_t why_size);

/* The smallest whole-millisecond TTL that timing_derive accepts. */
hf_dur timing_ttl_min(void);

/* 1.02 * ttl_max + 1 s: for so long a node that may have forgotten gives no acquire votes. */
hf_dur timing_quarantine(hf_dur ttl_max);

/* 2.04 ttl_max/15 + 200 ms: a node that forgot more recently than this counts for no lease by a
 * heal. It is longer than any `round_most` of the fleet, by clocks that are 1 % apart. */
hf_dur timing_age(hf_dur ttl_max);

/* (age + 1 s) / 0.7: shorter leases are lost when the nodes restart empty one after the other, one
 * per T/2, each away for a second. A restarted node counts again `age` after agents are back on it.
 * Until then the lease stands on the others. The next one of them had its last renewal up to 1.1
 * T/3 before it restarts itself. So the lease is losing 0.82 T after the first restart. */
hf_dur timing_rolling(hf_dur ttl_max);

/* A third of the agent's default TTL: a connection without any answer for this long is closed. */
hf_dur timing_silence(hf_dur default_ttl);

/* A lease may stay with the thread that granted it for this long: far less than the shortest T/3,
 * and less than any lease's first renewal is away. */
hf_dur timing_short_hold(void);

/* Until when q nodes surely hold our token. Pure. */

/* The q-th largest of `count` instants; HF_TIME_PAST stands for "no vote", and is returned when
 * count < q. 0 <= count <= HF_NODES_MAX, q >= 1. */
hf_time validity_qth(const hf_time *d, int count, int q);

/* When an agent starts by another record of the fleet (agent/core/fleet_record.h); `counting`: bit per node.
 * (!) What a server told that does not count, or not yet, is no vote any more: an earlier record counted it, and it may not
 * make up a majority with votes by this one. */
void validity_drop(hf_time *d, int count, uint32_t counting);
/* The latest vote. (!) No holder was shown a V that is later, whatever is known of how it came about. By an earlier record or
 * list other servers counted, and some of those that stay are in every majority of those. Of a void vote the journal tells
 * before the word does, which has the V of before then; where too many are void at once the lease is lost, and the journal
 * has V in place of the latest (agent/state/journal_leases.c). */
hf_time validity_latest(const hf_time *d, int count);

/* How often a node's clock is looked at, and how large a step may go unseen meanwhile. Pure. One
 * thread.
 *
 * A reply shows the difference of two clocks as an interval no wider than its round trip. The known
 * interval widens by 1 % of the time that passes (agent/core/node_trust.h). A step is seen when the
 * next reply's interval does not overlap the known one. With a gap g between two replies, u0 the
 * width of the known interval and u1 that of the next reply's, a step of up to this much goes
 * unseen:
 *
 *   s = g/100 + u0 + u1
 *
 * A node whose clock leaps ahead by s ends a key that much too early, which harms nobody while
 *
 *   s <= 0.01 T + 2 ms        the allowance in V (agent/core/timing.h)
 *
 * That allowance is there once: for a step, or for clocks whose rates differ by 1 %. What counts is
 * the gap of an agent that wants the lock, since its votes would break exclusion. So the broker
 * asks each node often enough to keep s within the allowance of this agent's default TTL:
 *
 *   g = 100 (0.01 T + 2 ms - u0 - u1), but max(T/30, 100 ms) <= g <= min(T/3, 5 s) (1 + 0.07 i)
 *
 * for the i-th node of the list. The nodes are asked out of step with each other, since a
 * disturbance that shows on several nodes at once voids several votes. T = 30 s: 5 to 7.8 s while
 * the round trip is below 112 ms, a second at 146 ms. Beyond that the node is far: s is above the
 * allowance, and a longer TTL or a nearer node is wanted.
 */

#define SAMPLING_TRIPS 8

/* Zeroed: nothing is known. */
struct sampling {
    hf_dur trip[SAMPLING_TRIPS]; /* of the latest probes */
    uint32_t count;
};

/* A probe's round trip. */
void sampling_note(struct sampling *s, hf_dur trip);
/* The shortest of the latest round trips, when nothing held up the node's answer; 0: unknown. */
hf_dur sampling_trip(const struct sampling *s);

/* s, for a gap g and the sum of both widths. */
hf_dur sampling_unseen(hf_dur gap, hf_dur widths);
/* 0.01 T + 2 ms. */
hf_dur sampling_allowance(hf_dur ttl);
/* g, for the node at this position. */
hf_dur sampling_gap(hf_dur ttl, hf_dur widths, int node);
/* The step that goes unseen on a node with this round trip when it is asked as often as
 * sampling_gap() allows. */
hf_dur sampling_step(const struct sampling *s, hf_dur ttl, int node);

#endif
