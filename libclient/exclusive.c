/* The exclusive side of a shared lock: NAME itself, the gate, and all slots that NAME can have.
 *
 *   1. The gate is waited for, like any lock.
 *   2. Then all slots are asked for at once, and each is kept as it is granted. So who comes later finds
 *      no slot free, and who holds one is waited for once, at the same time as all others.
 *
 * Exclusion needs the slots only: whoever holds shared has one of them, whatever K it uses, and two
 * exclusive holders would have the same ones.
 *
 * Why there is no deadlock, although slots are kept in any order: who waits here has the gate, so it is
 * the only one that keeps slots and waits; whoever else has a slot waits for nothing. This needs
 * callers that name no slots in sets (holdfast_sets.h tells users so). When the gate is lost meanwhile
 * all is given back and the call begins anew.
 */
#include "libclient/internal.h"

/* By then it is known which slots are free. */
#define TELL_AFTER_NS (100 * HF_NS_PER_MS)

static void exclusive_ask_slots(struct hfc_many *all) REQUIRES(hfc_locked)
{
    all->done = 0;
    all->trying = !all->waits;
    all->tell_ns = hfc_now() + TELL_AFTER_NS;
    for (unsigned i = 0; i < HF_SET_MAX; i++)
        if (!hfc_many_ask(all, &all->parts[i], all->waits))
            return;
}

static void exclusive_judge_gate(struct hfc_many *all, int64_t now_ns) REQUIRES(hfc_locked)
{
    struct hfc_part *gate = all->gate;

    if (!gate->op->done)
        return;
    if (gate->op->status == HF_OK) {
        hfc_many_keep(gate);
        exclusive_ask_slots(all);
    } else if (gate->op->status == HF_ELOST) { /* granted, and lost before we knew of it */
        hfc_many_begin_anew(all, now_ns);
    } else {
        all->holders = 0;
        hfc_many_end(all, gate->op->status, gate);
    }
}

/* How many of the slots others have, as far as was answered. */
static unsigned exclusive_count_others(const struct hfc_many *all) REQUIRES(hfc_locked)
{
    unsigned count = 0;

    for (unsigned i = 0; i < HF_SET_MAX; i++) {
        const hf_op *op = all->parts[i].op;

        count += op && (!op->done || op->status == HF_EBUSY || op->status == HF_ETIMEDOUT);
    }
    return count;
}

/* Each is kept as it comes. A try is refused once all have been answered, so that it can say by how many. */
static void exclusive_judge_slots(struct hfc_many *all, int64_t now_ns) REQUIRES(hfc_locked)
{
    struct hfc_part *failed = NULL;
    bool pending = false, lost = false;

    for (unsigned i = 0; i < HF_SET_MAX; i++) {
        struct hfc_part *part = &all->parts[i];

        if (part->lease)
            continue;
        if (!part->op->done) {
            pending = true;
        } else if (part->op->status == HF_OK) {
            hfc_many_keep(part);
            hfc_lease_of(part->lease)->number = (int)part->index;
            all->done++;
        } else {
            lost = lost || part->op->status == HF_ELOST;
            if (!failed || (failed->op->status == HF_EBUSY && part->op->status != HF_EBUSY))
                failed = part;
        }
    }
    if (lost) {
        hfc_many_begin_anew(all, now_ns);
    } else if (failed && (all->waits || !pending)) {
        all->holders = exclusive_count_others(all);
        hfc_many_end(all, failed->op->status, failed);
    } else if (all->done == HF_SET_MAX) {
        hfc_many_finish(all, now_ns);
    }
}

static void exclusive_step(struct hfc_many *all, int64_t now_ns) REQUIRES(hfc_locked)
{
    if (!hfc_many_may_go_on(all)) {
        hfc_many_begin_anew(all, now_ns);
        return;
    }
    if (all->gate->lease) {
        exclusive_judge_slots(all, now_ns);
    } else if (all->gate->op) {
        exclusive_judge_gate(all, now_ns);
    } else if (all->waits && now_ns >= all->deadline_ns) {
        hfc_many_end(all, HF_ETIMEDOUT, NULL);
    } else if (now_ns >= all->resume_ns) {
        all->trying = !all->waits;
        (void)hfc_many_ask(all, all->gate, all->waits);
    }
}

static int exclusive_start(hf_client *client, const struct hf_acquire_options *options,
                           hf_op **ret_op) REQUIRES(hfc_locked)
{
    struct hfc_many *all;
    int status = hfc_many_new(client, options, HF_EXCLUSIVE_LEASES, exclusive_step, &all);

    if (status < 0)
        return status;
    all->together = true;
    for (unsigned i = 0; i < HF_SET_MAX; i++)
        hfc_many_name_slot(&all->parts[i], options, i);
    all->gate = &all->parts[HF_EXCLUSIVE_NAME];
    hfc_many_name_gate(all->gate, options);
    hfc_op_expire(&all->whole, hfc_now());
    *ret_op = &all->whole;
    return HF_OK;
}

int hf_acquire_exclusive(hf_client *client, const struct hf_acquire_options *options,
                         hf_lease **ret_leases)
{
    hf_op *op;
    int status = hfc_client_check(client);

    if (status == HF_OK)
        status = hfc_many_check_slots(options, HF_SET_MAX);
    if (status < 0)
        return status;
    if (!ret_leases)
        return hfc_fail(HF_EINVAL, "ret_leases is NULL");
    hfc_lock(client);
    status = exclusive_start(client, options, &op);
    if (status == HF_OK) {
        hfc_op_wait(op);
        status = op->kind->result(op, ret_leases);
        hfc_op_settle(client);
    }
    hfc_unlock(client);
    return status;
}

int hf_acquire_exclusive_start(hf_client *client, const struct hf_acquire_options *options,
                               hf_op **ret_op)
{
    int status = hfc_client_check(client);

    if (status == HF_OK)
        status = hfc_many_check_slots(options, HF_SET_MAX);
    if (status < 0)
        return status;
    if (!ret_op)
        return hfc_fail(HF_EINVAL, "ret_op is NULL");
    hfc_lock(client);
    status = exclusive_start(client, options, ret_op);
    hfc_unlock(client);
    return status;
}
