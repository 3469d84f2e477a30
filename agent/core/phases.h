/* When a lease is renewed next: after about T/3, jittered by 10 %, together with leases that were
 * renewed with it, at a time when not much else is due. Pure. One thread.
 *
 * Leases of one TTL that are renewed one after the other get the same time, a phase, which fills
 * one script. So what is in order stays in order, and what is scattered is gathered. Times are
 * drawn so that the load is even: two are drawn, and the one around which less is due is taken,
 * more often than not the later one. After a standstill (this agent was stopped, a node was away)
 * all hosts renew many leases at once. A lease that was late, or finds its times crowded, is drawn
 * from a window that begins earlier, so that one round later the leases are spread again.
 */
#ifndef HOLDFAST_AGENT_CORE_PHASES_H
#define HOLDFAST_AGENT_CORE_PHASES_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/timing.h"

#define PHASES_GRID                                                                                \
    hf_ms(10) /* times are this far apart, or the same: few wake-ups for many scripts */
#define PHASES_TTLS      8
#define PHASES_BUCKETS   4096               /* of load; they follow each other round and round */
#define PHASES_BUCKET_NS (INT64_C(1) << 25) /* all of them: 137 s, for T up to six minutes */

struct phases {
    struct {
        uint32_t ttl_ms, members;
        hf_time begun, at;
    } open[PHASES_TTLS];
    struct {
        uint32_t turn, load; /* `load` leases are due here in that turn of the buckets */
    } bucket[PHASES_BUCKETS];
    uint32_t random;   /* not 0 */
    int64_t offset_ns; /* of this host's grid, so that no two hosts' are alike */
};

void phases_init(struct phases *p, uint32_t random);

/* The next renewal of a lease that was renewed at `a`, which was `late` after it was due. A phase
 * is full with `most` leases; `held` leases are renewed in all. */
hf_time phases_next(struct phases *p, const struct timing *timing, hf_time a, hf_dur late,
                    uint32_t most, uint32_t held);

/* Whether a lease that was renewed at `a` on one node may be renewed there at `at`, when it is due
 * on another node: one extension of its validity then serves both. */
bool phases_fits(const struct timing *timing, hf_time a, hf_time at);

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
