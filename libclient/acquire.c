/* Acquiring: blocking, as a try, or started now with the result taken later. */
#include "libclient/internal.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "shm/index.h"
#include "shm/slot.h"
#include "shm/version.h"

/* A try is decided by the agent within a few attempts (T/15 each) on the nodes. */
#define TRY_LEAST_NS (2 * HF_NS_PER_SEC)

int hfc_acquire_check_name(const void *name, size_t name_len)
{
    if (!name || name_len == 0)
        return hfc_fail(HF_ENAME, "give a name of 1 to %d bytes: it is empty", HF_NAME_MAX);
    if (name_len > HF_NAME_MAX)
        return hfc_fail(HF_ENAME, "use a name of at most %d bytes, not %zu", HF_NAME_MAX, name_len);
    return HF_OK;
}

int hfc_name_check(const hf_client *client, const void *name, size_t name_len)
{
    int status = hfc_client_check(client);

    return status < 0 ? status : hfc_acquire_check_name(name, name_len);
}

/* Options must be off that only later versions know. */
static bool acquire_is_empty(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i])
            return false;
    return true;
}

int hfc_acquire_check(const struct hf_acquire_options *options)
{
    if (!options || options->size < sizeof(*options))
        return hfc_fail(HF_EINVAL, "begin with struct hf_acquire_options o = "
                                   "HF_ACQUIRE_OPTIONS_INIT, which sets its size");
    if (!acquire_is_empty((const uint8_t *)options + sizeof(*options),
                          options->size - sizeof(*options)))
        return hfc_fail(
            HF_EINVAL,
            "link a newer library: the options have fields that this one (%s) does not know",
            HOLDFAST_VERSION);
    if (options->note && strlen(options->note) > HF_NOTE_MAX)
        return hfc_fail(HF_EINVAL, "use a note of at most %d bytes, not %zu", HF_NOTE_MAX,
                        strlen(options->note));
    if (options->wait_ms < -1)
        return hfc_fail(HF_EINVAL, "give -1 as wait_ms to wait without limit, not %" PRId64,
                        options->wait_ms);
    if (options->flags &
        ~(unsigned)(HF_ACQUIRE_JOB | HF_ACQUIRE_SECOND_GUARDIAN | HF_ACQUIRE_BLOCKS))
        return hfc_fail(HF_EINVAL, "unknown flags 0x%x", options->flags);
    if (options->heartbeat_ms && options->heartbeat_ms < HF_HEARTBEAT_LEAST_MS)
        return hfc_fail(HF_EINVAL, "use a heartbeat of at least %d ms, not %u ms",
                        HF_HEARTBEAT_LEAST_MS, options->heartbeat_ms);
    return HF_OK;
}

static int acquire_check(const struct hf_acquire_options *options)
{
    int status = hfc_acquire_check(options);

    return status < 0 ? status : hfc_acquire_check_name(options->name, options->name_len);
}

/* --- waiting for oneself ----------------------------------------------------------------------- */

/* A number that no other thread of this process has, nor will have. */
static uint64_t acquire_this_thread(void)
{
    static _Atomic uint64_t last;
    static _Thread_local uint64_t number;

    if (!number)
        number = atomic_fetch_add(&last, 1) + 1;
    return number;
}

/* Most names are not held by this process: then nothing is walked over. */
static bool acquire_may_be_own(hf_client *client, const struct hf_name *name) REQUIRES(hfc_locked)
{
    struct hf_slot_view slot;

    if (TAILQ_EMPTY(&client->leases))
        return false;
    return client->link != HFC_LINK_UP || hf_index_find(&client->session->map->table, name->bytes,
                                                        name->len, &slot) != HF_ENOTHELD;
}

static bool acquire_is_own(hf_client *client, const struct hf_name *name) REQUIRES(hfc_locked)
{
    struct hfc_lease *lease;
    struct hf_slot_view slot;

    if (!acquire_may_be_own(client, name))
        return false;
    TAILQ_FOREACH (lease, &client->leases, link)
        if (lease->thread == acquire_this_thread() && hf_held(&lease->handle) &&
            hf_slot_read_named(&lease->map->table, lease->slot, name->bytes, name->len, &slot) ==
                HF_OK)
            return true;
    return false;
}

