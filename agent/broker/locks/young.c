/* A lease's first moments, while the broker still has it. Most leases end within them (short holds): acquire
 * and release go through one thread and one connection to each node, and the renewal thread never hears of
 * the lease. It could do nothing so early: the first renewal comes later. Any other order about the lease
 * makes the renewal thread adopt it first (agent/broker/locks/orders.c:order_renewal). */
#include "agent/broker/locks/young.h"

#include <stdlib.h>

#include "agent/base/clock.h"
#include "agent/base/thread_role.h"
#include "agent/broker/locks/grants.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/resources.h"
#include "agent/record/events.h"
#include "agent/record/lease_record.h"
#include "shm/status.h"

struct young {
    TAILQ_ENTRY(young) entry;
    struct resource *resource;
    hf_time until;
    uint32_t voted; /* bit per node: its vote came after the grant, sent after a[node] */
    hf_time a[HF_NODES_MAX];
};

static void leave(struct young *y)
{
    struct locks *locks = resource_locks(y->resource);

    y->resource->work->young = NULL;
    TAILQ_REMOVE(&locks->young, y, entry);
    TAILQ_INSERT_HEAD(&locks->young_free, y, entry);
}

static void post(struct locks *locks, struct lease *lease)
{
    struct message *m = message_new(MSG_GRANTED);

    m->lease = lease;
    mailbox_post(&locks->agent->to_renewal, m);
}

void young_hand_in(struct resource *r)
{
    struct young *y = r->work->young;
    struct lease *lease = resource_lease(r);

    if (!y)
        return;
    leave(y);
    post(resource_locks(r), lease);
    for (int i = 0; i < resource_locks(r)->n; i++) {
        struct message *m;

        if (!(y->voted & 1u << i))
            continue;
        m = message_new(MSG_VOTE);
        m->slot = r->slot;
        m->generation = lease->generation;
        m->node_number = i;
        m->at = y->a[i];
        mailbox_post(&resource_locks(r)->agent->to_renewal, m);
    }
    resource_calm(r);
}

void young_hand_in_all(struct locks *locks)
{
    struct young *y;

    while ((y = TAILQ_FIRST(&locks->young)))
        young_hand_in(y->resource);
}

/* (!) As every timer it runs before the turn's descriptors: a late release finds the lease adopted, and the
 * renewal thread judges it. */
static void on_timer(struct loop_timer *timer, hf_time now)
{
    struct locks *locks = HF_CONTAINER(timer, struct locks, young_timer);
    struct young *y;

    while ((y = TAILQ_FIRST(&locks->young)) && hf_time_reached(now, y->until))
        young_hand_in(y->resource);
    if (y)
        loop_timer_set(locks->loop, timer, y->until);
}

/* Whether nothing but its release or its renewal can come next. */
static bool is_plain(const struct lease *lease)
{
    return !lease_heartbeat_ms(lease) && lease->fsm.max_hold.ns == HF_TIME_NEVER.ns;
}

void young_begin(struct resource *r, hf_time now)
{
    struct locks *locks = resource_locks(r);
    struct lease *lease = resource_lease(r);
    struct young *y = TAILQ_FIRST(&locks->young_free);

    if (!is_plain(lease)) {
        post(locks, lease);
        return;
    }
    if (y) {
        TAILQ_REMOVE(&locks->young_free, y, entry);
    } else if (!(y = malloc(sizeof(*y)))) {
        post(locks, lease);
        return;
    }
    y->resource = r;
    y->until = hf_time_add(now, timing_young());
    y->voted = 0;
    r->work->young = y;
    TAILQ_INSERT_TAIL(&locks->young, y, entry);
    if (!heap_has(&locks->young_timer.item))
        loop_timer_set(locks->loop, &locks->young_timer, y->until);
}

bool young_vote(struct resource *r, int node, hf_time a)
{
    if (!r->work->young)
        return false;
    r->work->young->voted |= 1u << node;
    r->work->young->a[node] = a;
    return true;
}

static void released(int answered, void *arg, void *owner)
{
    struct resource *r = arg;
    struct locks *locks = resource_locks(r);

    is_broker_thread();
    (void)answered;
    (void)owner;
    if (!locks->closing)
        grant_ended(locks, resource_lease(r));
}

bool young_release(struct resource *r, enum hf_loss_reason reason)
{
    struct locks *locks = resource_locks(r);
    struct lease *lease = resource_lease(r);
    hf_time now = clock_now();
    struct release_order order = releaser_order(lease, (1u << locks->n) - 1);

    /* Until then V is far ahead: the steps below cannot find the lease lost. */
    if (!r->work->young || hf_time_reached(now, r->work->young->until))
        return false;
    leave(r->work->young);
    (void)lease_fsm_release(&lease->fsm, reason, now);
    lease_record_end(locks->agent, lease);
    event_released(locks->agent, lease);
    hf_counter_add(&locks->agent->table, HF_COUNTER_RELEASES, 1);
    lease->unanswered = 0; /* this release follows the acquire on the same connection */
    order.done = released;
    order.arg = r;
    if (releaser_start(locks->releaser, &order) == HF_OK)
        return true;
    post(locks, lease); /* out of memory: the renewal thread tries again when the keys expire */
    return false;
}

void young_create(struct locks *locks)
{
    TAILQ_INIT(&locks->young);
    TAILQ_INIT(&locks->young_free);
    locks->young_timer.fn = on_timer;
}

void young_destroy(struct locks *locks)
{
    struct young *y;

    TAILQ_CONCAT(&locks->young_free, &locks->young, entry);
    while ((y = TAILQ_FIRST(&locks->young_free))) {
        TAILQ_REMOVE(&locks->young_free, y, entry);
        free(y);
    }
}
