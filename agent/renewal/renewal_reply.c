/* Judging the nodes' answers. Every judgement reads the clock anew: the time at which a reply is
 * processed decides what it is worth. */
#include "agent/renewal/renewal_internal.h"

#include <stdlib.h>

#include "agent/base/clock.h"
#include "agent/base/failure.h"
#include "agent/base/thread_role.h"
#include "shm/assert.h"
#include "shm/history.h"
#include "shm/measures.h"

/* Plans the next renewal after a hit that was sent at `a`, or what else the lease needs on that
 * node now. */
static void plan(struct renewal_node *node, struct lease *lease, hf_time a, hf_dur late,
                 bool counted) IN_RENEWAL_THREAD
{
    if (counted && lease_fsm_is_void(&lease->fsm, node->number)) {
        /* Sent before the vote was found void: it does not count, and another may be sent at once.
         */
        renewal_schedule(node, lease, clock_now());
        return;
    }
    lease_node(lease, node->number)->retries = 0;
    if (counted)
        renewal_plan(node, lease, a, late);
    else
        renewal_plan_young(node, lease, a);
    if (lease_node(lease, node->number)->told)
        renewal_hurry(node, lease, clock_now());
}

static void on_hit(struct renewal_node *node, struct lease *lease, hf_time a, hf_dur late,
                   enum hit hit, hf_time now) IN_RENEWAL_THREAD
{
    bool counted = renewal_hit(node, lease, a, hit, now);

    hf_assert(hf_time_reached(now, a), "node %d, sent %lld, now %lld", node->number,
              (long long)a.ns, (long long)now.ns);
    plan(node, lease, a, late, counted);
}

static void on_missing(struct renewal_node *node, struct lease *lease) IN_RENEWAL_THREAD
{
    struct lease_before before = lease_before(lease, node->number, HF_LOSS_MISSING);
    hf_time now = clock_now();
    unsigned actions = lease_fsm_missing(&lease->fsm, node->number, node->trust.mark, now);

    renewal_act(node->renewal, lease, actions, &before);
    renewal_schedule(node, lease, hf_time_add(now, renewal_heal_pause(node, lease)));
}

static void on_foreign(struct renewal_node *node, struct lease *lease) IN_RENEWAL_THREAD
{
    struct lease_before before = lease_before(lease, node->number, HF_LOSS_FOREIGN);
    hf_time now = clock_now();
    unsigned actions = lease_fsm_foreign(&lease->fsm, node->number, now);

    renewal_act(node->renewal, lease, actions, &before);
    renewal_retry(node, lease, now);
}

static void on_forced(struct renewal_node *node, struct lease *lease) IN_RENEWAL_THREAD
{
    struct lease_before before = lease_before(lease, node->number, HF_LOSS_FORCED);
    hf_time now = clock_now();
    unsigned actions = lease_fsm_forced(&lease->fsm, node->number, now);

    renewal_act(node->renewal, lease, actions, &before);
    if (lease_is_over(lease))
        return;
    renewal_retry(node, lease, now);
    /* All of its keys are meant: the other nodes are asked at once. */
    for (int i = 0; i < node->renewal->n; i++)
        if (i != node->number && !lease_fsm_is_void(&lease->fsm, i))
            renewal_schedule(&node->renewal->node[i], lease, now);
}

/* --- the node's history of renewals ----------------------------------------------------------- */

/* A command that had no answer in time is told once; its late answer is told as one. */
static void remember(struct renewal_node *node, const struct link_reply *reply, uint8_t flags,
                     size_t keys, const char *marks, size_t mark_count)
{
    struct hf_renewal renewal = {
        .at_ns = reply->sent.ns,
        .latency_us = (uint32_t)(hf_time_since(reply->received, reply->sent).ns / HF_NS_PER_US),
        .keys = (uint16_t)keys,
        .outcome = (uint8_t)(reply->outcome == LINK_ANSWERED ? HF_NODE_ERR_NONE : reply->error),
        .flags = (uint8_t)(flags | (reply->late ? HF_RENEWAL_F_LATE : 0)),
    };

    if (reply->late && reply->outcome != LINK_ANSWERED)
        return;
    for (size_t k = 0; k < mark_count && k < keys; k++) {
        renewal.hit += marks[k] == '1';
        renewal.missing += marks[k] == '0';
        renewal.foreign += marks[k] != '1' && marks[k] != '0';
    }
    hf_renewal_put(&node->renewal->agent->table, (uint32_t)node->number, &renewal);
}

/* --- renewals --------------------------------------------------------------------------------- */

/* When a lease is judged by an answer that is being processed since `begun`: one reading of the clock is
 * enough for all keys but those of late leases. A lease that is not late has a fifth of T before V, or
 * before a run's V - 0.3 T; and before an extension is shown the clock is read again. */
static hf_time judged_at(const struct lease *lease, hf_time begun)
{
    hf_time late = hf_time_sub(lease->fsm.valid, lease_timing(lease).late_before);

    return hf_time_before(begun, late) ? begun : clock_now();
}

