#include "agent/core/wakeup.h"

#include "agent/core/backoff.h"
#include "agent/core/timing.h"
#include "shm/assert.h"

#define LASTING_MIN hf_ms(250) /* between rounds for keys without expiry */
#define LASTING_MAX hf_ms(1000)
#define EXPIRED_MIN hf_ms(1) /* after the expiry: PTTL is rounded */
#define EXPIRED_MAX hf_ms(20)
#define SPLIT_LEAST hf_ms(1)
#define SPLIT_MOST  hf_ms(64)
#define SPLIT_RTTS  8
#define SPLITS_MOST 8
/* A renewal may give one of each node, where they come apart. */
#define HINTS_MOST(n) (2 * (n))

static uint32_t wakeup_bit(int node)
{
    return UINT32_C(1) << node;
}

static int wakeup_count(uint32_t nodes)
{
    int found = 0;

    for (; nodes; nodes &= nodes - 1)
        found++;
    return found;
}

static void wakeup_check(const struct wakeup *w)
{
    const uint32_t nodes = (UINT32_C(1) << w->n) - 1;

    hf_assert(w->n >= 1 && w->n <= HF_NODES_MAX, "n %d", w->n);
    hf_assert(w->q >= 1 && w->q <= w->n, "q %d, n %d", w->q, w->n);
    hf_assert(((w->armed | w->told | w->unarmed | w->querying | w->free | w->lasting) & ~nodes) ==
                  0,
              "armed %x, told %x, unarmed %x, querying %x, free %x, lasting %x", (unsigned)w->armed,
              (unsigned)w->told, (unsigned)w->unarmed, (unsigned)w->querying, (unsigned)w->free,
              (unsigned)w->lasting);
    hf_assert(w->splits <= SPLITS_MOST && w->splits_before <= SPLITS_MOST, "splits %d, before %d",
              w->splits, w->splits_before);
}

static void wakeup_check_node(const struct wakeup *w, int node)
{
    wakeup_check(w);
    hf_assert(node >= 0 && node < w->n, "node %d of %d", node, w->n);
}

void wakeup_init(struct wakeup *w, int n, int q)
{
    hf_assert(n >= 1 && n <= HF_NODES_MAX && q >= 1 && q <= n, "n %d, q %d", n, q);
    *w = (struct wakeup){.n = (uint8_t)n, .q = (uint8_t)q, .not_before = HF_TIME_PAST};
    for (int i = 0; i < HF_NODES_MAX; i++)
        w->told_at[i] = w->queried_at[i] = HF_TIME_PAST;
    wakeup_round(w);
}

void wakeup_round(struct wakeup *w)
{
    w->armed = w->told = w->unarmed = w->free = w->lasting = 0;
    w->split = false;
    w->hints = 0;
    w->not_before = HF_TIME_PAST;
    w->poll = w->deaf_poll = w->lasting_poll = w->last_poll = HF_TIME_NEVER;
    for (int i = 0; i < w->n; i++)
        w->expires[i] = HF_TIME_NEVER;
}

/* (!) A notice that came after the command was sent may be of a change after it: the node does not
 * count as armed, and is queried. */
static void wakeup_answered(struct wakeup *w, int node, bool tracked, hf_time sent)
{
    bool late = !hf_time_before(w->told_at[node], sent);

    wakeup_check_node(w, node);
    w->querying &= ~wakeup_bit(node);
    w->free &= ~wakeup_bit(node);
    w->lasting &= ~wakeup_bit(node);
    w->expires[node] = HF_TIME_NEVER;
    if (late)
        return;
    w->told &= ~wakeup_bit(node);
    w->unarmed &= ~wakeup_bit(node);
    w->armed = tracked ? w->armed | wakeup_bit(node) : w->armed & ~wakeup_bit(node);
}

void wakeup_held(struct wakeup *w, int node, int64_t pttl_ms, bool tracked, hf_time sent,
                 hf_time now)
{
    wakeup_answered(w, node, tracked, sent);
    if (pttl_ms == -1)
        w->lasting |= wakeup_bit(node);
    /* Compared in milliseconds: another's PTTL may be too large for nanoseconds. */
    else if (pttl_ms >= 0 && pttl_ms < hf_dur_ms(WAKEUP_SLEEP_MOST))
        w->expires[node] = hf_time_add(now, hf_ms(pttl_ms));
    else if (pttl_ms >= 0)
        w->expires[node] = hf_time_add(now, WAKEUP_SLEEP_MOST);
}

void wakeup_free(struct wakeup *w, int node, bool tracked, hf_time sent)
{
    wakeup_answered(w, node, tracked, sent);
    if (!(w->told & wakeup_bit(node)))
        w->free |= wakeup_bit(node);
}

void wakeup_query(struct wakeup *w, int node, hf_time now)
{
    wakeup_check_node(w, node);
    if (w->told & wakeup_bit(node) && w->hints < UINT8_MAX)
        w->hints++;
    w->querying |= wakeup_bit(node);
    w->queried_at[node] = now;
}

void wakeup_unanswered(struct wakeup *w, int node)
{
    wakeup_check_node(w, node);
    w->querying &= ~wakeup_bit(node);
    w->told &= ~wakeup_bit(node); /* it will be polled */
    w->unarmed &= ~wakeup_bit(node);
    w->armed &= ~wakeup_bit(node);
}

void wakeup_told(struct wakeup *w, int node, hf_time now)
{
    wakeup_check_node(w, node);
    w->told_at[node] = now;
    w->told |= wakeup_bit(node);
    w->armed &= ~wakeup_bit(node);
    w->free &= ~wakeup_bit(node);
}

