/* A job that is to run once in a period: asking whether it has run, and taking that back. */
#include "libclient/internal.h"

#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

#define TRIES_MOST 3 /* of a start that this process hears of in time */

static const struct hfc_kind once_kind = {.wire_op = HF_OP_ONCE, .steady = true};

/* An agent that starts again is waited for, too. Frees the op. */
static int once_collect(hf_op *op, struct hf_completion_entry *ret_found) REQUIRES(hfc_locked)
{
    op->deadline_ns = op->give_up_ns = op->start_ns + hfc_op_patience(op->client);
    op->found = ret_found;
    hfc_op_begin(op);
    hfc_op_wait(op);
    return hfc_op_close(op, op->status);
}

static int once_ask(hf_lease *handle, int64_t period_ms, uint32_t flags, uint64_t target,
                    struct hf_completion_entry *ret_found)
{
    struct hfc_lease *lease = hfc_lease_of(handle);
    hf_client *client;
    hf_op *op;
    int status = hfc_lease_check(handle);

    if (status < 0)
        return status;
    if (period_ms <= 0 || period_ms > UINT32_MAX)
        return hfc_fail(HF_EINVAL, "use a period of 1 to %" PRIu32 " ms, not %" PRId64, UINT32_MAX,
                        period_ms);
    if (!hf_held(handle))
        return hfc_fail(HF_ELOST, NULL);
    client = lease->client;
    hfc_lock(client);
    op = hfc_op_new(client, &once_kind);
    if (!op) {
        hfc_unlock(client);
        return hfc_fail(HF_ENOMEM, NULL);
    }
    op->entry.slot = lease->slot;
    op->entry.generation = lease->generation;
    op->entry.flags = flags;
    op->entry.period_ms = (uint32_t)period_ms;
    op->entry.target = target;
    status = once_collect(op, ret_found);
    hfc_unlock(client);
    return status;
}

/* The number of a call that failed, whose job has not begun: its record may be on the nodes. (!) Only one call has it. */
static uint64_t once_left_over(hf_lease *handle)
{
    struct hfc_lease *lease = hfc_lease_of(handle);
    uint64_t asker;

    hfc_lock(lease->client);
    asker = lease->once_asker;
    lease->once_asker = 0;
    hfc_unlock(lease->client);
    return asker;
}

static void once_leave(hf_lease *handle, uint64_t asker)
{
    struct hfc_lease *lease = hfc_lease_of(handle);

    hfc_lock(lease->client);
    lease->once_asker = asker;
    hfc_unlock(lease->client);
}

/* (!) The nodes' record says until when the job may start, and the next start is judged by that. The agent told us early enough, but
 * this process may have slept meanwhile. Then it starts nothing, and asks again as the same asker, for a later time. */
static int once_ask_in_time(hf_lease *lease, int64_t period_ms, uint64_t asker, int64_t *ret_before)
{
    struct hf_completion_entry found;
    int status;

    for (int i = 0; i < TRIES_MOST; i++) {
        found = (struct hf_completion_entry){.status = HF_OK};
        status = once_ask(lease, period_ms, 0, asker, &found);
        if (status == HF_OK && ret_before)
            *ret_before = (int64_t)found.fence;
        if (status < 0 || !found.deadline_ns || hfc_now() <= found.deadline_ns)
            return status;
    }
    (void)hf_once_take_back(lease, period_ms, (int64_t)found.fence);
    return hfc_fail(HF_ENOQUORUM, "this process got the answer too late to start the job, %d times",
                    TRIES_MOST);
}

int hf_once(hf_lease *lease, int64_t period_ms, int64_t *ret_before)
{
    int status = hfc_lease_check(lease);
    uint64_t asker;

    if (status < 0)
        return status;
    asker = once_left_over(lease);
    /* Request ids are every process's own, so they do not tell askers apart. */
    if (!asker && getrandom(&asker, sizeof(asker), 0) != sizeof(asker))
        return hfc_fail(HF_ESYS, "getrandom: %m");
    status = once_ask_in_time(lease, period_ms, asker, ret_before);
    if (status < 0 && status != HF_EDONE)
        once_leave(lease, asker);
    return status;
}

