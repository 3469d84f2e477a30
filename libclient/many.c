/* Several acquires that are one for their caller, for set.c, slots.c and exclusive.c. The caller's op (the
 * whole) is no request: at each turn with the client its step, given by one of these, acts on the results
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
    if (part->bare) {
        options.flags = 0;
        options.heartbeat_ms = options.max_hold_ms = 0;
    }
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
           status == HF_ENOAGENT || status == HF_ESHUTDOWN || status == HF_ELOST ||
           status == HF_EDRAINED;
}

/* --- what is kept while others are waited for --------------------------------------------------- */

/* Between two starts, so that a lease that cannot be kept makes no busy loop. */
#define ANEW_NS (100 * HF_NS_PER_MS)

bool hfc_many_may_go_on(const struct hfc_many *many)
{
    bool keeps = false, drained = false;

    for (unsigned i = 0; i < many->count; i++) {
        const struct hfc_part *part = &many->parts[i];

        if (part->lease && hf_state(part->lease) >= HF_STATE_LOSING)
            return false;
        keeps = keeps || part->lease;
        drained = drained ||
                  (part->op && !part->op->done && part->op->progress_now.reason == HF_EDRAINED);
    }
    return !(keeps && drained && !many->trying);
}

void hfc_many_begin_anew(struct hfc_many *many, int64_t now_ns)
{
    if (!many->waits) {
        many->whole.text[0] = '\0';
        hfc_many_end(many, HF_ELOST, NULL);
        return;
    }
    for (unsigned i = 0; i < many->count; i++)
        hfc_many_drop(&many->parts[i]);
    many->done = 0;
    many->trying = true;
    many->resume_ns = now_ns + ANEW_NS;
}

void hfc_many_finish(struct hfc_many *many, int64_t now_ns)
{
    for (unsigned i = 0; i < many->count; i++)
        if (hf_state(many->parts[i].lease) != HF_STATE_HELD) {
            hfc_many_begin_anew(many, now_ns);
            return;
        }
    hfc_many_end(many, HF_OK, NULL);
}

/* --- slots ------------------------------------------------------------------------------------ */

int hfc_many_check_slots(const struct hf_acquire_options *options, unsigned slots)
{
    int status = hfc_acquire_check(options), room;

    hfc_keep_conflict(NULL);
    hfc_keep_index(-1);
    if (status < 0 || (status = hfc_acquire_check_name(options->name, options->name_len)) < 0)
        return status;
    if (slots == 0 || slots > HF_SET_MAX)
        return hfc_fail(HF_EINVAL, "give a counted lock 1 to %d slots, not %u", HF_SET_MAX, slots);
    room = HF_NAME_MAX - snprintf(NULL, 0, "#%u", slots - 1);
    if (options->name_len > (size_t)room)
        return hfc_fail(
            HF_ENAME,
            "use a name of at most %d bytes, not %zu: with %u slots each slot's number is "
            "added to it",
            room, options->name_len, slots);
    return HF_OK;
}

void hfc_many_name_slot(struct hfc_part *part, const struct hf_acquire_options *options,
                        unsigned number)
{
    char text[16];
    int digits = snprintf(text, sizeof(text), "#%u", number);

    part->index = number;
    memcpy(part->name, options->name, options->name_len);
    memcpy(part->name + options->name_len, text, (size_t)digits);
    part->name_len = (uint8_t)(options->name_len + (size_t)digits);
}

void hfc_many_name_gate(struct hfc_part *part, const struct hf_acquire_options *options)
{
    part->index = HF_SET_MAX;
    memcpy(part->name, options->name, options->name_len);
    part->name_len = (uint8_t)options->name_len;
}

/* --- the whole as an op ----------------------------------------------------------------------- */

static struct hfc_many *many_of(hf_op *whole)
{
    return (struct hfc_many *)whole;
}

static void many_report(struct hfc_many *many, const struct hfc_part *part) REQUIRES(hfc_locked)
{
    many->told = part->op->progress_now;
    many->told.index = part->index;
    many->told.holders = many->holders;
    many->whole.progress_now = many->told;
    many->whole.progress_due = true;
}

/* All that are not granted yet, as one; when the reason or the number of them changes. What is free was granted by
 * `tell_ns`. A part of which nothing was heard counts, too: the agent tells progress only while the ring has
 * room. */
static void many_pass_on_together(struct hfc_many *many) REQUIRES(hfc_locked)
{
    const struct hfc_part *first = NULL;

    if (hfc_now() < many->tell_ns)
        return;
    many->holders = 0;
    for (unsigned i = 0; i < many->count; i++) {
        const struct hfc_part *part = &many->parts[i];
        int reason;

        if (!part->op || part->op->done)
            continue;
        reason = part->op->progress_now.reason;
        many->holders += part != many->gate && (reason == HF_EBUSY || !reason);
        if (reason && (!first || reason != HF_EBUSY))
            first = part;
    }
    if (first && (first->op->progress_now.reason != many->told.reason ||
                  many->holders != many->told.holders))
        many_report(many, first);
}

/* Reported once per change. While several slots are waited for their holders change all the time: a
 * conflict is reported once until the reason changes. */
static void many_pass_on_progress(struct hfc_many *many) REQUIRES(hfc_locked)
{
    if (many->together) {
        many_pass_on_together(many);
        return;
    }
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
        many_report(many, part);
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
    if (now < many->tell_ns)
        next = hfc_min(next, many->tell_ns);
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
    many_pass_on_progress(many);
    hfc_timer_pull(whole->client, many_next(whole));
}

static void many_cancel(hf_op *whole) REQUIRES(hfc_locked)
{
    struct hfc_many *many = many_of(whole);

    hfc_acquire_cancel(whole);
    for (unsigned i = 0; i < many->count; i++)
        hfc_many_drop(&many->parts[i]);
}

/* The start of a failure's message: the culprit's name, "" without one, and of what is alone how much that takes where it is
 * too much; keeps its index. */
static void many_get_preface(const struct hfc_many *many, char ret_preface[PREFACE_SIZE])
{
    const struct hfc_part *part = many->culprit;
    int used = 0;

    ret_preface[0] = '\0';
    hfc_keep_index(part ? (int)part->index : -1);
    hfc_keep_count(part ? many->holders : 0);
    if (!part)
        return;
    for (int i = 0; i < part->name_len && i < NAME_SHOWN_MAX; i++) {
        uint8_t byte = part->name[i];

        ret_preface[used++] = byte >= ' ' && byte < 0x7f ? (char)byte : '?';
    }
    used += snprintf(ret_preface + used, PREFACE_SIZE - (size_t)used,
                     "%s: ", part->name_len > NAME_SHOWN_MAX ? "..." : "");
    if (many->together && (many->whole.status == HF_ELIMIT || many->whole.status == HF_EFULL))
        (void)snprintf(ret_preface + used, PREFACE_SIZE - (size_t)used,
                       "to be alone takes %u locks: ", many->count);
}

static int many_result(hf_op *whole, hf_lease **ret_leases) REQUIRES(hfc_locked)
{
    struct hfc_many *many = many_of(whole);
    int status = whole->status;

    if (status < 0) {
        char preface[PREFACE_SIZE];

        many_get_preface(many, preface);
        hfc_acquire_explain(whole, preface);
    } else if (whole->lease) { /* one is enough */
        *ret_leases = whole->lease;
        whole->lease = NULL;
    } else {
        for (unsigned i = 0; i < many->count; i++) {
            struct hfc_part *part = &many->parts[i];

            ret_leases[part->index] = part->lease;
            hfc_lease_of(part->lease)->thread = whole->thread;
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
