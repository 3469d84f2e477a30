/* Several acquires that are one for their caller, for set.c and slots.c. The caller's op (the whole)
 * is no request: at each turn with the client its step, given by set.c or slots.c, acts on the results
 * of its parts' requests. */
#include "libclient/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_SHOWN_MAX 80
#define PREFACE_SIZE   128

_Static_assert(offsetof(struct hfc_many, whole) == 0, "freed as the op that it is");

bool hfc_many_ask(struct hfc_many *many, struct hfc_part *part, bool wait)
{
    struct hf_acquire_options options = many->options;
    int status;

    options.name = part->name;
    options.name_len = part->name_len;
    options.wait_ms = 0;
    if (wait) {
        int64_t left_ns = many->deadline_ns - hfc_now();

        options.wait_ms = left_ns > 0 ? left_ns / HF_NS_PER_MS + 1 : 1;
        if (many->deadline_ns == HFC_NEVER)
            options.wait_ms = -1;
    }
    status = hfc_acquire_begin(many->whole.client, &options, &part->op);
    if (status == HF_OK) {
        part->op->relayed = true;
        return true;
    }
    (void)snprintf(many->whole.text, sizeof(many->whole.text), "%.180s", hf_last_message());
    hfc_many_end(many, status, part);
    return false;
}

void hfc_many_keep(struct hfc_part *part)
{
    part->lease = part->op->lease;
    part->op->lease = NULL;
    hfc_op_abandon(part->op);
    part->op = NULL;
}

void hfc_many_drop(struct hfc_part *part)
{
    if (part->op)
        hfc_op_abandon(part->op);
    if (part->lease)
        hfc_acquire_give_back(part->lease);
    part->op = NULL;
    part->lease = NULL;
}

void hfc_many_end(struct hfc_many *many, int status, const struct hfc_part *culprit)
{
    hf_op *whole = &many->whole;

    whole->done = true;
    whole->status = status;
    many->culprit = culprit;
    if (culprit && culprit->op) {
        whole->has_holder = culprit->op->has_holder;
        whole->holder = culprit->op->holder;
        memcpy(whole->text, culprit->op->text, sizeof(whole->text));
    }
    for (unsigned i = 0; status < 0 && i < many->count; i++)
        hfc_many_drop(&many->parts[i]);
    hfc_timer_pull(whole->client, 0);
}

bool hfc_many_may_pass(int status)
{
    return status == HF_EBUSY || status == HF_ETIMEDOUT || status == HF_ENOQUORUM ||
           status == HF_ENOAGENT || status == HF_ELOST || status == HF_EDRAINED;
}

/* --- the whole as an op ----------------------------------------------------------------------- */

static struct hfc_many *many_of(hf_op *whole)
{
    return (struct hfc_many *)whole;
}

/* Reported once per change. While several slots are waited for their holders change all the time: a
 * conflict is reported once until the reason changes. */
static void pass_on_progress(struct hfc_many *many) REQUIRES(hfc_locked)
{
    for (unsigned i = 0; i < many->count; i++) {
        struct hfc_part *part = &many->parts[i];
        hf_op *op = part->op;
        bool old;

        if (!op || !op->progress_due)
            continue;
        op->progress_due = false;
        old = many->any && op->progress_now.reason == many->told.reason &&
              (many->told.reason == HF_EBUSY || !strcmp(many->told.text, op->progress_now.text));
        if (old)
            continue;
        many->told = op->progress_now;
        many->told.index = part->index;
        many->whole.progress_now = many->told;
        many->whole.progress_due = true;
    }
}

static int64_t many_next(const hf_op *whole) REQUIRES(hfc_locked)
{
    const struct hfc_many *many = (const struct hfc_many *)whole;
    int64_t next = HFC_NEVER, now = hfc_now();

    /* A part that waits ends by itself. */
    if (many->trying && many->waits)
        next = many->deadline_ns;
    if (now < many->resume_ns)
        next = hfc_min(next, many->resume_ns);
    for (unsigned i = 0; i < many->count; i++) {
        const struct hfc_part *part = &many->parts[i];

        if (part->op && !part->op->done)
            next = hfc_min(next, hfc_op_next(part->op));
        if (part->lease) {
            next = hfc_min(next, hf_valid_until_ns(part->lease));
            if (many->options.heartbeat_ms)
                next = hfc_min(next, now + many->options.heartbeat_ms * HF_NS_PER_MS / 4);
        }
    }
    return next;
}

