/* Early loss: nodes send a notice when another program changes a key that we hold, and it is renewed
 * there at once. The answer is judged like any other. Notices only speed this up: without them the
 * next renewal, after T/3, finds the same.
 *
 * Off while more leases are held than `track_held`: a node's work per tracked renewal grows with
 * the keys of the script, and every host that waits is told of each. */
#include "agent/renewal/renewal_internal.h"

#include <string.h>

#include "agent/base/clock.h"
#include "shm/compiler.h"
#include "shm/index.h"

#define HURRY_EVERY hf_ms(100) /* renewals of one lease on one node, whatever the notices */
/* The first renewal, from which on the key is tracked. Each next node is later, so that their notices do
 * not look like a release to waiters. Shorter holds cost nothing. */
#define FIRST_AFTER hf_ms(100)
#define PAUSE_MOST  hf_ms(500)

static uint32_t key_hash(const struct renewal *r, const void *key, size_t key_len)
{
    return hf_name_hash(r->hash_key, key, key_len);
}

void renewal_watch(struct renewal *r, struct lease *lease)
{
    chains_add(&r->by_key, key_hash(r, lease_key(lease), lease->key_len), lease->slot);
    r->held++;
}

void renewal_unwatch(struct renewal *r, const struct lease *lease)
{
    chains_remove(&r->by_key, key_hash(r, lease_key(lease), lease->key_len), lease->slot);
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
    struct lease_node *ln = lease_node(lease, node->number);
    hf_time d = lease_fsm_d(&lease->fsm, node->number);
    hf_time last = hf_time_sub(d, lease_timing(lease).span);

    /* A void vote has its own pace. */
    if (lease_is_over(lease) || d.ns == HF_TIME_PAST.ns)
        return;
    ln->told = true;
    if (!ln->in_flight)
        renewal_schedule(node, lease, hf_time_max(now, hf_time_add(last, HURRY_EVERY)));
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
    for (uint32_t at = chains_first(&r->by_key, key_hash(r, key, key_len)); at;
         at = chains_next(&r->by_key, at)) {
        struct lease *lease = r->slots[at - 1].lease;

        if (lease->key_len == key_len && memcmp(lease_key(lease), key, key_len) == 0)
            renewal_hurry(node, lease, now);
    }
}
