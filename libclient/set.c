/* Several locks at once, all or none.
 *
 * The names are sorted by their bytes; everybody's order is the same.
 *
 *   1. All that are not kept yet are tried at once.
 *   2. Those before the first that was refused are kept, the others released.
 *   3. That first one is waited for. Once granted it is kept, and 1 follows with the rest.
 *
 * Why there is no deadlock: a waiter for a name holds only names before it (step 2 released those
 * after it, and their release waits for nobody), and a try never waits. In a ring of waiters each
 * holds the name that the one before it waits for, so those names would rise all the way round. A
 * holder of one lock waits for nothing and closes no ring either. This needs callers that hold no
 * locks of earlier calls; holdfast.h tells users so.
 *
 * A granted lease can be lost, or asked to stop, while another is waited for, and the agent can be
 * drained. The caller does not know of it yet and loses only time: all leases are released and the
 * call begins anew.
 */
#include "libclient/internal.h"

#include <stdlib.h>
#include <string.h>

static int set_by_bytes(const void *left, const void *right)
{
    const struct hfc_part *a = left, *b = right;
    size_t len = a->name_len < b->name_len ? a->name_len : b->name_len;
    int order = memcmp(a->name, b->name, len);

    return order ? order : a->name_len - b->name_len;
}

/* The last one is waited for instead of tried: if it is free, that takes one round trip, too. */
static void set_try_rest(struct hfc_many *set) REQUIRES(hfc_locked)
{
    set->trying = !set->waits || set->count - set->done > 1;
    for (unsigned i = set->done; i < set->count; i++)
        if (!hfc_many_ask(set, &set->parts[i], !set->trying))
            return;
}

static bool set_all_answered(const struct hfc_many *set) REQUIRES(hfc_locked)
{
    for (unsigned i = set->done; i < set->count; i++)
        if (!set->parts[i].op || !set->parts[i].op->done)
            return false;
    return true;
}

static void set_judge_tries(struct hfc_many *set, int64_t now_ns) REQUIRES(hfc_locked)
{
    struct hfc_part *refused = NULL;

    for (unsigned i = set->done; i < set->count; i++) {
        struct hfc_part *part = &set->parts[i];
        int status = part->op->status;

        if (status < 0 && (!hfc_many_may_pass(status) || !set->waits)) {
            hfc_many_end(set, status, part);
            return;
        }
        if (status < 0 && !refused)
            refused = part;
    }
    for (; set->done < set->count && &set->parts[set->done] != refused; set->done++)
        hfc_many_keep(&set->parts[set->done]);
    if (!refused) {
        hfc_many_finish(set, now_ns);
        return;
    }
    for (unsigned i = set->done; i < set->count; i++)
        hfc_many_drop(&set->parts[i]);
    set->trying = false;
    (void)hfc_many_ask(set, refused, true);
}

static void set_judge_wait(struct hfc_many *set, int64_t now_ns) REQUIRES(hfc_locked)
{
    struct hfc_part *part = &set->parts[set->done];

    if (!part->op->done)
        return;
    if (part->op->status == HF_ELOST) { /* granted, and lost before we knew of it */
        hfc_many_begin_anew(set, now_ns);
        return;
    }
    if (part->op->status < 0) {
        hfc_many_end(set, part->op->status, part);
        return;
    }
    hfc_many_keep(part);
    if (++set->done == set->count)
        hfc_many_finish(set, now_ns);
    else
        set_try_rest(set);
}

static void set_step(struct hfc_many *set, int64_t now_ns) REQUIRES(hfc_locked)
{
    if (!hfc_many_may_go_on(set)) {
        hfc_many_begin_anew(set, now_ns);
        return;
    }
    if (set->trying && set->waits && now_ns >= set->deadline_ns) {
        hfc_many_end(set, HF_ETIMEDOUT, NULL);
        return;
    }
    if (now_ns < set->resume_ns)
        return;
    if (!set->trying)
        set_judge_wait(set, now_ns);
    else if (!set->parts[set->done].op)
        set_try_rest(set);
    else if (set_all_answered(set))
        set_judge_tries(set, now_ns);
}

static int set_check(const struct hf_acquire_options *options, const struct hf_name *names,
                     size_t count)
{
    int status = hfc_acquire_check(options);

    hfc_keep_conflict(NULL);
    hfc_keep_index(-1);
    if (status < 0)
        return status;
    if (options->name)
        return hfc_fail(HF_EINVAL, "the names of a set are in `names`: set options.name to NULL");
    if (!names || count == 0 || count > HF_SET_MAX)
        return hfc_fail(HF_EINVAL, "give a set 1 to %d names, not %zu", HF_SET_MAX,
                        names ? count : 0);
    for (size_t i = 0; i < count && status == HF_OK; i++)
        if ((status = hfc_acquire_check_name(names[i].bytes, names[i].len)) < 0)
            hfc_keep_index((int)i);
    return status;
}

static int set_start(hf_client *client, const struct hf_acquire_options *options,
                     const struct hf_name *names, size_t count, hf_op **ret_op) REQUIRES(hfc_locked)
{
    struct hfc_many *set;
    int status = hfc_many_new(client, options, (unsigned)count, set_step, &set);

    if (status < 0)
        return status;
    for (size_t i = 0; i < count; i++) {
        set->parts[i].name_len = (uint8_t)names[i].len;
        memcpy(set->parts[i].name, names[i].bytes, names[i].len);
    }
    qsort(set->parts, count, sizeof(set->parts[0]), set_by_bytes);
    for (size_t i = 1; i < count; i++) {
        unsigned one = set->parts[i - 1].index, two = set->parts[i].index;

        if (set_by_bytes(&set->parts[i - 1], &set->parts[i]))
            continue;
        hfc_op_abandon(&set->whole);
        return hfc_fail(HF_EINVAL, "name each lock once: names %u and %u of the set are the same",
                        one < two ? one : two, one < two ? two : one);
    }
    hfc_op_expire(&set->whole, hfc_now());
    *ret_op = &set->whole;
    return HF_OK;
}

int hf_acquire_all(hf_client *client, const struct hf_acquire_options *options,
                   const struct hf_name *names, size_t count, hf_lease **ret_leases)
{
    hf_op *op;
    int status = hfc_client_check(client);

    if (status == HF_OK)
        status = set_check(options, names, count);
    if (status < 0)
        return status;
    if (!ret_leases)
        return hfc_fail(HF_EINVAL, "ret_leases is NULL");
    hfc_lock(client);
    status = hfc_acquire_check_own(client, options, names, count);
    if (status == HF_OK)
        status = set_start(client, options, names, count, &op);
    if (status == HF_OK) {
        hfc_acquire_of_thread(op);
        hfc_op_wait(op);
        status = op->kind->result(op, ret_leases);
        hfc_op_settle(client);
    }
    hfc_unlock(client);
    return status;
}

int hf_acquire_all_start(hf_client *client, const struct hf_acquire_options *options,
                         const struct hf_name *names, size_t count, hf_op **ret_op)
{
    int status = hfc_client_check(client);

    if (status == HF_OK)
        status = set_check(options, names, count);
    if (status < 0)
        return status;
    if (!ret_op)
        return hfc_fail(HF_EINVAL, "ret_op is NULL");
    hfc_lock(client);
    if (options->flags & HF_ACQUIRE_BLOCKS)
        status = hfc_acquire_check_own(client, options, names, count);
    if (status == HF_OK)
        status = set_start(client, options, names, count, ret_op);
    if (status == HF_OK)
        hfc_acquire_of_thread(*ret_op);
    hfc_unlock(client);
    return status;
}
