/* Draining this host's agent, and the end of that. */
#include "libclient/internal.h"

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
