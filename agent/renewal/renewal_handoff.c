/* The renewal thread's part of a hand-off: agent/state/lease.h has the order and its reason. */
#include "agent/renewal/renewal_internal.h"

#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/thread.h"
#include "agent/state/lease.h"
#include "agent/core/fence.h"
#include "shm/assert.h"
#include "shm/slot.h"

/* All that is known of the token is kept: votes, what is due on each node, what is unanswered there.
 * Commands sent for the old generation are answered for the new one (renewal_find_token). */
static void renewal_handoff_take_over(struct renewal *r, struct lease *from, struct lease *to,
                                      const struct handoff *h)
{
    hf_assert(r->slots[from->slot].lease == from && to->slot == from->slot, "slots %u, %u",
              (unsigned)from->slot, (unsigned)to->slot);
    hf_assert(to->generation == from->generation + 1, "generation %u after %u",
              (unsigned)to->generation, (unsigned)from->generation);
    hf_assert(to->fence == fence_handed_over(from->fence), "fence %llu after %llu",
              (unsigned long long)to->fence, (unsigned long long)from->fence);
    hf_assert(to->nodes == from->nodes && to->ttl_ms == from->ttl_ms, "nodes %d, %d, ttl_ms %u, %u",
              to->nodes, from->nodes, (unsigned)to->ttl_ms, (unsigned)from->ttl_ms);
    hf_assert(!from->releasing, "slot %u, state %d", (unsigned)from->slot, (int)from->fsm.state);
    lease_fsm_hand_over(&to->fsm, &from->fsm, to->is_job, h->max_hold);
    memcpy(lease_node(to, 0), lease_node(from, 0), (size_t)r->n * sizeof(struct lease_node));
    to->releasing = false;
    to->blamed = -1;
    to->undescribed = (uint16_t)renewal_all_nodes(r);
    atomic_init(&to->valid_ns, to->fsm.valid.ns);
    atomic_init(&to->state, (uint8_t)to->fsm.state);
    r->slots[to->slot].lease = to; /* the slot's doubts belong to the token */
}

static void renewal_handoff_publish(struct renewal *r, const struct lease *to, uint32_t text_off,
                                    hf_time now)
{
    struct hf_slot_identity id = {.generation = to->generation,
                                  .pid = to->pid,
                                  .uid = to->uid,
                                  .ttl_ms = to->ttl_ms,
                                  .flags = to->is_job ? HF_SLOT_F_JOB : 0,
                                  .text_off = text_off,
                                  .name_len = (uint8_t)to->name_len,
                                  .note_len = to->note_len,
                                  .comm_len = to->comm_len,
                                  .fence = to->fence,
                                  .since = to->since};

    hf_slot_publish(&r->agent->table.slots[to->slot], &id, to->fsm.valid,
                    (uint32_t)lease_fsm_votes(&to->fsm, now));
}

static void renewal_handoff_answer(struct renewal *r, struct handoff *h)
{
    struct message *message = message_new(MSG_HANDED_OVER);

    message->handoff = h;
    mailbox_post(&r->agent->to_broker, message);
}

static void renewal_handoff_carry_out(struct renewal *r, struct lease *from, struct handoff *h,
                                      hf_time now) IN_RENEWAL_THREAD
{
    struct lease *to = h->to;

    renewal_handoff_take_over(r, from, to, h);
    /* (!) In this order: after a kill the next agent gives the lease to the new holder or to nobody, and
     * the two are never valid together. */
    journal_put_holder(r->agent->journal, to->slot, &h->owner);
    lease_journal(r->agent, to, JOURNAL_HANDOFF);
    hf_slot_withdraw(&r->agent->table.slots[to->slot]);
    renewal_handoff_publish(r, to, h->text_off, now);
    h->valid = to->fsm.valid;
    h->voting = event_handed_over(r->agent, from, h->reason);
    atomic_store(&from->valid_ns, 0);
    atomic_store(&from->state, (uint8_t)HF_SLOT_ENDED);
    renewal_handoff_answer(r, h);
    renewal_begin_beats(r, to, now);
    renewal_count(r, HF_COUNTER_RELEASES, 1);
}

void renewal_hand_over(struct renewal *r, struct handoff *h)
{
    struct lease *from = renewal_find(r, h->slot, h->generation);
    hf_time now = clock_now();

    h->verdict = HANDOFF_NOT_HELD;
    if (from && lease_fsm_renews(&from->fsm)) {
        struct handoff_facts facts = handoff_facts(from, from->fsm.state, from->fsm.valid,
                                                   hf_ms(h->to->ttl_ms), h->max_hold, now);

        h->verdict = handoff_judge(&facts);
    }
    if (h->verdict == HANDOFF_YES) {
        renewal_handoff_carry_out(r, from, h, now);
        return;
    }
    {
        enum hf_loss_reason reason = h->reason;

        renewal_handoff_answer(r, h); /* the hand-off is the broker's from here on */
        if (from)
            renewal_release(r, from, reason);
    }
}
