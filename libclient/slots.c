/* Counted locks: NAME for up to K holders is the K locks NAME#0 ... NAME#(K-1), of which one is
 * acquired. A shared lock is the same with a gate: the lock NAME itself, which an exclusive holder has
 * (exclusive.c).
 *
 * Slots are tried one after the other, from a random one on: trying all at once would acquire several
 * and release all but one. If all are taken the call waits for all of them, keeps the first grant,
 * and cancels the rest; a second grant is released. The waiter holds nothing meanwhile, so nobody
 * waits for it.
 *
 * Who wants a shared lock tries a few slots first: in the calm one request is enough. If those are
 * taken it stands in the queue for the gate, where an exclusive holder that waits or holds is before
 * it, instead of contending with that one for the slots. With the gate it tries all slots, then waits
 * for all, and gives the gate back once it has a slot. Exclusion never depends on the gate.
 */
#include "libclient/internal.h"

#include <string.h>
#include <sys/random.h>

/* Before the gate. Another try finds a free slot among few that are taken; among many, or with an exclusive
 * holder, it is in vain. */
#define TRIES 4

static void slots_take(struct hfc_many *slots, struct hfc_part *part) REQUIRES(hfc_locked)
{
    hf_op *whole = &slots->whole;

    hfc_many_keep(part);
    whole->lease = part->lease;
    part->lease = NULL;
    hfc_lease_of(whole->lease)->number = (int)part->index;
    for (unsigned i = 0; i < slots->count; i++)
        hfc_many_drop(&slots->parts[i]);
    hfc_many_end(slots, HF_OK, NULL);
}

/* The gate is the part after them. */
static unsigned slots_of(const struct hfc_many *slots)
{
    return slots->gate ? slots->count - 1 : slots->count;
}

static void slots_wait_for_all(struct hfc_many *slots) REQUIRES(hfc_locked)
{
    slots->trying = false;
    for (unsigned i = 0; i < slots_of(slots); i++) {
        hfc_many_drop(&slots->parts[i]);
        if (!hfc_many_ask(slots, &slots->parts[i], true))
            return;
    }
}

static unsigned slots_tries_of(const struct hfc_many *slots)
{
    unsigned all = slots_of(slots);

    return slots->gate && !slots->passed && all > TRIES ? TRIES : all;
}

static void slots_try_next(struct hfc_many *slots) REQUIRES(hfc_locked)
{
    hfc_many_drop(&slots->parts[slots->done]);
    slots->done++;
    (void)hfc_many_ask(slots, &slots->parts[slots->done], false);
}

static void slots_judge_try(struct hfc_many *slots, int64_t now_ns) REQUIRES(hfc_locked)
{
    struct hfc_part *part = &slots->parts[slots->done];
    bool refused;
    int status;

    if (slots->waits && now_ns >= slots->deadline_ns) {
        hfc_many_end(slots, HF_ETIMEDOUT, NULL);
        return;
    }
    if (!part->op->done)
        return;
    status = part->op->status;
    refused = status == HF_EBUSY || status == HF_ELOST;
    if (status == HF_OK)
        slots_take(slots, part);
    else if (refused && slots->done + 1 < slots_tries_of(slots))
        slots_try_next(slots);
    else if (slots->gate && !slots->passed &&
             (refused || (slots->waits && hfc_many_may_pass(status))))
        (void)hfc_many_ask(slots, slots->gate, slots->waits);
    else if (slots->waits && hfc_many_may_pass(status))
        slots_wait_for_all(slots);
    else
        hfc_many_end(slots, status, part);
}

/* --- the gate --------------------------------------------------------------------------------- */

static bool slots_is_same_holder(const hf_op *one, const hf_op *two)
{
    const struct hf_wire_holder *a = &one->holder, *b = &two->holder;

    return one->has_holder && two->has_holder && a->pid && a->pid == b->pid &&
           !strncmp(a->host, b->host, sizeof(a->host));
}

/* A try. Who has the gate and a slot has them all; else the rest is tried, too. */
static void slots_judge_tried_gate(struct hfc_many *slots) REQUIRES(hfc_locked)
{
    struct hfc_part *gate = slots->gate, *part = &slots->parts[slots->done];

    if (gate->op->status == HF_OK) {
        hfc_many_keep(gate);
    } else if (gate->op->status == HF_EBUSY && slots_is_same_holder(gate->op, part->op)) {
        hfc_many_end(slots, HF_EBUSY, gate);
        return;
    } else {
        hfc_many_drop(gate);
    }
    slots->passed = true;
    if (slots->done + 1 < slots_of(slots))
        slots_try_next(slots);
    else
        hfc_many_end(slots, part->op->status, part);
}

static void slots_judge_gate(struct hfc_many *slots) REQUIRES(hfc_locked)
{
    struct hfc_part *gate = slots->gate;
    int status = gate->op->status;

    if (!gate->op->done)
        return;
    if (!slots->waits) {
        slots_judge_tried_gate(slots);
    } else if (status == HF_OK) {
        hfc_many_keep(gate);
        hfc_many_drop(&slots->parts[slots->done]);
        slots->passed = true;
        slots->done = 0;
        (void)hfc_many_ask(slots, &slots->parts[0], false);
    } else if (status == HF_ELOST) { /* granted, and lost before we knew of it */
        hfc_many_drop(gate);
        (void)hfc_many_ask(slots, gate, true);
    } else {
        hfc_many_end(slots, status, gate);
    }
}

