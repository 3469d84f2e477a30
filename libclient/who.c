/* Who holds a name on any host; waiting for it to be free; ending a hold by force. */
#include "libclient/internal.h"

#include <inttypes.h>
#include <string.h>

#include "shm/hex.h"

static void who_fill(const struct hf_completion_entry *found, uint32_t nodes,
                     struct hf_who_info *who)
{
    *who = (struct hf_who_info){.size = sizeof(*who),
                                .state = found->query_outcome,
                                .nodes = nodes,
                                .quorum = nodes / 2 + 1,
                                .answered = found->query_answered,
                                .holding = found->query_holding,
                                .forced = found->query_forced,
                                .free = found->query_free,
                                .last_fence = found->fence};
    hfc_holder(&found->holder, &who->holder);
    hf_key_id_text(found->key_id, who->id);
}

/* From the session, so from the agent that answered. */
static uint32_t who_nodes_of(const hf_client *client) REQUIRES(hfc_locked)
{
    return client->link == HFC_LINK_UP ? client->session->map->table.header->nodes : 0;
}

static const struct hfc_kind query_kind = {.wire_op = HF_OP_QUERY, .revocable = true};
static const struct hfc_kind force_kind = {.wire_op = HF_OP_FORCE, .steady = true};

struct question {
    const struct hfc_kind *kind;
    const void *name;
    size_t name_len;
    /* query: wait until it is free */
    int64_t wait_ms;
    void (*progress)(const struct hf_progress *progress, void *arg);
    void *arg;
    /* force: the hold meant */
    uint64_t fence;
    uint8_t id[HF_KEY_ID_LEN];
};

static void who_wait_for(hf_op *op, int64_t wait_ms) REQUIRES(hfc_locked)
{
    op->entry.flags = HF_REQ_WAIT;
    op->deadline_ns = HFC_NEVER;
    if (wait_ms > 0 && wait_ms <= HFC_NEVER / HF_NS_PER_MS)
        op->deadline_ns = hfc_after(op->start_ns, wait_ms * HF_NS_PER_MS);
    op->entry.deadline_ns = op->deadline_ns;
    op->give_up_ns = hfc_after(op->deadline_ns, HFC_GRACE_NS);
}

static hf_op *who_op_of(hf_client *client, const struct question *q) REQUIRES(hfc_locked)
{
    hf_op *op = hfc_op_new(client, q->kind);

    if (!op)
        return NULL;
    op->entry.name_len = (uint8_t)q->name_len;
    memcpy(op->entry.name, q->name, q->name_len);
    op->entry.target = q->fence;
    memcpy(op->entry.key_id, q->id, sizeof(q->id));
    op->progress = q->progress;
    op->arg = q->arg;
    op->deadline_ns = op->start_ns;
    op->give_up_ns = op->start_ns + hfc_op_patience(client);
    if (q->wait_ms != 0)
        who_wait_for(op, q->wait_ms);
    return op;
}

/* Waits for the answer, keeps its sentence, and frees the op. */
static int who_collect(hf_op *op) REQUIRES(hfc_locked)
{
    bool conflict;
    int status;

    hfc_op_wait(op);
    status = op->status;
    conflict = op->has_holder && (status == HF_EBUSY || status == HF_ETIMEDOUT);
    hfc_keep_conflict(conflict ? &op->holder : NULL);
    return hfc_op_close(op, status);
}

/* Waits for the answer. `ret_found` has what is known even after a failure, else HF_QUERY_NONE;
 * `ret_nodes`: the number of nodes. */
static int who_ask(hf_client *client, const struct question *q,
                   struct hf_completion_entry *ret_found, uint32_t *ret_nodes)
{
    hf_op *op;
    int status;

    *ret_found = (struct hf_completion_entry){.query_outcome = HF_QUERY_NONE};
    hfc_lock(client);
    op = who_op_of(client, q);
    if (!op) {
        hfc_unlock(client);
        return hfc_fail(HF_ENOMEM, NULL);
    }
    op->found = ret_found;
    hfc_op_begin(op);
    status = who_collect(op);
    *ret_nodes = who_nodes_of(client);
    hfc_unlock(client);
    return status;
}

int hf_who(hf_client *client, const void *name, size_t name_len, struct hf_who_info *who)
{
    struct question q = {.kind = &query_kind, .name = name, .name_len = name_len};
    struct hf_completion_entry found;
    int status = hfc_name_check(client, name, name_len);
    uint32_t nodes;

    if (status < 0)
        return status;
    if (!who || who->size < sizeof(*who))
        return hfc_fail(HF_EINVAL, "hf_who: begin with HF_WHO_INFO_INIT, which sets the size");
    status = who_ask(client, &q, &found, &nodes);
    if (found.query_outcome != HF_QUERY_NONE)
        who_fill(&found, nodes, who);
    return status;
}

int hf_wait_free(hf_client *client, const void *name, size_t name_len, int64_t wait_ms,
                 void (*progress)(const struct hf_progress *progress, void *arg), void *arg)
{
    struct question q = {.kind = &query_kind,
                         .name = name,
                         .name_len = name_len,
                         .wait_ms = wait_ms,
                         .progress = progress,
                         .arg = arg};
    struct hf_completion_entry found;
    int status = hfc_name_check(client, name, name_len);
    uint32_t nodes;

    if (status < 0)
        return status;
    if (wait_ms < -1)
        return hfc_fail(HF_EINVAL, "give -1 as wait_ms to wait without limit, not %" PRId64,
                        wait_ms);
    status = who_ask(client, &q, &found, &nodes);
    if (status == HF_ETIMEDOUT &&
        (found.query_outcome == HF_QUERY_HELD || found.query_outcome == HF_QUERY_SPLIT))
        hfc_keep_conflict(&found.holder);
    if (status == HF_OK && found.query_outcome != HF_QUERY_FREE) {
        hfc_keep_conflict(&found.holder);
        status = hfc_fail(HF_EBUSY, NULL);
    }
    return status;
}

int hf_force(hf_client *client, const void *name, size_t name_len, const struct hf_who_info *seen,
             struct hf_who_info *now)
{
    struct question q = {.kind = &force_kind, .name = name, .name_len = name_len};
    struct hf_completion_entry found;
    int status = hfc_name_check(client, name, name_len);
    uint32_t nodes;

    if (status < 0)
        return status;
    if (!seen || seen->size < sizeof(*seen) || (now && now->size < sizeof(*now)))
        return hfc_fail(HF_EINVAL, "hf_force: begin with HF_WHO_INFO_INIT, which sets the size");
    if (!seen->holder.fence && !*seen->id)
        return hfc_fail(HF_EINVAL, "say which hold is meant: by its fence or its id");
    if (!seen->holder.fence && hf_key_id_bytes(seen->id, q.id) < 0)
        return hfc_fail(HF_EINVAL, "give an id of 40 hex digits: '%.40s' is none", seen->id);
    q.fence = seen->holder.fence;
    status = who_ask(client, &q, &found, &nodes);
    if (now && found.query_outcome != HF_QUERY_NONE)
        who_fill(&found, nodes, now);
    return status;
}
