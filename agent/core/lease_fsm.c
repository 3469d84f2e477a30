#include "agent/core/lease_fsm.h"

#include "agent/core/validity.h"

#include "shm/layout.h"

#include <assert.h>
#include <string.h>

/* What an event is compared with when its actions are told. */
struct before {
    enum hf_slot_state state;
    hf_time valid, next;
};

static bool is_over(const struct lease_fsm *l)
{
    return l->state == HF_SLOT_LOST || l->state == HF_SLOT_ENDED;
}

static hf_time losing_at(const struct lease_fsm *l, hf_time valid)
{
    return hf_time_sub(valid, lease_fsm_timing(l).losing_before);
}

static hf_time late_at(const struct lease_fsm *l)
{
    return hf_time_sub(l->valid, lease_fsm_timing(l).late_before);
}

static hf_time vote_until(const struct lease_fsm *l, hf_time a)
{
    return hf_time_add(a, lease_fsm_timing(l).span);
}

static bool is_void(hf_time d)
{
    return d.ns == HF_TIME_PAST.ns;
}

static void want_heal(struct lease_fsm *l, int node)
{
    l->heal_wanted = (uint16_t)(l->heal_wanted | 1u << node);
}

static void want_no_heal(struct lease_fsm *l, int node)
{
    l->heal_wanted = (uint16_t)(l->heal_wanted & ~(1u << node));
}

/* V if node's d were `d`. */
static hf_time validity_with(const struct lease_fsm *l, int node, hf_time d)
{
    hf_time all[HF_NODES_MAX];

    for (int i = 0; i < l->n; i++)
        all[i] = i == node ? d : lease_fsm_d(l, i);
    return validity_qth(all, l->n, l->q);
}

static void stand(struct lease_fsm *l, int node, hf_time d)
{
    l->node[node].at = d;
    l->voided = (uint16_t)(l->voided & ~(1u << node));
}

static void set_vote(struct lease_fsm *l, int node, hf_time d)
{
    l->valid = validity_with(l, node, d);
    if (!is_void(d))
        stand(l, node, d);
}

/* V as the check word has it, rounded down: who looks from here on sees that it is over. */
static hf_time shown(hf_time valid)
{
    return valid.ns > 0 ? (hf_time){valid.ns >> HF_CHECK_TIME_SHIFT << HF_CHECK_TIME_SHIFT} : valid;
}

static struct before look(const struct lease_fsm *l)
{
    return (struct before){l->state, l->valid, lease_fsm_next(l)};
}

static unsigned actions_since(const struct lease_fsm *l, const struct before *b)
{
    unsigned actions = 0;

    if (l->state != b->state) {
        actions |= LEASE_ACT_STATE;
        if (l->state == HF_SLOT_LOST)
            actions |= LEASE_ACT_WITHDRAW | LEASE_ACT_LOST;
        if (l->state == HF_SLOT_ENDED)
            actions |= LEASE_ACT_WITHDRAW | LEASE_ACT_ENDED;
    }
    if (l->valid.ns != b->valid.ns && !is_over(l))
        actions |= LEASE_ACT_EXTEND;
    if (lease_fsm_next(l).ns != b->next.ns)
        actions |= LEASE_ACT_TIMER;
    return actions;
}

/* LOSING, LOST or ENDED: nothing is renewed or healed from here on. */
static void stop(struct lease_fsm *l, enum hf_slot_state state, enum hf_loss_reason reason)
{
    l->state = state;
    l->reason = reason;
    l->heal_wanted = 0;
}

/* LOST by time: why it was losing is why it is lost. */
static void lapse(struct lease_fsm *l, enum hf_loss_reason reason)
{
    stop(l, HF_SLOT_LOST, l->reason != HF_LOSS_NONE ? l->reason : reason);
}

