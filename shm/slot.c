/* The observer's side of a slot. */
#include "shm/slot.h"

#include <string.h>

#include "shm/assert.h"
#include "shm/row.h"
#include "shm/status.h"
#include "shm/table.h"

#define TEXT_MAX         (HF_NAME_MAX + HF_NOTE_MAX + HF_COMM_MAX)

#define GET(slot, field) atomic_load_explicit(&(slot)->field, memory_order_acquire)

struct copy {
    struct hf_slot_view view;
    char text[(TEXT_MAX + 7) & ~7];
};

/* Copies name, note and command; false when they cannot be where the slot says. */
static bool slot_read_copy_text(const struct hf_table *table, uint64_t text_off, struct copy *copy)
{
    struct hf_slot_view *view = &copy->view;
    size_t name_len = view->name_len, note_len = view->note_len, comm_len = view->comm_len;
    size_t size = name_len + note_len + comm_len;
    uint64_t units = (size + HF_TEXT_UNIT - 1) / HF_TEXT_UNIT;
    /* Loaded later than `text_off`: memory that it points to was there before it. */
    uint64_t there = atomic_load_explicit(&table->header->text_there, memory_order_acquire);

    if (there > table->text_room)
        there = table->text_room;
    /* (!) Beyond it are holes, whose access raises SIGBUS when /dev/shm is full. */
    if (note_len > HF_NOTE_MAX || comm_len > HF_COMM_MAX || text_off > there ||
        units > there - text_off)
        return false;
    hf_words_load(copy->text, table->text + text_off * HF_TEXT_UNIT, hf_words_round(size));
    memcpy(view->name, copy->text, name_len);
    memcpy(view->note, copy->text + name_len, note_len);
    memcpy(view->comm, copy->text + name_len + note_len, comm_len);
    view->note[note_len] = '\0';
    view->comm[comm_len] = '\0';
    return true;
}

/* One try; the copy is valid only if the sequence count did not change. */
static bool slot_read_copy_slot(const struct hf_table *table, const struct hf_slot *slot,
                                struct copy *copy)
{
    struct hf_slot_view *view = &copy->view;
    uint32_t lengths = GET(slot, lengths), marks = GET(slot, marks);

    view->generation = GET(slot, generation);
    view->state = (enum hf_slot_state)(lengths >> HF_SLOT_STATE_SHIFT);
    view->flags = marks & 0xffff;
    view->votes = marks >> 16 & 0xff;
    view->reason = (enum hf_loss_reason)(marks >> 24);
    view->deadline.ns = GET(slot, deadline_ns);
    view->since.ns = GET(slot, since_ns);
    view->fence = GET(slot, fence);
    view->pid = GET(slot, pid);
    view->uid = GET(slot, uid);
    view->ttl_ms = GET(slot, ttl_ms);
    view->name_len = lengths & 0xff;
    view->note_len = lengths >> 8 & 0xff;
    view->comm_len = lengths >> 16 & 0xff;
    return lengths >> HF_SLOT_STATE_SHIFT <= HF_SLOT_ENDED &&
           slot_read_copy_text(table, GET(slot, text_off), copy);
}

int hf_slot_peek(const struct hf_table *table, uint32_t slot, struct hf_slot_view *ret_view,
                 bool *ret_odd)
{
    const struct hf_slot *from;
    struct copy copy;

    if (slot >= hf_table_slots(table))
        return HF_EINVAL;
    from = &table->slots[slot];
    if (!slot_read_copy_slot(table, from, &copy))
        return HF_ETABLE;
    if (copy.view.state == HF_SLOT_FREE)
        return HF_ENOTHELD;
    copy.view.slot = slot;
    *ret_odd = atomic_load_explicit(&from->seq, memory_order_relaxed) & 1;
    memcpy(ret_view, &copy.view, sizeof(*ret_view));
    return 0;
}

/* As hf_slot_read(). */
static int slot_read(const struct hf_table *table, uint32_t slot, struct copy *copy)
{
    const struct hf_slot *from;

    if (slot >= hf_table_slots(table))
        return HF_EINVAL;
    from = &table->slots[slot];
    for (unsigned try = 0; try < HF_SLOT_TRIES; try++) {
        uint32_t seen;

        if (!hf_seq_begin(&from->seq, try, HF_SLOT_TRIES, &seen))
            continue;
        if (!slot_read_copy_slot(table, from, copy) || !hf_seq_same(&from->seq, seen))
            continue;
        if (copy->view.state == HF_SLOT_FREE)
            return HF_ENOTHELD;
        copy->view.slot = slot;
        return 0;
    }
    return HF_ETABLE;
}

/* The texts only as far as they go. */
static void slot_read_give(const struct hf_slot_view *from, struct hf_slot_view *to)
{
    memcpy(to, from, offsetof(struct hf_slot_view, name));
    memcpy(to->name, from->name, from->name_len);
    memcpy(to->note, from->note, from->note_len + 1u);
    memcpy(to->comm, from->comm, from->comm_len + 1u);
}

int hf_slot_read(const struct hf_table *table, uint32_t slot, struct hf_slot_view *ret_view)
{
    struct copy copy;
    int status = slot_read(table, slot, &copy);

    if (status == 0)
        slot_read_give(&copy.view, ret_view);
    return status;
}

int hf_slot_read_named(const struct hf_table *table, uint32_t slot, const void *name,
                       size_t name_len, struct hf_slot_view *ret_view)
{
    struct copy copy;
    int status = slot_read(table, slot, &copy);

    if (status != 0)
        return status;
    if (copy.view.name_len != name_len || memcmp(copy.view.name, name, name_len) != 0)
        return HF_ENOTHELD;
    slot_read_give(&copy.view, ret_view);
    return 0;
}

/* --- the agent's side ------------------------------------------------------------------------- */

/* The agent's side of a slot. */

#define FLAGS_MASK   UINT32_C(0xffff)
#define VOTES_SHIFT  16
#define VOTES_MASK   (UINT32_C(0xff) << VOTES_SHIFT)
#define REASON_SHIFT 24
#define STATE_MASK   (UINT32_C(0xff) << HF_SLOT_STATE_SHIFT)

/* A store under the sequence count; see shm/row.h for why it is a release. */
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
