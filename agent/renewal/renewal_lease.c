/* Carrying out what a lease's state machine decides: journal, slot, messages, the end, and what becomes of its keys then. */
#include "agent/renewal/renewal_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/failure.h"
#include "agent/base/log.h"
#include "agent/base/thread.h"
#include "agent/core/fence.h"
#include "agent/state/lease.h"
#include "shm/assert.h"
#include "shm/wordings.h"
#include "shm/measures.h"
#include "shm/slot.h"
#include "shm/status.h"

#define LOSSES_TOLD 100 /* lines a second; the counters count all */

/* A lease that this thread has. */
static void lease_check(const struct renewal *r, const struct lease *lease)
{
    hf_assert(lease->slot < r->agent->table.capacity, "slot %u", (unsigned)lease->slot);
    hf_assert(r->slots[lease->slot].lease == lease, "slot %u, generation %u, state %d",
              (unsigned)lease->slot, (unsigned)lease->generation, (int)lease->fsm.state);
    hf_assert(lease->generation >= 1 && lease->generation <= HF_GEN_MAX, "slot %u, generation %u",
              (unsigned)lease->slot, (unsigned)lease->generation);
    hf_assert(lease->nodes == r->n && lease->fsm.n == r->n, "slot %u, nodes %d, %d of %d",
              (unsigned)lease->slot, lease->nodes, lease->fsm.n, r->n);
    hf_assert(!lease->releasing || lease_is_over(lease), "slot %u, state %d", (unsigned)lease->slot,
              (int)lease->fsm.state);
}

static struct hf_slot *lease_slot_of(struct renewal *r, const struct lease *lease)
{
    return &r->agent->table.slots[lease->slot];
}

/* --- what others see -------------------------------------------------------------------------- */

static uint32_t lease_flags_of(const struct renewal *r, const struct lease *lease)
{
    uint32_t flags = 0;

    if (lease->is_job)
        flags |= HF_SLOT_F_JOB;
    if (hf_time_before(lease->since, r->started))
        flags |= HF_SLOT_F_READOPTED;
    if (lease->fsm.stop_renewal)
        flags |= HF_SLOT_F_ORPHAN;
    return flags;
}

static void lease_mark_slot(struct renewal *r, struct lease *lease)
{
    hf_slot_mark(lease_slot_of(r, lease), lease->fsm.state, lease_flags_of(r, lease),
                 lease->fsm.reason);
}

static void renewal_tell_broker(struct renewal *r, struct lease *lease,
                                enum message_kind kind) IN_RENEWAL_THREAD
{
    struct message *message = message_new(kind);

    message->lease = lease;
    message->slot = lease->slot;
    message->generation = lease->generation;
    message->reason = lease->fsm.reason;
    message->at = lease->fsm.valid;
    mailbox_post(&r->agent->to_broker, message);
}

/* --- timers ----------------------------------------------------------------------------------- */

static hf_time lease_next_event(const struct lease *lease)
{
    hf_time next = lease_fsm_next(&lease->fsm);

    return lease->has_extra && lease_beat(lease) && lease_fsm_renews(&lease->fsm)
               ? hf_time_min(next, heartbeat_next(lease_beat(lease)))
               : next;
}

/* Makes sure that the lease is looked at early enough. Each renewal moves the time later, so the time is
 * seldom kept exactly, or moved: a lease that is looked at too early is queued again. */
static bool lease_looked_at(struct renewal *r, const struct lease *lease, hf_time at)
{
    hf_dur ttl = hf_ms(lease->ttl_ms), grid = hf_dur_scale(ttl, 1, 32);

    if (cohorts_has(&r->looks, lease->slot))
        return hf_time_reached(at, cohorts_at(&r->looks, lease->slot));
    if (cohorts_is_alone(&r->looks, lease->slot))
        return hf_time_reached(at, cohorts_alone_at(&r->looks, lease->slot));
    return hf_time_since(at, r->turn).ns > hf_dur_scale(ttl, 1, 16).ns &&
           cohorts_add(&r->looks, lease->slot, hf_time_floor(at, grid));
}

static void renewal_set_timer(struct renewal *r, struct lease *lease, hf_time at) IN_RENEWAL_THREAD
{
    bool never = at.ns >= HF_TIME_NEVER.ns;

    if (!never && !lease_is_over(lease) && lease_looked_at(r, lease, at))
        return;
    if (never)
        cohorts_remove(&r->looks, lease->slot);
    else
        cohorts_put_alone(&r->looks, lease->slot, at);
}

