/* The rings: requests that are queued go in, answers come out. */
#include "libclient/internal.h"

static const struct hfc_kind give_back_kind = {.wire_op = HF_OP_RELEASE};

void hfc_ring_flush(hf_client *client)
{
    bool wake_agent = false;
    hf_op *op, *next;

    client->ring_full = false;
    if (client->link != HFC_LINK_UP)
        return;
    for (op = TAILQ_FIRST(&client->queued); op; op = next) {
        bool wake = false;
        int status;

        next = TAILQ_NEXT(op, link);
        status = hf_ring_submit(&client->session->ring, &op->entry, &wake);
        if (status == HF_EFULL) {
            client->ring_full = true;
            hfc_timer_pull(client, hfc_now() + HFC_SLICE_FULL_NS);
            break;
        }
        if (status < 0) {
            hfc_link_drop(client, HF_EPROTO, "the agent broke the ring's protocol");
            return;
        }
        wake_agent |= wake;
        op->sent = true;
        if (op->kind->one_way)
            hfc_op_discard(op);
        else
            hfc_op_move(op, HFC_OP_FLYING);
    }
    if (wake_agent)
        hfc_session_rouse(client->session);
}

void hfc_ring_send(hf_op *op)
{
    hfc_op_move(op, HFC_OP_QUEUED);
    hfc_ring_flush(op->client);
}

void hfc_ring_give_back(hf_client *client, uint32_t slot, uint32_t generation, bool is_job)
{
    hf_op *op = hfc_op_new(client, &give_back_kind);

    if (!op) /* the agent releases it when this client ends */
        return;
    op->entry.slot = slot;
    op->entry.generation = generation;
    op->entry.flags = is_job ? HF_REQ_REAPED : 0;
    op->abandoned = true;
    hfc_ring_send(op);
}

static void ring_answer(hf_client *client, const struct hf_completion_entry *entry)
    REQUIRES(hfc_locked)
{
    hf_op *op;

    TAILQ_FOREACH (op, &client->flying, link)
        if (op->entry.id == entry->id)
            break;
    if (!op)
        return;
    if (entry->op == HF_OP_ITEM) {
        if (op->item && !op->abandoned)
            op->item((const struct hf_listing_item *)entry, op->arg);
        return;
    }
    /* Who waits asks the next agent, as after a kill: the op is sent again once this one has gone. */
    if (entry->status == HF_ESHUTDOWN && !op->abandoned && hfc_now() < op->deadline_ns)
        return;
    if (op->found && !op->abandoned)
        *op->found = *entry;
    if (entry->op == HF_OP_PROGRESS) {
        if (!op->done)
            hfc_op_note_progress(op, entry);
        return;
    }
    if (op->kind->answered)
        op->kind->answered(op, entry);
    else
        hfc_op_answered(op, entry);
    if (op->abandoned)
        hfc_op_discard(op);
    else
        hfc_op_move(op, HFC_OP_PARKED);
}

void hfc_ring_drain(hf_client *client)
{
    struct hf_completion_entry entry;
    int status = 0, read = 0;

    /* At most one ring's worth: an agent that never stops posting must not keep us here. */
    while (read < HF_RING_ENTRIES && client->link == HFC_LINK_UP) {
        status = hf_ring_reap(&client->session->ring, &entry);
        if (status <= 0)
            break;
        read++;
        ring_answer(client, &entry);
    }
    /* The ring was full: the agent may have more answers that now have room. */
    if (read == HF_RING_ENTRIES && client->link == HFC_LINK_UP)
        hfc_session_rouse(client->session);
    if (status < 0 && client->link == HFC_LINK_UP)
        hfc_link_drop(client, HF_EPROTO, "the agent broke the ring's protocol");
}
