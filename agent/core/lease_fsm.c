#include "agent/core/lease_fsm.h"

#include "shm/assert.h"
#include "shm/layout.h"

#include <string.h>

/* The lease before an event: its actions are told by comparing with this. */
struct before {
    enum hf_slot_state state;
    hf_time valid, next;
};

static bool fsm_is_over(const struct lease_fsm *l)
{
    return l->state == HF_SLOT_LOST || l->state == HF_SLOT_ENDED;
}

/* What holds whenever an event comes in, and after it. */
static void fsm_check(const struct lease_fsm *l)
{
    const unsigned nodes = (1u << l->n) - 1;

    hf_assert(l->n >= 1 && l->n <= HF_NODES_MAX, "n %d", l->n);
    hf_assert(l->q >= 1 && l->q <= l->n, "q %d, n %d", l->q, l->n);
    hf_assert(l->state >= HF_SLOT_HELD && l->state <= HF_SLOT_ENDED, "state %d", (int)l->state);
    hf_assert((l->voided & ~nodes) == 0, "state %d, voided %x, n %d", (int)l->state, l->voided,
              l->n);
    hf_assert((l->heal_wanted & ~nodes) == 0, "state %d, heal_wanted %x, n %d", (int)l->state,
              l->heal_wanted, l->n);
    hf_assert(l->heal_wanted == 0 || lease_fsm_renews(l), "state %d, stop_renewal %d",
              (int)l->state, l->stop_renewal);
    hf_assert(l->state != HF_SLOT_LOST || l->reason != HF_LOSS_NONE, "V %lld",
              (long long)l->valid.ns);
    hf_assert(l->ttl_ms > 0, "state %d", (int)l->state);
}

static void fsm_check_node(const struct lease_fsm *l, int node)
{
    fsm_check(l);
    hf_assert(node >= 0 && node < l->n, "node %d of %d, state %d", node, l->n, (int)l->state);
}

static hf_time fsm_losing_at(const struct lease_fsm *l, hf_time valid)
{
    return hf_time_sub(valid, lease_fsm_timing(l).losing_before);
}

static hf_time fsm_late_at(const struct lease_fsm *l)
{
    return hf_time_sub(l->valid, lease_fsm_timing(l).late_before);
}

static hf_time fsm_vote_until(const struct lease_fsm *l, hf_time a)
{
    return hf_time_add(a, lease_fsm_timing(l).span);
}

static bool fsm_is_void(hf_time d)
{
    return d.ns == HF_TIME_PAST.ns;
}

static void fsm_want_heal(struct lease_fsm *l, int node)
{
    l->heal_wanted = (uint16_t)(l->heal_wanted | 1u << node);
}

static void fsm_want_no_heal(struct lease_fsm *l, int node)
{
    l->heal_wanted = (uint16_t)(l->heal_wanted & ~(1u << node));
}

/* V if node's d were `d`. */
static hf_time fsm_validity_with(const struct lease_fsm *l, int node, hf_time d)
{
    hf_time all[HF_NODES_MAX];

    for (int i = 0; i < l->n; i++)
        all[i] = i == node ? d : lease_fsm_d(l, i);
    d = servers_validity(l->servers, all, lease_fsm_timing(l).span, l->n, l->q);
    return l->frozen ? hf_time_max(l->valid, d) : d;
}

static void fsm_stand(struct lease_fsm *l, int node, hf_time d)
{
    hf_assert(!fsm_is_void(d), "node %d, state %d", node, (int)l->state);
    l->node[node].at = d;
    l->voided = (uint16_t)(l->voided & ~(1u << node));
}

static void fsm_set_vote(struct lease_fsm *l, int node, hf_time d)
{
    l->valid = fsm_validity_with(l, node, d);
    if (!fsm_is_void(d))
        fsm_stand(l, node, d);
}

/* V as the check word has it, rounded down: whoever reads the word from that instant on sees that
 * the lease is over. */
