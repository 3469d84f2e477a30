#include "agent/core/handoff.h"

#include "agent/core/backoff.h"
#include "shm/assert.h"

enum handoff_verdict handoff_judge(const struct handoff_facts *f)
{
    hf_assert(f->ttl.ns > 0, "state %d, count %u", (int)f->state, (unsigned)f->count);
    if (f->next_ttl.ns != f->ttl.ns)
        return HANDOFF_OTHER_TTL;
    if (f->state != HF_SLOT_HELD || !f->renewed)
        return HANDOFF_NOT_HELD;
    if (hf_time_since(f->valid, f->now).ns < f->ttl.ns / 2)
        return HANDOFF_SHORT;
    if (hf_time_before(f->token_end, f->next_end))
        return HANDOFF_MAX_HOLD;
    if (f->count >= HANDOFF_IN_A_ROW)
        return HANDOFF_MANY;
    if (hf_time_since(f->now, f->won).ns > f->turn.ns)
        return HANDOFF_LONG;
    return HANDOFF_YES;
}

/* Whether other hosts are known to want the lock. */
static bool handoff_is_contended(hf_dur ttl, hf_time others_seen, hf_time now)
{
    return others_seen.ns != HF_TIME_PAST.ns &&
           hf_time_before(now, hf_time_add(others_seen, hf_dur_scale(ttl, 2, 1)));
}

hf_dur handoff_turn(hf_dur ttl, hf_time others_seen, hf_time now)
{
    hf_dur most = hf_ns(ttl.ns / 2);

    return handoff_is_contended(ttl, others_seen, now) ? hf_dur_min(most, HANDOFF_TURN) : most;
}

hf_dur handoff_yield(hf_dur ttl, hf_time others_seen, hf_time now, uint32_t random)
{
    if (!handoff_is_contended(ttl, others_seen, now))
        return hf_ns(0);
    return draw_between(HANDOFF_YIELD_LEAST, HANDOFF_YIELD_MOST, random);
}

int64_t handoff_gap_stretch(hf_nodetime nodes)
{
    return nodes.us / (HANDOFF_GAP_EVERY.ns / HF_NS_PER_US);
}

hf_dur handoff_gap(hf_dur ttl, hf_time foreign_seen, int64_t last, int64_t stretch, hf_time now,
                   uint32_t random)
{
    if (stretch == last || !handoff_is_contended(ttl, foreign_seen, now))
        return hf_ns(0);
    return draw_between(HANDOFF_GAP, hf_ns(HANDOFF_GAP.ns + HANDOFF_GAP_DRAW.ns), random);
}
