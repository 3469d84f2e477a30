/* What becomes of a lease's keys when it is over: they are released, or left to lapse. Then the lease goes back to the broker. */
#include "agent/renewal/renewal_internal.h"

#include <inttypes.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/base/thread_role.h"
#include "shm/assert.h"
#include "shm/status.h"

static uint32_t all_nodes(const struct renewal *r)
{
    return (UINT32_C(1) << r->n) - 1;
}

/* Nothing is left to do: the lease goes back to the broker. */
static void hand_back(struct renewal *r, struct lease *lease) IN_RENEWAL_THREAD
{
    hf_assert(lease_is_over(lease), "slot %u, state %d", (unsigned)lease->slot,
              (int)lease->fsm.state);
    hf_assert(r->slots[lease->slot].lease == lease, "slot %u, generation %u", (unsigned)lease->slot,
              (unsigned)lease->generation);
    renewal_set_timer(r, lease, HF_TIME_NEVER);
    renewal_unschedule(r, lease);
    renewal_unwatch(r, lease);
    r->slots[lease->slot] = (struct renewal_slot){0};
    lease->releasing = false;
    renewal_tell_broker(r, lease, MSG_ENDED);
}

static void on_released(const struct release_outcome *outcome, void *arg, void *owner)
{
    struct lease *lease = arg;
    struct renewal *r = owner;

    is_renewal_thread();
    if (r->closing)
        return;
    lease_found(lease, outcome->gone);
    hand_back(r, lease);
}

/* The allowance in d is 1 % of T and 2 ms, and the node's clock may be slow by as much. (!) Not before V, whatever became
 * of the votes: a job lives until then, and the mark of a forced release may stand in the place of a key. */
hf_time renewal_lapse_of(const struct lease *lease, hf_time now)
{
    hf_time last = hf_time_max(now, lease->fsm.valid);

    for (int i = 0; i < lease->fsm.n; i++)
        last = hf_time_max(last, lease_fsm_d(&lease->fsm, i));
    return hf_time_add(hf_time_add(last, hf_dur_scale(lease_timing(lease).ttl, 2, 100)), hf_ms(5));
}

/* (!) A node that may have forgotten within a quarantine proves nothing by what it does not have: it gives no votes. */
bool renewal_release_counts(int node, const struct link_reply *reply, void *owner)
{
    struct renewal *r = owner;
    const struct renewal_node *n = &r->node[node];
    hf_dur quarantine = timing_quarantine(hf_ms(r->agent->config->ttl_longest_ms));

    return !n->trust.refused && *reply->nonce && strcmp(reply->nonce, n->trust.nonce) == 0 &&
           hf_time_reached(reply->sent, age_due(&n->age, quarantine, false));
}

static struct release_order order_of(struct renewal *r, const struct lease *lease, uint32_t nodes,
                                     hf_time now)
{
    const struct renewal_slot *slot = &r->slots[lease->slot];
    struct release_order order = release_order_of(lease, nodes);
    bool doubted = hf_time_before(now, slot->doubt_until);

    release_order_doubt(&order, doubted ? (uint32_t)(slot->doubt | slot->broken) : 0,
                        slot->doubt_until);
    return order;
}

void renewal_release_keys(struct renewal *r, struct lease *lease, hf_time now)
{
    struct release_order order = order_of(r, lease, all_nodes(r), now);

    hf_assert(lease_is_over(lease) && !lease->releasing, "slot %u, state %d, releasing %d",
              (unsigned)lease->slot, (int)lease->fsm.state, lease->releasing);
    hf_assert(atomic_load(&r->agent->table.slots[lease->slot].check) == 0, "slot %u, generation %u",
              (unsigned)lease->slot, (unsigned)lease->generation);
    if (lease->fsm.state == HF_SLOT_ENDED)
        release_order_judge(&order, lease->fsm.valid);
    release_order_tell(&order, on_released, lease);
    renewal_set_timer(r, lease, HF_TIME_NEVER);
    lease->releasing = true;
    if (releaser_start(r->releaser, &order) != HF_OK) {
        lease->releasing = false;
        renewal_set_timer(r, lease, renewal_lapse_of(lease, now));
    }
}

/* (!) A command without an answer may have left a key, or may still do so. */
void renewal_lapsed(struct renewal *r, struct lease *lease, hf_time now)
{
    const struct renewal_slot *slot = &r->slots[lease->slot];
    struct release_order order = order_of(r, lease, (uint32_t)(slot->doubt | slot->broken), now);

    hf_assert(!lease->releasing, "slot %u, state %d", (unsigned)lease->slot, (int)lease->fsm.state);
    if (order.nodes)
        (void)releaser_start(r->releaser, &order);
    hand_back(r, lease);
}

void renewal_undo(struct renewal_node *node, const void *key, size_t key_len,
                  const struct token *token, hf_dur attempt, hf_dur ttl)
{
    struct release_order order =
        release_order(key, key_len, token, attempt, ttl, UINT32_C(1) << node->number);

    (void)releaser_start(node->renewal->releaser, &order);
}
