/* Ops, and in which list of its client each is: queued, flying (in the ring), parked (answered) or
 * whole (of several requests). An op stays until its caller takes the answer; an abandoned op stays
 * only as long as the agent may still grant it. */
#include "libclient/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct hfc_kind cancel_kind = {.wire_op = HF_OP_CANCEL, .one_way = true};

static struct hfc_ops *op_list_of(hf_op *op) REQUIRES(hfc_locked)
{
    hf_client *client = op->client;

    switch (op->place) {
    case HFC_OP_QUEUED:
        return &client->queued;
    case HFC_OP_FLYING:
        return &client->flying;
    case HFC_OP_PARKED:
        return &client->parked;
    case HFC_OP_WHOLE:
        return &client->wholes;
    case HFC_OP_NOWHERE:
        break;
    }
    return NULL;
}

void hfc_op_move(hf_op *op, enum hfc_op_place place)
{
    struct hfc_ops *list = op_list_of(op);

    if (list)
        TAILQ_REMOVE(list, op, link);
    op->place = place;
    list = op_list_of(op);
    if (list)
        TAILQ_INSERT_TAIL(list, op, link);
}

void hfc_op_discard(hf_op *op)
{
    hfc_op_move(op, HFC_OP_NOWHERE);
    hfc_beats_give(op->client, op->entry.beat_word);
    free(op);
}

void hfc_op_init(hf_op *op, hf_client *client, const struct hfc_kind *kind)
{
    op->client = client;
    op->kind = kind;
    op->entry.op = kind->wire_op;
    op->entry.id = ++client->next_id;
    op->start_ns = op->entry.asked_ns = hfc_now();
    op->deadline_ns = op->give_up_ns = HFC_NEVER;
}

hf_op *hfc_op_new(hf_client *client, const struct hfc_kind *kind)
{
    hf_op *op = calloc(1, sizeof(*op));

    if (op)
        hfc_op_init(op, client, kind);
    return op;
}

hf_op *hfc_op_new_of(hf_client *client, const struct hfc_kind *kind, const void *name,
                     size_t name_len)
{
    hf_op *op = hfc_op_new(client, kind);

    if (!op) {
        hfc_fail(HF_ENOMEM, NULL);
        return NULL;
    }
    op->entry.name_len = (uint8_t)name_len;
    memcpy(op->entry.name, name, name_len);
    return op;
}

void hfc_op_queue_cancel(hf_client *client, uint64_t target)
{
    hf_op *cancel = hfc_op_new(client, &cancel_kind);

    if (!cancel) /* a late grant is then released when it comes */
        return;
    cancel->entry.target = target;
    cancel->abandoned = true;
    hfc_op_move(cancel, HFC_OP_QUEUED);
}

void hfc_ops_requeue(hf_client *client)
{
    struct hfc_ops later = TAILQ_HEAD_INITIALIZER(later);
    hf_op *op;

    TAILQ_CONCAT(&later, &client->queued, link);
    while ((op = TAILQ_FIRST(&client->flying))) {
        hfc_op_move(op, HFC_OP_QUEUED);
        if (op->cancelled)
            hfc_op_queue_cancel(client, op->entry.id);
    }
    TAILQ_CONCAT(&client->queued, &later, link);
}

void hfc_op_finish(hf_op *op, int status, const char *text)
{
    op->done = true;
    op->status = status;
    (void)snprintf(op->text, sizeof(op->text), "%.*s", (int)sizeof(op->text) - 1, text);
    hfc_timer_pull(op->client, 0);
}

void hfc_op_note_progress(hf_op *op, const struct hf_completion_entry *entry)
{
    struct hf_progress *now = &op->progress_now;

    *now = (struct hf_progress){
        .size = sizeof(*now),
        .reason = entry->status,
        .nodes_voting = entry->nodes_voting,
        .nodes_up = entry->nodes_up,
        .place = entry->place,
    };
    hfc_holder(&entry->holder, &now->holder);
    (void)snprintf(now->text, sizeof(now->text), "%.*s", (int)sizeof(now->text) - 1, entry->text);
    op->progress_due = true;
    op->told_no_agent = false;
    /* A wait that ends unanswered can still name the holder. */
    op->has_holder = entry->status == HF_EBUSY;
    op->holder = entry->holder;
}

void hfc_op_answered(hf_op *op, const struct hf_completion_entry *entry)
{
    bool none = entry->status > 0 || entry->status == HF_EPENDING; /* no answer has such a status */
    const struct hf_wire_holder *told = &op->holder;
    bool anonymous = op->has_holder && !told->fence && !told->pid && !*told->host;

    if (op->done)
        return;
    if (entry->status == HF_EBUSY || *entry->holder.host || entry->holder.pid) {
        op->has_holder = true;
        op->holder = entry->holder;
    } else if (anonymous && entry->status == HF_ETIMEDOUT) {
        op->holder.pttl_ms = entry->holder.pttl_ms; /* its time left now */
    }
    hfc_op_finish(op, none ? HF_EPROTO : entry->status, entry->text);
}

static void op_free_list(struct hfc_ops *list)
{
    hf_op *op;

    while ((op = TAILQ_FIRST(list))) {
        TAILQ_REMOVE(list, op, link);
        free(op);
    }
}

void hfc_ops_free(hf_client *client)
{
    op_free_list(&client->queued);
    op_free_list(&client->flying);
    op_free_list(&client->parked);
    op_free_list(&client->wholes);
}
