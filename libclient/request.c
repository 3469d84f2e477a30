/* Requests on their way: queued, in the ring, answered. An op is in one of the three lists of its
 * client until whoever waits for it takes the answer; one that nobody waits for any more stays only
 * as long as the agent may still grant something by it. */
#include "libclient/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct hfc_ops *list_of(hf_op *op) REQUIRES(hfc_locked)
{
    hf_client *client = op->client;

    switch (op->place) {
    case HFC_OP_QUEUED:
        return &client->queued;
    case HFC_OP_FLYING:
        return &client->flying;
    case HFC_OP_PARKED:
        return &client->parked;
    case HFC_OP_WHOLE:
        return &client->wholes;
    case HFC_OP_NOWHERE:
        break;
    }
    return NULL;
}

static void move(hf_op *op, enum hfc_op_place place) REQUIRES(hfc_locked)
{
    struct hfc_ops *list = list_of(op);

    if (list)
        TAILQ_REMOVE(list, op, link);
    op->place = place;
    list = list_of(op);
    if (list)
        TAILQ_INSERT_TAIL(list, op, link);
}

static void discard(hf_op *op) REQUIRES(hfc_locked)
{
    move(op, HFC_OP_NOWHERE);
    hfc_beats_give(op->client, op->entry.beat_word);
    free(op->many);
    free(op);
}

hf_op *hfc_op_new(hf_client *client, enum hf_wire_op wire_op)
{
    hf_op *op = calloc(1, sizeof(*op));

    if (!op)
        return NULL;
    op->client = client;
    op->entry.op = wire_op;
    op->entry.id = ++client->next_id;
    op->start_ns = op->entry.asked_ns = hfc_now();
    op->deadline_ns = op->give_up_ns = HFC_NEVER;
    return op;
}

static void queue(hf_op *op) REQUIRES(hfc_locked)
{
    move(op, HFC_OP_QUEUED);
    hfc_flush(op->client);
}

void hfc_op_begin(hf_op *op)
{
    hf_client *client = op->client;

    hfc_link_check(client);
    if (client->link == HFC_LINK_DOWN) { /* a new call is worth a try at once */
        client->next_try_ns = hfc_min(client->next_try_ns, op->start_ns);
        hfc_link_drive(client);
    }
    queue(op);
}

void hfc_op_keep(hf_op *op)
{
    move(op, HFC_OP_WHOLE);
}

/* No completion comes for these. */
static bool is_one_way(const hf_op *op)
{
    return op->entry.op == HF_OP_CANCEL || op->entry.op == HF_OP_LOSING;
}

static void ring_doorbell(const struct hfc_session *session)
{
    const uint64_t one = 1;
    ssize_t n;

    do
        n = write(session->doorbell, &one, sizeof(one));
    while (n < 0 && errno == EINTR); /* any other failure: the bell rings already */
}

static bool is_too_new(const hf_op *op) REQUIRES(hfc_locked);
static void refuse_too_new(hf_op *op) REQUIRES(hfc_locked);

void hfc_flush(hf_client *client)
{
    bool wake_agent = false;
    hf_op *op, *next;

    client->ring_full = false;
    if (client->link != HFC_LINK_UP)
        return;
    for (op = TAILQ_FIRST(&client->queued); op; op = next) {
        bool wake = false;
        int status;

        next = TAILQ_NEXT(op, link);
        if (is_too_new(op)) {
            refuse_too_new(op);
            continue;
        }
        status = hf_ring_submit(&client->session->ring, &op->entry, &wake);
        if (status == HF_EFULL) {
            client->ring_full = true;
            hfc_timer_pull(client, hfc_now() + HFC_SLICE_FULL_NS);
            break;
        }
        if (status < 0) {
            hfc_link_drop(client, HF_EPROTO, "the agent broke the ring's protocol");
            return;
        }
        wake_agent |= wake;
        op->sent = true;
        if (is_one_way(op))
            discard(op);
        else
            move(op, HFC_OP_FLYING);
    }
    if (wake_agent)
        ring_doorbell(client->session);
}

static void send_cancel(hf_client *client, uint64_t target) REQUIRES(hfc_locked)
{
    hf_op *cancel = hfc_op_new(client, HF_OP_CANCEL);

    if (!cancel) /* then a late grant is released when it comes */
        return;
    cancel->entry.target = target;
    cancel->abandoned = true;
    move(cancel, HFC_OP_QUEUED);
}

