/* The queues of renewals and heals that are due on each node, and the scripts that carry them. */
#include "agent/renewal/renewal_internal.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/thread_role.h"
#include "agent/core/backoff.h"
#include "agent/core/draw.h"
#include "agent/core/fence.h"
#include "shm/assert.h"
#include "shm/compiler.h"
#include "shm/measures.h"
#include "shm/status.h"

#define LINE      64 /* bytes of a cache line */
#define ASK_EVERY hf_ms(250)
/* A million leases: 20 s, which T/6 bounds. */
#define YOUNG_APART hf_ns(20 * HF_NS_PER_US)

_Static_assert(RENEW_KEYS <= COHORT_MOST, "a cohort is taken at once");

static struct lease *lease_of(const struct renewal_node *node, const struct cohort_single *single)
{
    struct lease *lease = node->renewal->slots[single->number].lease;

    hf_assert(lease, "slot %u, node %d", (unsigned)single->number, node->number);
    return lease;
}

static bool wants_heal(const struct lease *lease, int node)
{
    return lease->fsm.heal_wanted >> node & 1;
}

/* --- the queues ------------------------------------------------------------------------------- */

/* Most leases have the TTL of the lease before. */
static const struct timing *timing_for(struct renewal *r, hf_dur ttl)
{
    if (r->timing.ttl.ns != ttl.ns)
        r->timing = timing_of(ttl);
    return &r->timing;
}

/* Whether there is anything to be planned: not while a command is under way, nor on a node that does not count by the
 * fleet's record. */
static bool may_plan(const struct renewal_node *node, const struct lease *lease)
{
    return lease_fsm_renews(&lease->fsm) && !lease_node(lease, node->number)->in_flight &&
           node->renewal->config->counting >> node->number & 1;
}

void renewal_schedule(struct renewal_node *node, struct lease *lease, hf_time at)
{
    struct renewal *r = node->renewal;
    struct lease_node *ln = lease_node(lease, node->number);
    hf_time d = lease_fsm_d(&lease->fsm, node->number);

    if (!may_plan(node, lease))
        return;
    /* (!) Of a lease that had a longer TTL before ttl_max of the fleet went down: its key is never made to end before d,
     * on which its holder may count. */
    if (d.ns != HF_TIME_PAST.ns)
        at = hf_time_max(at, hf_time_sub(d, timing_for(r, hf_ms(lease->ttl_ms))->span));
    ln->heal = wants_heal(lease, node->number);
    cohorts_put_alone(&node->renewals, lease->slot, at);
}

/* A lease is renewed on one node after the other: notices from all nodes at once look like a release to
 * the waiters of other hosts. */
static hf_dur apart(int nodes)
{
    return hf_ns(nodes * RENEWALS_APART.ns);
}

/* The time that follows from when it is due on another node, if that is soon enough. */
static hf_time time_by_others(const struct renewal_node *node, const struct lease *lease,
                              const struct timing *timing, hf_time a)
{
    const struct renewal *r = node->renewal;

    for (int i = 0; i < r->n; i++) {
        hf_time at = cohorts_at(&r->node[i].renewals, lease->slot);

        if (at.ns == HF_TIME_NEVER.ns)
            continue;
        at = hf_time_add(at, apart(node->number - i));
        if (phases_fits(timing, a, at))
            return at;
    }
    return HF_TIME_NEVER;
}

/* For a lease with a time of its own. */
static hf_time new_time(const struct renewal_node *node, const struct timing *timing, hf_time a,
                        hf_dur late) IN_RENEWAL_THREAD
{
    struct renewal *r = node->renewal;
    hf_time at;

    /* An earlier agent's leases come by slot, with the times of all its scripts mixed. */
    if (hf_time_before(a, r->started))
        at = hf_time_floor(hf_time_add(a, timing->renew_after),
                           hf_dur_scale(timing->renew_jitter, 1, 32));
    else
        at = phases_next(&r->phases, timing, a, late, RENEW_KEYS, r->held);
    return hf_time_add(at, apart(node->number));
}

