#include "agent/core/sampling.h"

#include "agent/core/timing.h"
#include "shm/assert.h"

#define GAP_LEAST hf_ms(100)
#define GAP_MOST  hf_ms(5000)

void sampling_note(struct sampling *s, hf_dur trip)
{
    hf_assert(trip.ns >= 0, "trip %lld", (long long)trip.ns);
    s->trip[s->count++ % SAMPLING_TRIPS] = trip;
}

hf_dur sampling_trip(const struct sampling *s)
{
    hf_dur least = s->trip[0];

    for (uint32_t i = 1; i < s->count && i < SAMPLING_TRIPS; i++)
        least = hf_dur_min(least, s->trip[i]);
    return least;
}

hf_dur sampling_unseen(hf_dur gap, hf_dur widths)
{
    return hf_ns(hf_dur_scale(gap, 1, 100).ns + widths.ns);
}

hf_dur sampling_allowance(hf_dur ttl)
{
    return hf_ns(ttl.ns - timing_of(ttl).span.ns);
}

hf_dur sampling_gap(hf_dur ttl, hf_dur widths, int node)
{
    hf_dur room = hf_ns(100 * (sampling_allowance(ttl).ns - hf_dur_min(widths, ttl).ns));
    hf_dur least = hf_dur_max(hf_dur_scale(ttl, 1, 30), GAP_LEAST);
    hf_dur most = hf_dur_min(timing_of(ttl).renew_after, GAP_MOST);

    return hf_dur_max(least, hf_dur_min(room, hf_dur_scale(most, 100 + 7 * node, 100)));
}

hf_dur sampling_step(const struct sampling *s, hf_dur ttl, int node)
{
    hf_dur widths = hf_dur_scale(sampling_trip(s), 2, 1);

    return sampling_unseen(sampling_gap(ttl, widths, node), widths);
}
