/* The broker's part of a hand-off: choosing the next holder. The outcome is in ends.c; agent/state/lease.h has the
 * order and its reason. */
#include "agent/broker/locks/locks_internal.h"
#include "agent/base/thread.h"

#include "agent/broker/clients/clients.h"
#include "agent/broker/clients/sessions.h"
#include "agent/broker/clients/users.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/names.h"
#include "agent/broker/locks/waiters.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/state/lease.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/core/fence.h"
#include "shm/assert.h"
#include "shm/status.h"

/* --- making one ------------------------------------------------------------------------------- */

struct waiter *handoff_next_holder(struct name *name, hf_time now)
{
    const struct lease *lease = name_lease(name);
    struct locks *locks = name_locks(name);
    struct waiter *w = waiter_first(name);
    struct handoff_facts facts;
    enum handoff_verdict verdict;

    name->turn_over = false;
    if (!w || waiter_tries(w) || name->state->handoff || locks->going || drains_stands(locks) ||
        *nodes_fleet_text(locks->nodes) || lease->generation >= HF_GEN_MAX)
        return NULL;
    facts = handoff_facts(lease, atomic_load_explicit(&lease->state, memory_order_relaxed),
                          (hf_time){atomic_load_explicit(&lease->valid_ns, memory_order_relaxed)},
                          w->timing.ttl, waiter_hold_end(w, now), now);
    facts.turn = handoff_turn(facts.ttl, name->state->others_seen, now);
    verdict = handoff_judge(&facts);
    name->turn_over = handoff_is_enough(verdict);
    if (verdict != HANDOFF_YES || gap_is_owed(name, now))
        return NULL;
    /* The lease that ends makes room if it is the same user's. */
    if (w->session->user != name->holder->user && !user_may_hold(locks->clients, w->session->user))
        return NULL;
    return w;
}

static struct lease *handoff_next_lease(struct name *name, const struct waiter *w, hf_time now)
{
    const struct lease *from = name_lease(name);
    struct lease *to = waiter_new_lease(w, lease_key(from), from->key_len, true);

    if (!to)
        return NULL;
    to->slot = from->slot;
    to->generation = from->generation + 1;
    to->fence = fence_handed_over(from->fence);
    to->since = now;
    to->since_wall = clock_wall();
    lease_set_token(to, lease_won(from), lease_token_end(from));
    to->token = from->token;
    return to;
}

int handoff_begin(struct name *name, struct waiter *w, enum hf_loss_reason reason, hf_time now)
{
    struct locks *locks = name_locks(name);
    struct handoff *h = calloc(1, sizeof(*h));
    struct message *m;
    int rc = HF_ENOMEM;

    if (!h)
        return rc;
    h->to = handoff_next_lease(name, w, now);
    if (!h->to || (rc = name_text_prepare(name, h->to, &h->text_off, &h->new_text)) < 0) {
        lease_free(h->to);
        free(h);
        return rc;
    }
    hf_assert(!name->state->handoff && w->name == name, "slot %u, generation %u",
              (unsigned)name->slot, (unsigned)name->generation);
    hf_assert(name_lease(name)->generation < HF_GEN_MAX, "slot %u, generation %u",
              (unsigned)name->slot, (unsigned)name_lease(name)->generation);
    h->slot = name->slot;
    h->generation = name_lease(name)->generation;
    h->owner = w->who;
    h->owner.since = h->to->since;
    h->owner.since_wall = h->to->since_wall;
    h->max_hold = waiter_hold_end(w, now);
    h->reason = reason;
    h->name = name;
    h->waiter = w;
    h->client = w->session->client;
    h->client->handoffs++;
    locks->handoff_count++;
    name->state->handoff = h;
    m = message_new(MSG_HAND_OVER);
    m->handoff = h;
    m->slot = h->slot;
    m->generation = h->generation;
    tell_renewal(locks, m);
    return HF_OK;
}

static void handoff_destroy(struct handoff *h)
{
    if (!h)
        return;
    /* After a hand-off the lease is the renewal thread's until that thread is destroyed. */
    if (h->verdict == HANDOFF_YES) {
        struct lease_table *leases = name_locks(h->name)->agent->leases;

        lease_table_remove(leases, h->slot);
        lease_table_add(leases, h->to);
    } else {
        lease_free(h->to);
    }
    free(h);
}

void handoffs_destroy(struct locks *locks)
{
    for (uint32_t i = 0; locks->by_slot && i < locks->agent->table.capacity; i++)
        if (locks->by_slot[i])
            handoff_destroy(locks->by_slot[i]->state->handoff);
}
