/* A job that is to run once in a period: asking whether it has run, and taking that back. */
#include "libclient/internal.h"

#include <inttypes.h>
#include <sys/random.h>

static const struct hfc_kind once_kind = {.wire_op = HF_OP_ONCE, .steady = true};

static int ask(hf_lease *handle, int64_t period_ms, uint32_t flags, uint64_t target,
               int64_t *ret_before)
{
    struct hf_completion_entry found = {.status = HF_OK};
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
    /* An agent that starts again is waited for, too. */
    op->deadline_ns = op->give_up_ns = op->start_ns + HFC_ASK_NS;
    op->found = &found;
    hfc_op_begin(op);
    hfc_op_wait(op);
    status = op->status;
    if (status < 0)
        hfc_fail(status, "%s", *op->text ? op->text : hf_status_text(status));
    else if (ret_before)
        *ret_before = (int64_t)found.fence;
    hfc_op_abandon(op);
    hfc_unlock(client);
    return status;
}

int hf_once(hf_lease *lease, int64_t period_ms, int64_t *ret_before)
{
    uint64_t asker;

    /* Request ids are every process's own, so they do not tell askers apart. */
    if (getrandom(&asker, sizeof(asker), 0) != sizeof(asker))
        return hfc_fail(HF_ESYS, "getrandom: %m");
    return ask(lease, period_ms, 0, asker, ret_before);
}

int hf_once_take_back(hf_lease *lease, int64_t period_ms, int64_t before)
{
    return ask(lease, period_ms, HF_REQ_TAKE_BACK, (uint64_t)before, NULL);
}
