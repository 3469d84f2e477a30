#include "agent/core/phases.h"

#include <string.h>

#include "agent/core/backoff.h"
#include "shm/assert.h"

#define CROWD      128 /* leases; a single script makes no crowd */
#define DRAWS      2
#define DRAWS_MORE 6 /* where all times are crowded after a standstill */

void phases_init(struct phases *p, uint32_t random)
{
    memset(p, 0, sizeof(*p));
    p->random = random ? random : 1;
    p->offset_ns = p->random % PHASES_GRID.ns;
}

static uint32_t *phases_load_at(struct phases *p, hf_time at)
{
    uint64_t number = (uint64_t)at.ns / PHASES_BUCKET_NS;
    uint32_t turn = (uint32_t)(number / PHASES_BUCKETS);

    number %= PHASES_BUCKETS;
    if (p->bucket[number].turn != turn)
        p->bucket[number].load = 0;
    p->bucket[number].turn = turn;
    return &p->bucket[number].load;
}

/* Draws `draws` times from `least` to `most` and takes the one with the least load. */
static hf_time phases_draw(struct phases *p, hf_time least, hf_time most, int draws)
{
    hf_time best = HF_TIME_NEVER;

    hf_assert(!hf_time_before(most, least), "least %lld, most %lld", (long long)least.ns,
              (long long)most.ns);
    for (int i = 0; i < draws; i++) {
        hf_time at =
            hf_time_add(least, draw_within(hf_time_since(most, least), draw_next(&p->random)));

        if (hf_time_since(most, least).ns > 10 * PHASES_GRID.ns)
            at.ns += PHASES_GRID.ns - (at.ns + p->offset_ns) % PHASES_GRID.ns;
        if (i == 0 || *phases_load_at(p, at) < *phases_load_at(p, best))
            best = at;
    }
    return best;
}

static hf_time phases_begin(struct phases *p, const struct timing *timing, hf_time a, hf_dur late,
                            uint32_t held)
{
    hf_time mean = hf_time_add(a, timing->renew_after);
    hf_time most = hf_time_add(mean, hf_dur_scale(timing->renew_jitter, 1, 3));
    hf_time at = phases_draw(p, hf_time_sub(mean, timing->renew_jitter), most, DRAWS);
    uint64_t even = (uint64_t)held * PHASES_BUCKET_NS / (uint64_t)timing->renew_after.ns;
    bool crowded =
        timing->renew_jitter.ns >= PHASES_BUCKET_NS && *phases_load_at(p, at) > 2 * even + CROWD;

    if (!crowded && late.ns <= timing->renew_jitter.ns)
        return at;
    return phases_draw(p, hf_time_add(a, hf_dur_scale(timing->renew_after, 2, 5)), most,
                       DRAWS_MORE);
}

static bool phases_may_join(const struct timing *timing, hf_time begun, hf_time a)
{
    hf_dur later = hf_time_since(a, begun);

    return later.ns >= 0 && later.ns <= timing->renew_jitter.ns / 4;
}

hf_time phases_next(struct phases *p, const struct timing *timing, hf_time a, hf_dur late,
                    uint32_t most, uint32_t held)
{
    uint32_t ttl_ms = (uint32_t)hf_dur_ms(timing->ttl);
    unsigned i = ttl_ms * UINT32_C(2654435761) >> 29;

    hf_assert(i < HF_LENGTH(p->open), "ttl_ms %u", (unsigned)ttl_ms);
    hf_assert(p->random != 0, "ttl_ms %u", (unsigned)ttl_ms);
    hf_assert(most >= 1, "held %u", (unsigned)held);
    if (p->open[i].ttl_ms != ttl_ms || p->open[i].members >= most ||
        !phases_may_join(timing, p->open[i].begun, a)) {
        p->open[i].ttl_ms = ttl_ms;
        p->open[i].members = 0;
        p->open[i].begun = a;
        p->open[i].at = phases_begin(p, timing, a, late, held);
    }
    p->open[i].members++;
    ++*phases_load_at(p, p->open[i].at);
    return p->open[i].at;
}

bool phases_fits(const struct timing *timing, hf_time a, hf_time at)
{
    hf_dur delay = hf_time_since(at, a);

    return delay.ns >= timing->renew_after.ns * 2 / 5 &&
           delay.ns <= timing->renew_after.ns + timing->renew_jitter.ns;
}

/* --- how many scripts at once ----------------------------------------------------------------- */

static void pace_check(const struct pace *p)
{
    hf_assert(p->under_way >= 0 && p->under_way <= PACE_MOST, "under_way %d", p->under_way);
    hf_assert(p->more >= 0 && p->more <= PACE_MOST - PACE_FEW, "more %d", p->more);
}

hf_time pace_next(const struct pace *p, hf_time due, hf_dur slack)
{
    pace_check(p);
    if (p->under_way == 0 || due.ns >= HF_TIME_NEVER.ns)
        return due;
    if (p->under_way < PACE_FEW)
        return hf_time_add(due, hf_dur_scale(PACE_STAGGER, p->under_way, 1));
    return p->under_way < PACE_FEW + p->more ? hf_time_add(due, slack) : HF_TIME_NEVER;
}

void pace_sent(struct pace *p)
{
    p->under_way++;
    pace_check(p);
}

void pace_ended(struct pace *p, bool in_time, hf_dur late, hf_dur slack)
{
    p->under_way--;
    pace_check(p);
    if (!in_time)
        p->more = 0;
    else if (late.ns > slack.ns)
        p->more += p->more < PACE_MOST - PACE_FEW;
    else
        p->more -= p->more > 0;
}
