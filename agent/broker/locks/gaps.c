#include "agent/broker/locks/gaps.h"

#include "agent/base/clock.h"
#include "agent/base/random.h"
#include "agent/base/thread_role.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/core/handoff.h"

static int64_t gap_stretch(struct locks *locks, hf_time now) IN_BROKER_THREAD
{
    hf_nodetime median = {clock_wall().ms * 1000}; /* until a node has told its TIME */

    (void)nodes_time(locks->nodes, now, &median);
    return handoff_gap_stretch(median);
}

static hf_dur gap_after(const struct resource *r, int64_t stretch, hf_time now)
{
    struct locks *locks = resource_locks(r);

    return handoff_gap(locks->config->timing.ttl, r->work->foreign_seen, r->work->gap, stretch, now,
                       random_u32());
}

bool gap_is_owed(const struct resource *r, hf_time now)
{
    return r->work->foreign_seen.ns != HF_TIME_PAST.ns &&
           gap_after(r, gap_stretch(resource_locks(r), now), now).ns > 0;
}

void gap_leave(struct resource *r, hf_time now)
{
    int64_t stretch = gap_stretch(resource_locks(r), now);

    r->work->yield_until =
        hf_time_max(r->work->yield_until, hf_time_add(now, gap_after(r, stretch, now)));
    r->work->gap = stretch;
}
