#include "agent/core/timing.h"

#include <stdio.h>

#include "shm/assert.h"
#include "shm/status.h"

#define KILL_LEAST   hf_ms(50) /* from SIGKILL to V: kernels were seen to wake up to 15 ms late */
#define SHORT_HOLD   hf_ms(50)
#define TTL_MAX_MOST hf_ms(24 * 60 * 60 * INT64_C(1000))

static double timing_as_ms(hf_dur d)
{
    return (double)d.ns / HF_NS_PER_MS;
}

/* When two attempts to renew have certainly been made, counted from the last hit. */
static hf_dur timing_two_attempts(const struct timing *t)
{
    return hf_ns(t->renew_after.ns + t->renew_jitter.ns + 2 * t->attempt.ns);
}

/* When the lease becomes `losing`, counted from the hit that gave V. */
static hf_dur timing_losing_after(const struct timing *t)
{
    return hf_ns(t->span.ns - t->losing_before.ns);
}

static bool timing_renewals_fit(const struct timing *t)
{
    return timing_two_attempts(t).ns < timing_losing_after(t).ns;
}

static bool timing_kill_fits(const struct timing *t)
{
    return t->kill_before.ns >= KILL_LEAST.ns;
}

hf_dur timing_ttl_min(void)
{
    int64_t ms = 1;

    for (;; ms++) {
        struct timing t = timing_of(hf_ms(ms));
        if (timing_renewals_fit(&t) && timing_kill_fits(&t))
            return t.ttl;
    }
}

int timing_derive(hf_dur ttl, hf_dur ttl_max, struct timing *ret_timing, char *why, size_t why_size)
{
    struct timing t;

    if (ttl.ns <= 0) {
        snprintf(why, why_size, "use a TTL of at least %.0f ms: it must be above 0",
                 timing_as_ms(timing_ttl_min()));
        return HF_ETTL;
    }
    if (ttl.ns % HF_NS_PER_MS != 0) {
        snprintf(why, why_size, "use whole milliseconds for the TTL, not %.6f ms",
                 timing_as_ms(ttl));
        return HF_ETTL;
    }
    if (ttl_max.ns > TTL_MAX_MOST.ns) {
        snprintf(why, why_size, "use a ttl_max of at most %.0f ms (24 h), not %.0f ms",
                 timing_as_ms(TTL_MAX_MOST), timing_as_ms(ttl_max));
        return HF_ETTL;
    }
    if (ttl.ns > ttl_max.ns) {
        snprintf(
            why, why_size,
            "use a TTL of at most %.0f ms, the fleet's ttl_max, not %.0f ms, or a larger ttl_max "
            "in the whole fleet",
            timing_as_ms(ttl_max), timing_as_ms(ttl));
        return HF_ETTL;
    }
    t = timing_of(ttl);
    if (!timing_renewals_fit(&t)) {
        snprintf(
            why, why_size,
            "use a TTL of at least %.0f ms, not %.0f ms: two attempts to renew need %.1f ms and "
            "would have %.1f ms (1.1 T/3 + 2 max(T/15, 50 ms) < 0.99 T - 2 ms - 0.3 T)",
            timing_as_ms(timing_ttl_min()), timing_as_ms(ttl),
            timing_as_ms(timing_two_attempts(&t)), timing_as_ms(timing_losing_after(&t)));
        return HF_ETTL;
    }
    if (!timing_kill_fits(&t)) {
        snprintf(
            why, why_size,
            "use a TTL of at least %.0f ms, not %.0f ms: it leaves %.1f ms from SIGKILL to the "
            "end of the validity, too few (0.1 T >= 50 ms)",
            timing_as_ms(timing_ttl_min()), timing_as_ms(ttl), timing_as_ms(t.kill_before));
        return HF_ETTL;
    }
    *ret_timing = t;
    return HF_OK;
}

hf_dur timing_quarantine(hf_dur ttl_max)
{
    return hf_ns(hf_dur_scale(ttl_max, 102, 100).ns + HF_NS_PER_SEC);
}

hf_dur timing_age(hf_dur ttl_max)
{
    return hf_ns(hf_dur_scale(ttl_max, 204, 1500).ns + TIMING_ROUND_LEAST.ns);
}

hf_dur timing_rolling(hf_dur ttl_max)
{
    return hf_dur_scale(hf_ns(timing_age(ttl_max).ns + HF_NS_PER_SEC), 10, 7);
}

hf_dur timing_silence(hf_dur default_ttl)
{
    return hf_dur_scale(default_ttl, 1, 3);
}

hf_dur timing_short_hold(void)
{
    return SHORT_HOLD;
}

/* --- validity --------------------------------------------------------------------------------- */

hf_time validity_qth(const hf_time *d, int count, int q)
{
    hf_time sorted[HF_NODES_MAX]; /* largest first; insertion sort is fastest for so few */

    hf_assert(count >= 0 && count <= HF_NODES_MAX && q >= 1, "count %d, q %d", count, q);
    if (count < q)
        return HF_TIME_PAST;
    for (int i = 0; i < count; i++) {
        int at = i;
        for (; at > 0 && hf_time_before(sorted[at - 1], d[i]); at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = d[i];
    }
    return sorted[q - 1];
}

void validity_drop(hf_time *d, int count, uint32_t counting)
{
    for (int i = 0; i < count; i++)
        if (!(counting >> i & 1))
            d[i] = HF_TIME_PAST;
}

hf_time validity_latest(const hf_time *d, int count)
{
    return validity_qth(d, count, 1);
}

/* --- how often a clock is looked at ----------------------------------------------------------- */

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