int hfc_acquire_check_own(hf_client *client, const struct hf_acquire_options *options,
                          const struct hf_name *names, size_t count)
{
    if (options->wait_ms == 0)
        return HF_OK;
    for (size_t i = 0; i < count; i++) {
        if (!acquire_is_own(client, &names[i]))
            continue;
        hfc_keep_index((int)i);
        return hfc_fail(HF_EDEADLK, "this thread holds the lock by this client and would wait for "
                                    "itself; release it first, or pass the lease on");
    }
    return HF_OK;
}

void hfc_acquire_of_thread(hf_op *op)
{
    op->thread = acquire_this_thread();
}

/* --- the result --------------------------------------------------------------------------- */

static void acquire_note_grant(hf_op *op, const struct hf_completion_entry *entry)
    REQUIRES(hfc_locked)
{
    bool run = op->entry.flags & HF_REQ_JOB;
    int status;

    if (op->cancelled) {
        hfc_ring_give_back(op->client, entry->slot, entry->generation, run);
        return;
    }
    status = hfc_lease_make(op->client, entry->slot, entry->generation, entry->fence, run,
                            op->entry.beat_word, &op->lease);
    if (status == HF_OK)
        op->entry.beat_word = 0; /* it is the lease's now */
    else
        hfc_ring_give_back(op->client, entry->slot, entry->generation, run);
    hfc_op_finish(op, status,
                  status == HF_ELOST ? "granted, and lost before it could be used" : "");
}

static void acquire_answered(hf_op *op, const struct hf_completion_entry *entry)
    REQUIRES(hfc_locked)
{
    if (entry->status == HF_OK)
        acquire_note_grant(op, entry);
    else
        hfc_op_answered(op, entry);
}

void hfc_acquire_cancel(hf_op *op)
{
    if (op->lease)
        hfc_acquire_give_back(op->lease);
    op->lease = NULL;
}

void hfc_acquire_give_back(hf_lease *handle)
{
    struct hfc_lease *lease = hfc_lease_of(handle);

    hfc_ring_give_back(lease->client, lease->slot, lease->generation, lease->is_job);
    hfc_lease_drop(lease);
}

int hfc_acquire_explain(const hf_op *op, const char *preface)
{
    int status = op->status;
    const struct hf_wire_holder *h = &op->holder;
    bool conflict = op->has_holder && (status == HF_EBUSY || status == HF_ETIMEDOUT);

    hfc_keep_conflict(conflict ? h : NULL);
    if (*op->text)
        return hfc_fail(status, "%s%s", preface, op->text);
    if (conflict && *h->host)
        return hfc_fail(status, "%s%sheld by %.15s (pid %u, uid %u) on %.63s, fence %" PRIu64,
                        preface, status == HF_ETIMEDOUT ? "the wait is over; " : "",
                        *h->comm ? h->comm : "?", h->pid, h->uid, h->host, h->fence);
    return hfc_fail(status, "%s%s", preface, hf_status_text(status));
}

static int acquire_result(hf_op *op, hf_lease **ret_lease) REQUIRES(hfc_locked)
{
    int status = op->status;

    if (status == HF_OK) {
        *ret_lease = op->lease;
        hfc_lease_of(op->lease)->thread = op->thread;
        op->lease = NULL;
    } else {
        hfc_acquire_explain(op, "");
    }
    hfc_op_abandon(op);
    return status;
}

static const struct hfc_kind acquire_kind = {
    .wire_op = HF_OP_ACQUIRE,
    .revocable = true,
    .answered = acquire_answered,
    .cancel = hfc_acquire_cancel,
    .result = acquire_result,
};

/* --- the request ----------------------------------------------------------------------------- */

static void acquire_set_patience(hf_op *op, int64_t wait_ms, uint32_t ttl_ms) REQUIRES(hfc_locked)
{
    int64_t third = (int64_t)(ttl_ms ? ttl_ms : op->client->welcome.ttl_ms) * HF_NS_PER_MS / 3;

    if (wait_ms == 0) {
        op->entry.deadline_ns = 0;
        op->deadline_ns = op->start_ns;
        op->give_up_ns = op->start_ns + (third > TRY_LEAST_NS ? third : TRY_LEAST_NS);
        return;
    }
    if (wait_ms < 0 || wait_ms > HFC_NEVER / HF_NS_PER_MS)
        op->deadline_ns = HFC_NEVER;
    else
        op->deadline_ns = hfc_after(op->start_ns, wait_ms * HF_NS_PER_MS);
    op->entry.deadline_ns = op->deadline_ns; /* HFC_NEVER is INT64_MAX on the wire too */
    op->give_up_ns = hfc_after(op->deadline_ns, HFC_GRACE_NS);
}

