/* Sleeping until a lease changes, and asking for its end. */
#include "libclient/internal.h"

#include <string.h>

int hf_wait(hf_lease *handle, int state, int64_t timeout_ms)
{
    struct hfc_lease *lease = hfc_lease_of(handle);
    int64_t until_ns = HFC_NEVER;
    hf_client *client;
    int now_state, status = hfc_lease_check(handle);
    bool interrupted = false;

    if (status < 0)
        return status;
    client = lease->client;
    if (timeout_ms >= 0 && timeout_ms <= HFC_NEVER / HF_NS_PER_MS)
        until_ns = hfc_after(hfc_now(), timeout_ms * HF_NS_PER_MS);
    hfc_lock(client);
    for (;;) {
        uint32_t seen = hfc_turn(client);
        int64_t now = hfc_now();

        /* After the wake word was read: a change from here on ends the sleep. */
        now_state = hf_state(handle);
        if (now_state != state || now_state >= HF_STATE_LOST)
            break;
        if (now >= until_ns) {
            now_state = hfc_fail(HF_ETIMEDOUT, NULL);
            break;
        }
        if (interrupted) {
            now_state = hfc_fail(HF_EINTR, NULL);
            break;
        }
        interrupted = hfc_sleep(client, seen, hfc_min(until_ns, hfc_lease_next(lease, now)));
    }
    hfc_unlock(client);
    return now_state;
}

static const struct hfc_kind losing_kind = {.wire_op = HF_OP_LOSING, .one_way = true};
static const struct hfc_kind ask_kind = {.wire_op = HF_OP_ASK, .steady = true};

/* One way: the agent does not answer. */
static int wait_tell(hf_lease *handle, uint32_t flags)
{
    struct hfc_lease *lease = hfc_lease_of(handle);
    hf_client *client;
    hf_op *op;
    int status = hfc_lease_check(handle);

    if (status < 0)
        return status;
    client = lease->client;
    hfc_lock(client);
    op = hfc_op_new(client, &losing_kind);
    if (!op) {
        status = hfc_fail(HF_ENOMEM, NULL);
    } else {
        op->entry.flags = flags;
        op->entry.slot = lease->slot;
        op->entry.generation = lease->generation;
        op->abandoned = true;
        hfc_op_begin(op); /* one way: frees it once it is in the ring */
        if (client->link != HFC_LINK_UP)
            status = hfc_fail(HF_ENOAGENT, "%s", client->link_text);
    }
    hfc_unlock(client);
    return status;
}

int hf_begin_losing(hf_lease *lease)
{
    return wait_tell(lease, 0);
}

int hf_begin_killing(hf_lease *lease)
{
    return wait_tell(lease, HF_REQ_KILLING);
}

int hf_ask(hf_client *client, const void *name, size_t name_len)
{
    hf_op *op;
    int status = hfc_name_check(client, name, name_len);

    if (status < 0)
        return status;
    hfc_lock(client);
    op = hfc_op_new(client, &ask_kind);
    if (!op) {
        hfc_unlock(client);
        return hfc_fail(HF_ENOMEM, NULL);
    }
    op->entry.name_len = (uint8_t)name_len;
    memcpy(op->entry.name, name, name_len);
    op->deadline_ns = op->start_ns;
    op->give_up_ns = op->start_ns + HFC_ASK_NS;
    hfc_op_begin(op);
    hfc_op_wait(op);
    status = hfc_op_close(op, op->status);
    hfc_unlock(client);
    return status;
}