static hf_time fsm_shown(hf_time valid)
{
    return valid.ns > 0 ? (hf_time){valid.ns >> HF_CHECK_TIME_SHIFT << HF_CHECK_TIME_SHIFT} : valid;
}

static struct before fsm_look(const struct lease_fsm *l)
{
    fsm_check(l);
    return (struct before){l->state, l->valid, lease_fsm_next(l)};
}

static unsigned fsm_actions_since(const struct lease_fsm *l, const struct before *b)
{
    unsigned actions = 0;

    fsm_check(l);
    hf_assert(b->state < HF_SLOT_LOSING || l->state >= b->state, "state %d after %d", (int)l->state,
              (int)b->state);
    hf_assert((b->state != HF_SLOT_LOST && b->state != HF_SLOT_ENDED) || l->state == b->state,
              "state %d after %d", (int)l->state, (int)b->state);
    hf_assert(b->state < HF_SLOT_LOSING || !hf_time_before(b->valid, l->valid),
              "V %lld after %lld, state %d after %d", (long long)l->valid.ns,
              (long long)b->valid.ns, (int)l->state, (int)b->state);
    if (l->state != b->state) {
        actions |= LEASE_ACT_STATE;
        if (l->state == HF_SLOT_LOST)
            actions |= LEASE_ACT_WITHDRAW | LEASE_ACT_LOST;
        if (l->state == HF_SLOT_ENDED)
            actions |= LEASE_ACT_WITHDRAW | LEASE_ACT_ENDED;
    }
    if (l->valid.ns != b->valid.ns && !fsm_is_over(l))
        actions |= LEASE_ACT_EXTEND;
    if (lease_fsm_next(l).ns != b->next.ns)
        actions |= LEASE_ACT_TIMER;
    return actions;
}

/* LOSING, LOST or ENDED: nothing is renewed or healed from here on. */
static void fsm_stop(struct lease_fsm *l, enum hf_slot_state state, enum hf_loss_reason reason)
{
    hf_assert(state >= HF_SLOT_LOSING, "state %d after %d", (int)state, (int)l->state);
    hf_assert(!fsm_is_over(l), "state %d after %d, reason %d", (int)state, (int)l->state,
              (int)reason);
    l->state = state;
    l->reason = reason;
    l->heal_wanted = 0;
}

/* LOST by time, for the reason for which it was losing, if it was. */
static void fsm_lapse(struct lease_fsm *l, enum hf_loss_reason reason)
{
    fsm_stop(l, HF_SLOT_LOST, l->reason != HF_LOSS_NONE ? l->reason : reason);
}

/* The state that `now` asks for, with the reason to give if that is a loss. */
static void fsm_advance(struct lease_fsm *l, enum hf_loss_reason reason, hf_time now)
{
    bool first = l->readopted, late, losing, max_held;

    hf_assert(reason != HF_LOSS_NONE, "state %d", (int)l->state);
    l->readopted = false;
    if (fsm_is_over(l))
        return;
    late = hf_time_reached(now, fsm_late_at(l));
    losing = hf_time_reached(now, fsm_losing_at(l, l->valid));
    max_held = hf_time_reached(now, l->max_hold);

    /* It counts as renewed once q answers to this agent have extended it. */
    l->grace =
        !l->is_job && (l->grace || first) && (losing || !hf_time_before(l->journaled, l->valid));
    if ((first || l->grace) && (reason == HF_LOSS_QUORUM || reason == HF_LOSS_LATE_REPLY))
        reason = HF_LOSS_RESTART;
    if (max_held && !hf_time_before(fsm_losing_at(l, l->valid), l->max_hold))
        reason = HF_LOSS_MAX_HOLD;

    if (hf_time_reached(now, l->valid))
        fsm_lapse(l, reason);
    else if (l->state == HF_SLOT_LOSING)
        return;
    else if (losing && !l->grace)
        fsm_stop(l, HF_SLOT_LOSING, reason);
    else if (max_held)
        fsm_stop(l, HF_SLOT_LOSING, HF_LOSS_MAX_HOLD);
    else
        l->state = late ? HF_SLOT_LATE : HF_SLOT_HELD;
}

