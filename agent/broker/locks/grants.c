#include "agent/broker/locks/locks_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/broker/clients/clients.h"
#include "agent/broker/clients/sessions.h"
#include "agent/broker/clients/users.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/names.h"
#include "agent/broker/locks/rounds.h"
#include "agent/broker/locks/waiters.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/core/fence.h"
#include "agent/state/events.h"
#include "agent/state/lease.h"
#include "shm/assert.h"
#include "shm/layout.h"
#include "shm/measures.h"
#include "shm/status.h"

void grant_hold(struct name *name, struct lease *lease, struct client *holder)
{
    hf_assert(!name->holder, "slot %u, generation %u", (unsigned)name->slot,
              (unsigned)name->generation);
    hf_assert(lease->slot == name->slot && lease->generation == name->generation,
              "slot %u, generation %u of %u, %u", (unsigned)lease->slot,
              (unsigned)lease->generation, (unsigned)name->slot, (unsigned)name->generation);
    name_activate(name);
    name_unstall(name);
    name->holder = holder;
    LIST_INSERT_HEAD(&holder->held, name, of_holder);
    holder->held_count++;
    hf_counter_add(&name_locks(name)->agent->table, HF_COUNTER_LEASES, 1);
    holder->user->leases++;
    holder->user->text_units += user_text_units(name->len, lease->note_len);
    lease_table_add(name_locks(name)->agent->leases, lease);
}

void grant_untie(struct name *name)
{
    struct locks *locks = name_locks(name);
    struct lease *lease = name_lease(name);
    struct user *user = name->holder->user;

    hf_assert(lease && name->holder->held_count > 0 && user->leases > 0,
              "slot %u, held_count %u, leases %u", (unsigned)name->slot,
              (unsigned)name->holder->held_count, (unsigned)user->leases);
    hf_assert(user->text_units >= user_text_units(name->len, lease->note_len),
              "slot %u, text_units %llu", (unsigned)name->slot,
              (unsigned long long)user->text_units);
    LIST_REMOVE(name, of_holder);
    name->holder->held_count--;
    locks->owner.lease_over(locks->owner.arg, name->holder);
    hf_counter_add(&locks->agent->table, HF_COUNTER_LEASES, -1);
    user->leases--;
    user->text_units -= user_text_units(name->len, lease->note_len);
    name->holder = NULL;
    lease_table_remove(locks->agent->leases, name->slot);
}

const struct session *grant_answer_released(struct name *name, uint32_t generation, bool lost,
                                            const char *text)
{
    struct session *s = name->state->release_session;
    struct hf_completion_entry answer = {.id = name->state->release_id,
                                         .op = HF_OP_RELEASE,
                                         .status = lost ? HF_ELOST : HF_OK,
                                         .slot = name->slot,
                                         .generation = generation};

    if (s) {
        name->state->release_session = NULL;
        snprintf(answer.text, sizeof(answer.text), "%s", text);
        session_answer(s, &answer);
    }
    return s;
}

void grant_undone(struct name *name)
{
    struct journal_lease record = {.state = JOURNAL_FREE, .generation = name->generation};

    struct pending_release *pending = name->state->pending_release;

    hf_assert(name->undoing && !name_lease(name) && !name->state->round, "slot %u, undoing %d",
              (unsigned)name->slot, name->undoing);
    name->undoing = false;
    if (pending) {
        struct session *s = pending->session;
        struct hf_completion_entry answer = {.id = pending->request_id,
                                             .op = HF_OP_RELEASE,
                                             .status = HF_OK,
                                             .slot = pending->slot,
                                             .generation = pending->generation};

        name->state->pending_release = NULL;
        pending->name = NULL;
        pending->session = NULL;
        if (s)
            session_answer(s, &answer);
    }
    journal_put(name_locks(name)->agent->journal, name->slot, &record);
    name_touch(name, TOUCH_CHANGED);
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
    struct name *name = round->name;
    struct waiter *w = round->waiter;
    struct locks *locks = name_locks(name);
    struct client *c = w->session->client;
    struct lease *lease;
    hf_time a[HF_NODES_MAX], max_hold = waiter_hold_end(w, now);
    uint32_t mark[HF_NODES_MAX];
    int rc;

    hf_assert(!round->decided && w && w->name == name, "slot %u, decided %d", (unsigned)name->slot,
              round->decided);
    hf_assert(name->generation == locks->generations[name->slot] + 1,
              "slot %u, generation %u after %u", (unsigned)name->slot, (unsigned)name->generation,
              (unsigned)locks->generations[name->slot]);
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
    lease->slot = name->slot;
    lease->generation = name->generation;
    lease->fence = fence_make(round->ballot.fence, 0);
    lease->since = now;
    lease->since_wall = round->who.since_wall;
    if (lease->has_extra)
        lease_set_token(lease, now, max_hold);
    lease->token = round->token;
    lease->unanswered = (uint16_t)round->unanswered;
    lease_fsm_init(&lease->fsm, &locks->nodes->servers, locks->n, locks->q, &w->timing,
                   w->who.is_job, max_hold, a, mark);
    atomic_init(&lease->valid_ns, lease->fsm.valid.ns);
    atomic_init(&lease->state, (uint8_t)lease->fsm.state);

    /* (!) The d_i are journaled before the check word is raised. */
    lease_journal(locks->agent, lease, JOURNAL_HELD);
    rc = name_publish(name, lease, false, lease->fsm.valid,
                      (uint32_t)lease_fsm_votes(&lease->fsm, now),
                      w->who.is_job ? HF_SLOT_F_JOB : 0);
    if (rc < 0) {
        lease_free(lease);
        return rc;
    }
    round->decided = true;
    round->waiter = NULL;
    name->state->round = NULL;
    name->state->granted = round;
    locks->generations[name->slot] = name->generation;
    name->last_fence = round->ballot.fence;
    name->state->failures = 0;
    loop_timer_cancel(locks->loop, &name->state->retry);
    grant_hold(name, lease, c);
    event_granted(locks->agent, lease, hf_time_since(now, w->since)); /* before it is adopted */
    grant_measure(locks, hf_time_since(now, w->since), now);
    hf_histogram_add(&locks->agent->table, HF_HISTOGRAM_ACQUIRE,
                     hf_time_since(now, round->started).ns);
    hf_extreme_add_ns(&locks->agent->table, HF_EXTREME_ACQUIRE,
                      hf_time_since(now, round->started).ns, now);
    short_hold_begin(name, now);
    hf_counter_add(&locks->agent->table, HF_COUNTER_GRANTS, 1);
    if (w->contended)
        hf_counter_add(&locks->agent->table, HF_COUNTER_GRANTS_CONTENDED, 1);

    {
        struct session *s = w->session;

        waiter_free(w);
        grant_answer(s, lease);
    }
    name_touch(name, TOUCH_CHANGED);
    return HF_OK;
}

void grant_changed(struct locks *locks, struct lease *lease)
{
    struct name *name = locks->by_slot[lease->slot];

    hf_assert(name && name->holder, "slot %u, generation %u", (unsigned)lease->slot,
              (unsigned)lease->generation);
    locks->owner.lease_changed(locks->owner.arg, name->holder);
    client_signal(name->holder, NULL);
}