void wakeup_telling(struct wakeup *w, int node, bool can)
{
    wakeup_check_node(w, node);
    w->armed &= ~wakeup_bit(node);
    w->unarmed = can ? w->unarmed | wakeup_bit(node) : w->unarmed & ~wakeup_bit(node);
}

void wakeup_granted(struct wakeup *w, int node)
{
    wakeup_check_node(w, node);
    w->armed &= ~wakeup_bit(node);
    w->free &= ~wakeup_bit(node);
}

/* When q nodes have no key any more, if nobody extends one; NEVER: too few of the
 * keys expire. */
static hf_time wakeup_expiry(const struct wakeup *w, hf_time now)
{
    hf_time at[HF_NODES_MAX];

    for (int i = 0; i < w->n; i++)
        at[i] = w->free & wakeup_bit(i) ? now : w->expires[i];
    return validity_qth(at, w->n, w->n - w->q + 1); /* the q-th smallest */
}

/* (!) Drawn once: a program that takes and releases the lock all the time causes queries all the
 * time, and each would draw anew. */
static hf_time wakeup_once(hf_time *drawn, hf_dur delay, hf_time now)
{
    if (drawn->ns == HF_TIME_NEVER.ns)
        *drawn = hf_time_add(now, delay);
    return *drawn;
}

void wakeup_rest(struct wakeup *w, uint32_t random, hf_time now)
{
    hf_time at = wakeup_expiry(w, now);
    hf_time expired = at.ns == HF_TIME_NEVER.ns
                          ? at
                          : hf_time_add(at, draw_between(EXPIRED_MIN, EXPIRED_MAX, random));
    bool no_expiry = w->n - wakeup_count(w->lasting) < w->q;
    bool hinted = w->hints > HINTS_MOST(w->n);
    hf_time lasting = HF_TIME_NEVER;

    if (w->split)
        return;
    if (no_expiry || hinted)
        lasting =
            wakeup_once(&w->lasting_poll, draw_between(LASTING_MIN, LASTING_MAX, random), now);
    if (no_expiry)
        w->poll = lasting;
    else if (wakeup_count(w->armed | w->told) < w->q)
        w->poll =
            hf_time_min(wakeup_once(&w->deaf_poll, backoff_contend(-1, random), now), expired);
    else
        w->poll = hf_time_min(expired, wakeup_once(&w->last_poll, WAKEUP_SLEEP_MOST, now));
    if (hinted)
        w->poll = hf_time_min(w->poll, lasting);
}

static void wakeup_split(struct wakeup *w, hf_dur rtt, uint32_t random, hf_time now)
{
    hf_dur window = hf_dur_max(SPLIT_LEAST, hf_ns(SPLIT_RTTS * rtt.ns));

    if (w->splits < SPLITS_MOST)
        w->splits++;
    window = hf_dur_min(SPLIT_MOST, hf_ns(window.ns << (w->splits - 1)));
    w->not_before = hf_time_add(now, draw_within(window, random));
    hf_assert(w->splits >= 1 && w->splits <= SPLITS_MOST, "splits %d", w->splits);
    w->split = true;
    w->poll = hf_time_add(now, backoff_contend(-1, random));
}

void wakeup_lost(struct wakeup *w, uint32_t won, bool winner, hf_dur rtt, uint32_t random,
                 hf_time now)
{
    hf_assert(won >> w->n == 0, "won %x of %d", (unsigned)won, w->n);
    w->free |= won & ~w->told;
    w->splits_before = w->splits;
    if (won && !winner) {
        wakeup_split(w, rtt, random, now);
        return;
    }
    w->splits = w->splits ? w->splits - 1 : 0;
    wakeup_rest(w, random, now);
}

void wakeup_won_late(struct wakeup *w, int node, bool winner, hf_dur rtt, uint32_t random,
                     hf_time now)
{
    wakeup_granted(w, node);
    if (winner) {
        w->unarmed |= wakeup_bit(node) & ~w->told;
        return;
    }
    w->free |= wakeup_bit(node) & ~w->told;
    if (w->split)
        return;
    w->splits = w->splits_before; /* it was no round without a split */
    wakeup_split(w, rtt, random, now);
}

/* When the node is to be queried; NEVER: no need. */
static hf_time wakeup_query_at(const struct wakeup *w, int node)
{
    hf_time next = hf_time_add(w->queried_at[node], WAKEUP_QUERY_EVERY);

    if (!((w->told | w->unarmed) & ~w->querying & wakeup_bit(node)))
        return HF_TIME_NEVER;
    return w->told & wakeup_bit(node)
               ? hf_time_max(hf_time_add(w->told_at[node], WAKEUP_GATHER), next)
               : next;
}

struct wakeup_plan wakeup_next(const struct wakeup *w, uint32_t voting, hf_time now)
{
    struct wakeup_plan plan = {WAKEUP_WAIT, 0, w->poll};

    wakeup_check(w);
    if (wakeup_count((w->told | w->free) & voting) >= w->q) {
        plan.step = hf_time_reached(now, w->not_before) ? WAKEUP_ROUND : WAKEUP_WAIT;
        plan.at = w->not_before;
        return plan;
    }
    for (int i = 0; i < w->n; i++) {
        hf_time at = wakeup_query_at(w, i);

        if (hf_time_reached(now, at))
            plan.nodes |= wakeup_bit(i);
        else
            plan.at = hf_time_min(plan.at, at);
    }
    if (hf_time_reached(now, w->poll))
        plan.step = WAKEUP_POLL;
    else if (plan.nodes)
        plan.step = WAKEUP_QUERY;
    return plan;
}
