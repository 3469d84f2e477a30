/* When each lease is due on each node: renewed, or healed. Early loss, too: nodes send a notice when another program
 * changes a key that we hold, and it is renewed there at once. The answer is judged like any other. Notices only speed
 * this up: without them the next renewal, after T/3, finds the same. They are off while more leases are held than
 * `track_held`: a node's work per tracked renewal grows with the keys of the script, and every host that waits is told
 * of each. */
#include "agent/renewal/renewal_internal.h"

#include <string.h>

#include "agent/base/clock.h"
#include "agent/core/backoff.h"
#include "agent/core/fence.h"
#include "shm/compiler.h"
#include "shm/index.h"

#define LINE 64 /* bytes of a cache line */
/* A million leases: 20 s, which T/6 bounds. */
#define ALL_APART hf_ns(20 * HF_NS_PER_US)
/* Renewals of one lease on one node, whatever the notices; of many leases, rarer. */
#define HURRY_EVERY hf_ms(100)
/* The first renewal, from which on the key is tracked. Each next node is later, so that their notices do
 * not look like a release to waiters. Shorter holds cost nothing. */
#define FIRST_AFTER hf_ms(100)
#define PAUSE_MOST  hf_ms(500)

struct lease *renewal_find(struct renewal *r, uint32_t slot, uint32_t generation)
{
    struct lease *lease = slot < r->agent->table.capacity ? r->slots[slot].lease : NULL;

    return lease && lease->generation == generation ? lease : NULL;
}

struct lease *renewal_find_token(struct renewal *r, uint32_t slot, uint32_t generation)
{
    struct lease *lease = slot < r->agent->table.capacity ? r->slots[slot].lease : NULL;

    /* Generation and hand-offs rise together; a later generation is another token's. */
    return lease && lease->generation - generation <= fence_handoffs(lease->fence) ? lease : NULL;
}

hf_time renewal_counts_from(const struct renewal_node *node, const struct lease *lease)
{
    return age_due(&node->age, node->renewal->age_least, !lease_node(lease, node->number)->written);
}

