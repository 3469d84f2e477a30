#include "agent/broker/locks/grants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/broker/clients/clients.h"
#include "agent/broker/clients/sessions.h"
#include "agent/broker/clients/users.h"
#include "agent/broker/locks/ended.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/resources.h"
#include "agent/broker/locks/rounds.h"
#include "agent/broker/locks/short_holds.h"
#include "agent/broker/locks/waiters.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/core/fence.h"
#include "agent/record/events.h"
#include "agent/record/lease_record.h"
#include "shm/assert.h"
#include "shm/layout.h"
#include "shm/measures.h"
#include "shm/status.h"

void grant_hold(struct resource *r, struct lease *lease, struct client *holder)
{
    hf_assert(!r->holder, "slot %u, generation %u", (unsigned)r->slot, (unsigned)r->generation);
    hf_assert(lease->slot == r->slot && lease->generation == r->generation,
              "slot %u, generation %u of %u, %u", (unsigned)lease->slot,
              (unsigned)lease->generation, (unsigned)r->slot, (unsigned)r->generation);
    resource_rouse(r);
    resource_unstall(r);
    r->holder = holder;
    LIST_INSERT_HEAD(&holder->held, r, of_holder);
    holder->held_count++;
    hf_counter_add(&resource_locks(r)->agent->table, HF_COUNTER_LEASES, 1);
    holder->user->leases++;
    holder->user->text_units += user_text_units(r->name_len, lease->note_len);
    lease_table_add(resource_locks(r)->agent->leases, lease);
}

void grant_untie(struct resource *r)
{
    struct locks *locks = resource_locks(r);
    struct lease *lease = resource_lease(r);
    struct user *user = r->holder->user;

    hf_assert(lease && r->holder->held_count > 0 && user->leases > 0,
              "slot %u, held_count %u, leases %u", (unsigned)r->slot,
              (unsigned)r->holder->held_count, (unsigned)user->leases);
    hf_assert(user->text_units >= user_text_units(r->name_len, lease->note_len),
              "slot %u, text_units %llu", (unsigned)r->slot, (unsigned long long)user->text_units);
    LIST_REMOVE(r, of_holder);
    r->holder->held_count--;
    locks->owner.lease_over(locks->owner.arg, r->holder);
    hf_counter_add(&locks->agent->table, HF_COUNTER_LEASES, -1);
    user->leases--;
    user->text_units -= user_text_units(r->name_len, lease->note_len);
    r->holder = NULL;
    lease_table_remove(locks->agent->leases, r->slot);
}

const struct session *grant_answer_released(struct resource *r, uint32_t generation, bool lost,
                                            const char *text)
{
    struct session *s = r->work->release_session;
    struct hf_completion_entry answer = {.id = r->work->release_id,
                                         .op = HF_OP_RELEASE,
                                         .status = lost ? HF_ELOST : HF_OK,
                                         .slot = r->slot,
                                         .generation = generation};

    if (s) {
        r->work->release_session = NULL;
        snprintf(answer.text, sizeof(answer.text), "%s", text);
        session_answer(s, &answer);
    }
    return s;
}

void grant_undone(struct resource *r)
{
    struct journal_lease record = {.state = JOURNAL_FREE, .generation = r->generation};

    struct ended *e = r->work->ended;

    hf_assert(r->undoing && !resource_lease(r) && !r->work->round, "slot %u, undoing %d",
              (unsigned)r->slot, r->undoing);
    r->undoing = false;
    if (e) {
        struct session *s = e->session;
        struct hf_completion_entry answer = {.id = e->request_id,
                                             .op = HF_OP_RELEASE,
                                             .status = HF_OK,
                                             .slot = e->slot,
                                             .generation = e->generation};

        r->work->ended = NULL;
        e->resource = NULL;
        e->session = NULL;
        if (s)
            session_answer(s, &answer);
    }
    journal_put(resource_locks(r)->agent->journal, r->slot, &record);
    resource_touch(r, TOUCH_CHANGED);
}

void grant_answer(struct session *s, const struct lease *lease)
{
    struct hf_completion_entry answer = {.id = lease->request_id,
                                         .op = HF_OP_ACQUIRE,
                                         .status = HF_OK,
                                         .slot = lease->slot,
                                         .generation = lease->generation,
                                         .fence = lease->fence};

    answer.deadline_ns = atomic_load_explicit(&lease->valid_ns, memory_order_relaxed);
    session_answer(s, &answer);
}