/* The state that `now` asks for, with the reason to give if that is a loss. */
static void advance(struct lease_fsm *l, enum hf_loss_reason reason, hf_time now)
{
    bool first = l->restored, late, losing, max_held;

    l->restored = false;
    if (is_over(l))
        return;
    late = hf_time_reached(now, late_at(l));
    losing = hf_time_reached(now, losing_at(l, l->valid));
    max_held = hf_time_reached(now, l->max_hold);

    /* Renewed is what q answers of this agent have made of it. */
    l->grace =
        !l->run && (l->grace || first) && (losing || !hf_time_before(l->journaled, l->valid));
    if ((first || l->grace) && (reason == HF_LOSS_QUORUM || reason == HF_LOSS_LATE_REPLY))
        reason = HF_LOSS_RESTART;
    if (max_held && !hf_time_before(losing_at(l, l->valid), l->max_hold))
        reason = HF_LOSS_MAX_HOLD;

    if (hf_time_reached(now, l->valid))
        lapse(l, reason);
    else if (l->state == HF_SLOT_LOSING)
        return;
    else if (losing && !l->grace)
        stop(l, HF_SLOT_LOSING, reason);
    else if (max_held)
        stop(l, HF_SLOT_LOSING, HF_LOSS_MAX_HOLD);
    else
        l->state = late ? HF_SLOT_LATE : HF_SLOT_HELD;
}

/* The reason of a lease that just runs out. */
static enum hf_loss_reason by_time(const struct lease_fsm *l)
{
    return l->stop_renewal ? HF_LOSS_HOLDER : HF_LOSS_QUORUM;
}

static void start(struct lease_fsm *l, int n, int q, const struct timing *timing, bool run,
                  hf_time max_hold)
{
    assert(n >= 1 && n <= HF_NODES_MAX && q >= 1 && q <= n);
    memset(l, 0, lease_fsm_size(n));
    l->n = (uint8_t)n;
    l->q = (uint8_t)q;
    l->ttl_ms = (uint32_t)hf_dur_ms(timing->ttl);
    l->state = HF_SLOT_HELD;
    l->run = run;
    l->valid = HF_TIME_PAST;
    l->max_hold = max_hold;
    l->voided = (uint16_t)((1u << n) - 1);
    for (int i = 0; i < n; i++)
        l->node[i].at = HF_TIME_PAST;
}

void lease_fsm_init(struct lease_fsm *l, int n, int q, const struct timing *timing, bool run,
                    hf_time max_hold, const hf_time *a, const uint32_t *mark)
{
    start(l, n, q, timing, run, max_hold);
    for (int i = 0; i < n; i++) {
        l->node[i].mark = (uint16_t)mark[i];
        if (is_void(a[i]))
            want_heal(l, i);
        else
            set_vote(l, i, vote_until(l, a[i]));
    }
}

void lease_fsm_restore(struct lease_fsm *l, int n, int q, const struct timing *timing, bool run,
                       hf_time max_hold, const hf_time *d, const uint32_t *mark, bool was_losing)
{
    start(l, n, q, timing, run, max_hold);
    l->restored = true;
    l->journaled = HF_TIME_PAST;
    for (int i = 0; i < n; i++) {
        l->node[i].mark = (uint16_t)mark[i];
        set_vote(l, i, d[i]);
        l->journaled = hf_time_max(l->journaled, d[i]);
        if (is_void(d[i]))
            want_heal(l, i);
    }
    if (was_losing)
        stop(l, HF_SLOT_LOSING, HF_LOSS_NONE);
}

unsigned lease_fsm_tick(struct lease_fsm *l, hf_time now)
{
    struct before before = look(l);

    advance(l, by_time(l), now);
    return actions_since(l, &before);
}

/* It was due a sixth of T before it is late: nodes that were asked had their attempt if the caller went
 * away only then. */
bool lease_fsm_missed(const struct lease_fsm *l, hf_time since, hf_time now)
{
    return l->state == HF_SLOT_HELD && !l->restored && !l->stop_renewal &&
           hf_time_before(since, hf_time_sub(late_at(l), hf_dur_scale(hf_ms(l->ttl_ms), 1, 12))) &&
           hf_time_reached(now, late_at(l));
}

unsigned lease_fsm_tick_after(struct lease_fsm *l, hf_time since, hf_time now)
{
    struct before before = look(l);

    advance(l, lease_fsm_missed(l, since, now) ? HF_LOSS_AWAY : by_time(l), now);
    return actions_since(l, &before);
}