/* --- the keys of a lease that is over ---------------------------------------------------------- */

/* Nothing is left to do: the lease goes back to the broker. */
static void lease_hand_back(struct renewal *r, struct lease *lease) IN_RENEWAL_THREAD
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

static void lease_on_released(const struct release_outcome *outcome, void *arg, void *owner)
{
    struct lease *lease = arg;
    struct renewal *r = owner;

    ASSERT_RENEWAL_THREAD();
    if (r->closing)
        return;
    lease_found(lease, outcome->gone);
    lease_hand_back(r, lease);
}

/* The allowance in d is 1 % of T and 2 ms, and the node's clock may be slow by as much. (!) Not before V, whatever became
 * of the votes: a job lives until then, and the mark of a forced release may stand in the place of a key. */
static hf_time renewal_lapse_of(const struct lease *lease, hf_time now)
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

void renewal_release_refused(int node, const struct link_reply *reply, void *owner)
{
    struct renewal *r = owner;
    struct message *message = message_new(MSG_REFUSED);

    message->node_number = node;
    message->error = reply ? reply->error : HF_NODE_ERR_NONE;
    if (reply) {
        size_t size = strlen(reply->error_text) + 1;

        message->text = malloc(size); /* the simulator's: no strdup() */
        if (message->text)
            memcpy(message->text, reply->error_text, size);
    }
    mailbox_post(&r->agent->to_broker, message);
}

static struct delete_request lease_delete_request(struct renewal *r, const struct lease *lease,
                                                  uint32_t nodes, hf_time now)
{
    const struct renewal_slot *slot = &r->slots[lease->slot];
    struct delete_request request = delete_request_of(lease, nodes);
    bool doubted = hf_time_before(now, slot->doubt_until);

    delete_request_doubt(&request, doubted ? (uint32_t)(slot->doubt | slot->broken) : 0,
                         slot->doubt_until);
    return request;
}

static void renewal_release_keys(struct renewal *r, struct lease *lease,
                                 hf_time now) IN_RENEWAL_THREAD
{
    struct delete_request request = lease_delete_request(r, lease, renewal_all_nodes(r), now);

    hf_assert(lease_is_over(lease) && !lease->releasing, "slot %u, state %d, releasing %d",
              (unsigned)lease->slot, (int)lease->fsm.state, lease->releasing);
    hf_assert(atomic_load(&r->agent->table.slots[lease->slot].check) == 0, "slot %u, generation %u",
              (unsigned)lease->slot, (unsigned)lease->generation);
    if (lease->fsm.state == HF_SLOT_ENDED)
        delete_request_judge(&request, lease->fsm.valid);
    delete_request_tell(&request, lease_on_released, lease);
    renewal_set_timer(r, lease, HF_TIME_NEVER);
    lease->releasing = true;
    if (key_deleter_start(r->key_deleter, &request) != HF_OK) {
        lease->releasing = false;
        renewal_set_timer(r, lease, renewal_lapse_of(lease, now));
    }
}

/* (!) A command without an answer may have left a key, or may still do so. */
static void renewal_lapsed(struct renewal *r, struct lease *lease, hf_time now) IN_RENEWAL_THREAD
{
    const struct renewal_slot *slot = &r->slots[lease->slot];
    struct delete_request request =
        lease_delete_request(r, lease, (uint32_t)(slot->doubt | slot->broken), now);

    hf_assert(!lease->releasing, "slot %u, state %d", (unsigned)lease->slot, (int)lease->fsm.state);
    if (request.nodes)
        (void)key_deleter_start(r->key_deleter, &request);
    lease_hand_back(r, lease);
}

void renewal_undo(struct renewal_node *node, const void *key, size_t key_len,
                  const struct token *token, hf_dur attempt, hf_dur ttl)
{
    struct delete_request request =
        delete_request(key, key_len, token, attempt, ttl, UINT32_C(1) << node->number);

    (void)key_deleter_start(node->renewal->key_deleter, &request);
}

/* --- the end ----------------------------------------------------------------------------------- */

/* Whether it may have a log line: losses that holders can cause at will get few, and each user has its own. */
static bool lease_may_tell(struct renewal *r, const struct lease *lease, hf_time now)
{
    unsigned share = share_of(&r->agent->loss_shares, lease->uid);

    return losses_at_will(lease->fsm.reason)
               ? log_allows(&r->losses_by_users[share], LOG_LIMIT, now)
               : log_allows(&r->losses, LOSSES_TOLD, now);
}