/* The reason when a lease's time just runs out. */
static enum hf_loss_reason fsm_by_time(const struct lease_fsm *l)
{
    return l->stop_renewal ? HF_LOSS_HOLDER : HF_LOSS_QUORUM;
}

static void fsm_start(struct lease_fsm *l, const struct servers *servers, int n, int q,
                      const struct timing *timing, bool is_job, hf_time max_hold)
{
    hf_assert(n >= 1 && n <= HF_NODES_MAX && q >= 1 && q <= n, "n %d, q %d", n, q);
    memset(l, 0, lease_fsm_size(n));
    l->servers = servers;
    l->n = (uint8_t)n;
    l->q = (uint8_t)q;
    l->ttl_ms = (uint32_t)hf_dur_ms(timing->ttl);
    l->state = HF_SLOT_HELD;
    l->is_job = is_job;
    l->valid = HF_TIME_PAST;
    l->max_hold = max_hold;
    l->voided = (uint16_t)((1u << n) - 1);
    for (int i = 0; i < n; i++)
        l->node[i].at = HF_TIME_PAST;
    fsm_check(l);
}

void lease_fsm_init(struct lease_fsm *l, const struct servers *servers, int n, int q,
                    const struct timing *timing, bool is_job, hf_time max_hold, const hf_time *a,
                    const uint32_t *mark)
{
    fsm_start(l, servers, n, q, timing, is_job, max_hold);
    for (int i = 0; i < n; i++) {
        l->node[i].mark = (uint16_t)mark[i];
        if (fsm_is_void(a[i]))
            fsm_want_heal(l, i);
        else
            fsm_set_vote(l, i, fsm_vote_until(l, a[i]));
    }
    fsm_check(l);
}

void lease_fsm_readopt(struct lease_fsm *l, const struct servers *servers, int n, int q,
                       const struct timing *timing, bool is_job, hf_time max_hold, const hf_time *d,
                       const uint32_t *mark, bool was_losing)
{
    fsm_start(l, servers, n, q, timing, is_job, max_hold);
    l->readopted = true;
    l->journaled = HF_TIME_PAST;
    for (int i = 0; i < n; i++) {
        l->node[i].mark = (uint16_t)mark[i];
        fsm_set_vote(l, i, d[i]);
        l->journaled = hf_time_max(l->journaled, d[i]);
        if (fsm_is_void(d[i]))
            fsm_want_heal(l, i);
    }
    if (was_losing)
        fsm_stop(l, HF_SLOT_LOSING, HF_LOSS_NONE);
    fsm_check(l);
}

void lease_fsm_freeze(struct lease_fsm *l, hf_time until)
{
    hf_assert(l->readopted, "state %d", (int)l->state);
    l->frozen = hf_time_before(l->valid, until);
    l->valid = hf_time_max(l->valid, until);
}

void lease_fsm_was_abandoned(struct lease_fsm *l)
{
    hf_assert(l->readopted, "state %d", (int)l->state);
    l->stop_renewal = true;
    l->heal_wanted = 0;
}

void lease_fsm_vote(struct lease_fsm *l, int node, hf_time a)
{
    fsm_check_node(l, node);
    if (!lease_fsm_is_void(l, node) || hf_time_before(a, l->node[node].at))
        return;
    fsm_stand(l, node, fsm_vote_until(l, a));
    fsm_want_no_heal(l, node);
}

unsigned lease_fsm_tick(struct lease_fsm *l, hf_time now)
{
    struct before before = fsm_look(l);

    fsm_advance(l, fsm_by_time(l), now);
    return fsm_actions_since(l, &before);
}

