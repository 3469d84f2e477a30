/* The broker's part of a hand-off: choosing the next holder, and the outcome. agent/record/handoff.h has the order
 * and its reason. */
#include "agent/broker/locks/handoffs.h"
#include "agent/base/thread_role.h"
#include "agent/broker/locks/orders.h"

#include "agent/broker/clients/clients.h"
#include "agent/broker/clients/sessions.h"
#include "agent/broker/clients/users.h"
#include "agent/broker/locks/drains.h"
#include "agent/broker/locks/grants.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/releases.h"
#include "agent/broker/locks/requests.h"
#include "agent/broker/locks/resources.h"
#include "agent/broker/locks/waiters.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/record/handoff.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/random.h"
#include "agent/core/fence.h"
#include "agent/record/events.h"
#include "shm/assert.h"
#include "shm/status.h"

/* Waiters are told of a new holder at most so often: a lock that is handed over again and again must not
 * wake all of them each time. */
#define HEAR_EVERY hf_ms(100)

/* --- gaps ------------------------------------------------------------------------------------- */

static int64_t stretch_now(struct locks *locks, hf_time now) IN_BROKER_THREAD
{
    hf_nodetime median = {clock_wall().ms * 1000}; /* until a node has told its TIME */

    (void)nodes_time(locks->nodes, now, &median);
    return handoff_gap_stretch(median);
}

static hf_dur gap(const struct resource *r, int64_t stretch, hf_time now)
{
    struct locks *locks = resource_locks(r);

    return handoff_gap(locks->config->timing.ttl, r->work->foreign_seen, r->work->gap, stretch, now,
                       random_u32());
}

bool handoff_owes_gap(const struct resource *r, hf_time now)
{
    return r->work->foreign_seen.ns != HF_TIME_PAST.ns &&
           gap(r, stretch_now(resource_locks(r), now), now).ns > 0;
}

void handoff_leave_gap(struct resource *r, hf_time now)
{
    int64_t stretch = stretch_now(resource_locks(r), now);

    r->work->yield_until =
        hf_time_max(r->work->yield_until, hf_time_add(now, gap(r, stretch, now)));
    r->work->gap = stretch;
}

/* --- making one ------------------------------------------------------------------------------- */

struct waiter *handoff_next_holder(struct resource *r, hf_time now)
{
    const struct lease *lease = resource_lease(r);
    struct locks *locks = resource_locks(r);
    struct waiter *w = waiter_first(r);
    struct handoff_facts facts;
    enum handoff_verdict verdict;

    r->turn_over = false;
    if (!w || waiter_tries(w) || r->work->handoff || locks->going || drains_stands(locks) ||
        *nodes_fleet_text(locks->nodes) || lease->generation >= HF_GEN_MAX)
        return NULL;
    facts = handoff_facts(lease, atomic_load_explicit(&lease->state, memory_order_relaxed),
                          (hf_time){atomic_load_explicit(&lease->valid_ns, memory_order_relaxed)},
                          w->timing.ttl, waiter_hold_end(w, now), now);
    facts.turn = handoff_turn(facts.ttl, r->work->others_seen, now);
    verdict = handoff_judge(&facts);
    r->turn_over = handoff_is_enough(verdict);
    if (verdict != HANDOFF_YES || handoff_owes_gap(r, now))
        return NULL;
    /* The lease that ends makes room if it is the same user's. */
    if (w->session->user != r->holder->user && !user_may_hold(locks->clients, w->session->user))
        return NULL;
    return w;
}

