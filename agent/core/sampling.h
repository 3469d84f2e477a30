/* How often the clock of a node is looked at, and what step of it may go unseen meanwhile. Pure. One
 * thread.
 *
 * A reply shows the difference of two clocks as an interval no wider than its round trip. What is
 * known widens by 1 % of the time that passes (agent/core/node_trust.h); a step is seen when the next
 * reply's interval lies apart from that. With a gap of g between two replies, the known interval as
 * wide as u0 and that of the next reply as wide as u1, a step goes unseen of up to
 *
 *   s = g/100 + u0 + u1
 *
 * A node whose clock leaps ahead by s ends a key so much too early, which harms nobody while
 *
 *   s <= 0.01 T + 2 ms        what V allows for (agent/core/timing.h)
 *
 * That allowance is there once: for a step, or for clocks whose rates differ by 1 %. What counts is
 * the gap of an agent that wants the lock, for its votes are what breaks exclusion. So the broker asks
 * each node as often as keeps s within the allowance of this agent's default TTL:
 *
 *   g = 100 (0.01 T + 2 ms - u0 - u1), but max(T/30, 100 ms) <= g <= min(T/3, 5 s) (1 + 0.07 i)
 *
 * for the i-th node of the list: out of step with each other, for what several nodes show at one time
 * voids several votes. T = 30 s: 5 to 7.8 s while the round trip is below 112 ms, a second at 146 ms.
 * Beyond that the node is far: s is above the allowance, and a longer TTL or a nearer node is wanted.
 */
#ifndef HOLDFAST_AGENT_CORE_SAMPLING_H
#define HOLDFAST_AGENT_CORE_SAMPLING_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/nstime.h"

#define SAMPLING_TRIPS 8

/* Zeroed: nothing is known. */
struct sampling {
    hf_dur trip[SAMPLING_TRIPS]; /* of the last probes */
    uint32_t count;
};

/* A probe's round trip. */
void sampling_note(struct sampling *s, hf_dur trip);
/* The shortest of the last ones: of what a node answers when nothing holds it up; 0 unknown. */
hf_dur sampling_trip(const struct sampling *s);

/* s, of a gap g and of both widths together. */
hf_dur sampling_unseen(hf_dur gap, hf_dur widths);
/* 0.01 T + 2 ms. */
hf_dur sampling_allowance(hf_dur ttl);
/* g, for the node at this position. */
hf_dur sampling_gap(hf_dur ttl, hf_dur widths, int node);
/* The step that goes unseen when a node with this round trip is looked at as often as may be, g
 * being what sampling_gap() says. */
hf_dur sampling_step(const struct sampling *s, hf_dur ttl, int node);

#endif
