/* The observer's side of a slot. */
#include "shm/slot.h"

#include <string.h>

#include "shm/seq.h"
#include "shm/status.h"
#include "shm/table.h"
#include "shm/words.h"

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
static int read_slot(const struct hf_table *table, uint32_t slot, struct copy *copy)
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
    int status = read_slot(table, slot, &copy);

    if (status == 0)
        slot_read_give(&copy.view, ret_view);
    return status;
}

int hf_slot_read_named(const struct hf_table *table, uint32_t slot, const void *name,
                       size_t name_len, struct hf_slot_view *ret_view)
{
    struct copy copy;
    int status = read_slot(table, slot, &copy);

    if (status != 0)
        return status;
    if (copy.view.name_len != name_len || memcmp(copy.view.name, name, name_len) != 0)
        return HF_ENOTHELD;
    slot_read_give(&copy.view, ret_view);
    return 0;
}
