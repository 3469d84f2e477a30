/* Counted locks: NAME for up to K holders is the K locks NAME#0 ... NAME#(K-1), of which one is
 * acquired.
 *
 * They are tried one after the other, from a random one on: trying all at once would acquire several
 * and release all but one. If all are taken the call waits for all of them, keeps the first grant,
 * and cancels the rest; a second grant is released. The waiter holds nothing meanwhile, so nobody
 * waits for it.
 */
#include "libclient/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

static void take(struct hfc_many *slots, struct hfc_part *part) REQUIRES(hfc_locked)
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

static void wait_for_all(struct hfc_many *slots) REQUIRES(hfc_locked)
{
    slots->trying = false;
    for (unsigned i = 0; i < slots->count; i++) {
        hfc_many_drop(&slots->parts[i]);
        if (!hfc_many_ask(slots, &slots->parts[i], true))
            return;
    }
}

static void judge_try(struct hfc_many *slots, int64_t now_ns) REQUIRES(hfc_locked)
{
    struct hfc_part *part = &slots->parts[slots->done];
    int status;

    if (slots->waits && now_ns >= slots->deadline_ns) {
        hfc_many_end(slots, HF_ETIMEDOUT, NULL);
        return;
    }
    if (!part->op->done)
        return;
    status = part->op->status;
    if (status == HF_OK) {
        take(slots, part);
    } else if ((status == HF_EBUSY || status == HF_ELOST) && slots->done + 1 < slots->count) {
        hfc_many_drop(part);
        slots->done++;
        (void)hfc_many_ask(slots, &slots->parts[slots->done], false);
    } else if (slots->waits && hfc_many_may_pass(status)) {
        wait_for_all(slots);
    } else {
        hfc_many_end(slots, status, part);
    }
}

static void judge_waits(struct hfc_many *slots) REQUIRES(hfc_locked)
{
    struct hfc_part *failed = NULL;

    for (unsigned i = 0; i < slots->count; i++) {
        struct hfc_part *part = &slots->parts[i];

        if (!part->op->done)
            continue;
        if (part->op->status == HF_OK) {
            take(slots, part);
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
    if (slots->trying)
        judge_try(slots, now_ns);
    else
        judge_waits(slots);
}

static int check(const struct hf_acquire_options *options, unsigned slots)
{
    int status = hfc_acquire_check(options), room;

    hfc_keep_conflict(NULL);
    hfc_keep_index(-1);
    if (status < 0 || (status = hfc_acquire_check_name(options->name, options->name_len)) < 0)
        return status;
    if (slots == 0 || slots > HF_SET_MAX)
        return hfc_fail(HF_EINVAL, "a counted lock has 1 to %d slots, not %u", HF_SET_MAX, slots);
    room = HF_NAME_MAX - snprintf(NULL, 0, "#%u", slots - 1);
    if (options->name_len > (size_t)room)
        return hfc_fail(HF_ENAME,
                        "the name is %zu bytes long; with %u slots the limit is %d, for "
                        "each slot's number is added to it",
                        options->name_len, slots, room);
    return HF_OK;
}

/* Callers should not all begin with the same slot. */
static unsigned first_of(unsigned slots)
{
    uint32_t random;

    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
        random = (uint32_t)(hfc_now() / 64);
    return random % slots;
}

static int start(hf_client *client, const struct hf_acquire_options *options, unsigned slots,
                 hf_op **ret_op) REQUIRES(hfc_locked)
{
    struct hfc_many *many;
    unsigned first = first_of(slots);
    int status = hfc_many_new(client, options, slots, slots_step, &many);

    if (status < 0)
        return status;
    many->any = true;
    for (unsigned i = 0; i < slots; i++) {
        struct hfc_part *part = &many->parts[i];
        char number[16];
        int digits;

        part->index = (first + i) % slots;
        digits = snprintf(number, sizeof(number), "#%u", part->index);
        memcpy(part->name, options->name, options->name_len);
        memcpy(part->name + options->name_len, number, (size_t)digits);
        part->name_len = (uint8_t)(options->name_len + (size_t)digits);
    }
    (void)hfc_many_ask(many, &many->parts[0], false);
    *ret_op = &many->whole;
    return HF_OK;
}

int hf_acquire_slot(hf_client *client, const struct hf_acquire_options *options, unsigned slots,
                    hf_lease **ret_lease, unsigned *ret_slot)
{
    hf_op *op;
    int status = hfc_client_check(client);

    if (status == HF_OK)
        status = check(options, slots);
    if (status < 0)
        return status;
    if (!ret_lease || !ret_slot)
        return hfc_fail(HF_EINVAL, "hf_acquire_slot: an argument is NULL");
    hfc_lock(client);
    status = start(client, options, slots, &op);
    if (status == HF_OK) {
        hfc_op_wait(op);
        status = op->kind->result(op, ret_lease);
    }
    hfc_unlock(client);
    if (status == HF_OK)
        *ret_slot = (unsigned)hf_slot_number(*ret_lease);
    return status;
}

int hf_acquire_slot_start(hf_client *client, const struct hf_acquire_options *options,
                          unsigned slots, hf_op **ret_op)
{
    int status = hfc_client_check(client);

    if (status == HF_OK)
        status = check(options, slots);
    if (status < 0)
        return status;
    if (!ret_op)
        return hfc_fail(HF_EINVAL, "ret_op is NULL");
    hfc_lock(client);
    status = start(client, options, slots, ret_op);
    if (status == HF_OK)
        hfc_timer_pull(client, hfc_op_next(*ret_op));
    hfc_unlock(client);
    return status;
}

int hf_slot_number(const hf_lease *handle)
{
    const struct hfc_lease *lease = (const struct hfc_lease *)handle;

    return lease && lease->client ? lease->number : HF_ENOTHELD;
}