void hfc_requeue(hf_client *client)
{
    struct hfc_ops later = TAILQ_HEAD_INITIALIZER(later);
    hf_op *op;

    TAILQ_CONCAT(&later, &client->queued, link);
    while ((op = TAILQ_FIRST(&client->flying))) {
        move(op, HFC_OP_QUEUED);
        if (op->cancelled)
            send_cancel(client, op->entry.id);
    }
    TAILQ_CONCAT(&client->queued, &later, link);
}

void hfc_release_unwanted(hf_client *client, uint32_t slot, uint32_t generation, bool run)
{
    hf_op *op = hfc_op_new(client, HF_OP_RELEASE);

    if (!op) /* the agent releases it when this client ends */
        return;
    op->entry.slot = slot;
    op->entry.generation = generation;
    op->entry.flags = run ? HF_REQ_REAPED : 0;
    op->abandoned = true;
    queue(op);
}

/* --- answers ---------------------------------------------------------------------------------- */

static void note_progress(hf_op *op, const struct hf_completion_entry *entry) REQUIRES(hfc_locked)
{
    struct hf_progress *now = &op->progress_now;

    *now = (struct hf_progress){
        .reason = entry->status,
        .nodes_voting = entry->nodes_voting,
        .nodes_up = entry->nodes_up,
        .place = entry->place,
    };
    hfc_holder(&entry->holder, &now->holder);
    (void)snprintf(now->text, sizeof(now->text), "%.*s", (int)sizeof(now->text) - 1, entry->text);
    op->progress_due = true;
    op->told_no_agent = false;
    /* A wait that ends unanswered can still say who was in the way. */
    op->has_holder = entry->status == HF_EBUSY;
    op->holder = entry->holder;
}

static void finish(hf_op *op, int status, const char *text) REQUIRES(hfc_locked)
{
    op->done = true;
    op->status = status;
    (void)snprintf(op->text, sizeof(op->text), "%.*s", (int)sizeof(op->text) - 1, text);
    hfc_timer_pull(op->client, 0);
}

/* Requests that an agent of an earlier minor version takes for nonsense. */
static bool is_too_new(const hf_op *op) REQUIRES(hfc_locked)
{
    return op->entry.op >= HF_OP_LOOK && op->client->welcome.minor < 2;
}

static void refuse_too_new(hf_op *op) REQUIRES(hfc_locked)
{
    char text[160];

    (void)snprintf(text, sizeof(text),
                   "the agent is of version %.15s, which cannot tell: start the new one",
                   op->client->welcome.version);
    finish(op, HF_EVERSION, text);
    move(op, HFC_OP_PARKED);
}

static void note_grant(hf_op *op, const struct hf_completion_entry *entry) REQUIRES(hfc_locked)
{
    bool run = op->entry.flags & HF_REQ_RUN;
    int status;

    if (op->cancelled) {
        hfc_release_unwanted(op->client, entry->slot, entry->generation, run);
        return;
    }
    status = hfc_lease_make(op->client, entry->slot, entry->generation, entry->fence, run,
                            op->entry.beat_word, &op->lease);
    if (status == HF_OK)
        op->entry.beat_word = 0; /* the lease's now */
    else
        hfc_release_unwanted(op->client, entry->slot, entry->generation, run);
    finish(op, status, status == HF_ELOST ? "granted, and lost before it could be used" : "");
}

static void answer(hf_client *client, const struct hf_completion_entry *entry) REQUIRES(hfc_locked)
{
    hf_op *op;

    TAILQ_FOREACH (op, &client->flying, link)
        if (op->entry.id == entry->id)
            break;
    if (!op)
        return;
    if (entry->op == HF_OP_ITEM) {
        if (op->item && !op->abandoned)
            op->item((const struct hf_scan_item *)entry, op->arg);
        return;
    }
    if (op->found && !op->abandoned)
        *op->found = *entry;
    if (entry->op == HF_OP_PROGRESS) {
        if (!op->done)
            note_progress(op, entry);
        return;
    }
    if (op->entry.op == HF_OP_ACQUIRE && entry->status == HF_OK) {
        note_grant(op, entry);
    } else if (!op->done) {
        bool none = entry->status > 0 || entry->status == HF_EPENDING; /* no answer is that */

        const struct hf_wire_holder *told = &op->holder;
        bool anonymous = op->has_holder && !told->fence && !told->pid && !*told->host;

        if (entry->status == HF_EBUSY || *entry->holder.host || entry->holder.pid) {
            op->has_holder = true;
            op->holder = entry->holder;
        } else if (anonymous && entry->status == HF_ETIMEDOUT) {
            op->holder.pttl_ms = entry->holder.pttl_ms; /* what is left by now */
        }
        finish(op, none ? HF_EPROTO : entry->status, entry->text);
    }
    if (op->abandoned)
        discard(op);
    else
        move(op, HFC_OP_PARKED);
}