/* It is LOSING, and may be released before it is lost: then no other line tells of it. */
static void lease_say_losing(struct renewal *r, const struct lease *lease, hf_time now)
{
    char name[4 * HF_NAME_MAX + 1];
    int64_t left_ms = hf_dur_ms(hf_time_since(lease->fsm.valid, now));

    losses_count(&r->agent->table, lease->fsm.reason);
    if (lease_may_tell(r, lease, now))
        log_warn(
            "losing: %s: %s; it is lost in %" PRId64 " ms (pid %" PRIu32 ", fence %" PRIu64 ")",
            log_name(lease_name(lease), lease->name_len, name, sizeof(name)),
            hf_loss_text(lease->fsm.reason), left_ms > 0 ? left_ms : 0, lease->pid, lease->fence);
}

static void lease_end_lease(struct renewal *r, struct lease *lease,
                            const struct lease_before *before, hf_time now,
                            bool reaped) IN_RENEWAL_THREAD
{
    bool lost = lease->fsm.state == HF_SLOT_LOST;

    hf_assert(lease_is_over(lease) && !lease->releasing, "slot %u, state %d, releasing %d",
              (unsigned)lease->slot, (int)lease->fsm.state, lease->releasing);
    lease_record_end(r->agent, lease);
    events_of_lease(r->agent, lease, before);
    renewal_unschedule(r, lease);
    if (!lost)
        renewal_count(r, HF_COUNTER_RELEASES, 1);
    else if (before->state != HF_SLOT_LOSING)
        losses_count(&r->agent->table, lease->fsm.reason);
    if (lost && lease_may_tell(r, lease, now)) {
        char name[HF_NAME_MAX + 1];

        log_warn("lost: %s: %s", log_name(lease_name(lease), lease->name_len, name, sizeof(name)),
                 hf_loss_text(lease->fsm.reason));
    }
    renewal_tell_broker(r, lease, MSG_CHANGED);
    /* A process of a run's tree may still live: the keys expire by themselves, unless a guardian
     * says that the tree is reaped. */
    if (lost && (lease->is_job || lease->fsm.stop_renewal) && !reaped)
        renewal_set_timer(r, lease, renewal_lapse_of(lease, now));
    else
        renewal_release_keys(r, lease, now);
}

/* --- actions ---------------------------------------------------------------------------------- */

/* How near V came before a renewal moved it on. */
static void lease_measure_margin(struct renewal *r, const struct lease *lease, hf_time previous,
                                 hf_time now)
{
    hf_dur left = hf_time_since(previous, now);

    if (!hf_time_before(previous, lease->fsm.valid))
        return;
    hf_histogram_add(&r->agent->table, HF_HISTOGRAM_MARGIN, left.ns);
    hf_extreme_add(&r->agent->table, HF_EXTREME_MARGIN, left.ns / lease->ttl_ms, now);
}

/* (!) The d_i are journaled before the check word is raised, and the clock is read afterwards. It is read
 * before as well, so that a kill in between can hardly leave a word that was raised too late. */
static unsigned lease_extend(struct renewal *r, struct lease *lease, hf_time previous)
{
    unsigned actions;
    hf_time now;

    hf_assert(!lease_is_over(lease), "slot %u, state %d", (unsigned)lease->slot,
              (int)lease->fsm.state);
    lease_journal(r->agent, lease, JOURNAL_HELD);
    now = clock_now();
    actions = lease_fsm_confirm(&lease->fsm, previous, now);
    if (actions & (LEASE_ACT_LOST | LEASE_ACT_ENDED))
        return actions;
    hf_slot_extend(lease_slot_of(r, lease), lease->fsm.valid,
                   (uint32_t)lease_fsm_votes(&lease->fsm, now));
    atomic_store_explicit(&lease->valid_ns, lease->fsm.valid.ns, memory_order_relaxed);
    lease_measure_margin(r, lease, previous, now);
    return actions | lease_fsm_confirm(&lease->fsm, previous, clock_now());
}