void grant_measure(struct locks *locks, hf_dur waited, hf_time now)
{
    hf_histogram_add(&locks->agent->table, HF_HISTOGRAM_WAIT, waited.ns);
    hf_extreme_add_ns(&locks->agent->table, HF_EXTREME_WAIT, waited.ns, now);
}

int grant_lease(struct round *round, hf_time now)
{
    struct resource *r = round->resource;
    struct waiter *w = round->waiter;
    struct locks *locks = resource_locks(r);
    struct client *c = w->session->client;
    struct lease *lease;
    hf_time a[HF_NODES_MAX], max_hold = waiter_hold_end(w, now);
    uint32_t mark[HF_NODES_MAX];
    int rc;

    hf_assert(!round->decided && w && w->resource == r, "slot %u, decided %d", (unsigned)r->slot,
              round->decided);
    hf_assert(r->generation == locks->generations[r->slot] + 1, "slot %u, generation %u after %u",
              (unsigned)r->slot, (unsigned)r->generation, (unsigned)locks->generations[r->slot]);
    /* Judged at the request, too; but other requests of its user may have been granted meanwhile. */
    if (!user_may_hold(locks->clients, c->user))
        return HF_ELIMIT;
    lease = waiter_new_lease(w, round->key, round->key_len, w->who.max_hold_ms);
    if (!lease)
        return HF_ENOMEM;
    for (int i = 0; i < HF_NODES_MAX; i++) {
        enum ballot_vote v = i < locks->n ? round->ballot.node[i].vote : BALLOT_NO;

        a[i] = v == BALLOT_YES || v == BALLOT_YES_LOW ? round->ballot.node[i].a : HF_TIME_PAST;
        mark[i] = i < locks->n ? locks->nodes->node[i].trust.mark : 0;
    }
    lease->slot = r->slot;
    lease->generation = r->generation;
    lease->fence = fence_make(round->ballot.fence, 0);
    lease->since = now;
    lease->since_wall = round->who.since_wall;
    if (lease->has_extra)
        lease_set_token(lease, now, max_hold);
    lease->token = round->token;
    lease->unanswered = (uint16_t)round->unanswered;
    lease_fsm_init(&lease->fsm, &locks->nodes->servers, locks->n, locks->q, &w->timing, w->who.run,
                   max_hold, a, mark);
    atomic_init(&lease->valid_ns, lease->fsm.valid.ns);
    atomic_init(&lease->state, (uint8_t)lease->fsm.state);

    /* (!) The d_i are journaled before the check word is raised. */
    lease_journal(locks->agent, lease, JOURNAL_HELD);
    rc = resource_publish(r, lease, false, lease->fsm.valid,
                          (uint32_t)lease_fsm_votes(&lease->fsm, now),
                          w->who.run ? HF_SLOT_F_RUN : 0);
    if (rc < 0) {
        lease_free(lease);
        return rc;
    }
    round->decided = true;
    round->waiter = NULL;
    r->work->round = NULL;
    r->work->granted = round;
    locks->generations[r->slot] = r->generation;
    r->last_fence = round->ballot.fence;
    r->work->failures = 0;
    loop_timer_cancel(locks->loop, &r->work->retry);
    grant_hold(r, lease, c);
    event_granted(locks->agent, lease, hf_time_since(now, w->since)); /* before it is adopted */
    grant_measure(locks, hf_time_since(now, w->since), now);
    hf_histogram_add(&locks->agent->table, HF_HISTOGRAM_ACQUIRE,
                     hf_time_since(now, round->started).ns);
    hf_extreme_add_ns(&locks->agent->table, HF_EXTREME_ACQUIRE,
                      hf_time_since(now, round->started).ns, now);
    short_hold_begin(r, now);
    hf_counter_add(&locks->agent->table, HF_COUNTER_GRANTS, 1);
    if (w->contended)
        hf_counter_add(&locks->agent->table, HF_COUNTER_GRANTS_CONTENDED, 1);

    {
        struct session *s = w->session;

        waiter_free(w);
        grant_answer(s, lease);
    }
    resource_touch(r, TOUCH_CHANGED);
    return HF_OK;
}

void grant_changed(struct locks *locks, struct lease *lease)
{
    struct resource *r = locks->by_slot[lease->slot];

    hf_assert(r && r->holder, "slot %u, generation %u", (unsigned)lease->slot,
              (unsigned)lease->generation);
    locks->owner.lease_changed(locks->owner.arg, r->holder);
    client_signal(r->holder, NULL);
}