int hfc_acquire_begin(hf_client *client, const struct hf_acquire_options *options, hf_op **ret_op)
{
    hf_op *op = hfc_op_new(client, &acquire_kind);

    if (!op) {
        hfc_fail(HF_ENOMEM, NULL);
        return HF_ENOMEM; /* explicit for analysers that see only this file */
    }
    if (options->heartbeat_ms && !(op->entry.beat_word = hfc_beats_take(client))) {
        hfc_op_abandon(op);
        return hfc_fail(HF_ELIMIT,
                        "connect another client: all %d heartbeats of this one are in use",
                        HF_BEATS - 1);
    }
    op->entry.heartbeat_ms = options->heartbeat_ms;
    op->entry.flags = options->flags & HF_ACQUIRE_JOB ? HF_REQ_JOB : 0;
    if (options->flags & HF_ACQUIRE_SECOND_GUARDIAN)
        op->entry.flags |= HF_REQ_SECOND_GUARDIAN;
    op->entry.ttl_ms = options->ttl_ms;
    op->entry.max_hold_ms = options->max_hold_ms;
    op->entry.name_len = (uint8_t)options->name_len;
    /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): the name was checked. */
    memcpy(op->entry.name, options->name, options->name_len);
    if (options->note) {
        op->entry.note_len = (uint8_t)strlen(options->note);
        memcpy(op->entry.note, options->note, op->entry.note_len);
    }
    op->progress = options->progress;
    op->arg = options->arg;
    acquire_set_patience(op, options->wait_ms, options->ttl_ms);
    hfc_op_begin(op);
    *ret_op = op;
    return HF_OK;
}

int hf_acquire_with(hf_client *client, const struct hf_acquire_options *options,
                    hf_lease **ret_lease)
{
    hf_op *op;
    int status = hfc_client_check(client);

    hfc_keep_conflict(NULL);
    hfc_keep_index(-1);
    if (status == HF_OK)
        status = acquire_check(options);
    if (status < 0)
        return status;
    if (!ret_lease)
        return hfc_fail(HF_EINVAL, "ret_lease is NULL");
    hfc_lock(client);
    status = hfc_acquire_check_own(client, options,
                                   &(struct hf_name){options->name, options->name_len}, 1);
    if (status == HF_OK)
        status = hfc_acquire_begin(client, options, &op);
    if (status == HF_OK) {
        hfc_acquire_of_thread(op);
        hfc_op_wait(op);
        status = acquire_result(op, ret_lease);
    }
    hfc_unlock(client);
    return status;
}

int hf_acquire(hf_client *client, const char *name, int64_t ttl_ms, int64_t wait_ms,
               hf_lease **ret_lease)
{
    struct hf_acquire_options options = {
        .size = sizeof(options),
        .name = name,
        .name_len = name ? strlen(name) : 0,
        .ttl_ms = (uint32_t)ttl_ms,
        .wait_ms = wait_ms,
    };

    if (ttl_ms < 0 || ttl_ms > UINT32_MAX)
        return hfc_fail(HF_ETTL,
                        "use a TTL of 0 (the agent's) to %" PRIu32 " ms, not %" PRId64 " ms",
                        UINT32_MAX, ttl_ms);
    return hf_acquire_with(client, &options, ret_lease);
}

int hf_try(hf_client *client, const char *name, hf_lease **ret_lease)
{
    return hf_acquire(client, name, 0, 0, ret_lease);
}

int hf_acquire_start(hf_client *client, const struct hf_acquire_options *options, hf_op **ret_op)
{
    int status = hfc_client_check(client);

    if (status == HF_OK)
        status = acquire_check(options);
    if (status < 0)
        return status;
    if (!ret_op)
        return hfc_fail(HF_EINVAL, "ret_op is NULL");
    hfc_lock(client);
    if (options->flags & HF_ACQUIRE_BLOCKS)
        status = hfc_acquire_check_own(client, options,
                                       &(struct hf_name){options->name, options->name_len}, 1);
    if (status == HF_OK)
        status = hfc_acquire_begin(client, options, ret_op);
    if (status == HF_OK) {
        hfc_acquire_of_thread(*ret_op);
        hfc_timer_pull(client, hfc_op_next(*ret_op));
    }
    hfc_unlock(client);
    return status;
}