void hfc_drain(hf_client *client)
{
    struct hf_completion_entry entry;
    int status = 0, read = 0;

    /* At most one ring's worth: an agent that posts on and on must not keep us here. */
    while (read < HF_RING_ENTRIES && client->link == HFC_LINK_UP) {
        status = hf_ring_reap(&client->session->ring, &entry);
        if (status <= 0)
            break;
        read++;
        answer(client, &entry);
    }
    /* It was full: more answers may wait in the agent for the room that is there now. */
    if (read == HF_RING_ENTRIES && client->link == HFC_LINK_UP)
        ring_doorbell(client->session);
    if (status < 0 && client->link == HFC_LINK_UP)
        hfc_link_drop(client, HF_EPROTO, "the agent broke the ring's protocol");
}

/* --- waiting ---------------------------------------------------------------------------------- */

/* From now on the agent is to forget it, and a grant that comes all the same is released. */
static void withdraw(hf_op *op) REQUIRES(hfc_locked)
{
    if (op->cancelled || op->entry.op != HF_OP_ACQUIRE)
        return;
    op->cancelled = true;
    /* One that goes to the next agent, for a grant of the last one may be its answer, is not to wait
     * there. */
    if (op->place == HFC_OP_FLYING || (op->place == HFC_OP_QUEUED && op->sent)) {
        send_cancel(op->client, op->entry.id);
        hfc_flush(op->client);
    }
}

/* It should have been answered by now, and whoever was to answer hangs. */
static bool is_in_vain(const hf_op *op, int64_t now_ns) REQUIRES(hfc_locked)
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
    if (op->many) {
        hfc_many_turn(op, now_ns);
        return;
    }
    if (client->link == HFC_LINK_DOWN && client->last_try_ns >= op->start_ns) {
        if (now_ns < op->deadline_ns && !hfc_link_is_hopeless(client->link_status)) {
            if (!op->told_no_agent) {
                struct hf_progress *now = &op->progress_now;

                *now = (struct hf_progress){.reason = HF_ENOAGENT};
                (void)snprintf(now->text, sizeof(now->text), "%.180s", client->link_text);
                op->told_no_agent = op->progress_due = true;
            }
            return;
        }
        finish(op, client->link_status, client->link_text);
        withdraw(op);
        return;
    }
    if (now_ns < op->give_up_ns && !is_in_vain(op, now_ns))
        return;
    (void)snprintf(text, sizeof(text), "the agent at %s does not answer", client->place.path);
    finish(op, HF_ENOAGENT, text);
    withdraw(op);
}

int64_t hfc_op_next(const hf_op *op)
{
    int64_t next = op->client->link == HFC_LINK_DOWN ? op->deadline_ns : op->give_up_ns;
    int64_t now = hfc_now(), hang_ns = op->start_ns + HFC_HANG_NS;

    if (op->many)
        return hfc_many_next(op);
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

    if (!op->progress_due || op->done || op->part)
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

    for (;;) {
        uint32_t seen = hfc_turn(client);

        hfc_op_expire(op, hfc_now());
        if (op->done)
            return;
        if (!hfc_op_progress(op))
            hfc_sleep(client, seen, hfc_op_next(op));
    }
}

void hfc_op_abandon(hf_op *op)
{
    hf_client *client = op->client;

    if (op->lease) {
        struct hfc_lease *lease = hfc_lease_of(op->lease);

        hfc_release_unwanted(client, lease->slot, lease->generation, lease->run);
        hfc_lease_drop(lease);
        op->lease = NULL;
    }
    for (unsigned i = 0; op->many && i < op->many->count; i++)
        hfc_many_drop(&op->many->parts[i]);
    if (op->place == HFC_OP_FLYING || (op->place == HFC_OP_QUEUED && op->sent)) {
        op->abandoned = true;
        withdraw(op);
        return;
    }
    discard(op);
}

static void free_list(struct hfc_ops *list)
{
    hf_op *op;

    while ((op = TAILQ_FIRST(list))) {
        TAILQ_REMOVE(list, op, link);
        free(op->many);
        free(op);
    }
}

void hfc_ops_free(hf_client *client)
{
    free_list(&client->queued);
    free_list(&client->flying);
    free_list(&client->parked);
    free_list(&client->wholes);
}