static void lease_carry_out(struct renewal *r, struct lease *lease, unsigned actions,
                            const struct lease_before *before, bool reaped) IN_RENEWAL_THREAD
{
    ABOUT_LOCK(lease_name(lease), lease->name_len);

    lease_check(r, lease);
    hf_assert(before->state != HF_SLOT_LOST && before->state != HF_SLOT_ENDED,
              "state %d before, actions %x", (int)before->state, actions);
    if (actions & LEASE_ACT_EXTEND) {
        actions |= lease_extend(r, lease, before->valid);
        if (!(actions & (LEASE_ACT_LOST | LEASE_ACT_ENDED)) &&
            hf_time_before(lease->fsm.valid, before->valid) && !(actions & LEASE_ACT_STATE))
            renewal_tell_broker(r, lease, MSG_CHANGED);
    }
    if (actions & (LEASE_ACT_LOST | LEASE_ACT_ENDED)) {
        lease_end_lease(r, lease, before, clock_now(), reaped);
        return;
    }
    if (actions & LEASE_ACT_WITHDRAW)
        hf_slot_withdraw(lease_slot_of(r, lease));
    if (actions & LEASE_ACT_STATE) {
        if (lease->fsm.state == HF_SLOT_LOSING)
            lease_journal(r->agent, lease, JOURNAL_HELD); /* final, for the next agent too */
        atomic_store_explicit(&lease->state, (uint8_t)lease->fsm.state, memory_order_relaxed);
        lease_mark_slot(r, lease);
        renewal_tell_broker(r, lease, MSG_CHANGED);
        if (lease->fsm.state == HF_SLOT_LOSING)
            lease_say_losing(r, lease, clock_now());
    }
    events_of_lease(r->agent, lease, before);
    if (!lease_fsm_renews(&lease->fsm))
        renewal_unschedule(r, lease);
    renewal_set_timer(r, lease, lease_next_event(lease));
}

void renewal_act(struct renewal *r, struct lease *lease, unsigned actions,
                 const struct lease_before *before)
{
    if (actions)
        lease_carry_out(r, lease, actions, before, false);
}

/* --- events ----------------------------------------------------------------------------------- */

static uint32_t lease_beats_seen(const struct lease *lease)
{
    const struct lease_extra *extra = lease_extra(lease);

    return beats_count(extra->beats, extra->beat_word);
}

/* Does what the clock and the holder's heartbeat require. */
static unsigned lease_look_after(const struct renewal *r, struct lease *lease, hf_time now)
{
    unsigned actions = r->away ? lease_fsm_tick_after(&lease->fsm, r->away_since, now)
                               : lease_fsm_tick(&lease->fsm, now);

    if (lease_beat(lease) && lease_fsm_renews(&lease->fsm) &&
        hf_time_reached(now, heartbeat_next(lease_beat(lease))) &&
        heartbeat_look(lease_beat(lease), lease_beats_seen(lease), now))
        actions |= lease_fsm_lose(&lease->fsm, HF_LOSS_HEARTBEAT, now);
    return actions | LEASE_ACT_TIMER;
}

/* D begins anew, with the count in the word now. */
static void lease_await_beats(struct lease *lease, hf_time now)
{
    if (lease_beat(lease))
        heartbeat_init(lease_beat(lease), hf_ms(lease_heartbeat_ms(lease)), lease_beats_seen(lease),
                       now);
}

void renewal_begin_beats(struct renewal *r, struct lease *lease, hf_time now)
{
    lease_await_beats(lease, now);
    renewal_set_timer(r, lease, lease_next_event(lease));
}

static void lease_look_at(struct renewal *r, struct lease *lease, hf_time now) IN_RENEWAL_THREAD
{
    hf_time next = lease_next_event(lease);
    struct lease_before before;

    if (!hf_time_reached(now, next)) {
        renewal_set_timer(r, lease, next);
        return;
    }
    before = lease_before(
        lease, -1,
        r->away && lease_fsm_missed(&lease->fsm, r->away_since, now) ? HF_LOSS_AWAY : HF_LOSS_NONE);
    lease_carry_out(r, lease, lease_look_after(r, lease, now), &before, false);
}

hf_time renewal_next_event(const struct renewal *r)
{
    const struct cohort_single *first = cohorts_first_alone(&r->looks);

    return first ? hf_time_min(first->item.at, cohorts_next(&r->looks)) : cohorts_next(&r->looks);
}