/* Not worth journaling and storing: of the nodes that are renewed one after the other, only the one
 * that makes it q moves V by more. */
static bool is_small(const struct lease_fsm *l, hf_time valid)
{
    return l->state == HF_SLOT_HELD && !l->grace && !hf_time_before(valid, l->valid) &&
           hf_time_since(valid, l->valid).ns < hf_ms(l->ttl_ms).ns / LEASE_FSM_SMALL;
}

static void count_vote(struct lease_fsm *l, int node, hf_time d, uint32_t mark)
{
    stand(l, node, d);
    l->node[node].mark = (uint16_t)mark;
    want_no_heal(l, node);
}

/* Held, not late, and nothing else is to be thought of: most hits find it so. */
static bool is_well(const struct lease_fsm *l, hf_time now)
{
    return l->state == HF_SLOT_HELD && !l->restored && !l->grace && !l->stop_renewal &&
           hf_time_before(now, late_at(l)) && hf_time_before(now, l->max_hold);
}

unsigned lease_fsm_hit(struct lease_fsm *l, int node, hf_time a, uint32_t mark, hf_time now)
{
    hf_time d = vote_until(l, a);
    bool counts = lease_fsm_is_void(l, node) ? !hf_time_before(a, l->node[node].at)
                                             : hf_time_before(l->node[node].at, d);
    hf_time valid = counts ? validity_with(l, node, d) : l->valid;
    bool extends = hf_time_before(l->valid, valid);
    struct before before;

    if (counts && is_small(l, valid) && is_well(l, now)) {
        count_vote(l, node, d, mark);
        return 0;
    }
    before = look(l);
    /* (!) Judged by V without this reply. Only a lease that is not a run may still be extended
     * after V - 0.3 T, as long as no tick has made it LOSING. */
    if (l->restored || hf_time_reached(now, l->valid) || hf_time_reached(now, l->max_hold) ||
        (l->run && hf_time_reached(now, losing_at(l, l->valid))))
        advance(l, extends ? HF_LOSS_LATE_REPLY : by_time(l), now);
    if (lease_fsm_renews(l)) {
        if (counts) {
            if (!is_small(l, valid))
                l->valid = valid;
            count_vote(l, node, d, mark);
        }
        advance(l, by_time(l), now);
    }
    return actions_since(l, &before);
}

unsigned lease_fsm_stands(struct lease_fsm *l, int node, hf_time now)
{
    want_no_heal(l, node);
    return lease_fsm_tick(l, now);
}

/* The vote is void, and so is any that was sent before `since`. */
static unsigned make_void(struct lease_fsm *l, int node, hf_time since, enum hf_loss_reason reason,
                          hf_time now)
{
    struct before before = look(l);
    bool stood = !lease_fsm_is_void(l, node);
    unsigned actions;

    advance(l, by_time(l), now);
    if (!is_over(l)) {
        l->node[node].at = stood ? since : hf_time_max(l->node[node].at, since);
        l->voided = (uint16_t)(l->voided | 1u << node);
        /* What waited to be added stays where it is. */
        l->valid = hf_time_min(l->valid, validity_with(l, node, HF_TIME_PAST));
        if (hf_time_reached(now, l->valid))
            stop(l, HF_SLOT_LOST, reason);
        else
            advance(l, reason, now);
    }
    actions = actions_since(l, &before);
    if (stood && !is_over(l))
        actions |= LEASE_ACT_EXTEND; /* the journal must not keep it, though V stayed */
    return actions;
}

unsigned lease_fsm_missing(struct lease_fsm *l, int node, uint32_t mark, hf_time now)
{
    unsigned actions;

    /* (!) A node that forgot everything gives no votes to others for longer than our d_i lasts. */
    if ((uint16_t)mark != l->node[node].mark)
        actions = lease_fsm_tick(l, now);
    else
        actions = make_void(l, node, now, HF_LOSS_MISSING, now);
    if (lease_fsm_renews(l)) {
        want_heal(l, node);
        actions |= LEASE_ACT_HEAL;
    }
    return actions;
}

