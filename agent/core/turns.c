#include "agent/core/turns.h"

#include <string.h>

#include "agent/core/draw.h"

uint32_t turns_host(const char *name)
{
    uint32_t hash = 2166136261u; /* FNV-1a */

    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * 16777619u;
    return hash ? hash : 1;
}

static int missing(const struct turns *t)
{
    return t->known - t->had;
}

static void forget_first(struct turns *t, int count)
{
    t->known = (uint8_t)(t->known - count);
    memmove(t->host, t->host + count, t->known * sizeof(t->host[0]));
}

/* It had a turn: those that had are the last, in order. */
static void had_turn(struct turns *t, uint32_t host)
{
    int i = 0;

    while (i < t->known && t->host[i] != host)
        i++;
    if (i == t->known && i == TURNS_HOSTS) {
        if (missing(t) == 0)
            t->had--;
        forget_first(t, 1);
        i = t->known;
    }
    if (i < t->known) {
        if (i >= missing(t))
            t->had--;
        t->known--;
        memmove(t->host + i, t->host + i + 1, (size_t)(t->known - i) * sizeof(t->host[0]));
    }
    t->host[t->known++] = host;
    t->had++;
}

bool turns_seen(struct turns *t, uint64_t fence, uint32_t host)
{
    if (fence == 0 || fence == t->last)
        return false;
    t->last = fence;
    if (t->passed < UINT16_MAX)
        t->passed++;
    if (host == 0 && missing(t) > 0)
        host = t->host[0]; /* most likely: it was next */
    if (host)
        had_turn(t, host);
    return true;
}

void turns_ours(struct turns *t, uint64_t fence)
{
    /* Who did not use our step back is not waiting. */
    if (!t->fresh)
        forget_first(t, missing(t));
    t->last = fence;
    t->had = 0;
    t->passed = 0;
    t->fresh = false;
}

void turns_fresh(struct turns *t)
{
    t->had = 0;
    t->passed = 0;
    t->fresh = true;
}

int64_t turns_stretch(hf_nodetime nodes)
{
    return nodes.us / (TURNS_GAP_EVERY.ns / HF_NS_PER_US);
}

/* A fence is about the nodes' time of its grant. */
static int64_t eight_stretches(int64_t us)
{
    return turns_stretch((hf_nodetime){us}) / TURNS_LONG_IN;
}

bool turns_owes_gap_alone(uint64_t before, uint64_t ours, hf_nodetime now)
{
    return before && (eight_stretches((int64_t)before) != eight_stretches((int64_t)ours) ||
                      eight_stretches((int64_t)ours) != eight_stretches(now.us));
}

/* All whom we know had two turns, as far as we can tell. */
static bool is_passed_over(const struct turns *t)
{
    return t->passed >= 2 * (t->known + 1);
}

hf_dur turns_step_back(struct turns *t, int64_t stretch, uint32_t random)
{
    hf_dur gap = hf_ns(0);

    if (t->fresh || t->known == 0)
        return gap;
    if (stretch != t->stretch && !is_passed_over(t))
        gap = stretch % TURNS_LONG_IN == 0 ? TURNS_GAP_LONG : TURNS_GAP;
    t->stretch = stretch;
    if (missing(t) == 0)
        return gap;
    return hf_ns(gap.ns + missing(t) * TURNS_STEP.ns + draw_within(TURNS_STEP_DRAW, random).ns);
}
