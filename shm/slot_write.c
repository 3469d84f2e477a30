/* The agent's side of a slot. */
#include "shm/assert.h"
#include "shm/seq.h"
#include "shm/slot.h"

#define FLAGS_MASK   UINT32_C(0xffff)
#define VOTES_SHIFT  16
#define VOTES_MASK   (UINT32_C(0xff) << VOTES_SHIFT)
#define REASON_SHIFT 24
#define STATE_MASK   (UINT32_C(0xff) << HF_SLOT_STATE_SHIFT)

/* A store under the sequence count; see shm/seq.h for why it is a release. */
#define SET(slot, field, value) atomic_store_explicit(&(slot)->field, (value), memory_order_release)
/* The writer's own stores; only merged, never used for a decision. */
#define OWN(slot, field) atomic_load_explicit(&(slot)->field, memory_order_relaxed)

static uint32_t slot_write_make_marks(uint32_t flags, uint32_t votes, enum hf_loss_reason reason)
{
    hf_assert((uint32_t)reason <= HF_LOSS_AWAY, "reason %d", (int)reason);
    hf_assert((flags & ~FLAGS_MASK) == 0, "flags %x", (unsigned)flags);
    return (flags & FLAGS_MASK) | (votes << VOTES_SHIFT & VOTES_MASK) |
           (uint32_t)reason << REASON_SHIFT;
}

/* Of what is shown: a count that is even, and a state and marks that fit in their bits. */
static void slot_write_check(const struct hf_slot *slot, uint32_t votes)
{
    hf_assert(votes <= HF_NODES_MAX, "votes %u", (unsigned)votes);
    hf_assert((OWN(slot, seq) & 1) == 0, "seq %u", (unsigned)OWN(slot, seq));
}

static void slot_write_set_state(struct hf_slot *slot, enum hf_slot_state state)
{
    hf_assert((uint32_t)state <= HF_SLOT_ENDED, "state %d", (int)state);
    SET(slot, lengths, (OWN(slot, lengths) & ~STATE_MASK) | (uint32_t)state << HF_SLOT_STATE_SHIFT);
}

void hf_slot_publish(struct hf_slot *slot, const struct hf_slot_identity *id, hf_time deadline,
                     uint32_t votes)
{
    hf_assert(id->generation >= 1 && id->generation <= HF_GEN_MAX, "generation %u",
              (unsigned)id->generation);
    hf_assert(id->name_len >= 1 && id->note_len <= HF_NOTE_MAX && id->comm_len <= HF_COMM_MAX,
              "lengths %u, %u, %u", id->name_len, id->note_len, id->comm_len);
    hf_seq_enter(&slot->seq);
    SET(slot, generation, id->generation);
    SET(slot, deadline_ns, deadline.ns);
    SET(slot, fence, id->fence);
    SET(slot, since_ns, id->since.ns);
    SET(slot, pid, id->pid);
    SET(slot, uid, id->uid);
    SET(slot, text_off, id->text_off);
    SET(slot, lengths,
        (uint32_t)id->name_len | (uint32_t)id->note_len << 8 | (uint32_t)id->comm_len << 16 |
            (uint32_t)HF_SLOT_HELD << HF_SLOT_STATE_SHIFT);
    SET(slot, marks, slot_write_make_marks(id->flags, votes, HF_LOSS_NONE));
    SET(slot, ttl_ms, id->ttl_ms);
    hf_seq_leave(&slot->seq);
    slot_write_check(slot, votes);
    /* Never through 0: at a warm restart the holder of this lease may be reading it. */
    atomic_store_explicit(&slot->check, hf_check_pack(id->generation, deadline),
                          memory_order_release);
}

void hf_slot_extend(struct hf_slot *slot, hf_time deadline, uint32_t votes)
{
    uint32_t marks = OWN(slot, marks);

    hf_assert(OWN(slot, generation) != 0, "V %lld", (long long)deadline.ns);
    /* The word first: when V moves back, the holder must not act on the old one a moment longer. */
    atomic_store_explicit(&slot->check, hf_check_pack(OWN(slot, generation), deadline),
                          memory_order_release);
    hf_seq_enter(&slot->seq);
    SET(slot, deadline_ns, deadline.ns);
    SET(slot, marks, (marks & ~VOTES_MASK) | (votes << VOTES_SHIFT & VOTES_MASK));
    hf_seq_leave(&slot->seq);
    slot_write_check(slot, votes);
}

void hf_slot_mark(struct hf_slot *slot, enum hf_slot_state state, uint32_t flags,
                  enum hf_loss_reason reason)
{
    uint32_t votes = (OWN(slot, marks) & VOTES_MASK) >> VOTES_SHIFT;

    hf_assert(state >= HF_SLOT_HELD && state <= HF_SLOT_LOSING, "state %d", (int)state);
    hf_seq_enter(&slot->seq);
    slot_write_set_state(slot, state);
    SET(slot, marks, slot_write_make_marks(flags, votes, reason));
    hf_seq_leave(&slot->seq);
}

void hf_slot_withdraw(struct hf_slot *slot)
{
    /* Sequentially consistent: the store is visible before the key can be released. */
    atomic_store(&slot->check, 0);
}

void hf_slot_end(struct hf_slot *slot, enum hf_slot_state state, enum hf_loss_reason reason)
{
    uint32_t flags = OWN(slot, marks) & FLAGS_MASK;

    hf_assert(state == HF_SLOT_LOST || state == HF_SLOT_ENDED, "state %d", (int)state);
    hf_assert(OWN(slot, check) == 0, "check word %llx", (unsigned long long)OWN(slot, check));
    hf_seq_enter(&slot->seq);
    SET(slot, deadline_ns, 0);
    slot_write_set_state(slot, state);
    SET(slot, marks, slot_write_make_marks(flags, 0, reason));
    hf_seq_leave(&slot->seq);
}

void hf_slot_clear(struct hf_slot *slot)
{
    hf_slot_withdraw(slot);
    hf_seq_enter(&slot->seq);
    SET(slot, deadline_ns, 0);
    SET(slot, fence, 0);
    SET(slot, since_ns, 0);
    SET(slot, pid, 0);
    SET(slot, uid, 0);
    SET(slot, text_off, 0);
    SET(slot, lengths, (uint32_t)HF_SLOT_FREE << HF_SLOT_STATE_SHIFT);
    SET(slot, marks, 0);
    SET(slot, ttl_ms, 0);
    hf_seq_leave(&slot->seq);
}