void renewal_plan(struct renewal_node *node, struct lease *lease, hf_time a, hf_dur late)
{
    const struct timing *timing = timing_for(node->renewal, hf_ms(lease->ttl_ms));
    hf_time at;

    if (!may_plan(node, lease))
        return;
    at = time_by_others(node, lease, timing, a);
    if (at.ns == HF_TIME_NEVER.ns)
        at = new_time(node, timing, a, late);
    if (!wants_heal(lease, node->number)) {
        cohorts_remove(&node->renewals, lease->slot);
        if (cohorts_add(&node->renewals, lease->slot, at))
            return;
    }
    renewal_schedule(node, lease, at);
}

/* The leases of a restarted node all wait for one moment: they are then sent at the pace of a full
 * agent's. */
static hf_dur young_spread(const struct renewal *r, const struct timing *timing)
{
    return hf_dur_min(hf_ns(r->held * YOUNG_APART.ns), hf_dur_scale(timing->ttl, 1, 6));
}

void renewal_plan_young(struct renewal_node *node, struct lease *lease, hf_time a)
{
    struct renewal *r = node->renewal;
    const struct timing *timing = timing_for(r, hf_ms(lease->ttl_ms));
    hf_time at = renewal_counts_from(node, lease);

    if (hf_time_before(hf_time_add(a, timing->renew_after), at)) {
        renewal_plan(node, lease, a, hf_ns(0)); /* the vote must be kept until then */
        return;
    }
    at = hf_time_add(at, draw_within(young_spread(r, timing), renewal_random(r)));
    at = hf_time_floor(hf_time_add(at, PHASES_GRID), PHASES_GRID);
    if (!may_plan(node, lease))
        return;
    cohorts_remove(&node->renewals, lease->slot);
    if (!cohorts_add(&node->renewals, lease->slot, at))
        renewal_schedule(node, lease, at);
}

void renewal_retry(struct renewal_node *node, struct lease *lease, hf_time now)
{
    struct timing timing = lease_timing(lease);
    hf_dur delay =
        backoff_next(timing.retry_first, timing.retry_max,
                     &lease_node(lease, node->number)->retries, renewal_random(node->renewal));

    renewal_schedule(node, lease, hf_time_add(now, delay));
}

void renewal_reloaded(struct renewal_node *node, struct lease *lease, hf_time now)
{
    bool first = lease_node(lease, node->number)->retries == 0;

    renewal_retry(node, lease, now);
    if (first)
        renewal_schedule(node, lease, now);
}

void renewal_unschedule(struct renewal *r, struct lease *lease)
{
    for (int i = 0; i < r->n; i++)
        cohorts_remove(&r->node[i].renewals, lease->slot);
}

void renewal_hurry_heals(struct renewal_node *node)
{
    struct renewal *r = node->renewal;
    hf_time now = clock_now();

    for (uint32_t s = 0; s < r->slots_used; s++) {
        struct lease *lease = r->slots[s].lease;

        if (lease && cohorts_is_alone(&node->renewals, s) && lease_node(lease, node->number)->heal)
            cohorts_put_alone(&node->renewals, s, now);
    }
}

const char *renewal_nonce(const struct renewal_node *node)
{
    return node->trust.nonce_seen ? node->trust.nonce : "";
}

struct link_lock renewal_lock(const struct renewal_node *node, const struct lease *lease)
{
    return (struct link_lock){
        .key = lease_key(lease),
        .key_len = lease->key_len,
        .token = &lease->token,
        .ttl_ms = lease->ttl_ms,
        .nonce = renewal_nonce(node),
        .digest = node->renewal->fleet ? node->renewal->fleet_digest : "",
        .fence = fence_node_part(lease->fence),
        .holder = {.host = node->renewal->agent->host,
                   .command = lease_comm(lease),
                   .note = lease_note(lease),
                   .pid = lease->pid,
                   .uid = lease->uid,
                   .since = lease->since_wall},
    };
}