unsigned lease_fsm_foreign(struct lease_fsm *l, int node, hf_time now)
{
    want_no_heal(l, node);
    return make_void(l, node, now, HF_LOSS_FOREIGN, now);
}

unsigned lease_fsm_forced(struct lease_fsm *l, int node, hf_time now)
{
    want_no_heal(l, node);
    return make_void(l, node, now, HF_LOSS_FORCED, now);
}

unsigned lease_fsm_outbid(struct lease_fsm *l, int nodes, hf_time now)
{
    struct before before = look(l);

    advance(l, by_time(l), now);
    if (nodes >= l->q && !is_over(l))
        stop(l, HF_SLOT_LOST, HF_LOSS_FENCE);
    return actions_since(l, &before);
}

unsigned lease_fsm_stepped(struct lease_fsm *l, int node, hf_time sent, hf_time now)
{
    if (hf_time_before(lease_fsm_d(l, node), vote_until(l, sent)))
        return make_void(l, node, sent, HF_LOSS_CLOCK, now);
    return lease_fsm_tick(l, now);
}

unsigned lease_fsm_confirm(struct lease_fsm *l, hf_time previous, hf_time now)
{
    bool passed = hf_time_reached(now, shown(previous));
    bool too_late = l->run && hf_time_reached(now, losing_at(l, previous));
    struct before before;

    if (!passed && !too_late && is_well(l, now))
        return 0;
    before = look(l);
    /* (!) While it was being stored a reader may have seen the old V pass: then it is over. */
    if (!is_over(l)) {
        if (passed)
            lapse(l, HF_LOSS_LATE_REPLY);
        else if (too_late && l->state != HF_SLOT_LOSING)
            stop(l, HF_SLOT_LOSING, HF_LOSS_LATE_REPLY);
        advance(l, by_time(l), now);
    }
    return actions_since(l, &before);
}

unsigned lease_fsm_lose(struct lease_fsm *l, enum hf_loss_reason reason, hf_time now)
{
    struct before before = look(l);

    advance(l, by_time(l), now);
    if (!is_over(l) && l->state != HF_SLOT_LOSING)
        stop(l, HF_SLOT_LOSING, reason);
    return actions_since(l, &before);
}

unsigned lease_fsm_release(struct lease_fsm *l, enum hf_loss_reason reason, hf_time now)
{
    struct before before = look(l);

    /* Its holder may release it because it saw the end. */
    if (hf_time_reached(now, shown(l->valid)))
        advance(l, by_time(l), hf_time_max(now, l->valid));
    if (!is_over(l))
        stop(l, HF_SLOT_ENDED, reason != HF_LOSS_NONE ? reason : l->reason);
    return actions_since(l, &before);
}

unsigned lease_fsm_abandon(struct lease_fsm *l, hf_time now)
{
    struct before before = look(l);

    advance(l, by_time(l), now);
    l->stop_renewal = true;
    l->heal_wanted = 0;
    return actions_since(l, &before);
}

void lease_fsm_hand_over(struct lease_fsm *l, const struct lease_fsm *from, bool run,
                         hf_time max_hold)
{
    memcpy(l, from, lease_fsm_size(from->n));
    l->run = run;
    l->max_hold = max_hold;
    l->reason = HF_LOSS_NONE;
}

hf_time lease_fsm_next(const struct lease_fsm *l)
{
    if (is_over(l))
        return HF_TIME_NEVER;
    if (l->restored)
        return HF_TIME_PAST; /* wants its first tick */
    if (l->state == HF_SLOT_LOSING)
        return l->valid;
    if (l->state == HF_SLOT_HELD)
        return hf_time_min(late_at(l), l->max_hold);
    return hf_time_min(l->grace ? l->valid : losing_at(l, l->valid), l->max_hold);
}

bool lease_fsm_renews(const struct lease_fsm *l)
{
    return (l->state == HF_SLOT_HELD || l->state == HF_SLOT_LATE) && !l->stop_renewal;
}

int lease_fsm_votes(const struct lease_fsm *l, hf_time now)
{
    int votes = 0;

    for (int i = 0; i < l->n; i++)
        votes += hf_time_before(now, lease_fsm_d(l, i));
    return votes;
}
