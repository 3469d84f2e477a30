/* How many renew scripts of this agent may be without an answer on one node. Pure. One thread.
 *
 * One, while that is enough: a script takes a node half a millisecond, and whoever else asks it waits
 * behind all that it has. What waits PACE_STAGGER for its turn goes all the same, as a second, and so
 * on to a few, for a node may be some milliseconds away. A node that is farther away, or waits for a
 * core, answers late however little it has to do: with a million leases a few scripts for each round
 * trip are too few, and leases were lost by it. So for each script that left late and was answered in
 * time one more may be on its way, but only for what is late already. A node that does not answer gets
 * no more than the few.
 */
#ifndef HOLDFAST_AGENT_CORE_PACE_H
#define HOLDFAST_AGENT_CORE_PACE_H

#include <stdbool.h>

#include "agent/core/timing.h"

#define PACE_FEW     4
#define PACE_MOST    32
#define PACE_STAGGER hf_ms(5)

/* Zeroed: nothing is under way. */
struct pace {
    int under_way; /* scripts without an answer */
    int more;      /* than PACE_FEW that late ones may have */
};

/* T/30: a script that leaves so much behind its time is late. */
static inline hf_dur pace_slack(const struct timing *timing)
{
    return hf_dur_scale(timing->ttl, 1, 30);
}

/* When a script for what is due at `due` may leave; HF_TIME_NEVER: once another is answered. */
hf_time pace_next(const struct pace *p, hf_time due, hf_dur slack);
void pace_sent(struct pace *p);
/* There will be no answer any more. `in_time`: it was answered, within its attempt; `late`: how much
 * behind its time it had left. */
void pace_ended(struct pace *p, bool in_time, hf_dur late, hf_dur slack);

#endif