void renewal_tick(struct renewal *r, hf_time now)
{
    uint32_t slots[COHORT_MOST];
    const struct cohort_single *first;

    while (hf_time_reached(now, cohorts_next(&r->looks))) {
        size_t count = cohorts_take(&r->looks, slots, COHORT_MOST);

        renewal_fetch(r, slots, count);
        for (size_t i = 0; i < count; i++) {
            hf_assert(r->slots[slots[i]].lease, "slot %u", (unsigned)slots[i]);
            lease_look_at(r, r->slots[slots[i]].lease, now);
        }
    }
    while ((first = cohorts_first_alone(&r->looks)) && hf_time_reached(now, first->item.at)) {
        struct lease *lease = r->slots[first->number].lease;

        hf_assert(lease, "slot %u", (unsigned)first->number);
        if (lease_is_over(lease)) {
            renewal_lapsed(r, lease, now);
            continue;
        }
        cohorts_remove(&r->looks, lease->slot);
        lease_look_at(r, lease, now);
    }
}

/* The node's votes that were sent before this are void. */
static void lease_step(struct renewal_node *node, struct lease *lease,
                       hf_time sent) IN_RENEWAL_THREAD
{
    struct lease_before before = lease_before(lease, node->number, HF_LOSS_CLOCK);
    hf_time now = clock_now();

    if (lease_is_over(lease))
        return;
    renewal_act(node->renewal, lease, lease_fsm_stepped(&lease->fsm, node->number, sent, now),
                &before);
    if (lease_fsm_is_void(&lease->fsm, node->number))
        renewal_schedule(node, lease, now);
}

/* Rare, so every lease is looked at. */
void renewal_stepped(struct renewal_node *node, hf_time sent)
{
    struct renewal *r = node->renewal;

    node->void_before = clock_now();
    for (uint32_t s = 0; s < r->slots_used; s++)
        if (r->slots[s].lease)
            lease_step(node, r->slots[s].lease, sent);
}

/* The node's mark when a lease or a vote was granted. The broker counts sentinels by itself: changes that it
 * knew were told before the lease, so they are known here; changes that were found here while the broker
 * still had the lease came later. */
static uint32_t lease_mark_at(const struct renewal_node *node, hf_time granted)
{
    return hf_time_before(granted, node->forgot) ? node->trust.mark - 1 : node->trust.mark;
}

void renewal_adopt(struct renewal *r, struct lease *lease, hf_time now)
{
    struct lease_fsm *fsm = &lease->fsm;
    bool readopted = hf_time_before(lease->since, r->started);
    unsigned actions = LEASE_ACT_TIMER;
    struct lease_before before = lease_before(lease, -1, HF_LOSS_NONE);
    ABOUT_LOCK(lease_name(lease), lease->name_len);

    hf_assert(!r->slots[lease->slot].lease, "slot %u, generation %u", (unsigned)lease->slot,
              (unsigned)lease->generation);
    hf_assert(!lease_is_over(lease) && lease->fence != 0, "slot %u, state %d",
              (unsigned)lease->slot, (int)fsm->state);
    r->slots[lease->slot] = (struct renewal_slot){.lease = lease, .doubt_until = HF_TIME_PAST};
    fsm->servers = &r->servers;
    renewal_watch(r, lease);
    if (readopted) {
        /* (!) The earlier agent's last command, a heal or a vote that came too late to count, may
         * still run. */
        r->slots[lease->slot].broken = (uint16_t)renewal_all_nodes(r);
        r->slots[lease->slot].doubt_until = hf_time_add(r->started, lease_timing(lease).attempt);
    }
    lease->releasing = false;
    lease->blamed = -1;
    lease->undescribed = (uint16_t)(fence_handoffs(lease->fence) ? renewal_all_nodes(r) : 0);
    lease_await_beats(lease, now);
    if (r->slots_used <= lease->slot)
        r->slots_used = lease->slot + 1;
    for (int i = 0; i < r->n; i++) {
        struct renewal_node *node = &r->node[i];
        struct lease_node *ln = lease_node(lease, i);

        fsm->node[i].mark =
            (uint16_t)(readopted ? node->first_mark : lease_mark_at(node, lease->since));
        /* An earlier agent's command, or an acquire without an answer, may have written there. */
        *ln = (struct lease_node){.written = readopted || lease_fsm_is_void(fsm, i)};
        if (lease_fsm_is_void(fsm, i))
            /* A late vote may still come. */
            renewal_schedule(node, lease, hf_time_add(now, lease_timing(lease).attempt));
        else
            renewal_plan_first(node, lease,
                               hf_time_sub(lease_fsm_d(fsm, i), lease_timing(lease).span));
    }
    /* Votes that came after the grant are not shown yet. */
    if (!readopted && lease_fsm_votes(fsm, now) > fsm->q)
        actions |= LEASE_ACT_EXTEND;
    lease_carry_out(r, lease, lease_fsm_tick(fsm, now) | actions, &before, false);
    /* (!) The broker may have had it when a step was found. */
    for (int i = 0; i < r->n && !readopted; i++)
        if (r->node[i].void_before.ns != HF_TIME_PAST.ns)
            lease_step(&r->node[i], lease, r->node[i].void_before);
}