/* A renewal is due a sixth of T before the lease is LATE. A caller that went away after half of
 * that had given the nodes their attempt, so it is not to blame. */
bool lease_fsm_missed(const struct lease_fsm *l, hf_time since, hf_time now)
{
    return l->state == HF_SLOT_HELD && !l->readopted && !l->stop_renewal &&
           hf_time_before(since,
                          hf_time_sub(fsm_late_at(l), hf_dur_scale(hf_ms(l->ttl_ms), 1, 12))) &&
           hf_time_reached(now, fsm_late_at(l));
}

unsigned lease_fsm_tick_after(struct lease_fsm *l, hf_time since, hf_time now)
{
    struct before before = fsm_look(l);

    fsm_advance(l, lease_fsm_missed(l, since, now) ? HF_LOSS_AWAY : fsm_by_time(l), now);
    return fsm_actions_since(l, &before);
}

/* An extension too small to be journaled and stored: when nodes are renewed one after the other,
 * only the one that completes q moves V by more. */
static bool fsm_is_small(const struct lease_fsm *l, hf_time valid)
{
    return l->state == HF_SLOT_HELD && !l->grace && !hf_time_before(valid, l->valid) &&
           hf_time_since(valid, l->valid).ns < hf_ms(l->ttl_ms).ns / LEASE_FSM_SMALL;
}

static void fsm_count_vote(struct lease_fsm *l, int node, hf_time d, uint32_t mark)
{
    hf_assert(lease_fsm_renews(l), "node %d, state %d", node, (int)l->state);
    fsm_stand(l, node, d);
    l->node[node].mark = (uint16_t)mark;
    fsm_want_no_heal(l, node);
}

/* Held, not late, and nothing else to consider, as at most hits. */
static bool fsm_is_well(const struct lease_fsm *l, hf_time now)
{
    return l->state == HF_SLOT_HELD && !l->readopted && !l->grace && !l->stop_renewal &&
           hf_time_before(now, fsm_late_at(l)) && hf_time_before(now, l->max_hold);
}

unsigned lease_fsm_hit(struct lease_fsm *l, int node, hf_time a, uint32_t mark, hf_time now)
{
    hf_time d = fsm_vote_until(l, a);
    bool counts = lease_fsm_is_void(l, node) ? !hf_time_before(a, l->node[node].at)
                                             : hf_time_before(l->node[node].at, d);
    hf_time valid = counts ? fsm_validity_with(l, node, d) : l->valid;
    bool extends = hf_time_before(l->valid, valid);
    struct before before;

    fsm_check_node(l, node);
    /* (!) Its server's vote by another node may be one that the lease still needs, until that one is renewed there. */
    if (counts && hf_time_before(valid, l->valid))
        counts = false;

    if (counts && fsm_is_small(l, valid) && fsm_is_well(l, now)) {
        fsm_count_vote(l, node, d, mark);
        return 0;
    }
    before = fsm_look(l);
    /* (!) Judged by V without this reply. After V - 0.3 T a lease may still be extended if it is no
     * run and no tick has made it LOSING. */
    if (l->readopted || hf_time_reached(now, l->valid) || hf_time_reached(now, l->max_hold) ||
        (l->is_job && hf_time_reached(now, fsm_losing_at(l, l->valid))))
        fsm_advance(l, extends ? HF_LOSS_LATE_REPLY : fsm_by_time(l), now);
    if (lease_fsm_renews(l)) {
        if (counts) {
            if (!fsm_is_small(l, valid))
                l->valid = valid;
            fsm_count_vote(l, node, d, mark);
        }
        fsm_advance(l, fsm_by_time(l), now);
    }
    return fsm_actions_since(l, &before);
}

unsigned lease_fsm_stands(struct lease_fsm *l, int node, hf_time now)
{
    fsm_check_node(l, node);
    fsm_want_no_heal(l, node);
    return lease_fsm_tick(l, now);
}

