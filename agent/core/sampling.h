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
#ifndef HOLDFAST_AGENT_CORE_SAMPLING_H
#define HOLDFAST_AGENT_CORE_SAMPLING_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/nstime.h"

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