void renewal_fetch(const struct renewal *r, const uint32_t *slots, size_t count)
{
    size_t size = offsetof(struct lease, fsm) + lease_fsm_size(r->n) + LINE; /* and its name */

    for (size_t i = 0; i < count; i++)
        __builtin_prefetch(&r->slots[slots[i]]);
    for (size_t i = 0; i < count; i++) {
        const char *lease = (const char *)r->slots[slots[i]].lease;

        for (size_t at = 0; lease && at < size; at += LINE)
            __builtin_prefetch(lease + at);
    }
}

/* --- heals ------------------------------------------------------------------------------------ */

static struct heal *heal_new(struct renewal_node *node, const struct lease *lease)
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
static bool may_heal(const struct renewal_node *node) IN_RENEWAL_THREAD
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

static bool send_heal(struct renewal_node *node, struct lease *lease, hf_time now) IN_RENEWAL_THREAD
{
    struct renewal *r = node->renewal;
    struct renewal_slot *slot = &r->slots[lease->slot];
    hf_time deadline = hf_time_add(now, lease_timing(lease).attempt);
    hf_nodetime low, high;
    struct heal *heal;
    struct link_lock lock = renewal_lock(node, lease);

    /* The deadline for the node needs its clock. */
    if (!may_heal(node) || !trust_node_time(&node->trust, deadline, &low, &high))
        return false;
    lock.deadline = low;
    heal = heal_new(node, lease);
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

/* --- renewals --------------------------------------------------------------------------------- */

/* A batch that is being filled. */
struct filling {
    struct renew_batch *batch; /* NULL: none is begun */
    bool sent;                 /* there is something to flush */
    hf_dur patience;           /* that of its least patient lease */
    struct link_key keys[RENEW_KEYS];
};

/* When a script for leases that are due at `due` may leave, by the limit on the number of scripts. */
static hf_time may_begin(const struct renewal_node *node, hf_time due)
{
    return pace_next(&node->pace, due, renewal_slack(node));
}

static bool begin(struct filling *filling, struct renewal_node *node, hf_time due, hf_time now)
{
    struct renewal *r = node->renewal;
    hf_time may = may_begin(node, due);
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

static void add(struct filling *filling, struct lease *lease)
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

static void send_batch(struct filling *filling, hf_time now) IN_RENEWAL_THREAD
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

/* --- the pump --------------------------------------------------------------------------------- */

/* With others a renewal may leave a little before its time, so that scripts carry many keys; retries
 * and heals wait for theirs. */
static bool is_due(const struct renewal_node *node, const struct cohort_single *single, hf_time now,
                   bool company)
{
    const struct lease *lease = lease_of(node, single);
    const struct lease_node *ln = lease_node(lease, node->number);

    if (hf_time_reached(now, single->item.at))
        return true;
    return company && !ln->heal && ln->retries == 0 &&
           hf_time_since(single->item.at, now).ns <= lease_timing(lease).renew_jitter.ns / 2;
}

/* The same for the first cohort, which stays whole. */
static bool cohort_is_due(const struct renewal_node *node, const struct filling *filling,
                          hf_time now)
{
    hf_time at = cohorts_next(&node->renewals);

    if (hf_time_reached(now, at))
        return true;
    return filling->batch && cohorts_first(&node->renewals) <= RENEW_KEYS - filling->batch->count &&
           hf_time_since(at, now).ns <= filling->patience.ns / 4;
}

/* Each returns whether it could send: too many may be unanswered. */
static bool pump_cohort(struct renewal_node *node, struct filling *filling,
                        hf_time now) IN_RENEWAL_THREAD
{
    uint32_t slots[COHORT_MOST];
    size_t count;

    if (filling->batch && cohorts_first(&node->renewals) > RENEW_KEYS - filling->batch->count)
        send_batch(filling, now);
    if (!filling->batch && !begin(filling, node, cohorts_next(&node->renewals), now))
        return false;
    count = cohorts_take(&node->renewals, slots, RENEW_KEYS - filling->batch->count);
    renewal_fetch(node->renewal, slots, count);
    for (size_t i = 0; i < count; i++) {
        hf_assert(node->renewal->slots[slots[i]].lease, "slot %u, node %d", (unsigned)slots[i],
                  node->number);
        add(filling, node->renewal->slots[slots[i]].lease);
    }
    return true;
}

/* A node that forgot everything is asked for its new sentinel: with no lease of ours left there, no other
 * command would show it. */
static void ask_for_nonce(struct renewal_node *node, hf_time now) IN_RENEWAL_THREAD
{
    if (renewal_nonce(node)[0] || hf_time_before(now, hf_time_add(node->asked, ASK_EVERY)))
        return;
    node->asked = now;
    link_probe_soon(node->link);
}

static bool pump_single(struct renewal_node *node, struct filling *filling,
                        const struct cohort_single *single, hf_time now) IN_RENEWAL_THREAD
{
    struct lease *lease = lease_of(node, single);

    if (lease_node(lease, node->number)->heal) {
        cohorts_remove(&node->renewals, lease->slot);
        if (send_heal(node, lease, now))
            filling->sent = true;
        else {
            ask_for_nonce(node, now);
            renewal_retry(node, lease, now);
        }
        return true;
    }
    if (!filling->batch && !begin(filling, node, single->item.at, now))
        return false;
    cohorts_remove(&node->renewals, lease->slot);
    add(filling, lease);
    return true;
}

static bool is_heal(const struct renewal_node *node, const struct cohort_single *single)
{
    return lease_node(lease_of(node, single), node->number)->heal;
}

static bool may_send(const struct renewal_node *node, const struct cohort_single *single)
{
    return !is_heal(node, single) || node->heals < HEALS_MAX;
}

static void pump_node(struct renewal_node *node, hf_time now) IN_RENEWAL_THREAD
{
    struct filling filling = {.batch = NULL};
    bool going = link_is_up(node->link);

    while (going) {
        const struct cohort_single *first = cohorts_first_alone(&node->renewals);
        bool single = first && may_send(node, first) && is_due(node, first, now, filling.batch);
        bool cohort = cohort_is_due(node, &filling, now);

        /* A heal takes no place among the scripts. It does not wait behind renewals without a place, or
         * the thread would look again and again for what it could send. */
        if (single && (is_heal(node, first) || !cohort ||
                       !hf_time_before(cohorts_next(&node->renewals), first->item.at)))
            going = pump_single(node, &filling, first, now);
        else
            going = cohort && pump_cohort(node, &filling, now);
        if (filling.batch && filling.batch->count == RENEW_KEYS)
            send_batch(&filling, now);
    }
    if (filling.batch)
        send_batch(&filling, now);
    if (filling.sent)
        link_flush(node->link);
}

void renewal_pump(struct renewal *r)
{
    if (r->stopping)
        return;
    for (int i = 0; i < r->n; i++)
        pump_node(&r->node[i], clock_now());
}

hf_time renewal_next_due(const struct renewal *r)
{
    hf_time next = HF_TIME_NEVER;

    for (int i = 0; i < r->n && !r->stopping; i++) {
        const struct renewal_node *node = &r->node[i];
        const struct cohort_single *first = cohorts_first_alone(&node->renewals);

        if (!link_is_up(node->link))
            continue;
        next = hf_time_min(next, may_begin(node, cohorts_next(&node->renewals)));
        if (first && may_send(node, first))
            next = hf_time_min(next, is_heal(node, first) ? first->item.at
                                                          : may_begin(node, first->item.at));
    }
    return next;
}