/* --- all of them ------------------------------------------------------------------------------ */

static void slots_judge_waits(struct hfc_many *slots) REQUIRES(hfc_locked)
{
    struct hfc_part *failed = NULL;

    if (!hfc_many_may_go_on(slots)) /* somebody asked for the gate, or it is kept in vain */
        hfc_many_drop(slots->gate);
    for (unsigned i = 0; i < slots_of(slots); i++) {
        struct hfc_part *part = &slots->parts[i];

        if (!part->op->done)
            continue;
        if (part->op->status == HF_OK) {
            slots_take(slots, part);
            return;
        }
        failed = part;
    }
    if (!failed)
        return;
    if (failed->op->status == HF_ELOST) { /* granted, and lost before we knew of it */
        hfc_many_drop(failed);
        (void)hfc_many_ask(slots, failed, true);
        return;
    }
    hfc_many_end(slots, failed->op->status, failed);
}

static void slots_step(struct hfc_many *slots, int64_t now_ns) REQUIRES(hfc_locked)
{
    if (slots->gate && slots->gate->op)
        slots_judge_gate(slots);
    else if (slots->trying)
        slots_judge_try(slots, now_ns);
    else
        slots_judge_waits(slots);
}

/* Callers should not all begin with the same slot. */
static unsigned slots_first_of(unsigned slots)
{
    uint32_t random;

    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
        random = (uint32_t)(hfc_now() / 64);
    return random % slots;
}

static int slots_start(hf_client *client, const struct hf_acquire_options *options, unsigned slots,
                       bool gate, hf_op **ret_op) REQUIRES(hfc_locked)
{
    struct hfc_many *many;
    unsigned first = slots_first_of(slots);
    int status = hfc_many_new(client, options, slots + gate, slots_step, &many);

    if (status < 0)
        return status;
    many->any = true;
    for (unsigned i = 0; i < slots; i++)
        hfc_many_name_slot(&many->parts[i], options, (first + i) % slots);
    if (gate) {
        many->gate = &many->parts[slots];
        hfc_many_name_gate(many->gate, options);
        many->gate->bare = true;
    }
    (void)hfc_many_ask(many, &many->parts[0], false);
    *ret_op = &many->whole;
    return HF_OK;
}

static int slots_acquire(hf_client *client, const struct hf_acquire_options *options,
                         unsigned slots, bool gate, hf_lease **ret_lease)
{
    hf_op *op;
    int status;

    hfc_lock(client);
    status = slots_start(client, options, slots, gate, &op);
    if (status == HF_OK) {
        hfc_op_wait(op);
        status = op->kind->result(op, ret_lease);
        hfc_op_settle(client);
    }
    hfc_unlock(client);
    return status;
}

static int slots_acquire_start(hf_client *client, const struct hf_acquire_options *options,
                               unsigned slots, bool gate, hf_op **ret_op)
{
    int status = hfc_client_check(client);

    if (status == HF_OK)
        status = hfc_many_check_slots(options, slots);
    if (status < 0)
        return status;
    if (!ret_op)
        return hfc_fail(HF_EINVAL, "ret_op is NULL");
    hfc_lock(client);
    status = slots_start(client, options, slots, gate, ret_op);
    if (status == HF_OK)
        hfc_timer_pull(client, hfc_op_next(*ret_op));
    hfc_unlock(client);
    return status;
}

int hf_acquire_slot(hf_client *client, const struct hf_acquire_options *options, unsigned slots,
                    hf_lease **ret_lease, unsigned *ret_slot)
{
    int status = hfc_client_check(client);

    if (status == HF_OK)
        status = hfc_many_check_slots(options, slots);
    if (status < 0)
        return status;
    if (!ret_lease || !ret_slot)
        return hfc_fail(HF_EINVAL, "hf_acquire_slot: an argument is NULL");
    status = slots_acquire(client, options, slots, false, ret_lease);
    if (status == HF_OK)
        *ret_slot = (unsigned)hf_slot_number(*ret_lease);
    return status;
}

int hf_acquire_slot_start(hf_client *client, const struct hf_acquire_options *options,
                          unsigned slots, hf_op **ret_op)
{
    return slots_acquire_start(client, options, slots, false, ret_op);
}

int hf_acquire_shared(hf_client *client, const struct hf_acquire_options *options, unsigned slots,
                      hf_lease **ret_lease)
{
    int status = hfc_client_check(client);

    slots = slots ? slots : HF_SET_MAX;
    if (status == HF_OK)
        status = hfc_many_check_slots(options, slots);
    if (status < 0)
        return status;
    if (!ret_lease)
        return hfc_fail(HF_EINVAL, "ret_lease is NULL");
    return slots_acquire(client, options, slots, true, ret_lease);
}

int hf_acquire_shared_start(hf_client *client, const struct hf_acquire_options *options,
                            unsigned slots, hf_op **ret_op)
{
    return slots_acquire_start(client, options, slots ? slots : HF_SET_MAX, true, ret_op);
}

int hf_slot_number(const hf_lease *handle)
{
    const struct hfc_lease *lease = (const struct hfc_lease *)handle;

    return lease && lease->client ? lease->number : HF_ENOTHELD;
}
