/* How many renew scripts of this agent may be unanswered on one node. Pure. One thread.
 *
 * One, as long as that is enough: a script takes a node half a millisecond, and everybody else's
 * commands wait behind all the scripts that it has. A script that has waited PACE_STAGGER for its
 * turn leaves anyway, as the second, and so on up to PACE_FEW, for a node may be some milliseconds
 * away. A node that is farther away, or waits for a core, answers late however little it has to do.
 * With a million leases PACE_FEW scripts in each round trip are too few, and leases were lost by
 * that. So each script that left late and was answered in time allows one more, but only for what
 * is late already. A node that does not answer gets no more than PACE_FEW.
 */
#ifndef HOLDFAST_AGENT_CORE_PACE_H
#define HOLDFAST_AGENT_CORE_PACE_H

#include <stdbool.h>

#include "agent/core/timing.h"

#define PACE_FEW     4
#define PACE_MOST    32
#define PACE_STAGGER hf_ms(5)

/* Zeroed: no script is under way. */
struct pace {
    int under_way; /* unanswered scripts */
    int more;      /* scripts beyond PACE_FEW, for what is late */
};

/* T/30: a script that leaves this long after its time is late. */
static inline hf_dur pace_slack(const struct timing *timing)
{
    return hf_dur_scale(timing->ttl, 1, 30);
}

/* When a script for what is due at `due` may leave; HF_TIME_NEVER: not before another is
 * answered. */
hf_time pace_next(const struct pace *p, hf_time due, hf_dur slack);
void pace_sent(struct pace *p);
/* A script was answered, or will not be any more. `in_time`: it was answered within its attempt.
 * `late`: how long after its time it had left. */
void pace_ended(struct pace *p, bool in_time, hf_dur late, hf_dur slack);

#endif