/* The vote is void, and so is any vote that was sent before `since`. */
static unsigned fsm_make_void(struct lease_fsm *l, int node, hf_time since,
                              enum hf_loss_reason reason, hf_time now)
{
    struct before before = fsm_look(l);
    bool stood = !lease_fsm_is_void(l, node);
    hf_time valid;
    unsigned actions;

    fsm_check_node(l, node);
    hf_assert(reason != HF_LOSS_NONE, "node %d, state %d", node, (int)l->state);
    fsm_advance(l, fsm_by_time(l), now);
    l->frozen = false;
    if (!fsm_is_over(l)) {
        l->node[node].at = stood ? since : hf_time_max(l->node[node].at, since);
        l->voided = (uint16_t)(l->voided | 1u << node);
        /* An extension that waits to be added goes on waiting. */
        valid = hf_time_min(l->valid, fsm_validity_with(l, node, HF_TIME_PAST));
        if (hf_time_reached(now, valid)) {
            fsm_stop(l, HF_SLOT_LOST, reason);
        } else {
            l->valid = valid;
            fsm_advance(l, reason, now);
        }
    }
    actions = fsm_actions_since(l, &before);
    if (stood && !fsm_is_over(l))
        actions |= LEASE_ACT_EXTEND; /* the journal must not keep that vote, though V stayed */
    return actions;
}

unsigned lease_fsm_missing(struct lease_fsm *l, int node, uint32_t mark, hf_time now)
{
    unsigned actions;

    fsm_check_node(l, node);
    /* (!) A node that forgot everything gives others no votes for longer than our d_i lasts. */
    if ((uint16_t)mark != l->node[node].mark)
        actions = lease_fsm_tick(l, now);
    else
        actions = fsm_make_void(l, node, now, HF_LOSS_MISSING, now);
    if (lease_fsm_renews(l)) {
        fsm_want_heal(l, node);
        actions |= LEASE_ACT_HEAL;
    }
    return actions;
}

unsigned lease_fsm_foreign(struct lease_fsm *l, int node, hf_time now)
{
    fsm_want_no_heal(l, node);
    return fsm_make_void(l, node, now, HF_LOSS_FOREIGN, now);
}

unsigned lease_fsm_forced(struct lease_fsm *l, int node, hf_time now)
{
    fsm_want_no_heal(l, node);
    return fsm_make_void(l, node, now, HF_LOSS_FORCED, now);
}

/* (!) A try that another host gave up may have left its fence on each node that did not vote for this lease, and one node may lie,
 * also about the server that it is: one more than those, as far as there are so many. */
static int fsm_proof_of_grant(const struct lease_fsm *l)
{
    int more = l->n - l->q + 2, wanted = more > l->q ? more : l->q;

    return wanted < l->n ? wanted : l->n;
}

unsigned lease_fsm_outbid(struct lease_fsm *l, uint32_t nodes, hf_time now)
{
    struct before before = fsm_look(l);

    hf_assert(nodes >> l->n == 0, "nodes %x of %d", (unsigned)nodes, l->n);
    fsm_advance(l, fsm_by_time(l), now);
    if (servers_count(l->servers, nodes) >= fsm_proof_of_grant(l) && !fsm_is_over(l))
        fsm_stop(l, HF_SLOT_LOST, HF_LOSS_FENCE);
    return fsm_actions_since(l, &before);
}

unsigned lease_fsm_stepped(struct lease_fsm *l, int node, hf_time sent, hf_time now)
{
    fsm_check_node(l, node);
    if (hf_time_before(lease_fsm_d(l, node), fsm_vote_until(l, sent)))
        return fsm_make_void(l, node, sent, HF_LOSS_CLOCK, now);
    return lease_fsm_tick(l, now);
}

