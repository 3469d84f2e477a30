#include "agent/core/once.h"

#include <string.h>

#include "agent/core/fence.h"
#include "shm/assert.h"

#define AHEAD_MOST_US (60 * INT64_C(1000000))

#define DAY_MS        (INT64_C(24) * 60 * 60 * 1000)

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

void once_begin(struct once *once, int n, int q, int64_t now_us)
{
    hf_assert(n >= 1 && n <= HF_NODES_MAX && q >= 1 && q <= n, "n %d, q %d", n, q);
    memset(once, 0, sizeof(*once));
    once->n = n;
    once->q = q;
    once->limit_us = now_us + AHEAD_MOST_US;
}

static void once_check(const struct once *once, int node)
{
    hf_assert(once->n >= 1 && once->n <= HF_NODES_MAX, "n %d", once->n);
    hf_assert(once->q >= 1 && once->q <= once->n, "q %d, n %d", once->q, once->n);
    hf_assert(node >= 0 && node < once->n, "node %d of %d", node, once->n);
    hf_assert(once->node[node].word <= ONCE_REFUSED, "word %d of node %d",
              (int)once->node[node].word, node);
}

void once_silent(struct once *once, int node)
{
    once_check(once, node);
    if (once->node[node].word == ONCE_AWAITED)
        once->node[node].word = ONCE_SILENT;
}

void once_refused(struct once *once, int node, uint64_t seen)
{
    once_check(once, node);
    once->node[node].word = ONCE_REFUSED;
    once->node[node].record = (struct once_record){.seen = seen};
}

void once_said(struct once *once, int node, bool votes, bool remembers,
               const struct once_record *record)
{
    once_check(once, node);
    once->node[node].word = ONCE_SAID;
    once->node[node].votes = votes;
    once->node[node].remembers = remembers;
    once->node[node].record = *record;
}

/* Fences and starts are both microseconds of the nodes' clocks, and are believed alike. */
static uint64_t once_believed(const struct once *once,
                              uint64_t (*shown_by)(const struct once *, int))
{
    uint64_t shown[HF_NODES_MAX];

    for (int i = 0; i < once->n; i++)
        shown[i] = shown_by(once, i);
    return fence_believed((uint64_t)once->limit_us, shown, &once->twins, once->n, once->q);
}

static uint64_t once_shown_start(const struct once *once, int node)
{
    return once->node[node].word == ONCE_SAID ? (uint64_t)once->node[node].record.at_us : 0;
}

/* That of a node which is not heard yet is 0. */
static uint64_t once_shown_asker(const struct once *once, int node)
{
    return once->node[node].record.seen;
}

bool once_doubts(const struct once *once, int node)
{
    switch (once->node[node].word) {
    case ONCE_SAID:
        return once_shown_start(once, node) > once_believed(once, once_shown_start);
    case ONCE_REFUSED:
        return once_shown_asker(once, node) > once_believed(once, once_shown_asker);
    case ONCE_AWAITED:
    case ONCE_SILENT:
        break;
    }
    return false;
}

static bool once_is_heard(const struct once *once, int node)
{
    return once->node[node].word == ONCE_SAID && !once_doubts(once, node);
}

static bool once_has_quorum(const struct once *once)
{
    uint32_t votes = 0;

    for (int i = 0; i < once->n; i++)
        if (once_is_heard(once, i) && once->node[i].votes)
            votes |= UINT32_C(1) << i;
    return twins_count(&once->twins, votes) >= once->q;
}

bool once_proves_none(const struct once *once)
{
    uint32_t votes = 0;
    bool all = true;

    for (int i = 0; i < once->n; i++) {
        all &= once_is_heard(once, i);
        if (once_is_heard(once, i) && once->node[i].votes && once->node[i].remembers)
            votes |= UINT32_C(1) << i;
    }
    return all || twins_count(&once->twins, votes) >= once->q;
}

enum once_outcome once_decide(const struct once *once)
{
    bool open = false;

    for (int i = 0; i < once->n; i++) {
        if (once->node[i].word == ONCE_REFUSED && !once_doubts(once, i))
            return ONCE_LATE;
        open |= once->node[i].word == ONCE_AWAITED;
    }
    if (open)
        return ONCE_OPEN;
    return once_has_quorum(once) ? ONCE_ENOUGH : ONCE_FEW;
}

enum once_outcome once_taken(const struct once *once)
{
    return once_has_quorum(once) ? ONCE_ENOUGH : once_decide(once);
}

