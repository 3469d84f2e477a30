/* When a lease is renewed next: some T/3 later, jittered by 10 %, together with those that were
 * renewed with it, at a time at which not much else is due. Pure. One thread.
 *
 * Leases of one TTL that are renewed one after the other get the same time (a phase, which fills one
 * script), so whatever order there is is kept, and what was scattered is gathered. Times are drawn so
 * that the load is even: of two drawn, the one with less that is due around it, which is the later
 * one more often than not. After a standstill (this agent was stopped, a node was away) many are
 * renewed at once, by all hosts; who was late, or finds its times crowded, draws from a window that
 * begins earlier, so that a round later they are spread again.
 */
#ifndef HOLDFAST_AGENT_CORE_PHASES_H
#define HOLDFAST_AGENT_CORE_PHASES_H

#include <stdint.h>

#include "agent/core/timing.h"

#define PHASES_GRID                                                                                \
    hf_ms(10) /* times are so far apart, or the same: few wake-ups for many scripts */
#define PHASES_TTLS    8
#define PHASES_BUCKETS 4096               /* of load, one after the other for ever */
#define PHASES_BUCKET  (INT64_C(1) << 25) /* ns; all of them: 137 s, for T up to six minutes */

struct phases {
    struct {
        uint32_t ttl_ms, members;
        hf_time begun, at;
    } open[PHASES_TTLS];
    struct {
        uint32_t turn, load; /* `load` leases are due here in that turn of the buckets */
    } bucket[PHASES_BUCKETS];
    uint32_t random;   /* not 0 */
    int64_t offset_ns; /* of this host's grid, for no two to be alike */
};

void phases_init(struct phases *p, uint32_t random);

/* The next renewal of a lease that was renewed at `a`, `late` behind the time it was due; `most` make
 * a phase full, `held` leases are renewed in all. */
hf_time phases_next(struct phases *p, const struct timing *timing, hf_time a, hf_dur late,
                    uint32_t most, uint32_t held);

/* Whether a lease renewed at `a` on one node may be renewed at `at` there, because that is when it is
 * due on another: then it needs one extension of its validity for all of them. */
bool phases_fits(const struct timing *timing, hf_time a, hf_time at);

#endif