unsigned lease_fsm_confirm(struct lease_fsm *l, hf_time previous, hf_time now)
{
    bool passed = hf_time_reached(now, fsm_shown(previous));
    bool too_late = l->is_job && hf_time_reached(now, fsm_losing_at(l, previous));
    struct before before;

    if (!passed && !too_late && fsm_is_well(l, now))
        return 0;
    before = fsm_look(l);
    /* (!) While the extension was being stored a reader may have seen the old V pass: then the
     * lease is over. */
    if (!fsm_is_over(l)) {
        if (passed)
            fsm_lapse(l, HF_LOSS_LATE_REPLY);
        else if (too_late && l->state != HF_SLOT_LOSING)
            fsm_stop(l, HF_SLOT_LOSING, HF_LOSS_LATE_REPLY);
        fsm_advance(l, fsm_by_time(l), now);
    }
    return fsm_actions_since(l, &before);
}

unsigned lease_fsm_lose(struct lease_fsm *l, enum hf_loss_reason reason, hf_time now)
{
    struct before before = fsm_look(l);

    hf_assert(reason != HF_LOSS_NONE, "state %d", (int)l->state);
    /* A guardian goes by the V that is shown: where that is losing the job was stopped for want of time. */
    if (reason == HF_LOSS_GUARDIAN && hf_time_reached(now, fsm_losing_at(l, fsm_shown(l->valid))))
        now = hf_time_max(now, fsm_losing_at(l, l->valid));
    fsm_advance(l, fsm_by_time(l), now);
    if (!fsm_is_over(l) && l->state != HF_SLOT_LOSING)
        fsm_stop(l, HF_SLOT_LOSING, reason);
    return fsm_actions_since(l, &before);
}

unsigned lease_fsm_release(struct lease_fsm *l, enum hf_loss_reason reason, hf_time now)
{
    struct before before = fsm_look(l);

    /* The holder may be releasing because it saw the end. */
    if (hf_time_reached(now, fsm_shown(l->valid)))
        fsm_advance(l, fsm_by_time(l), hf_time_max(now, l->valid));
    if (!fsm_is_over(l))
        fsm_stop(l, HF_SLOT_ENDED, reason != HF_LOSS_NONE ? reason : l->reason);
    return fsm_actions_since(l, &before);
}

unsigned lease_fsm_abandon(struct lease_fsm *l, hf_time now)
{
    struct before before = fsm_look(l);

    fsm_advance(l, fsm_by_time(l), now);
    l->stop_renewal = true;
    l->heal_wanted = 0;
    return fsm_actions_since(l, &before);
}

void lease_fsm_hand_over(struct lease_fsm *l, const struct lease_fsm *from, bool is_job,
                         hf_time max_hold)
{
    fsm_check(from);
    hf_assert(from->state == HF_SLOT_HELD, "state %d", (int)from->state);
    hf_assert(!from->readopted, "reason %d", (int)from->reason);
    memcpy(l, from, lease_fsm_size(from->n));
    l->is_job = is_job;
    l->max_hold = max_hold;
    l->reason = HF_LOSS_NONE;
}

hf_time lease_fsm_next(const struct lease_fsm *l)
{
    if (fsm_is_over(l))
        return HF_TIME_NEVER;
    if (l->readopted)
        return HF_TIME_PAST; /* it wants its first tick */
    if (l->state == HF_SLOT_LOSING)
        return l->valid;
    if (l->state == HF_SLOT_HELD)
        return hf_time_min(fsm_late_at(l), l->max_hold);
    return hf_time_min(l->grace ? l->valid : fsm_losing_at(l, l->valid), l->max_hold);
}

bool lease_fsm_renews(const struct lease_fsm *l)
{
    return (l->state == HF_SLOT_HELD || l->state == HF_SLOT_LATE) && !l->stop_renewal;
}

int lease_fsm_votes(const struct lease_fsm *l, hf_time now)
{
    hf_time d[HF_NODES_MAX];

    for (int i = 0; i < l->n; i++)
        d[i] = lease_fsm_d(l, i);
    return servers_votes(l->servers, d, lease_fsm_timing(l).span, l->n, now);
}