static bool once_is_later(const struct once_record *a, const struct once_record *b)
{
    return a->fence != b->fence ? a->fence > b->fence : a->turn > b->turn;
}

struct once_record once_seen(const struct once *once)
{
    uint64_t most = once_believed(once, once_shown_asker);
    struct once_record latest = {0};

    for (int i = 0; i < once->n; i++) {
        const struct once_record *r = &once->node[i].record;

        if (once->node[i].word == ONCE_SAID && r->seen <= most &&
            (r->seen > latest.seen || (r->seen == latest.seen && r->seen_turn > latest.seen_turn)))
            latest = (struct once_record){.seen = r->seen, .seen_turn = r->seen_turn};
    }
    return latest;
}

/* (!) One node's later record hides no start: it may have made it up. */
static bool once_stands(const struct once *once, int node)
{
    const struct once_record *record = &once->node[node].record;
    uint32_t later = 0;

    if (!once_is_heard(once, node) || record->at_us == 0)
        return false;
    for (int i = 0; i < once->n; i++)
        if (once_is_heard(once, i) && once_is_later(&once->node[i].record, record))
            later |= UINT32_C(1) << i;
    return twins_count(&once->twins, later) < once->q;
}

static bool once_counts_before(const struct once_record *a, const struct once_record *b,
                               int64_t now_us, hf_dur period)
{
    bool a_done = once_is_done(a->at_us, now_us, period);

    if (a_done != once_is_done(b->at_us, now_us, period))
        return a_done;
    return a->at_us != b->at_us ? a->at_us > b->at_us : once_is_later(a, b);
}

int once_standing(const struct once *once, int64_t now_us, hf_dur period)
{
    int best = -1;

    for (int i = 0; i < once->n; i++)
        if (once_stands(once, i) &&
            (best < 0 ||
             once_counts_before(&once->node[i].record, &once->node[best].record, now_us, period)))
            best = i;
    return best;
}

struct once_record once_record_of(const struct once *once, int node)
{
    struct once_record record = {0};

    hf_assert(node >= -1 && node < once->n, "node %d of %d", node, once->n);
    if (node >= 0)
        record = once->node[node].record;
    for (int i = 0; i < once->n && !record.ended; i++) { /* not every node was told */
        const struct once_record *other = &once->node[i].record;

        if (once_is_heard(once, i) && !once_is_later(&record, other) &&
            !once_is_later(other, &record))
            record.ended = other->ended;
    }
    return record;
}

bool once_is_of(const struct once_record *record, uint64_t fence, int64_t asker)
{
    return asker != 0 && record->asker == asker && record->fence == fence;
}

bool once_differs(const struct once *once, const struct once_record *record)
{
    for (int i = 0; i < once->n; i++)
        if (once->node[i].word == ONCE_SAID && (once->node[i].record.at_us != record->at_us ||
                                                once_is_later(record, &once->node[i].record)))
            return true;
    return false;
}

bool once_is_done(int64_t at_us, int64_t now_us, hf_dur period)
{
    int64_t period_us = period.ns / HF_NS_PER_US, ago_us = now_us - at_us;

    if (at_us <= 0)
        return false;
    if (ago_us < 0)
        return -ago_us < period_us || -ago_us <= ONCE_ALLOWANCE_MOST_MS * INT64_C(1000);
    return ago_us < period_us / 10 * ONCE_PART;
}

static hf_dur once_allowance_most(hf_dur period)
{
    return hf_dur_min(hf_ns(period.ns / 2), hf_ms(ONCE_ALLOWANCE_MOST_MS));
}

hf_dur once_memory(hf_dur period)
{
    return hf_ns(period.ns + once_allowance_most(period).ns);
}

hf_dur once_allowance(hf_dur period, hf_dur took)
{
    hf_dur most = once_allowance_most(period);
    hf_dur first = hf_dur_max(hf_dur_min(hf_ns(period.ns / 20), hf_ms(1000)), hf_ms(20));

    return hf_dur_min(hf_dur_max(first, hf_ns(3 * took.ns)), most);
}

hf_dur once_clocks_apart(hf_dur period)
{
    return hf_dur_max(hf_dur_min(hf_ns(period.ns / 20), hf_ms(60000)), hf_ms(1000));
}

bool once_is_in_time(hf_time until, hf_time now, hf_dur allowance)
{
    return hf_time_reached(until, hf_time_add(now, hf_ns(allowance.ns / 2)));
}

hf_dur once_retention(hf_dur period)
{
    return hf_ns(2 * period.ns + hf_ms(DAY_MS).ns);
}
