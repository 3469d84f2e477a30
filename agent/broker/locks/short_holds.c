/* A lease's first moments, while the broker still has it. Most leases end within them (short holds): acquire
 * and release go through one thread and one connection to each node, and the renewal thread never hears of
 * the lease. It could do nothing so early: the first renewal comes later. Before any
 * other order about it the renewal thread adopts the lease (tell_renewal_*(), below). */
#include "agent/broker/locks/locks_internal.h"

#include <stdlib.h>

#include "agent/base/clock.h"
#include "agent/base/thread.h"
#include "agent/base/token.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/names.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/core/handoff.h"
#include "agent/state/events.h"
#include "agent/state/lease.h"
#include "shm/assert.h"
#include "shm/status.h"

struct short_hold {
    TAILQ_ENTRY(short_hold) entry;
    struct name *name;
    hf_time until;
};

void short_hold_leave(struct name *name)
{
    struct locks *locks = name_locks(name);
    struct short_hold *hold = name->state->short_hold;

    hf_assert(hold->name->state->short_hold == hold, "slot %u", (unsigned)hold->name->slot);
    hf_assert(name_lease(hold->name), "slot %u, generation %u", (unsigned)hold->name->slot,
              (unsigned)hold->name->generation);
    hold->name->state->short_hold = NULL;
    TAILQ_REMOVE(&locks->short_holds, hold, entry);
    TAILQ_INSERT_HEAD(&locks->short_holds_free, hold, entry);
}

void short_hold_post(struct locks *locks, struct lease *lease)
{
    struct message *m = message_new(MSG_GRANTED);

    m->lease = lease;
    mailbox_post(&locks->agent->to_renewal, m);
}

/* The renewal thread adopts it. Nothing if it did already. */
static void short_hold_adopt(struct name *name)
{
    struct short_hold *hold = name->state->short_hold;

    if (!hold)
        return;
    short_hold_leave(name);
    short_hold_post(name_locks(name), name_lease(name));
    name_free_idle_state(name);
}

void short_holds_adopt(struct locks *locks)
{
    struct short_hold *hold;

    while ((hold = TAILQ_FIRST(&locks->short_holds)))
        short_hold_adopt(hold->name);
}

/* (!) As every timer it runs before the turn's descriptors: a late release finds the lease adopted, and the
 * renewal thread judges it. */
static void short_hold_on_timer(struct loop_timer *timer, hf_time now)
{
    struct locks *locks = HF_CONTAINER(timer, struct locks, short_holds_timer);
    struct short_hold *hold;

    while ((hold = TAILQ_FIRST(&locks->short_holds)) && hf_time_reached(now, hold->until))
        short_hold_adopt(hold->name);
    if (hold)
        loop_timer_set(locks->loop, timer, hold->until);
}

/* Whether nothing but its release or its renewal can come next. */
static bool short_hold_is_plain(const struct lease *lease)
{
    return !lease_heartbeat_ms(lease) && lease->fsm.max_hold.ns == HF_TIME_NEVER.ns;
}

void short_hold_begin(struct name *name, hf_time now)
{
    struct locks *locks = name_locks(name);
    struct lease *lease = name_lease(name);
    struct short_hold *hold = TAILQ_FIRST(&locks->short_holds_free);

    hf_assert(lease && !name->state->short_hold, "slot %u, generation %u", (unsigned)name->slot,
              (unsigned)name->generation);
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
    hold->name = name;
    hold->until = hf_time_add(now, timing_short_hold());
    name->state->short_hold = hold;
    TAILQ_INSERT_TAIL(&locks->short_holds, hold, entry);
    if (!heap_has(&locks->short_holds_timer.item))
        loop_timer_set(locks->loop, &locks->short_holds_timer, hold->until);
}

bool short_hold_vote(struct name *name, int node, hf_time a)
{
    if (!name->state->short_hold)
        return false;
    lease_fsm_vote(&name_lease(name)->fsm, node, a);
    return true;
}

bool short_hold_lasts(const struct name *name, hf_time now)
{
    return name->state->short_hold && hf_time_before(now, name->state->short_hold->until);
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

/* --- gaps between holds ----------------------------------------------------------------------- */

static int64_t gap_stretch(struct locks *locks, hf_time now) IN_BROKER_THREAD
{
    hf_nodetime median = {clock_wall().ms * 1000}; /* until a node has told its TIME */

    (void)nodes_time(locks->nodes, now, &median);
    return handoff_gap_stretch(median);
}

static hf_dur gap_after(const struct name *name, int64_t stretch, hf_time now)
{
    struct locks *locks = name_locks(name);

    return handoff_gap(locks->config->timing.ttl, name->state->foreign_seen, name->state->gap,
                       stretch, now, random_u32());
}

bool gap_is_owed(const struct name *name, hf_time now)
{
    return name->state->foreign_seen.ns != HF_TIME_PAST.ns &&
           gap_after(name, gap_stretch(name_locks(name), now), now).ns > 0;
}

void gap_leave(struct name *name, hf_time now)
{
    int64_t stretch = gap_stretch(name_locks(name), now);

    name->state->yield_until =
        hf_time_max(name->state->yield_until, hf_time_add(now, gap_after(name, stretch, now)));
    name->state->gap = stretch;
}

/* --- tell the renewal thread ------------------------------------------------------------------ */

void tell_renewal(struct locks *locks, struct message *m)
{
    if (m->kind != MSG_GRANTED && locks->by_slot[m->slot])
        short_hold_adopt(locks->by_slot[m->slot]);
    mailbox_post(&locks->agent->to_renewal, m);
}

static void tell_renewal_lose(struct name *name, enum hf_loss_reason reason,
                              bool killing) IN_BROKER_THREAD
{
    struct message *m = message_new(MSG_LOSE);

    m->slot = name->slot;
    m->generation = name_lease(name)->generation;
    m->reason = reason;
    m->killing = killing;
    tell_renewal(name_locks(name), m);
}

void tell_renewal_stop(struct name *name, enum hf_loss_reason reason)
{
    tell_renewal_lose(name, reason, false);
}

void tell_renewal_guardian_stopping(struct name *name, bool killing)
{
    tell_renewal_lose(name, HF_LOSS_GUARDIAN, killing);
}
