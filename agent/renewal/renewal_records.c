/* The nodes' fence records of our leases, which show other hosts who holds them. They are written
 * again from time to time (agent/core/refresh.h), where they are missing, and after a hand-off.
 * What they show of other leases is judged. */
#include "agent/renewal/renewal_internal.h"

#include <stdlib.h>

#include "agent/base/clock.h"
#include "agent/base/thread_role.h"
#include "agent/core/fence.h"
#include "shm/assert.h"
#include "shm/status.h"

/* One record in flight. */
struct description {
    struct renewal_node *node;
    uint32_t slot, generation;
};

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

bool renewal_outbid(struct renewal_node *node, struct lease *lease, const struct link_reply *reply)
{
    struct renewal *r = node->renewal;
    struct lease_before before = lease_before(lease, -1, HF_LOSS_NONE);
    uint32_t seen;

    if (!*reply->id || reply->fence <= fence_node_part(lease->fence))
        return false;
    seen = rivals_seen(&r->rivals, lease->slot, lease->generation - fence_handoffs(lease->fence),
                       node->number, reply->id);
    renewal_act(r, lease, lease_fsm_outbid(&lease->fsm, seen, clock_now()), &before);
    return lease_is_over(lease);
}

static void records_on_described(struct link *link, const struct link_reply *reply, void *arg)
{
    is_renewal_thread();

    struct description *d = arg;
    struct renewal *r = d->node->renewal;
    struct lease *lease = r->closing ? NULL : renewal_find_token(r, d->slot, d->generation);

    (void)link;
    hf_assert(d->generation >= 1, "slot %u, node %d", (unsigned)d->slot, d->node->number);
    if (lease && !lease_is_over(lease) && reply->outcome == LINK_ANSWERED &&
        reply->verdict == VERDICT_LOW)
        (void)renewal_outbid(d->node, lease, reply);
    if (reply->final)
        free(d);
}

/* Same fence, same tag: in the record only the holder changes and its expiry is set anew. Nothing is
 * written where the key is gone. */
void renewal_describe(struct renewal_node *node, struct lease *lease, hf_time now)
{
    struct link_lock lock = renewal_lock(node, lease);
    struct description *d = malloc(sizeof(*d));

    if (!d)
        return;
    *d = (struct description){node, lease->slot, lease->generation};
    if (link_raise(node->link, &lock, hf_time_add(now, lease_timing(lease).attempt),
                   records_on_described, d) != HF_OK) {
        free(d);
        return;
    }
    lease->undescribed = (uint16_t)(lease->undescribed & ~(1u << node->number));
    link_flush(node->link);
}

void renewal_refresh(struct renewal *r, hf_time now)
{
    uint32_t slot;

    while (refresh_take(&r->refresh, now, &slot))
        if (slot < r->slots_used && r->slots[slot].lease)
            r->slots[slot].lease->undescribed = (uint16_t)renewal_all_nodes(r);
}