/* How much later than 1.1 T/3 after its last renewal a vote was renewed, for whatever reason. */
static void note_overdue(struct renewal_node *node, const struct lease *lease, hf_time sent,
                         hf_time received) IN_RENEWAL_THREAD
{
    struct renewal *r = node->renewal;
    struct timing timing = lease_timing(lease);
    hf_time d = lease_fsm_d(&lease->fsm, node->number);
    int64_t overdue_ns;

    if (d.ns == HF_TIME_PAST.ns || hf_time_before(sent, renewal_counts_from(node, lease)))
        return;
    overdue_ns = hf_time_since(received, d).ns + timing.span.ns - timing.renew_after.ns -
                 timing.renew_jitter.ns;
    if (overdue_ns > 0)
        hf_extreme_add_ns(&r->agent->table, HF_EXTREME_OVERDUE, overdue_ns, received);
    if (overdue_ns <= r->overdue_max_ns)
        return;
    r->overdue_max_ns = overdue_ns;
    hf_counter_set(&r->agent->table, HF_COUNTER_RENEW_OVERDUE_MAX_NS, (uint64_t)overdue_ns);
}

static void judge_mark(struct renewal_node *node, struct lease *lease, char mark,
                       const struct link_reply *reply, hf_dur late, hf_time now) IN_RENEWAL_THREAD
{
    ABOUT_LOCK(lease_name(lease), lease->name_len);

    switch (mark) {
    case '1':
        note_overdue(node, lease, reply->sent, reply->received);
        on_hit(node, lease, reply->sent, late, HIT_RENEWED, now);
        if (lease->undescribed >> node->number & 1 && !lease_is_over(lease))
            renewal_describe(node, lease, clock_now());
        break;
    case '0':
        renewal_count(node->renewal, HF_COUNTER_RENEW_MISSES, 1);
        on_missing(node, lease);
        break;
    case 'x':
        renewal_count(node->renewal, HF_COUNTER_RENEW_MISSES, 1);
        on_forced(node, lease);
        break;
    default:
        renewal_count(node->renewal, HF_COUNTER_RENEW_MISSES, 1);
        on_foreign(node, lease);
        break;
    }
}

static void renewed(const struct renew_batch *batch,
                    const struct link_reply *reply) IN_RENEWAL_THREAD
{
    struct renewal_node *node = batch->node;
    struct renewal *r = node->renewal;
    unsigned events = renewal_learn(node, reply);
    uint32_t slots[RENEW_KEYS];
    hf_time now = clock_now();
    int64_t hits = 0;

    for (size_t k = 0; k < batch->count; k++)
        slots[k] = batch->keys[k].slot;
    renewal_fetch(r, slots, batch->count);
    for (size_t k = 0; k < batch->count && k < reply->mark_count; k++) {
        struct lease *lease = renewal_find_token(r, batch->keys[k].slot, batch->keys[k].generation);

        if (!lease || lease_is_over(lease))
            continue;
        if (!reply->late)
            lease_node(lease, node->number)->in_flight = false;
        hits += reply->marks[k] == '1';
        judge_mark(node, lease, reply->marks[k], reply, batch->late, judged_at(lease, now));
    }
    renewal_count(r, HF_COUNTER_RENEWED, hits);
    if (events & TRUST_STEPPED)
        renewal_stepped(node, reply->sent);
}

static void try_again(struct renewal_node *node, struct lease *lease,
                      const struct link_reply *reply) IN_RENEWAL_THREAD
{
    lease_node(lease, node->number)->in_flight = false;
    if (reply->error == HF_NODE_ERR_NOSCRIPT)
        renewal_reloaded(node, lease, clock_now());
    else
        renewal_retry(node, lease, clock_now());
}

/* No answer, for now or for good. Nothing is known, so only the time of the next attempt
 * changes. */
static void not_renewed(const struct renew_batch *batch,
                        const struct link_reply *reply) IN_RENEWAL_THREAD
{
    struct renewal_node *node = batch->node;

    for (size_t k = 0; k < batch->count; k++) {
        struct lease *lease =
            renewal_find_token(node->renewal, batch->keys[k].slot, batch->keys[k].generation);

        if (lease)
            try_again(node, lease, reply);
    }
}

/* The node goes by another record than this agent: its clock and its nonce are news, its keys are not. */
static void learn_only(struct renewal_node *node, const struct link_reply *reply) IN_RENEWAL_THREAD
{
    renewal_tell_another(node, reply);
    if (renewal_learn(node, reply) & TRUST_STEPPED)
        renewal_stepped(node, reply->sent);
}