bool renewal_hit(struct renewal_node *node, struct lease *lease, hf_time a, enum hit hit,
                 hf_time now)
{
    struct lease_fsm *fsm = &lease->fsm;
    struct lease_before before = lease_before(lease, node->number, HF_LOSS_NONE);
    bool stood = before.vote.ns != HF_TIME_PAST.ns;
    uint32_t mark = hit == HIT_GRANT ? lease_mark_at(node, a) : node->trust.mark;
    /* (!) If the node forgot, the grant's late vote dates from before that: agent/core/age.h. */
    bool counts = hit == HIT_GRANT ||
                  (!node->went_back[0] && hf_time_reached(a, renewal_counts_from(node, lease)));
    unsigned actions = counts ? lease_fsm_hit(fsm, node->number, a, mark, now)
                              : lease_fsm_stands(fsm, node->number, now);

    if (counts && !lease_fsm_is_void(fsm, node->number))
        lease_node(lease, node->number)->written = false;
    /* One more vote is published, though V may not have moved. */
    if (!stood && !lease_fsm_is_void(fsm, node->number) && !lease_is_over(lease))
        actions |= LEASE_ACT_EXTEND;
    if (hit == HIT_HEALED && !lease_is_over(lease))
        event_healed(node->renewal->agent, lease, &before);
    if (hit != HIT_RENEWED)
        before.node = -1; /* told already, or no event: the grant waited only for a quorum */
    renewal_act(node->renewal, lease, actions, &before);
    return counts;
}

void renewal_vote(struct renewal *r, struct lease *lease, int i, hf_time a)
{
    struct renewal_node *node = &r->node[i];

    lease_check(r, lease);
    hf_assert(i >= 0 && i < r->n, "node %d of %d", i, r->n);
    if (lease_is_over(lease)) {
        struct delete_request request = delete_request_of(lease, UINT32_C(1) << i);

        if (lease->releasing)
            (void)key_deleter_start(r->key_deleter, &request);
        return;
    }
    (void)renewal_hit(node, lease, a, HIT_GRANT, clock_now());
    renewal_plan_first(node, lease, a);
}

void renewal_release(struct renewal *r, struct lease *lease, enum hf_loss_reason reason)
{
    struct lease_before before = lease_before(lease, -1, HF_LOSS_NONE);
    hf_time now = clock_now();

    lease_check(r, lease);
    if (!lease_is_over(lease))
        lease_carry_out(r, lease, lease_fsm_release(&lease->fsm, reason, now), &before, true);
    else if (!lease->releasing)
        renewal_release_keys(r, lease, now); /* a lost run whose tree is reaped now */
}

void renewal_lose(struct renewal *r, struct lease *lease, enum hf_loss_reason reason, bool killing,
                  struct asker by)
{
    struct lease_before before = lease_before(lease, -1, HF_LOSS_NONE);

    lease_check(r, lease);
    before.by = by;
    if (!lease_is_over(lease))
        renewal_act(r, lease, lease_fsm_lose(&lease->fsm, reason, clock_now()), &before);
    if (reason == HF_LOSS_GUARDIAN)
        event_job(r->agent, lease, killing ? HF_EVENT_JOB_KILLED : HF_EVENT_JOB_STOPPED);
}

void renewal_abandon(struct renewal *r, struct lease *lease)
{
    struct lease_before before = lease_before(lease, -1, HF_LOSS_NONE);

    lease_check(r, lease);
    if (lease_is_over(lease))
        return;
    event_abandoned(r->agent, lease);
    lease_carry_out(r, lease, lease_fsm_abandon(&lease->fsm, clock_now()) | LEASE_ACT_TIMER,
                    &before, false);
    if (!lease_is_over(lease))
        lease_mark_slot(r, lease);
}

void renewal_bind_beats(struct renewal *r, struct lease *lease, struct beats *beats)
{
    if (!lease_beat(lease)) {
        beats_drop(beats);
        return;
    }
    beats_drop(lease_extra(lease)->beats);
    lease_extra(lease)->beats = beats;
    if (lease_is_over(lease))
        return;
    renewal_begin_beats(r, lease, clock_now());
}