static struct lease *next_lease(struct resource *r, const struct waiter *w, hf_time now)
{
    const struct lease *from = resource_lease(r);
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

int handoff_begin(struct resource *r, struct waiter *w, enum hf_loss_reason reason, hf_time now)
{
    struct locks *locks = resource_locks(r);
    struct handoff *h = calloc(1, sizeof(*h));
    struct message *m;
    int rc = HF_ENOMEM;

    if (!h)
        return rc;
    h->to = next_lease(r, w, now);
    if (!h->to || (rc = resource_text_prepare(r, h->to, &h->text_off, &h->new_text)) < 0) {
        lease_free(h->to);
        free(h);
        return rc;
    }
    hf_assert(!r->work->handoff && w->resource == r, "slot %u, generation %u", (unsigned)r->slot,
              (unsigned)r->generation);
    hf_assert(resource_lease(r)->generation < HF_GEN_MAX, "slot %u, generation %u",
              (unsigned)r->slot, (unsigned)resource_lease(r)->generation);
    h->slot = r->slot;
    h->generation = resource_lease(r)->generation;
    h->owner = w->who;
    h->owner.since = h->to->since;
    h->owner.since_wall = h->to->since_wall;
    h->max_hold = waiter_hold_end(w, now);
    h->reason = reason;
    h->resource = r;
    h->waiter = w;
    h->client = w->session->client;
    h->client->handoffs++;
    locks->handoff_count++;
    r->work->handoff = h;
    m = message_new(MSG_HAND_OVER);
    m->handoff = h;
    m->slot = h->slot;
    m->generation = h->generation;
    order_renewal(locks, m);
    return HF_OK;
}

/* --- its end ---------------------------------------------------------------------------------- */

void handoff_forget_waiter(struct handoff *h)
{
    h->waiter = NULL;
}

void handoff_cancel(struct handoff *h)
{
    h->unwanted = true;
}

bool handoff_is_to(const struct resource *r, const struct waiter *w)
{
    return r->work->handoff && r->work->handoff->waiter == w;
}

static void let_go_of_client(struct handoff *h) IN_BROKER_THREAD
{
    hf_assert(h->client->handoffs > 0, "slot %u", (unsigned)h->slot);
    h->client->handoffs--;
    client_settle(h->client);
}

/* A cancel, the agent's end and the timeout were put off until the hand-off was answered. */
static void waits_on(struct waiter *w, bool unwanted) IN_BROKER_THREAD
{
    struct locks *locks = resource_locks(w->resource);

    if (unwanted)
        waiter_fail(w, HF_ECANCELED, "");
    else if (locks->going)
        request_wait_ends(w);
    else if (!heap_has(&w->timer.item) && w->deadline.ns != HF_TIME_NEVER.ns)
        loop_timer_set(locks->loop, &w->timer, w->deadline);
}

/* It was refused: the renewal thread releases the lease. */
static void refused(struct handoff *h) IN_BROKER_THREAD
{
    struct resource *r = h->resource;

    r->turn_over |= handoff_is_enough(h->verdict);
    if (h->new_text)
        resource_text_drop(r, h->to, h->text_off);
    lease_free(h->to);
    let_go_of_client(h);
    if (h->waiter)
        waits_on(h->waiter, h->unwanted);
    resource_rest(r);
}

/* Its waiter went away meanwhile, or does not want it any more. */
static void give_on(struct resource *r, const struct client *c) IN_BROKER_THREAD
{
    bool gone = LIST_EMPTY(&c->sessions) && !c->ghost;

    release_begin(r, gone ? RELEASE_UNTOLD : RELEASE_UNWANTED);
}

/* A drain came meanwhile: the waiter waits on. */
static bool withhold(struct handoff *h) IN_BROKER_THREAD
{
    struct waiter *w = h->waiter;

    if (!w || h->unwanted || !drains_stands(resource_locks(h->resource)))
        return false;
    w->withheld = true;
    handoff_forget_waiter(h);
    return true;
}

static void done(struct handoff *h) IN_BROKER_THREAD
{
    struct resource *r = h->resource;
    struct locks *locks = resource_locks(r);
    struct lease *from = resource_lease(r), *to = h->to;
    struct client *before = r->holder;
    struct waiter *w = withhold(h) ? NULL : h->waiter;
    const struct session *told;

    hf_assert(from && from->generation == h->generation && to->generation == h->generation + 1,
              "slot %u, generation %u after %u", (unsigned)r->slot, (unsigned)to->generation,
              (unsigned)h->generation);
    locks->generations[r->slot] = r->generation = to->generation;
    if (w) {
        struct session *s = w->session;

        grant_answer(s, to); /* first: the client waits for it */
        event_taken_over(locks->agent, to, h->valid, h->voting, hf_time_since(to->since, w->since));
        grant_measure(locks, hf_time_since(to->since, w->since), to->since);
        hf_counter_add(&locks->agent->table, HF_COUNTER_GRANTS, 1);
        hf_counter_add(&locks->agent->table, HF_COUNTER_HANDOFFS, 1);
        if (w->contended)
            hf_counter_add(&locks->agent->table, HF_COUNTER_GRANTS_CONTENDED, 1);
        waiter_free(w);
    }
    to->unanswered = from->unanswered;
    if (h->new_text)
        resource_text_switch(r, to, h->text_off);
    grant_untie(r);
    grant_hold(r, to, h->client);
    told = grant_answer_released(r, h->generation, false, "");
    client_signal(before, told); /* the other guardian */
    client_settle(before);
    let_go_of_client(h);
    if (!w || h->unwanted)
        give_on(r, r->holder);
    else if (locks->going)
        request_go_away(r);
    else if (!TAILQ_EMPTY(&r->work->waiters) && !heap_has(&r->work->retry.item))
        loop_timer_set(locks->loop, &r->work->retry,
                       hf_time_add(loop_now(locks->loop), HEAR_EVERY));
    resource_calm(r);
}

void handoff_answered(struct handoff *h)
{
    struct resource *r = h->resource;

    hf_assert(r->work->handoff == h && resource_locks(r)->handoff_count > 0, "slot %u, handoffs %d",
              (unsigned)h->slot, (int)resource_locks(r)->handoff_count);
    r->work->handoff = NULL;
    resource_locks(r)->handoff_count--;
    if (h->verdict == HANDOFF_YES)
        done(h);
    else
        refused(h);
    free(h);
}

void handoff_destroy(struct handoff *h)
{
    if (!h)
        return;
    /* After a hand-off the lease is the renewal thread's until that thread is destroyed. */
    if (h->verdict == HANDOFF_YES) {
        struct lease_table *leases = resource_locks(h->resource)->agent->leases;

        lease_table_remove(leases, h->slot);
        lease_table_add(leases, h->to);
    } else {
        lease_free(h->to);
    }
    free(h);
}
