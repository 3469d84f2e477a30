/* An op from its caller's side: begun, waited for, expired, abandoned, its result taken. struct hfc_kind has
 * the differences between kinds. */
#include "libclient/internal.h"

#include <stdio.h>

int64_t hfc_op_patience(const hf_client *client)
{
    int64_t third = (int64_t)client->welcome.ttl_ms * HF_NS_PER_MS / 3;

    return third > HFC_ASK_NS ? third : HFC_ASK_NS;
}

void hfc_op_begin(hf_op *op)
{
    hf_client *client = op->client;

    hfc_turn_notice_end(client);
    if (client->link == HFC_LINK_DOWN) { /* a new call is worth a try at once */
        client->next_try_ns = hfc_min(client->next_try_ns, op->start_ns);
        hfc_link_drive(client);
    }
    hfc_ring_send(op);
}

/* From now on the agent should forget it; a grant that still comes is released. */
static void request_withdraw(hf_op *op) REQUIRES(hfc_locked)
{
    if (op->cancelled || !op->kind->revocable)
        return;
    op->cancelled = true;
    /* A request that goes to the next agent, since its answer may be a grant of the last agent, must
     * not wait there. */
    if (op->place == HFC_OP_FLYING || (op->place == HFC_OP_QUEUED && op->sent)) {
        hfc_op_queue_cancel(op->client, op->entry.id);
        hfc_ring_flush(op->client);
    }
}

/* It should have been answered by now, but the agent hangs. */
static bool request_is_in_vain(const hf_op *op, int64_t now_ns) REQUIRES(hfc_locked)
{
    return now_ns >= op->deadline_ns && now_ns - op->start_ns >= HFC_HANG_NS &&
           hfc_agent_hangs(op->client, now_ns);
}

void hfc_op_expire(hf_op *op, int64_t now_ns)
{
    hf_client *client = op->client;
    char text[160];

    if (op->done)
        return;
    if (op->kind->expire) {
        op->kind->expire(op, now_ns);
        return;
    }
    if (client->link == HFC_LINK_DOWN && client->last_try_ns >= op->start_ns) {
        if (now_ns < op->deadline_ns && !hfc_link_is_hopeless(client->link_status)) {
            if (!op->told_no_agent) {
                struct hf_progress *now = &op->progress_now;

                *now = (struct hf_progress){.size = sizeof(*now), .reason = HF_ENOAGENT};
                (void)snprintf(now->text, sizeof(now->text), "%.180s", client->link_text);
                op->told_no_agent = op->progress_due = true;
            }
            return;
        }
        hfc_op_finish(op, client->link_status, client->link_text);
        request_withdraw(op);
        return;
    }
    if (now_ns < op->give_up_ns && !request_is_in_vain(op, now_ns))
        return;
    (void)snprintf(text, sizeof(text), "the agent at %s does not answer", client->place.path);
    hfc_op_finish(op, HF_ENOAGENT, text);
    request_withdraw(op);
}

int64_t hfc_op_next(const hf_op *op)
{
    int64_t next = op->client->link == HFC_LINK_DOWN ? op->deadline_ns : op->give_up_ns;
    int64_t now = hfc_now(), hang_ns = op->start_ns + HFC_HANG_NS;

    if (op->kind->next)
        return op->kind->next(op);
    if (op->client->link == HFC_LINK_UP && now >= op->deadline_ns)
        next = hfc_min(next, now < hang_ns ? hang_ns : now + HFC_SLICE_NS);
    return next > now ? next : op->give_up_ns;
}

bool hfc_op_progress(hf_op *op)
{
    hf_client *client = op->client;
    void (*fn)(const struct hf_progress *, void *) = op->progress;
    struct hf_progress now;
    void *arg = op->arg;

    if (!op->progress_due || op->done || op->relayed)
        return false;
    op->progress_due = false;
    if (!fn)
        return false;
    now = op->progress_now;
    hfc_unlock(client);
    fn(&now, arg);
    hfc_lock(client);
    return true;
}

void hfc_op_wait(hf_op *op)
{
    hf_client *client = op->client;
    bool interrupted = false;

    for (;;) {
        uint32_t seen = hfc_turn(client);

        hfc_op_expire(op, hfc_now());
        if (op->done)
            return;
        if (interrupted) {
            hfc_op_finish(op, HF_EINTR, "");
            request_withdraw(op);
            return;
        }
        if (!hfc_op_progress(op))
            interrupted = hfc_sleep(client, seen, hfc_op_next(op)) && !op->kind->steady;
    }
}

static bool request_has_leftovers(const hf_client *client) REQUIRES(hfc_locked)
{
    const hf_op *op;

    TAILQ_FOREACH (op, &client->flying, link)
        if (op->abandoned)
            return true;
    return !TAILQ_EMPTY(&client->queued);
}

void hfc_op_settle(hf_client *client)
{
    int64_t until_ns = hfc_now() + HF_NS_PER_SEC;

    while (client->link == HFC_LINK_UP && request_has_leftovers(client) && hfc_now() < until_ns) {
        uint32_t seen = hfc_turn(client);

        if (request_has_leftovers(client))
            (void)hfc_sleep(client, seen, until_ns);
    }
}

void hfc_op_abandon(hf_op *op)
{
    if (op->kind->cancel)
        op->kind->cancel(op);
    if (op->place == HFC_OP_FLYING || (op->place == HFC_OP_QUEUED && op->sent)) {
        op->abandoned = true;
        request_withdraw(op);
        return;
    }
    hfc_op_discard(op);
}

int hfc_op_close(hf_op *op, int status)
{
    if (status < 0)
        hfc_fail(status, "%s", *op->text ? op->text : hf_status_text(status));
    hfc_op_abandon(op);
    return status;
}

/* --- ops started without waiting ------------------------------------------------- */

int hf_op_result(hf_op *op, hf_lease **ret_lease)
{
    hf_client *client;
    int status;

    if (!op || (!ret_lease && !op->kind->leaseless))
        return hfc_fail(HF_EINVAL, "hf_op_result: an argument is NULL");
    client = op->client;
    status = hfc_client_check(client);
    if (status < 0)
        return status;
    hfc_keep_conflict(NULL);
    hfc_keep_index(-1);
    hfc_lock(client);
    (void)hfc_turn(client);
    hfc_op_expire(op, hfc_now());
    status = op->done ? op->kind->result(op, ret_lease) : hfc_fail(HF_EPENDING, NULL);
    hfc_unlock(client);
    return status;
}

void hf_op_cancel(hf_op *op)
{
    hf_client *client;

    if (!op)
        return;
    client = op->client;
    if (hfc_client_check(client) < 0) /* forked: hf_disconnect() frees it */
        return;
    hfc_lock(client);
    hfc_op_abandon(op);
    hfc_unlock(client);
}