int hf_once_take_back(hf_lease *lease, int64_t period_ms, int64_t before)
{
    struct hf_completion_entry found = {.status = HF_OK};

    return once_ask(lease, period_ms, HF_REQ_TAKE_BACK, (uint64_t)before, &found);
}

int hf_once_ended(hf_lease *lease, int64_t period_ms, int end, int code)
{
    struct hf_completion_entry found = {.status = HF_OK};

    if (end < HF_ONCE_OPEN || end > HF_ONCE_LOST || code < 0 || code > UINT8_MAX)
        return hfc_fail(HF_EINVAL, "use an enum hf_once_end, and a code of 0 to 255");
    return once_ask(lease, period_ms, HF_REQ_ENDED, (uint64_t)end | (uint64_t)code << 8, &found);
}

static int once_of_name(hf_client *client, const void *name, size_t name_len, uint32_t flags,
                        struct hf_completion_entry *ret_found)
{
    int status = hfc_name_check(client, name, name_len);
    hf_op *op;

    if (status < 0)
        return status;
    hfc_lock(client);
    status = HF_ENOMEM;
    op = hfc_op_new_of(client, &once_kind, name, name_len);
    if (op) {
        op->entry.flags = flags;
        status = once_collect(op, ret_found);
    }
    hfc_unlock(client);
    return status;
}

int hf_once_last(hf_client *client, const void *name, size_t name_len, struct hf_once_info *info)
{
    struct hf_completion_entry found = {.status = HF_OK};
    int status;

    if (!info || info->size < sizeof(*info))
        return hfc_fail(HF_EINVAL,
                        "hf_once_last: begin with HF_ONCE_INFO_INIT, which sets the size");
    status = once_of_name(client, name, name_len, HF_REQ_LAST, &found);
    if (status < 0)
        return status;
    *info = (struct hf_once_info){.size = sizeof(*info),
                                  .started_wall_ms = (int64_t)found.fence / 1000,
                                  .end = found.once_end,
                                  .code = found.once_code};
    hfc_holder(&found.holder, &info->by);
    return HF_OK;
}

int hf_once_forget(hf_client *client, const void *name, size_t name_len)
{
    struct hf_completion_entry found = {.status = HF_OK};

    return once_of_name(client, name, name_len, HF_REQ_FORGET, &found);
}

/* --- drains ----------------------------------------------------------------------------------- */

/* Draining this host's agent, and the end of that. */

static const struct hfc_kind drain_kind = {.wire_op = HF_OP_DRAIN, .steady = true};

static void drain_fill(const struct hf_completion_entry *found, struct hf_drain_info *info)
{
    *info = (struct hf_drain_info){.size = sizeof(*info),
                                   .was_drained = found->drained_before,
                                   .since_wall_ms = found->holder.since_wall_ms,
                                   .uid = found->holder.uid,
                                   .pid = found->holder.pid};
}

static int drain_ask(hf_client *client, uint32_t flags, struct hf_drain_info *info)
{
    struct hf_completion_entry found = {.status = HF_OK};
    hf_op *op;
    int status = hfc_client_check(client);

    if (status < 0)
        return status;
    if (!info || info->size < sizeof(*info))
        return hfc_fail(HF_EINVAL, "begin with HF_DRAIN_INFO_INIT, which sets the size");
    hfc_lock(client);
    op = hfc_op_new(client, &drain_kind);
    if (!op) {
        hfc_unlock(client);
        return hfc_fail(HF_ENOMEM, NULL);
    }
    op->entry.flags = flags;
    op->deadline_ns = op->start_ns;
    op->give_up_ns = op->start_ns + HFC_ASK_NS;
    op->found = &found;
    hfc_op_begin(op);
    hfc_op_wait(op);
    status = hfc_op_close(op, op->status);
    if (status >= 0)
        drain_fill(&found, info);
    hfc_unlock(client);
    return status;
}

int hf_drain(hf_client *client, struct hf_drain_info *info)
{
    return drain_ask(client, 0, info);
}

int hf_undrain(hf_client *client, struct hf_drain_info *info)
{
    return drain_ask(client, HF_REQ_UNDRAIN, info);
}
