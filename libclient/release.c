/* Releasing a lease: the handle is over at once; the agent's answer is waited for, or taken later. */
#include "libclient/internal.h"
#include "shm/assert.h"

#include <stdio.h>
#include <string.h>

static int release_result(hf_op *op, hf_lease **ret_leases) REQUIRES(hfc_locked)
{
    int status = op->status == HF_ENOTHELD ? HF_ELOST : op->status;

    (void)ret_leases;
    return hfc_op_close(op, status);
}

static const struct hfc_kind release_kind = {
    .wire_op = HF_OP_RELEASE,
    .leaseless = true,
    .steady = true,
    .result = release_result,
};

/* Sends the release; frees the lease. NULL without memory. */
static hf_op *release_tell_agent(struct hfc_lease *lease, bool reaped, int64_t deadline_ns,
                                 int64_t give_up_ns) REQUIRES(hfc_locked)
{
    hf_op *op = hfc_op_new(lease->client, &release_kind);

    /* (!) Before the agent can give the lock to another. */
    hf_assert(__atomic_load_n(&lease->handle.hf_private_generation, __ATOMIC_RELAXED) == 0,
              "slot %u, generation %u", (unsigned)lease->slot, (unsigned)lease->generation);
    if (!op) {
        hfc_lease_drop(lease);
        hfc_fail(HF_ENOMEM, NULL);
        return NULL;
    }
    op->entry.slot = lease->slot;
    op->entry.generation = lease->generation;
    op->entry.flags = reaped ? HF_REQ_REAPED : 0;
    op->deadline_ns = deadline_ns;
    op->give_up_ns = give_up_ns;
    hfc_lease_drop(lease);
    hfc_op_begin(op);
    return op;
}

/* A release in progress. */
struct release {
    hf_client *client;
    hf_op *op; /* NULL: there is nothing to wait for */
    int status;
    bool reaped;
    const char *over; /* why the lease was over before; NULL: it was not */
};

/* Frees the lease. */
static void release_begin(hf_lease *handle, bool reaped, struct release *ret_release)
{
    struct hfc_lease *lease = hfc_lease_of(handle);
    struct release *r = ret_release;
    int64_t until_ns, now = hfc_now();
    int state;

    *r = (struct release){.reaped = reaped};
    if (!handle) {
        r->status = hfc_fail(HF_ENOTHELD, "the lease is NULL");
        return;
    }
    r->client = lease->client;
    if (!r->client) {
        r->status = hfc_fail(HF_EFORKED, NULL);
        return;
    }
    until_ns = hf_valid_until_ns(handle);
    __atomic_store_n(&handle->hf_private_generation, 0, __ATOMIC_RELEASE);

    hfc_lock(r->client);
    if (until_ns) {
        /* Also while there is no agent: one that starts in the last moment of the validity readopts
         * the lease. */
        until_ns = hfc_after(until_ns, HFC_GRACE_NS);
        r->op = release_tell_agent(lease, reaped, until_ns, until_ns);
        r->status = HF_ENOMEM;
        hfc_unlock(r->client);
        return;
    }
    state = hf_state(handle);
    r->over = state == HF_STATE_RELEASED ? "it was released before" : hf_reason(handle);
    r->status = HF_ELOST;
    /* The agent should still learn that the job is gone, even if the caller exits at once. */
    if (reaped && state != HF_STATE_RELEASED) {
        r->op = release_tell_agent(lease, true, now, now + HFC_GRACE_NS);
    } else {
        /* The agent may have extended it at the last moment. Another table may have a new lease of
         * the same slot and generation. */
        if (state != HF_STATE_RELEASED && r->client->link == HFC_LINK_UP &&
            r->client->session->map == lease->map)
            hfc_ring_give_back(r->client, lease->slot, lease->generation, reaped);
        hfc_lease_drop(lease);
    }
    hfc_unlock(r->client);
}

static int release_end(struct release *r)
{
    if (r->op) {
        hfc_lock(r->client);
        hfc_op_wait(r->op);
        r->status =
            r->over || (r->op->status == HF_ENOTHELD && !r->reaped) ? HF_ELOST : r->op->status;
        if (r->status < 0)
            hfc_fail(r->status, "%s", *r->op->text ? r->op->text : hf_status_text(r->status));
        hfc_op_abandon(r->op);
        hfc_unlock(r->client);
    }
    if (r->over)
        hfc_fail(r->status, "the lease was over: %s", r->over);
    return r->status;
}

int hf_release_start(hf_lease *lease, hf_op **ret_op)
{
    struct release r;

    if (!ret_op)
        return hfc_fail(HF_EINVAL, "hf_release_start: ret_op is NULL");
    release_begin(lease, false, &r);
    if (!r.op)
        return release_end(&r);
    hfc_lock(r.client);
    hfc_timer_pull(r.client, hfc_op_next(r.op));
    hfc_unlock(r.client);
    *ret_op = r.op;
    return HF_OK;
}

static int release_release(hf_lease *handle, bool reaped)
{
    struct release release;

    release_begin(handle, reaped, &release);
    return release_end(&release);
}

int hf_release(hf_lease *lease)
{
    return release_release(lease, false);
}

int hf_release_reaped(hf_lease *lease)
{
    return release_release(lease, true);
}

static int release_all(hf_lease *const *leases, size_t count, bool reaped)
{
    struct release releases[HF_EXCLUSIVE_LEASES];
    int first = HF_OK, status;
    char text[320] = "";

    if (!leases || count == 0 || count > HF_EXCLUSIVE_LEASES)
        return hfc_fail(HF_EINVAL, "release 1 to %d leases at once, not %zu", HF_EXCLUSIVE_LEASES,
                        leases ? count : 0);
    for (size_t i = 0; i < count; i++)
        release_begin(leases[i], reaped, &releases[i]);
    for (size_t i = 0; i < count; i++) {
        status = release_end(&releases[i]);
        if (status < 0 && first == HF_OK) {
            first = status;
            (void)snprintf(text, sizeof(text), "%s", hf_last_message());
        }
    }
    return first < 0 ? hfc_fail(first, "%s", text) : HF_OK;
}

int hf_release_all(hf_lease *const *leases, size_t count)
{
    return release_all(leases, count, false);
}

int hf_release_all_reaped(hf_lease *const *leases, size_t count)
{
    return release_all(leases, count, true);
}

/* --- sleeping until a lease changes, and asking for its end ----------------------------------- */

/* Sleeping until a lease changes, and asking for its end. */

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
static const struct hfc_kind stop_holder_kind = {.wire_op = HF_OP_STOP_HOLDER, .steady = true};

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
    status = HF_ENOMEM;
    op = hfc_op_new_of(client, &stop_holder_kind, name, name_len);
    if (op) {
        op->deadline_ns = op->start_ns;
        op->give_up_ns = op->start_ns + HFC_ASK_NS;
        hfc_op_begin(op);
        hfc_op_wait(op);
        status = hfc_op_close(op, op->status);
    }
    hfc_unlock(client);
    return status;
}