void renewal_on_renewed(struct link *link, const struct link_reply *reply, void *arg)
{
    struct renew_batch *batch = arg;
    struct renewal_node *node = batch->node;

    (void)link;
    hf_assert(batch->busy && batch->count > 0 && batch->count <= RENEW_KEYS,
              "node %d, busy %d, count %zu", node->number, batch->busy, (size_t)batch->count);
    if (!node->renewal->closing) {
        remember(node, reply, 0, batch->count, reply->marks,
                 reply->outcome == LINK_ANSWERED ? reply->mark_count : 0);
        if (reply->outcome == LINK_ANSWERED && renewal_counts(node, reply)) {
            renewed(batch, reply);
        } else {
            if (reply->outcome == LINK_ANSWERED)
                learn_only(node, reply);
            if (!reply->late)
                not_renewed(batch, reply);
        }
    }
    if (reply->final) {
        batch->busy = false;
        node->ready = clock_now();
        pace_ended(&node->pace, reply->outcome == LINK_ANSWERED && !reply->late, batch->late,
                   renewal_slack(node));
    }
}

/* --- heals ------------------------------------------------------------------------------------ */

/* A heal that named an earlier sentinel is sent again with the sentinel of its answer. */
static void sentinel_differs(struct renewal_node *node, struct lease *lease,
                             uint32_t mark) IN_RENEWAL_THREAD
{
    if (renewal_nonce(node)[0] && node->trust.mark != mark)
        renewal_schedule(node, lease, clock_now());
    else
        renewal_retry(node, lease, clock_now());
}

static void judge_heal(struct renewal_node *node, struct lease *lease, uint32_t mark,
                       const struct link_reply *reply) IN_RENEWAL_THREAD
{
    ABOUT_LOCK(lease_name(lease), lease->name_len);

    switch (reply->verdict) {
    case VERDICT_OK:
    case VERDICT_LOW: /* our key stands; the fence mattered only at the grant */
        renewal_count(node->renewal, HF_COUNTER_HEALS, 1);
        if (!renewal_outbid(node, lease, reply)) /* (!) before the vote counts */
            on_hit(node, lease, reply->sent, hf_ns(0), HIT_HEALED, clock_now());
        break;
    case VERDICT_TAKEN:
        on_foreign(node, lease);
        break;
    case VERDICT_SENTINEL:
        sentinel_differs(node, lease, mark);
        break;
    case VERDICT_STALE:
    case VERDICT_GONE:
    case VERDICT_FREE:
        renewal_retry(node, lease, clock_now());
        break;
    }
}

static void no_doubt(struct renewal_slot *slot, int node)
{
    slot->doubt = (uint16_t)(slot->doubt & ~(1u << node));
}

static void doubt_for_good(struct renewal_slot *slot, int node)
{
    slot->broken = (uint16_t)(slot->broken | 1u << node);
}

static void healed(struct heal *heal, const struct link_reply *reply) IN_RENEWAL_THREAD
{
    struct renewal_node *node = heal->node;
    struct renewal *r = node->renewal;
    struct lease *lease = renewal_find_token(r, heal->slot, heal->generation);
    unsigned events = renewal_learn(node, reply);

    if (lease && !lease_is_over(lease)) {
        struct lease_node *ln = lease_node(lease, node->number);

        if (!reply->late)
            ln->in_flight = false;
        if (!ln->in_flight)
            no_doubt(&r->slots[lease->slot], node->number);
        /* (!) Not even as a sign that the key is missing: it may have been sent by another record of the fleet. */
        if (renewal_counts(node, reply))
            judge_heal(node, lease, heal->mark, reply);
        else
            renewal_retry(node, lease, clock_now());
    } else if ((reply->verdict == VERDICT_OK || reply->verdict == VERDICT_LOW) &&
               (!lease || lease->releasing)) {
        /* (!) A late answer whose lease has ended is followed by a release on the same connection;
         * for a lost run, whose tree may still live, when the other keys are released. */
        renewal_undo(node, heal->key, heal->key_len, &heal->token, heal->attempt, heal->ttl);
    }
    if (events & TRUST_STEPPED)
        renewal_stepped(node, reply->sent);
}

void renewal_on_healed(struct link *link, const struct link_reply *reply, void *arg)
{
    struct heal *heal = arg;
    struct renewal_node *node = heal->node;

    (void)link;
    if (!node->renewal->closing) {
        struct lease *lease = renewal_find_token(node->renewal, heal->slot, heal->generation);
        bool stands = reply->verdict == VERDICT_OK || reply->verdict == VERDICT_LOW;
        const char *mark = stands ? "1" : reply->verdict == VERDICT_TAKEN ? "f" : "0";

        remember(node, reply, HF_RENEWAL_F_HEAL, 1, mark, reply->outcome == LINK_ANSWERED);
        if (reply->outcome == LINK_ANSWERED) {
            healed(heal, reply);
        } else if (lease && !reply->late) {
            try_again(node, lease, reply);
        }
        if (lease && reply->outcome == LINK_BROKEN)
            doubt_for_good(&node->renewal->slots[heal->slot], node->number);
    }
    if (reply->final) {
        hf_assert(node->heals > 0, "node %d, slot %u", node->number, (unsigned)heal->slot);
        node->heals--;
        free(heal);
    }
}