static void many_turn(hf_op *whole, int64_t now_ns) REQUIRES(hfc_locked)
{
    struct hfc_many *many = many_of(whole);

    for (unsigned i = 0; i < many->count; i++) {
        struct hfc_part *part = &many->parts[i];

        if (part->op)
            hfc_op_expire(part->op, now_ns);
        (void)hf_beat(part->lease);
    }
    many->step(many, now_ns);
    if (whole->done)
        return;
    pass_on_progress(many);
    hfc_timer_pull(whole->client, many_next(whole));
}

static void many_cancel(hf_op *whole) REQUIRES(hfc_locked)
{
    struct hfc_many *many = many_of(whole);

    hfc_acquire_cancel(whole);
    for (unsigned i = 0; i < many->count; i++)
        hfc_many_drop(&many->parts[i]);
}

/* The start of a failure's message: the culprit's name, "" without one; keeps its index. */
static void get_preface(const struct hfc_many *many, char ret_preface[PREFACE_SIZE])
{
    const struct hfc_part *part = many->culprit;
    int used = 0;

    ret_preface[0] = '\0';
    hfc_keep_index(part ? (int)part->index : -1);
    if (!part)
        return;
    for (int i = 0; i < part->name_len && i < NAME_SHOWN_MAX; i++) {
        uint8_t byte = part->name[i];

        ret_preface[used++] = byte >= ' ' && byte < 0x7f ? (char)byte : '?';
    }
    (void)snprintf(ret_preface + used, PREFACE_SIZE - (size_t)used,
                   "%s: ", part->name_len > NAME_SHOWN_MAX ? "..." : "");
}

static int many_result(hf_op *whole, hf_lease **ret_leases) REQUIRES(hfc_locked)
{
    struct hfc_many *many = many_of(whole);
    int status = whole->status;

    if (status < 0) {
        char preface[PREFACE_SIZE];

        get_preface(many, preface);
        hfc_acquire_explain(whole, preface);
    } else if (whole->lease) { /* one is enough */
        *ret_leases = whole->lease;
        whole->lease = NULL;
    } else {
        for (unsigned i = 0; i < many->count; i++) {
            struct hfc_part *part = &many->parts[i];

            ret_leases[part->index] = part->lease;
            part->lease = NULL;
        }
    }
    hfc_op_abandon(whole);
    return status;
}

static const struct hfc_kind many_kind = {
    .wire_op = HF_OP_ACQUIRE,
    .expire = many_turn,
    .next = many_next,
    .cancel = many_cancel,
    .result = many_result,
};

int hfc_many_new(hf_client *client, const struct hf_acquire_options *options, unsigned count,
                 void (*step)(struct hfc_many *many, int64_t now_ns), struct hfc_many **ret_many)
{
    struct hfc_many *many = calloc(1, sizeof(*many) + count * sizeof(many->parts[0]));
    hf_op *whole;

    if (!many) {
        hfc_fail(HF_ENOMEM, NULL);
        return HF_ENOMEM; /* explicit for analysers that see only this file */
    }
    whole = &many->whole;
    hfc_op_init(whole, client, &many_kind);
    whole->progress = options->progress;
    whole->arg = options->arg;
    many->step = step;
    many->options = *options;
    many->options.progress = NULL;
    if (options->note) {
        memcpy(many->note, options->note, strlen(options->note));
        many->options.note = many->note;
    }
    many->waits = options->wait_ms != 0;
    many->deadline_ns = HFC_NEVER;
    if (options->wait_ms >= 0 && options->wait_ms <= HFC_NEVER / HF_NS_PER_MS)
        many->deadline_ns = hfc_after(whole->start_ns, options->wait_ms * HF_NS_PER_MS);
    many->trying = true;
    many->count = count;
    for (unsigned i = 0; i < count; i++)
        many->parts[i].index = i;
    hfc_op_move(whole, HFC_OP_WHOLE);
    *ret_many = many;
    return HF_OK;
}
