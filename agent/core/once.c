#include "agent/core/once.h"

#include <string.h>

#define DAY_MS (INT64_C(24) * 60 * 60 * 1000)

/* (!) Nodes compare turns as Lua numbers, which are exact to 2^53: 10 bits of hand-offs, 40 of milliseconds (34 years), and
 * a step. */
#define HANDOFF_SHIFT 42
#define STEP_SHIFT    2

int64_t once_turn(unsigned handoffs, hf_dur held, int64_t last)
{
    int64_t turn = (int64_t)handoffs << HANDOFF_SHIFT | hf_dur_ms(held) << STEP_SHIFT;

    if (turn <= last && last >> HANDOFF_SHIFT == turn >> HANDOFF_SHIFT)
        turn = ((last >> STEP_SHIFT) + 1) << STEP_SHIFT;
    return turn;
}

int64_t once_turn_to_forget(int64_t seen_turn)
{
    return seen_turn | ((1 << STEP_SHIFT) - 1);
}

void once_begin(struct once *once, int n, int q)
{
    memset(once, 0, sizeof(*once));
    once->n = n;
    once->q = q;
}

void once_silent(struct once *once, int node)
{
    if (once->node[node].word == ONCE_AWAITED)
        once->node[node].word = ONCE_SILENT;
}

void once_refused(struct once *once, int node)
{
    once->node[node].word = ONCE_REFUSED;
}

void once_said(struct once *once, int node, bool votes, const struct once_record *record)
{
    once->node[node].word = ONCE_SAID;
    once->node[node].votes = votes;
    once->node[node].record = *record;
}

enum once_outcome once_decide(const struct once *once)
{
    bool open = false;
    uint32_t votes = 0;

    for (int i = 0; i < once->n; i++) {
        if (once->node[i].word == ONCE_REFUSED)
            return ONCE_LATE;
        open |= once->node[i].word == ONCE_AWAITED;
        if (once->node[i].word == ONCE_SAID && once->node[i].votes)
            votes |= UINT32_C(1) << i;
    }
    if (open)
        return ONCE_OPEN;
    return twins_count(&once->twins, votes) >= once->q ? ONCE_ENOUGH : ONCE_FEW;
}

bool once_is_later(const struct once_record *a, const struct once_record *b)
{
    return a->fence != b->fence ? a->fence > b->fence : a->turn > b->turn;
}

struct once_record once_seen(const struct once *once)
{
    struct once_record latest = {0};

    for (int i = 0; i < once->n; i++) {
        const struct once_record *r = &once->node[i].record;

        if (once->node[i].word == ONCE_SAID &&
            (r->seen > latest.seen || (r->seen == latest.seen && r->seen_turn > latest.seen_turn)))
            latest = (struct once_record){.seen = r->seen, .seen_turn = r->seen_turn};
    }
    return latest;
}

struct once_record once_latest(const struct once *once)
{
    struct once_record latest = {0};

    for (int i = 0; i < once->n; i++)
        if (once->node[i].word == ONCE_SAID && once_is_later(&once->node[i].record, &latest))
            latest = once->node[i].record;
    for (int i = 0; i < once->n && !latest.ended; i++) /* not every node was told */
        if (once->node[i].word == ONCE_SAID && !once_is_later(&latest, &once->node[i].record))
            latest.ended = once->node[i].record.ended;
    return latest;
}

bool once_is_of(const struct once_record *record, uint64_t fence, int64_t asker)
{
    return asker != 0 && record->asker == asker && record->fence == fence;
}

bool once_differs(const struct once *once, const struct once_record *record)
{
    for (int i = 0; i < once->n; i++)
        if (once->node[i].word == ONCE_SAID && once_is_later(record, &once->node[i].record))
            return true;
    return false;
}

bool once_is_done(int64_t at_us, int64_t now_us, hf_dur period)
{
    int64_t period_us = period.ns / HF_NS_PER_US, ago_us = now_us - at_us;

    if (at_us <= 0)
        return false;
    return ago_us < 0 ? -ago_us < period_us : ago_us < period_us / 10 * ONCE_PART;
}

hf_dur once_retention(hf_dur period)
{
    return hf_ns(2 * period.ns + hf_ms(DAY_MS).ns);
}
