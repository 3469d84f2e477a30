/* A lease's first moments, while the broker still has it. Most leases end within them (short holds): acquire
 * and release go through one thread and one connection to each node, and the renewal thread never hears of
 * the lease. It could do nothing so early: the first renewal comes later. Before any
 * other order about it the renewal thread adopts the lease (agent/broker/locks/orders.c:order_renewal). */
#include "agent/broker/locks/short_holds.h"

#include <stdlib.h>

#include "agent/base/thread_role.h"
#include "agent/broker/locks/grants.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/resources.h"
#include "agent/record/events.h"
#include "agent/record/lease_record.h"
#include "shm/assert.h"
#include "shm/status.h"

struct short_hold {
    TAILQ_ENTRY(short_hold) entry;
    struct resource *resource;
    hf_time until;
};

void short_hold_leave(struct resource *r)
{
    struct locks *locks = resource_locks(r);
    struct short_hold *hold = r->work->short_hold;

    hf_assert(hold->resource->work->short_hold == hold, "slot %u", (unsigned)hold->resource->slot);
    hf_assert(resource_lease(hold->resource), "slot %u, generation %u",
              (unsigned)hold->resource->slot, (unsigned)hold->resource->generation);
    hold->resource->work->short_hold = NULL;
    TAILQ_REMOVE(&locks->short_holds, hold, entry);
    TAILQ_INSERT_HEAD(&locks->short_holds_free, hold, entry);
}

void short_hold_post(struct locks *locks, struct lease *lease)
{
    struct message *m = message_new(MSG_GRANTED);

    m->lease = lease;
    mailbox_post(&locks->agent->to_renewal, m);
}

void short_hold_adopt(struct resource *r)
{
    struct short_hold *hold = r->work->short_hold;

    if (!hold)
        return;
    short_hold_leave(r);
    short_hold_post(resource_locks(r), resource_lease(r));
    resource_calm(r);
}

void short_holds_adopt(struct locks *locks)
{
    struct short_hold *hold;

    while ((hold = TAILQ_FIRST(&locks->short_holds)))
        short_hold_adopt(hold->resource);
}

/* (!) As every timer it runs before the turn's descriptors: a late release finds the lease adopted, and the
 * renewal thread judges it. */
static void short_hold_on_timer(struct loop_timer *timer, hf_time now)
{
    struct locks *locks = HF_CONTAINER(timer, struct locks, short_holds_timer);
    struct short_hold *hold;

    while ((hold = TAILQ_FIRST(&locks->short_holds)) && hf_time_reached(now, hold->until))
        short_hold_adopt(hold->resource);
    if (hold)
        loop_timer_set(locks->loop, timer, hold->until);
}

/* Whether nothing but its release or its renewal can come next. */
static bool short_hold_is_plain(const struct lease *lease)
{
    return !lease_heartbeat_ms(lease) && lease->fsm.max_hold.ns == HF_TIME_NEVER.ns;
}

void short_hold_begin(struct resource *r, hf_time now)
{
    struct locks *locks = resource_locks(r);
    struct lease *lease = resource_lease(r);
    struct short_hold *hold = TAILQ_FIRST(&locks->short_holds_free);

    hf_assert(lease && !r->work->short_hold, "slot %u, generation %u", (unsigned)r->slot,
              (unsigned)r->generation);
    if (!short_hold_is_plain(lease)) {
        short_hold_post(locks, lease);
        return;
    }
    if (hold) {
        TAILQ_REMOVE(&locks->short_holds_free, hold, entry);
    } else if (!(hold = malloc(sizeof(*hold)))) {
        short_hold_post(locks, lease);
        return;
    }
    hold->resource = r;
    hold->until = hf_time_add(now, timing_short_hold());
    r->work->short_hold = hold;
    TAILQ_INSERT_TAIL(&locks->short_holds, hold, entry);
    if (!heap_has(&locks->short_holds_timer.item))
        loop_timer_set(locks->loop, &locks->short_holds_timer, hold->until);
}

bool short_hold_vote(struct resource *r, int node, hf_time a)
{
    if (!r->work->short_hold)
        return false;
    lease_fsm_vote(&resource_lease(r)->fsm, node, a);
    return true;
}

bool short_hold_lasts(const struct resource *r, hf_time now)
{
    return r->work->short_hold && hf_time_before(now, r->work->short_hold->until);
}

void short_holds_create(struct locks *locks)
{
    TAILQ_INIT(&locks->short_holds);
    TAILQ_INIT(&locks->short_holds_free);
    locks->short_holds_timer.fn = short_hold_on_timer;
}

void short_holds_destroy(struct locks *locks)
{
    struct short_hold *hold;

    TAILQ_CONCAT(&locks->short_holds_free, &locks->short_holds, entry);
    while ((hold = TAILQ_FIRST(&locks->short_holds_free))) {
        TAILQ_REMOVE(&locks->short_holds_free, hold, entry);
        free(hold);
    }
}