const char *renewal_nonce(const struct renewal_node *node)
{
    return node->trust.nonce_seen ? node->trust.nonce : "";
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

/* --- the queues ------------------------------------------------------------------------------- */

static bool due_wants_heal(const struct lease *lease, int node)
{
    return lease->fsm.heal_wanted >> node & 1;
}

/* Most leases have the TTL of the lease before. */
static const struct timing *due_timing_for(struct renewal *r, hf_dur ttl)
{
    if (r->timing.ttl.ns != ttl.ns)
        r->timing = timing_of(ttl);
    return &r->timing;
}

/* Whether there is anything to be planned: not while a command is under way, nor on a node that does not count by the
 * fleet's record. */
static bool due_may_plan(const struct renewal_node *node, const struct lease *lease)
{
    return lease_fsm_renews(&lease->fsm) && !lease_node(lease, node->number)->in_flight &&
           node->renewal->config->counting >> node->number & 1;
}

void renewal_schedule(struct renewal_node *node, struct lease *lease, hf_time at)
{
    struct renewal *r = node->renewal;
    struct lease_node *ln = lease_node(lease, node->number);
    hf_time d = lease_fsm_d(&lease->fsm, node->number);

    if (!due_may_plan(node, lease))
        return;
    /* (!) Of a lease that had a longer TTL before ttl_max of the fleet went down: its key is never made to end before d,
     * on which its holder may count. */
    if (d.ns != HF_TIME_PAST.ns)
        at = hf_time_max(at, hf_time_sub(d, due_timing_for(r, hf_ms(lease->ttl_ms))->span));
    ln->heal = due_wants_heal(lease, node->number);
    cohorts_put_alone(&node->renewals, lease->slot, at);
}

/* A lease is renewed on one node after the other: notices from all nodes at once look like a release to
 * the waiters of other hosts. */
static hf_dur due_apart(int nodes)
{
    return hf_ns(nodes * RENEWALS_APART.ns);
}

/* The time that follows from when it is due on another node, if that is soon enough. */
static hf_time due_time_by_others(const struct renewal_node *node, const struct lease *lease,
                                  const struct timing *timing, hf_time a)
{
    const struct renewal *r = node->renewal;

    for (int i = 0; i < r->n; i++) {
        hf_time at = cohorts_at(&r->node[i].renewals, lease->slot);

        if (at.ns == HF_TIME_NEVER.ns)
            continue;
        at = hf_time_add(at, due_apart(node->number - i));
        if (phases_fits(timing, a, at))
            return at;
    }
    return HF_TIME_NEVER;
}

/* For a lease with a time of its own. */
static hf_time due_new_time(const struct renewal_node *node, const struct timing *timing, hf_time a,
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
    return hf_time_add(at, due_apart(node->number));
}

void renewal_plan(struct renewal_node *node, struct lease *lease, hf_time a, hf_dur late)
{
    const struct timing *timing = due_timing_for(node->renewal, hf_ms(lease->ttl_ms));
    hf_time at;

    if (!due_may_plan(node, lease))
        return;
    at = due_time_by_others(node, lease, timing, a);
    if (at.ns == HF_TIME_NEVER.ns)
        at = due_new_time(node, timing, a, late);
    if (!due_wants_heal(lease, node->number)) {
        cohorts_remove(&node->renewals, lease->slot);
        if (cohorts_add(&node->renewals, lease->slot, at))
            return;
    }
    renewal_schedule(node, lease, at);
}

/* Where all leases are due for one event, they are sent at the pace of a full agent's. */
static hf_dur due_spread(const struct renewal *r, const struct timing *timing)
{
    return hf_dur_min(hf_ns(r->held * ALL_APART.ns), hf_dur_scale(timing->ttl, 1, 6));
}

void renewal_plan_young(struct renewal_node *node, struct lease *lease, hf_time a)
{
    struct renewal *r = node->renewal;
    const struct timing *timing = due_timing_for(r, hf_ms(lease->ttl_ms));
    hf_time at = renewal_counts_from(node, lease);

    if (hf_time_before(hf_time_add(a, timing->renew_after), at)) {
        renewal_plan(node, lease, a, hf_ns(0)); /* the vote must be kept until then */
        return;
    }
    at = hf_time_add(at, draw_within(due_spread(r, timing), renewal_random(r)));
    at = hf_time_floor(hf_time_add(at, PHASES_GRID), PHASES_GRID);
    if (!due_may_plan(node, lease))
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

/* --- notices ---------------------------------------------------------------------------------- */

static uint32_t due_key_hash(const struct renewal *r, const void *key, size_t key_len)
{
    return hf_name_hash(r->hash_key, key, key_len);
}

void renewal_watch(struct renewal *r, struct lease *lease)
{
    chains_add(&r->by_key, due_key_hash(r, lease_key(lease), lease->key_len), lease->slot);
    r->held++;
}

void renewal_unwatch(struct renewal *r, const struct lease *lease)
{
    chains_remove(&r->by_key, due_key_hash(r, lease_key(lease), lease->key_len), lease->slot);
    r->held--;
}

bool renewal_tracks(const struct renewal_node *node)
{
    const struct renewal *r = node->renewal;

    return r->held <= r->config->track_held && link_tracking(node->link) == HF_TRACKING_ON;
}

void renewal_plan_first(struct renewal_node *node, struct lease *lease, hf_time a)
{
    hf_dur delay = hf_ns(FIRST_AFTER.ns + node->number * RENEWALS_APART.ns);

    /* T/3 is longer than that for any T. */
    if (renewal_tracks(node))
        renewal_schedule(node, lease, hf_time_add(a, delay));
    else
        renewal_plan(node, lease, a, hf_ns(0));
}

hf_dur renewal_heal_pause(const struct renewal_node *node, const struct lease *lease)
{
    const struct lease_node *ln = lease_node(lease, node->number);
    bool is_void = lease_fsm_is_void(&lease->fsm, node->number);

    return ln->hurried && is_void
               ? hf_dur_min(hf_dur_scale(lease_timing(lease).ttl, 1, 20), PAUSE_MOST)
               : hf_ns(0);
}

void renewal_hurry(struct renewal_node *node, struct lease *lease, hf_time now)
{
    const struct timing *timing = due_timing_for(node->renewal, hf_ms(lease->ttl_ms));
    struct lease_node *ln = lease_node(lease, node->number);
    hf_time d = lease_fsm_d(&lease->fsm, node->number);
    hf_time last = hf_time_sub(d, timing->span);
    hf_dur every = hf_dur_max(HURRY_EVERY, due_spread(node->renewal, timing));

    /* A void vote has its own pace. */
    if (lease_is_over(lease) || d.ns == HF_TIME_PAST.ns)
        return;
    ln->told = true;
    if (!ln->in_flight)
        renewal_schedule(node, lease, hf_time_max(now, hf_time_add(last, every)));
}

void renewal_noticed(struct link *link, const void *key, size_t key_len, void *arg)
{
    struct renewal *r = arg;
    struct renewal_node *node = &r->node[link_node(link)];
    hf_time now = clock_now();

    if (r->closing)
        return;
    renewal_count(r, HF_COUNTER_HELD_NOTICES, 1);
    if (!key) {
        for (uint32_t s = 0; s < r->slots_used; s++)
            if (r->slots[s].lease)
                renewal_hurry(node, r->slots[s].lease, now);
        return;
    }
    for (uint32_t at = chains_first(&r->by_key, due_key_hash(r, key, key_len)); at;
         at = chains_next(&r->by_key, at)) {
        struct lease *lease = r->slots[at - 1].lease;

        if (lease->key_len == key_len && memcmp(lease_key(lease), key, key_len) == 0)
            renewal_hurry(node, lease, now);
    }
}
