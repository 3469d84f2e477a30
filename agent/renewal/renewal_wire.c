/* The scripts that carry what is due to the nodes, and judging the answers. Every judgement reads the clock anew: the
 * time at which a reply is processed decides what it is worth. */
#include "agent/renewal/renewal_internal.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/failure.h"
#include "agent/base/thread.h"
#include "shm/assert.h"
#include "shm/compiler.h"
#include "shm/history.h"
#include "shm/measures.h"
#include "shm/status.h"

#define ASK_EVERY hf_ms(250)

_Static_assert(RENEW_KEYS <= COHORT_MOST, "a cohort is taken at once");

/* --- answers: one key ------------------------------------------------------------------------- */

/* Plans the next renewal after a hit that was sent at `a`, or what else the lease needs on that
 * node now. */
static void wire_plan(struct renewal_node *node, struct lease *lease, hf_time a, hf_dur late,
                      bool counted) IN_RENEWAL_THREAD
{
    if (counted && lease_fsm_is_void(&lease->fsm, node->number)) {
        /* Sent before the vote was found void: it does not count, and another may be sent at once.
         */
        renewal_schedule(node, lease, clock_now());
        return;
    }
    if (!counted && node->went_back[0]) {
        renewal_retry(node, lease, clock_now());
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

static void wire_on_hit(struct renewal_node *node, struct lease *lease, hf_time a, hf_dur late,
                        enum hit hit, hf_time now) IN_RENEWAL_THREAD
{
    bool counted = renewal_hit(node, lease, a, hit, now);

    hf_assert(hf_time_reached(now, a), "node %d, sent %lld, now %lld", node->number,
              (long long)a.ns, (long long)now.ns);
    wire_plan(node, lease, a, late, counted);
}

static void wire_on_missing(struct renewal_node *node, struct lease *lease) IN_RENEWAL_THREAD
{
    struct lease_before before = lease_before(lease, node->number, HF_LOSS_MISSING);
    hf_time now = clock_now();
    unsigned actions = lease_fsm_missing(&lease->fsm, node->number, node->trust.mark, now);

    renewal_act(node->renewal, lease, actions, &before);
    renewal_schedule(node, lease, hf_time_add(now, renewal_heal_pause(node, lease)));
}

static void wire_on_foreign(struct renewal_node *node, struct lease *lease) IN_RENEWAL_THREAD
{
    struct lease_before before = lease_before(lease, node->number, HF_LOSS_FOREIGN);
    hf_time now = clock_now();
    unsigned actions = lease_fsm_foreign(&lease->fsm, node->number, now);

    renewal_act(node->renewal, lease, actions, &before);
    renewal_retry(node, lease, now);
}

static void wire_on_forced(struct renewal_node *node, struct lease *lease) IN_RENEWAL_THREAD
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
static void wire_remember(struct renewal_node *node, const struct link_reply *reply, uint8_t flags,
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

/* --- renewals ---------------------------------------------------------------------------------- */

/* When a lease is judged by an answer that is being processed since `begun`: one reading of the clock is
 * enough for all keys but those of late leases. A lease that is not late has a fifth of T before V, or
 * before a run's V - 0.3 T; and before an extension is shown the clock is read again. */
static hf_time wire_judged_at(const struct lease *lease, hf_time begun)
{
    hf_time late = hf_time_sub(lease->fsm.valid, lease_timing(lease).late_before);

    return hf_time_before(begun, late) ? begun : clock_now();
}

/* How much later than 1.1 T/3 after its last renewal a vote was renewed, for whatever reason. */
static void wire_note_overdue(struct renewal_node *node, const struct lease *lease, hf_time sent,
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

static void wire_judge_mark(struct renewal_node *node, struct lease *lease, char mark,
                            const struct link_reply *reply, hf_dur late,
                            hf_time now) IN_RENEWAL_THREAD
{
    ABOUT_LOCK(lease_name(lease), lease->name_len);

    switch (mark) {
    case '1':
        wire_note_overdue(node, lease, reply->sent, reply->received);
        wire_on_hit(node, lease, reply->sent, late, HIT_RENEWED, now);
        if (lease->undescribed >> node->number & 1 && !lease_is_over(lease))
            renewal_describe(node, lease, clock_now());
        break;
    case '0':
        renewal_count(node->renewal, HF_COUNTER_RENEW_MISSES, 1);
        wire_on_missing(node, lease);
        break;
    case 'x':
        renewal_count(node->renewal, HF_COUNTER_RENEW_MISSES, 1);
        wire_on_forced(node, lease);
        break;
    default:
        renewal_count(node->renewal, HF_COUNTER_RENEW_MISSES, 1);
        wire_on_foreign(node, lease);
        break;
    }
}

static void wire_renewed(const struct renew_batch *batch,
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
        wire_judge_mark(node, lease, reply->marks[k], reply, batch->late,
                        wire_judged_at(lease, now));
    }
    renewal_count(r, HF_COUNTER_RENEWED, hits);
    if (events & TRUST_STEPPED)
        renewal_stepped(node, reply->sent);
}

static void wire_try_again(struct renewal_node *node, struct lease *lease,
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
static void wire_not_renewed(const struct renew_batch *batch,
                             const struct link_reply *reply) IN_RENEWAL_THREAD
{
    struct renewal_node *node = batch->node;

    for (size_t k = 0; k < batch->count; k++) {
        struct lease *lease =
            renewal_find_token(node->renewal, batch->keys[k].slot, batch->keys[k].generation);

        if (lease)
            wire_try_again(node, lease, reply);
    }
}

/* The node goes by another record than this agent: its clock and its nonce are news, its keys are not. */
static void wire_learn_only(struct renewal_node *node,
                            const struct link_reply *reply) IN_RENEWAL_THREAD
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
        wire_remember(node, reply, 0, batch->count, reply->marks,
                      reply->outcome == LINK_ANSWERED ? reply->mark_count : 0);
        if (reply->outcome == LINK_ANSWERED && renewal_counts(node, reply)) {
            wire_renewed(batch, reply);
        } else {
            if (reply->outcome == LINK_ANSWERED)
                wire_learn_only(node, reply);
            if (!reply->late)
                wire_not_renewed(batch, reply);
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
static void wire_sentinel_differs(struct renewal_node *node, struct lease *lease,
                                  uint32_t mark) IN_RENEWAL_THREAD
{
    if (renewal_nonce(node)[0] && node->trust.mark != mark)
        renewal_schedule(node, lease, clock_now());
    else
        renewal_retry(node, lease, clock_now());
}

static void wire_judge_heal(struct renewal_node *node, struct lease *lease, uint32_t mark,
                            const struct link_reply *reply) IN_RENEWAL_THREAD
{
    ABOUT_LOCK(lease_name(lease), lease->name_len);

    switch (reply->verdict) {
    case VERDICT_OK:
    case VERDICT_LOW: /* our key stands; the fence mattered only at the grant */
        renewal_count(node->renewal, HF_COUNTER_HEALS, 1);
        if (!renewal_outbid(node, lease, reply)) /* (!) before the vote counts */
            wire_on_hit(node, lease, reply->sent, hf_ns(0), HIT_HEALED, clock_now());
        break;
    case VERDICT_TAKEN:
        wire_on_foreign(node, lease);
        break;
    case VERDICT_SENTINEL:
        wire_sentinel_differs(node, lease, mark);
        break;
    case VERDICT_STALE:
    case VERDICT_GONE:
    case VERDICT_FREE:
        renewal_retry(node, lease, clock_now());
        break;
    }
}

static void wire_no_doubt(struct renewal_slot *slot, int node)
{
    slot->doubt = (uint16_t)(slot->doubt & ~(1u << node));
}

static void wire_doubt_for_good(struct renewal_slot *slot, int node)
{
    slot->broken = (uint16_t)(slot->broken | 1u << node);
}

static void wire_healed(struct heal *heal, const struct link_reply *reply) IN_RENEWAL_THREAD
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
            wire_no_doubt(&r->slots[lease->slot], node->number);
        /* (!) Not even as a sign that the key is missing: it may have been sent by another record of the fleet. */
        if (renewal_counts(node, reply))
            wire_judge_heal(node, lease, heal->mark, reply);
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

        wire_remember(node, reply, HF_RENEWAL_F_HEAL, 1, mark, reply->outcome == LINK_ANSWERED);
        if (reply->outcome == LINK_ANSWERED) {
            wire_healed(heal, reply);
        } else if (lease && !reply->late) {
            wire_try_again(node, lease, reply);
        }
        if (lease && reply->outcome == LINK_BROKEN)
            wire_doubt_for_good(&node->renewal->slots[heal->slot], node->number);
    }
    if (reply->final) {
        hf_assert(node->heals > 0, "node %d, slot %u", node->number, (unsigned)heal->slot);
        node->heals--;
        free(heal);
    }
}

static struct heal *wire_heal_new(struct renewal_node *node, const struct lease *lease)
{
    struct heal *heal = malloc(sizeof(*heal) + lease->key_len);

    if (!heal)
        return NULL;
    hf_assert(lease_fsm_renews(&lease->fsm) && node->heals < HEALS_MAX,
              "slot %u, state %d, node %d, heals %d", (unsigned)lease->slot, (int)lease->fsm.state,
              node->number, node->heals);
    heal->node = node;
    heal->slot = lease->slot;
    heal->generation = lease->generation;
    heal->attempt = lease_timing(lease).attempt;
    heal->ttl = lease_timing(lease).ttl;
    heal->token = lease->token;
    heal->key_len = lease->key_len;
    memcpy(heal->key, lease_key(lease), lease->key_len);
    return heal;
}

/* A refused node gives no votes, so a key that it lacks is not written there either. */
static bool wire_may_heal(const struct renewal_node *node) IN_RENEWAL_THREAD
{
    const struct renewal *r = node->renewal;
    const struct config *config = r->config;
    const struct node_trust *t = &node->trust;
    const struct node_sentinel *s = &t->sentinel;

    if (!(config->counting >> node->number & 1) || t->refused || !renewal_nonce(node)[0] ||
        (r->fleet && !node->seated))
        return false;
    if (!r->fleet && s->present && strcmp(s->nonce, renewal_nonce(node)) == 0 &&
        (s->ttl_max_ms != config->ttl_max_ms || s->nodes != r->n ||
         strcmp(s->list_hash, config->list_hash) != 0))
        return false;
    return true;
}

static bool wire_send_heal(struct renewal_node *node, struct lease *lease,
                           hf_time now) IN_RENEWAL_THREAD
{
    struct renewal *r = node->renewal;
    struct renewal_slot *slot = &r->slots[lease->slot];
    hf_time deadline = hf_time_add(now, lease_timing(lease).attempt);
    hf_nodetime low, high;
    struct heal *heal;
    struct link_lock lock = renewal_lock(node, lease);

    /* The deadline for the node needs its clock. */
    if (!wire_may_heal(node) || !trust_node_time(&node->trust, deadline, &low, &high))
        return false;
    lock.deadline = low;
    heal = wire_heal_new(node, lease);
    if (!heal)
        return false;
    heal->mark = node->trust.mark;
    if (link_heal(node->link, &lock, deadline, renewal_on_healed, heal) != HF_OK) {
        free(heal);
        return false;
    }
    slot->doubt = (uint16_t)(slot->doubt | 1u << node->number);
    slot->doubt_until = hf_time_max(slot->doubt_until, deadline);
    lease_node(lease, node->number)->in_flight = true;
    lease_node(lease, node->number)->written = true;
    node->heals++;
    return true;
}

/* --- the pump ---------------------------------------------------------------------------------- */

/* A batch that is being filled. */
struct filling {
    struct renew_batch *batch; /* NULL: none is begun */
    bool sent;                 /* there is something to flush */
    hf_dur patience;           /* that of its least patient lease */
    struct link_key keys[RENEW_KEYS];
};

/* When a script for leases that are due at `due` may leave, by the limit on the number of scripts. */
static hf_time wire_may_begin(const struct renewal_node *node, hf_time due)
{
    return pace_next(&node->pace, due, renewal_slack(node));
}

static bool wire_begin(struct filling *filling, struct renewal_node *node, hf_time due, hf_time now)
{
    struct renewal *r = node->renewal;
    hf_time may = wire_may_begin(node, due);
    hf_dur lag = hf_time_since(now, hf_time_max(may, node->ready)); /* this thread's delay */

    filling->batch = NULL;
    if (node->pace.under_way > 0 && !hf_time_reached(now, may))
        return false;
    for (int i = 0; i < PACE_MOST && !filling->batch; i++)
        if (!node->batches[i].busy)
            filling->batch = &node->batches[i];
    if (!filling->batch)
        return false;
    hf_assert(node->pace.under_way < PACE_MOST, "node %d, under_way %d", node->number,
              node->pace.under_way);
    filling->batch->node = node;
    filling->batch->count = 0;
    filling->batch->late = hf_time_since(now, due);
    hf_counter_set(&r->agent->table, HF_COUNTER_RENEW_LAG_NS, (uint64_t)(lag.ns > 0 ? lag.ns : 0));
    if (lag.ns > r->lag_max_ns) {
        r->lag_max_ns = lag.ns;
        hf_counter_set(&r->agent->table, HF_COUNTER_RENEW_LAG_MAX_NS, (uint64_t)lag.ns);
    }
    hf_histogram_add(&r->agent->table, HF_HISTOGRAM_LAG, lag.ns);
    hf_extreme_add_ns(&r->agent->table, HF_EXTREME_LAG, lag.ns, now);
    return true;
}

static void wire_add(struct filling *filling, struct lease *lease)
{
    struct renew_batch *batch = filling->batch;
    struct lease_node *ln = lease_node(lease, batch->node->number);
    hf_dur attempt = timing_of(hf_ms(lease->ttl_ms)).attempt;

    hf_assert(!batch->busy && batch->count < RENEW_KEYS, "node %d, count %zu", batch->node->number,
              (size_t)batch->count);
    hf_assert(lease_fsm_renews(&lease->fsm), "slot %u, state %d", (unsigned)lease->slot,
              (int)lease->fsm.state);
    hf_assert(!ln->in_flight, "slot %u, node %d", (unsigned)lease->slot, batch->node->number);
    filling->patience = batch->count ? hf_dur_min(filling->patience, attempt) : attempt;
    filling->keys[batch->count] = (struct link_key){.key = lease_key(lease),
                                                    .key_len = lease->key_len,
                                                    .token = &lease->token,
                                                    .ttl_ms = lease->ttl_ms};
    batch->keys[batch->count].slot = lease->slot;
    batch->keys[batch->count].generation = lease->generation;
    batch->count++;
    ln->in_flight = true;
    ln->hurried = ln->told;
    ln->told = false;
}

static void wire_send_batch(struct filling *filling, hf_time now) IN_RENEWAL_THREAD
{
    struct renew_batch *batch = filling->batch;
    struct renewal_node *node = batch->node;
    struct renewal *r = node->renewal;

    hf_assert(batch->count > 0, "node %d", node->number);
    filling->batch = NULL;
    if (renewal_tracks(node))
        link_track(node->link);
    if (link_renew(node->link, filling->keys, batch->count, hf_time_add(now, filling->patience),
                   renewal_on_renewed, batch) == HF_OK) {
        batch->busy = true;
        pace_sent(&node->pace);
        renewal_count(r, HF_COUNTER_RENEW_CALLS, 1);
        filling->sent = true;
        return;
    }
    for (size_t k = 0; k < batch->count; k++) {
        struct lease *lease = renewal_find(r, batch->keys[k].slot, batch->keys[k].generation);

        lease_node(lease, node->number)->in_flight = false;
        renewal_schedule(node, lease, hf_time_add(now, NO_ANSWER));
    }
}

static struct lease *wire_lease_of(const struct renewal_node *node,
                                   const struct cohort_single *single)
{
    struct lease *lease = node->renewal->slots[single->number].lease;

    hf_assert(lease, "slot %u, node %d", (unsigned)single->number, node->number);
    return lease;
}

/* With others a renewal may leave a little before its time, so that scripts carry many keys; retries
 * and heals wait for theirs. */
static bool wire_is_due(const struct renewal_node *node, const struct cohort_single *single,
                        hf_time now, bool company)
{
    const struct lease *lease = wire_lease_of(node, single);
    const struct lease_node *ln = lease_node(lease, node->number);

    if (hf_time_reached(now, single->item.at))
        return true;
    return company && !ln->heal && ln->retries == 0 &&
           hf_time_since(single->item.at, now).ns <= lease_timing(lease).renew_jitter.ns / 2;
}

/* The same for the first cohort, which stays whole. */
static bool wire_cohort_is_due(const struct renewal_node *node, const struct filling *filling,
                               hf_time now)
{
    hf_time at = cohorts_next(&node->renewals);

    if (hf_time_reached(now, at))
        return true;
    return filling->batch && cohorts_first(&node->renewals) <= RENEW_KEYS - filling->batch->count &&
           hf_time_since(at, now).ns <= filling->patience.ns / 4;
}

/* Each returns whether it could send: too many may be unanswered. */
static bool wire_pump_cohort(struct renewal_node *node, struct filling *filling,
                             hf_time now) IN_RENEWAL_THREAD
{
    uint32_t slots[COHORT_MOST];
    size_t count;

    if (filling->batch && cohorts_first(&node->renewals) > RENEW_KEYS - filling->batch->count)
        wire_send_batch(filling, now);
    if (!filling->batch && !wire_begin(filling, node, cohorts_next(&node->renewals), now))
        return false;
    count = cohorts_take(&node->renewals, slots, RENEW_KEYS - filling->batch->count);
    renewal_fetch(node->renewal, slots, count);
    for (size_t i = 0; i < count; i++) {
        hf_assert(node->renewal->slots[slots[i]].lease, "slot %u, node %d", (unsigned)slots[i],
                  node->number);
        wire_add(filling, node->renewal->slots[slots[i]].lease);
    }
    return true;
}

/* A node that forgot everything is asked for its new sentinel: with no lease of ours left there, no other
 * command would show it. */
static void wire_ask_for_nonce(struct renewal_node *node, hf_time now) IN_RENEWAL_THREAD
{
    if (renewal_nonce(node)[0] || hf_time_before(now, hf_time_add(node->asked, ASK_EVERY)))
        return;
    node->asked = now;
    link_probe_soon(node->link);
}

static bool wire_pump_single(struct renewal_node *node, struct filling *filling,
                             const struct cohort_single *single, hf_time now) IN_RENEWAL_THREAD
{
    struct lease *lease = wire_lease_of(node, single);

    if (lease_node(lease, node->number)->heal) {
        cohorts_remove(&node->renewals, lease->slot);
        if (wire_send_heal(node, lease, now))
            filling->sent = true;
        else {
            wire_ask_for_nonce(node, now);
            renewal_retry(node, lease, now);
        }
        return true;
    }
    if (!filling->batch && !wire_begin(filling, node, single->item.at, now))
        return false;
    cohorts_remove(&node->renewals, lease->slot);
    wire_add(filling, lease);
    return true;
}

static bool wire_is_heal(const struct renewal_node *node, const struct cohort_single *single)
{
    return lease_node(wire_lease_of(node, single), node->number)->heal;
}

static bool wire_may_send(const struct renewal_node *node, const struct cohort_single *single)
{
    return !wire_is_heal(node, single) || node->heals < HEALS_MAX;
}

static void wire_pump_node(struct renewal_node *node, hf_time now) IN_RENEWAL_THREAD
{
    struct filling filling = {.batch = NULL};
    bool going = link_is_up(node->link);

    while (going) {
        const struct cohort_single *first = cohorts_first_alone(&node->renewals);
        bool single =
            first && wire_may_send(node, first) && wire_is_due(node, first, now, filling.batch);
        bool cohort = wire_cohort_is_due(node, &filling, now);

        /* A heal takes no place among the scripts. It does not wait behind renewals without a place, or
         * the thread would look again and again for what it could send. */
        if (single && (wire_is_heal(node, first) || !cohort ||
                       !hf_time_before(cohorts_next(&node->renewals), first->item.at)))
            going = wire_pump_single(node, &filling, first, now);
        else
            going = cohort && wire_pump_cohort(node, &filling, now);
        if (filling.batch && filling.batch->count == RENEW_KEYS)
            wire_send_batch(&filling, now);
    }
    if (filling.batch)
        wire_send_batch(&filling, now);
    if (filling.sent)
        link_flush(node->link);
}

void renewal_pump(struct renewal *r)
{
    if (r->stopping)
        return;
    for (int i = 0; i < r->n; i++)
        wire_pump_node(&r->node[i], clock_now());
}

hf_time renewal_next_due(const struct renewal *r)
{
    hf_time next = HF_TIME_NEVER;

    for (int i = 0; i < r->n && !r->stopping; i++) {
        const struct renewal_node *node = &r->node[i];
        const struct cohort_single *first = cohorts_first_alone(&node->renewals);

        if (!link_is_up(node->link))
            continue;
        next = hf_time_min(next, wire_may_begin(node, cohorts_next(&node->renewals)));
        if (first && wire_may_send(node, first))
            next =
                hf_time_min(next, wire_is_heal(node, first) ? first->item.at
                                                            : wire_may_begin(node, first->item.at));
    }
    return next;
}
