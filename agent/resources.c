/* Names: who holds one, who waits for it, and the slot that shows it. One contender per name on
 * this host, first come first served among local waiters. Requests of clients come in here. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/broker_internal.h"
#include "agent/clock.h"
#include "agent/core/fence.h"
#include "agent/log.h"
#include "shm/index.h"
#include "shm/slot.h"
#include "shm/status.h"

/* --- the private map from names to resources
 * ---------------------------------------------------------- */

struct name_key {
    const void *name;
    size_t len;
};

static unsigned long name_hash(struct broker *b, const void *name, size_t len)
{
    return hf_name_hash(b->agent->table.header->index_key, name, len);
}

static int name_match(struct cds_lfht_node *node, const void *key)
{
    const struct resource *r = HF_CONTAINER(node, struct resource, node);
    const struct name_key *k = key;

    return r->name_len == k->len && memcmp(r->name, k->name, k->len) == 0;
}

static struct resource *resource_find(struct broker *b, const void *name, size_t len)
{
    struct name_key key = {name, len};
    struct cds_lfht_iter iter;
    struct cds_lfht_node *node;

    rcu_read_lock();
    cds_lfht_lookup(b->resources, name_hash(b, name, len), name_match, &key, &iter);
    node = cds_lfht_iter_get_node(&iter);
    rcu_read_unlock();
    return node ? HF_CONTAINER(node, struct resource, node) : NULL;
}

static void on_retry(struct loop_timer *timer, hf_time now)
{
    (void)now;
    resource_kick(HF_CONTAINER(timer, struct resource, retry));
}

static struct resource *resource_new(struct broker *b, const void *name, size_t len, uint32_t slot)
{
    struct resource *r = calloc(1, sizeof(*r) + len);

    if (!r)
        return NULL;
    r->b = b;
    r->slot = slot;
    r->generation = b->generations[slot];
    r->name_len = (uint8_t)len;
    memcpy(r->name, name, len);
    TAILQ_INIT(&r->waiters);
    r->retry.fn = on_retry;
    backoff_init(&r->backoff, hf_ms(50), hf_ms(1000));
    cds_lfht_node_init(&r->node);
    rcu_read_lock();
    cds_lfht_add(b->resources, name_hash(b, name, len), &r->node);
    rcu_read_unlock();
    b->by_slot[slot] = r;
    return r;
}

/* Only the broker looks into this map, so nobody else can still see the node. */
static void resource_forget(struct resource *r)
{
    struct broker *b = r->b;
    struct hf_slot *slot = &b->agent->table.slots[r->slot];

    loop_timer_cancel(b->loop, &r->retry);
    if (r->idle)
        TAILQ_REMOVE(&b->idle, r, idle_link);
    if (r->stalled)
        TAILQ_REMOVE(&b->stalled, r, stalled_link);
    if (r->indexed)
        hf_index_remove(&b->agent->table, r->name, r->name_len, r->slot);
    hf_slot_clear(slot);
    if (r->has_text)
        hf_text_drop(b->text, r->text_off, r->name_len, r->text_note_len, r->text_comm_len);
    rcu_read_lock();
    (void)cds_lfht_del(b->resources, &r->node);
    rcu_read_unlock();
    b->by_slot[r->slot] = NULL;
    free(r);
}

static bool resource_in_use(const struct resource *r)
{
    return r->lease || r->round || r->granted || r->undoing || !TAILQ_EMPTY(&r->waiters);
}

/* Unused from here on: its slot keeps the name until another name needs the slot. */
static void resource_rest(struct resource *r)
{
    if (r->idle || resource_in_use(r))
        return;
    r->idle = true;
    TAILQ_INSERT_TAIL(&r->b->idle, r, idle_link);
}

static void resource_rouse(struct resource *r)
{
    if (!r->idle)
        return;
    r->idle = false;
    TAILQ_REMOVE(&r->b->idle, r, idle_link);
}

/* A slot for a new name: one never used, else the one longest at rest, so that readers who just looked
 * one up see its end rather than a stranger for as long as can be. */
static int slot_take(struct broker *b, uint32_t *ret_slot)
{
    struct resource *oldest;

    while (b->next_slot < b->agent->table.capacity) {
        uint32_t slot = b->next_slot++;

        if (b->by_slot[slot] || b->generations[slot] >= HF_GEN_MAX)
            continue; /* readopted, or retired: its generations are used up */
        if (slot >= b->slots_used) {
            b->slots_used = slot + 1;
            atomic_store_explicit(&b->agent->table.header->slots_used, b->slots_used,
                                  memory_order_release);
        }
        *ret_slot = slot;
        return HF_OK;
    }
    while ((oldest = TAILQ_FIRST(&b->idle))) {
        uint32_t slot = oldest->slot;

        resource_forget(oldest);
        if (b->generations[slot] >= HF_GEN_MAX)
            continue;
        *ret_slot = slot;
        return HF_OK;
    }
    return HF_EFULL;
}

int resource_get(struct broker *b, const void *name, size_t name_len,
                 struct resource **ret_resource)
{
    struct resource *r = resource_find(b, name, name_len);
    uint32_t slot;

    if (r && !resource_in_use(r) && b->generations[r->slot] >= HF_GEN_MAX) {
        resource_forget(r);
        r = NULL;
    }
    if (!r) {
        if (slot_take(b, &slot) < 0)
            return HF_EFULL;
        r = resource_new(b, name, name_len, slot);
        if (!r)
            return HF_ENOMEM;
        resource_rest(r);
    }
    *ret_resource = r;
    return HF_OK;
}

int resource_at(struct broker *b, const void *name, size_t name_len, uint32_t slot,
                struct resource **ret_resource)
{
    struct resource *r;

    if (b->by_slot[slot] || resource_find(b, name, name_len))
        return HF_EBUSY;
    r = resource_new(b, name, name_len, slot);
    if (!r)
        return HF_ENOMEM;
    *ret_resource = r;
    return HF_OK;
}

struct lease *resources_lease(struct broker *b, uint32_t slot, uint32_t generation)
{
    struct resource *r = slot < b->agent->table.capacity ? b->by_slot[slot] : NULL;

    return r && r->lease && r->lease->generation == generation ? r->lease : NULL;
}

/* --- waiters
 * ------------------------------------------------------------------------------------------ */

void waiter_free(struct waiter *w)
{
    struct broker *b = w->session->broker;

    loop_timer_cancel(b->loop, &w->timer);
    TAILQ_REMOVE(&w->resource->waiters, w, queue);
    LIST_REMOVE(w, of_session);
    b->waiter_count--;
    w->session->user->waiters--;
    hf_counter_set(&b->agent->table, HF_COUNTER_WAITERS, b->waiter_count);
    free(w);
}

static void local_holder(const struct resource *r, struct hf_wire_holder *ret)
{
    const struct lease *l = r->lease;

    *ret = (struct hf_wire_holder){.fence = l->fence,
                                   .since_wall_ms = l->since_wall.ms,
                                   .pttl_ms = -2,
                                   .pid = l->pid,
                                   .uid = l->uid};
    snprintf(ret->host, sizeof(ret->host), "%s", r->b->agent->host);
    snprintf(ret->comm, sizeof(ret->comm), "%s", l->comm);
    snprintf(ret->note, sizeof(ret->note), "%s", l->note);
}

void waiter_fail(struct waiter *w, int status, const char *text)
{
    struct hf_completion_entry answer = {
        .id = w->id, .op = HF_OP_ACQUIRE, .status = status, .holder = w->holder};
    struct session *s = w->session;
    struct resource *r = w->resource;
    hf_time now = clock_now();

    answer.nodes_voting = (uint32_t)nodes_voting(r->b, now);
    answer.nodes_up = (uint32_t)nodes_up(r->b);
    if (r->lease && (status == HF_EBUSY || status == HF_ETIMEDOUT))
        local_holder(r, &answer.holder);
    snprintf(answer.text, sizeof(answer.text), "%s", text);
    waiter_free(w);
    session_answer(s, &answer);
    resource_rest(r);
}

static void waiter_progress(struct waiter *w, int reason, const char *text)
{
    struct hf_completion_entry entry = {
        .id = w->id, .op = HF_OP_PROGRESS, .status = reason, .holder = w->holder};
    struct broker *b = w->session->broker;
    hf_time now = loop_now(b->loop);

    if (w->resource->lease && reason == HF_EBUSY)
        local_holder(w->resource, &entry.holder);
    if (w->told == reason && (reason != HF_EBUSY || w->told_fence == entry.holder.fence))
        return;
    w->told = reason;
    w->told_fence = entry.holder.fence;
    entry.nodes_voting = (uint32_t)nodes_voting(b, now);
    entry.nodes_up = (uint32_t)nodes_up(b);
    snprintf(entry.text, sizeof(entry.text), "%s", text);
    session_progress(w->session, &entry);
}

static void on_waiter_timer(struct loop_timer *timer, hf_time now)
{
    struct waiter *w = HF_CONTAINER(timer, struct waiter, timer);
    struct resource *r = w->resource;
    int status = w->last_failure == HF_ENOQUORUM ? HF_ENOQUORUM : HF_ETIMEDOUT;
    char text[184] = "";

    if (status == HF_ENOQUORUM)
        nodes_explain(r->b, now, text, sizeof(text));
    if (r->round && r->round->waiter == w)
        round_cancel(r->round);
    waiter_fail(w, status, text);
    resource_kick(r);
}

/* --- what can be done next
 * ------------------------------------------------------------------------------ */

static void stall(struct resource *r, hf_time now)
{
    struct broker *b = r->b;
    struct waiter *w, *next;
    char text[184];
    bool settling = nodes_settling(b, now);

    nodes_explain(b, now, text, sizeof(text));
    if (!r->stalled) {
        r->stalled = true;
        TAILQ_INSERT_TAIL(&b->stalled, r, stalled_link);
    }
    if (!heap_has(&b->stalled_timer.item))
        loop_timer_set(b->loop, &b->stalled_timer, hf_time_add(now, hf_ms(200)));
    for (w = TAILQ_FIRST(&r->waiters); w; w = next) {
        next = TAILQ_NEXT(w, queue);
        w->last_failure = HF_ENOQUORUM;
        if (settling)
            continue;
        if (w->deadline.ns == HF_TIME_PAST.ns)
            waiter_fail(w, HF_ENOQUORUM, text);
        else
            waiter_progress(w, HF_ENOQUORUM, text);
    }
}

void resource_kick(struct resource *r)
{
    struct broker *b = r->b;
    struct waiter *w, *next;
    hf_time now = clock_now();
    int rc;

    if (r->stalled) {
        r->stalled = false;
        TAILQ_REMOVE(&b->stalled, r, stalled_link);
    }
    if (r->lease) {
        /* Held on this host: those that only try are told by whom, the rest wait for its end. */
        for (w = TAILQ_FIRST(&r->waiters); w; w = next) {
            next = TAILQ_NEXT(w, queue);
            w->contended = true;
            w->last_failure = HF_EBUSY;
            if (w->deadline.ns == HF_TIME_PAST.ns)
                waiter_fail(w, HF_EBUSY, "");
            else
                waiter_progress(w, HF_EBUSY, "");
        }
        return;
    }
    if (TAILQ_EMPTY(&r->waiters)) {
        loop_timer_cancel(b->loop, &r->retry);
        resource_rest(r);
        return;
    }
    resource_rouse(r);
    if (r->round || r->undoing)
        return;
    w = TAILQ_FIRST(&r->waiters);
    if (heap_has(&r->retry.item)) {
        /* Another host holds it. A try does not wait for the next round: it begins one. */
        if (w->last_failure == HF_EBUSY && w->deadline.ns != HF_TIME_PAST.ns)
            waiter_progress(w, HF_EBUSY, "");
        while (w && w->deadline.ns != HF_TIME_PAST.ns)
            w = TAILQ_NEXT(w, queue);
        if (!w)
            return;
    }
    if (*nodes_fleet_text(b)) {
        while ((w = TAILQ_FIRST(&r->waiters)))
            waiter_fail(w, HF_EFLEET, nodes_fleet_text(b));
        return;
    }
    if (nodes_voting(b, now) < b->q) {
        stall(r, now);
        return;
    }
    rc = round_begin(r, w);
    if (rc < 0)
        waiter_fail(w, rc, "");
}

void resources_kick_stalled(struct broker *b)
{
    struct resource_queue queue;
    struct resource *r;

    TAILQ_INIT(&queue);
    while ((r = TAILQ_FIRST(&b->stalled))) {
        TAILQ_REMOVE(&b->stalled, r, stalled_link);
        TAILQ_INSERT_TAIL(&queue, r, stalled_link);
    }
    while ((r = TAILQ_FIRST(&queue))) {
        TAILQ_REMOVE(&queue, r, stalled_link);
        r->stalled = false;
        resource_kick(r);
    }
}

static void on_stalled_timer(struct loop_timer *timer, hf_time now)
{
    struct broker *b = HF_CONTAINER(timer, struct broker, stalled_timer);

    (void)now;
    resources_kick_stalled(b);
}

/* --- grant and end
 * ---------------------------------------------------------------------------------------- */

void journal_held(struct broker *b, const struct lease *lease, enum journal_state state)
{
    struct journal_lease record = {.state = state,
                                   .slot_state = lease->fsm.state,
                                   .generation = lease->generation,
                                   .fence = lease->fence};

    for (int i = 0; i < HF_NODES_MAX; i++)
        record.d[i] = i < b->n ? lease->fsm.node[i].d : HF_TIME_PAST;
    journal_put(b->agent->journal, lease->slot, &record);
}

int resource_publish(struct resource *r, struct lease *lease, hf_time valid, uint32_t votes,
                     uint32_t flags)
{
    struct broker *b = r->b;
    struct hf_slot_identity id = {.generation = lease->generation,
                                  .pid = lease->pid,
                                  .uid = lease->uid,
                                  .ttl_ms = lease->ttl_ms,
                                  .flags = flags,
                                  .name_len = r->name_len,
                                  .note_len = lease->note_len,
                                  .comm_len = lease->comm_len,
                                  .fence = lease->fence,
                                  .since = lease->since};
    uint32_t old_off = r->text_off;
    uint8_t old_note = r->text_note_len, old_comm = r->text_comm_len;
    bool had_text = r->has_text;
    int rc = hf_text_put(b->text, r->name, r->name_len, lease->note, lease->note_len, lease->comm,
                         lease->comm_len, &id.text_off);

    if (rc < 0)
        return rc;
    hf_slot_publish(&b->agent->table.slots[r->slot], &id, valid, votes);
    /* The old text goes only now: a reader that copied it sees the slot's sequence count changed.
     */
    if (had_text)
        hf_text_drop(b->text, old_off, r->name_len, old_note, old_comm);
    r->has_text = true;
    r->text_off = id.text_off;
    r->text_note_len = lease->note_len;
    r->text_comm_len = lease->comm_len;
    if (!r->indexed) {
        rc = hf_index_add(&b->agent->table, r->name, r->name_len, r->slot);
        if (rc < 0)
            log_warn("the name index is full in one place: a lease is held but cannot be looked up "
                     "by name");
        else
            r->indexed = true;
    }
    return HF_OK;
}

void resource_hold(struct resource *r, struct lease *lease, struct client *holder)
{
    lease->resource = r;
    r->lease = lease;
    r->holder = holder;
    LIST_INSERT_HEAD(&holder->held, r, of_holder);
    holder->user->leases++;
    lease_table_add(r->b->agent->leases, lease);
}

static void answer_granted(struct session *s, const struct lease *lease)
{
    struct hf_completion_entry answer = {.id = lease->request_id,
                                         .op = HF_OP_ACQUIRE,
                                         .status = HF_OK,
                                         .slot = lease->slot,
                                         .generation = lease->generation,
                                         .fence = lease->fence};

    answer.deadline_ns = atomic_load_explicit(&lease->valid_ns, memory_order_relaxed);
    session_answer(s, &answer);
}

int resource_grant(struct round *round, hf_time now)
{
    struct resource *r = round->resource;
    struct waiter *w = round->waiter;
    struct broker *b = r->b;
    struct client *c = w->session->client;
    struct lease *lease = lease_new(r->name, r->name_len, round->key, round->key_len);
    hf_time a[HF_NODES_MAX], max_hold = HF_TIME_NEVER;
    uint32_t mark[HF_NODES_MAX];
    struct message *m;
    int rc;

    if (!lease)
        return HF_ENOMEM;
    for (int i = 0; i < HF_NODES_MAX; i++) {
        enum ballot_vote v = i < b->n ? round->ballot.node[i].vote : BALLOT_NO;

        a[i] = v == BALLOT_YES || v == BALLOT_YES_LOW ? round->ballot.node[i].a : HF_TIME_PAST;
        mark[i] = i < b->n ? b->nodes[i].trust.mark : 0;
    }
    if (w->max_hold_ms)
        max_hold = hf_time_add(now, hf_ms(w->max_hold_ms));
    lease->slot = r->slot;
    lease->generation = r->generation;
    lease->ttl_ms = (uint32_t)hf_dur_ms(w->timing.ttl);
    lease->pid = round->pid;
    lease->uid = round->uid;
    lease->client_id = c->id;
    lease->request_id = w->id;
    lease->fence = fence_make(round->ballot.fence, 0);
    lease->since = now;
    lease->since_wall = round->described.since;
    lease->run = w->run;
    lease->note_len = w->note_len;
    lease->comm_len = (uint8_t)strlen(round->comm);
    memcpy(lease->token, round->token, sizeof(lease->token));
    memcpy(lease->note, round->note, sizeof(lease->note));
    memcpy(lease->comm, round->comm, sizeof(lease->comm));
    lease->unanswered = round->unanswered;
    lease_fsm_init(&lease->fsm, b->n, b->q, &w->timing, w->run, max_hold, a, mark);
    atomic_init(&lease->valid_ns, lease->fsm.valid.ns);
    atomic_init(&lease->state, (uint32_t)lease->fsm.state);

    /* (!) The d_i are journaled before the check word is raised. */
    journal_held(b, lease, JOURNAL_HELD);
    rc = resource_publish(r, lease, lease->fsm.valid, (uint32_t)lease_fsm_votes(&lease->fsm, now),
                          w->run ? HF_SLOT_F_RUN : 0);
    if (rc < 0) {
        lease_free(lease);
        return rc;
    }
    round->decided = true;
    round->waiter = NULL;
    r->round = NULL;
    r->granted = round;
    r->last_fence = round->ballot.fence;
    backoff_reset(&r->backoff);
    resource_hold(r, lease, c);
    m = message_new(MSG_GRANTED);
    m->lease = lease;
    broker_tell_renewal(b, m);
    hf_counter_add(&b->agent->table, HF_COUNTER_GRANTS, 1);
    if (w->contended)
        hf_counter_add(&b->agent->table, HF_COUNTER_GRANTS_CONTENDED, 1);

    {
        struct session *s = w->session;

        waiter_free(w);
        answer_granted(s, lease);
    }
    resource_kick(r);
    return HF_OK;
}

void resource_lease_changed(struct broker *b, struct lease *lease)
{
    struct resource *r = lease->resource;

    (void)b;
    client_signal(r->holder);
}

void resource_lease_ended(struct broker *b, struct lease *lease)
{
    struct resource *r = lease->resource;
    struct client *c = r->holder;
    bool lost = atomic_load_explicit(&lease->state, memory_order_relaxed) == HF_SLOT_LOST;

    LIST_REMOVE(r, of_holder);
    c->user->leases--;
    r->holder = NULL;
    r->lease = NULL;
    if (r->granted) {
        struct round *round = r->granted;

        r->granted = NULL;
        round_lease_over(round);
    }
    /* The renewal thread's release may have overtaken an acquire that was still on its way on our
     * link; behind it on the same connection it cannot. */
    if (lease->unanswered) {
        struct release_order order = {.key = lease->key,
                                      .key_len = lease->key_len,
                                      .token = lease->token,
                                      .nodes = lease->unanswered,
                                      .doubt_until = HF_TIME_PAST,
                                      .attempt = lease->fsm.timing.attempt,
                                      .ttl = lease->fsm.timing.ttl};

        (void)releaser_start(b->releaser, &order);
    }
    journal_held(b, lease, JOURNAL_FREE);
    if (r->release_session) {
        struct hf_completion_entry answer = {.id = r->release_id,
                                             .op = HF_OP_RELEASE,
                                             .status = lost ? HF_ELOST : HF_OK,
                                             .slot = lease->slot,
                                             .generation = lease->generation};
        struct session *s = r->release_session;

        r->release_session = NULL;
        session_answer(s, &answer);
    }
    lease_table_remove(b->agent->leases, lease);
    client_signal(c);
    client_settle(c);
    resource_rest(r);
    resource_kick(r);
}

/* --- requests
 * ------------------------------------------------------------------------------------------------
 */

static void refuse(struct session *s, const struct hf_request_entry *q, int status,
                   const char *text)
{
    struct hf_completion_entry answer = {.id = q->id, .op = q->op, .status = status};

    if (status != HF_EBUSY && status != HF_ENOTHELD)
        hf_counter_add(&s->broker->agent->table, HF_COUNTER_REFUSED, 1);
    snprintf(answer.text, sizeof(answer.text), "%s", text);
    session_answer(s, &answer);
}

/* Checks an acquire; on failure `text` says what is wrong, which limit, and the remedy. */
static int judge_acquire(struct session *s, const struct hf_request_entry *q,
                         struct timing *ret_timing, char *text, size_t size)
{
    struct broker *b = s->broker;
    const struct config *c = b->config;
    uint8_t key[CONFIG_KEY_MAX];
    size_t key_len;
    int rc;

    if (b->draining)
        return HF_EGOING;
    if (q->name_len == 0) {
        snprintf(text, size, "the resource name is empty; 1 to %d bytes are allowed", HF_NAME_MAX);
        return HF_ENAME;
    }
    rc = config_key(c, q->name, q->name_len, key, &key_len);
    if (rc < 0) {
        snprintf(
            text, size,
            "names whose key begins with \"holdfast:\" are kept for the agent; use another name");
        return rc;
    }
    rc = timing_derive(hf_ms(q->ttl_ms ? q->ttl_ms : c->ttl_ms), hf_ms(c->ttl_max_ms), ret_timing,
                       text, size);
    if (rc < 0)
        return rc;
    if (c->waiters_per_uid && s->user->waiters >= c->waiters_per_uid) {
        snprintf(text, size, "user %u already waits for %u locks, the limit (waiters_per_uid)",
                 s->uid, c->waiters_per_uid);
        return HF_ELIMIT;
    }
    if (c->leases_per_uid && s->user->leases >= c->leases_per_uid) {
        snprintf(text, size, "user %u already holds %u locks, the limit (leases_per_uid)", s->uid,
                 c->leases_per_uid);
        return HF_ELIMIT;
    }
    return HF_OK;
}

void resources_acquire(struct session *s, const struct hf_request_entry *q)
{
    struct broker *b = s->broker;
    struct timing timing;
    struct resource *r;
    struct waiter *w;
    char text[184] = "";
    int rc;

    LIST_FOREACH(w, &s->waiters, of_session)
    if (w->id == q->id) {
        /* Sent again after a reconnect: the same request. Its place in the ring is given back. */
        s->unanswered--;
        return;
    }
    rc = judge_acquire(s, q, &timing, text, sizeof(text));
    if (rc < 0) {
        refuse(s, q, rc, text);
        return;
    }
    rc = resource_get(b, q->name, q->name_len, &r);
    if (rc < 0) {
        snprintf(text, sizeof(text), "all %u leases of this agent are in use (capacity)",
                 b->agent->table.capacity);
        refuse(s, q, rc, rc == HF_EFULL ? text : "");
        return;
    }
    if (r->lease && r->holder == s->client && r->lease->request_id == q->id && !r->lease->ending) {
        /* Granted by an agent that ended before its client heard of it. */
        answer_granted(s, r->lease);
        return;
    }
    w = calloc(1, sizeof(*w));
    if (!w) {
        refuse(s, q, HF_ENOMEM, "");
        return;
    }
    w->session = s;
    w->resource = r;
    w->id = q->id;
    w->timing = timing;
    w->run = q->flags & HF_REQ_RUN;
    w->max_hold_ms = q->max_hold_ms;
    if (b->config->max_hold_ms && (!w->max_hold_ms || w->max_hold_ms > b->config->max_hold_ms))
        w->max_hold_ms = b->config->max_hold_ms;
    w->note_len = q->note_len;
    memcpy(w->note, q->note, q->note_len);
    w->holder.pttl_ms = -2;
    w->timer.fn = on_waiter_timer;
    w->deadline = q->deadline_ns == 0           ? HF_TIME_PAST
                  : q->deadline_ns == INT64_MAX ? HF_TIME_NEVER
                                                : (hf_time){q->deadline_ns};
    TAILQ_INSERT_TAIL(&r->waiters, w, queue);
    LIST_INSERT_HEAD(&s->waiters, w, of_session);
    b->waiter_count++;
    s->user->waiters++;
    hf_counter_set(&b->agent->table, HF_COUNTER_WAITERS, b->waiter_count);
    resource_rouse(r);
    if (w->deadline.ns != HF_TIME_PAST.ns && w->deadline.ns != HF_TIME_NEVER.ns)
        loop_timer_set(b->loop, &w->timer, w->deadline);
    resource_kick(r);
}

/* Ends the lease of `r` through the renewal thread. */
static void lease_end(struct broker *b, struct resource *r, enum message_kind kind,
                      enum hf_loss_reason reason)
{
    struct message *m = message_new(kind);

    m->slot = r->slot;
    m->generation = r->lease->generation;
    m->reason = reason;
    if (kind == MSG_RELEASE)
        r->lease->unanswered = r->granted ? r->granted->unanswered : 0;
    broker_tell_renewal(b, m);
}

/* The lease that a request names, if this session's client holds it. */
static struct lease *own_lease(struct session *s, const struct hf_request_entry *q)
{
    struct lease *lease = resources_lease(s->broker, q->slot, q->generation);

    return lease && lease->client_id == s->client->id ? lease : NULL;
}

void resources_release(struct session *s, const struct hf_request_entry *q)
{
    struct lease *lease = own_lease(s, q);
    struct resource *r;

    if (!lease) {
        refuse(s, q, HF_ELOST, "");
        return;
    }
    r = lease->resource;
    if (lease->run && !(q->flags & HF_REQ_REAPED)) {
        refuse(s, q, HF_EINVAL,
               "a lease taken for a job ends with hf_release_reaped(): say that the job is gone");
        return;
    }
    if (r->release_session) {
        refuse(s, q, HF_ELOST, "");
        return;
    }
    r->release_session = s;
    r->release_id = q->id;
    lease->ending = true;
    lease_end(s->broker, r, MSG_RELEASE, HF_LOSS_NONE);
}

void resources_cancel(struct session *s, uint64_t id)
{
    struct waiter *w;

    LIST_FOREACH(w, &s->waiters, of_session)
    if (w->id == id) {
        struct resource *r = w->resource;

        if (r->round && r->round->waiter == w)
            round_cancel(r->round);
        waiter_fail(w, HF_ECANCELED, "");
        resource_kick(r);
        return;
    }
}

void resources_ask(struct session *s, const struct hf_request_entry *q)
{
    struct broker *b = s->broker;
    struct resource *r = q->name_len ? resource_find(b, q->name, q->name_len) : NULL;
    struct hf_completion_entry answer = {.id = q->id, .op = q->op, .status = HF_OK};

    if (!r || !r->lease) {
        refuse(s, q, HF_ENOTHELD, "nobody on this host holds it");
        return;
    }
    if (s->uid != 0 && s->uid != (uint32_t)geteuid() && s->uid != r->lease->uid) {
        char text[120];

        snprintf(text, sizeof(text),
                 "it is held by user %u; only that user, the agent's user and root may ask for it",
                 r->lease->uid);
        refuse(s, q, HF_EPERM, text);
        return;
    }
    lease_end(b, r, MSG_LOSE, HF_LOSS_ASKED);
    session_answer(s, &answer);
}

void resources_losing(struct session *s, const struct hf_request_entry *q)
{
    struct lease *lease = own_lease(s, q);

    if (lease)
        lease_end(s->broker, lease->resource, MSG_LOSE, HF_LOSS_GUARDIAN);
}

/* --- ends of sessions and clients, and of the agent
 * ---------------------------------------------------------------- */

void resources_drop_session(struct session *s)
{
    struct waiter *w;

    while ((w = LIST_FIRST(&s->waiters))) {
        struct resource *r = w->resource;

        if (r->round && r->round->waiter == w)
            round_cancel(r->round);
        waiter_free(w);
        resource_kick(r);
    }
    if (s->client) {
        struct resource *r;

        LIST_FOREACH(r, &s->client->held, of_holder)
        if (r->release_session == s)
            r->release_session = NULL;
    }
}

void resources_client_gone(struct client *c)
{
    struct broker *b = c->broker;
    struct resource *r;

    if (!LIST_EMPTY(&c->held))
        hf_counter_add(&b->agent->table, HF_COUNTER_HOLDER_DEATHS, 1);
    LIST_FOREACH(r, &c->held, of_holder)
    {
        if (r->lease->ending)
            continue;
        r->lease->ending = true;
        lease_end(b, r, r->lease->run ? MSG_ABANDON : MSG_RELEASE, HF_LOSS_HOLDER);
    }
}

void resources_drain(struct broker *b)
{
    for (uint32_t i = 0; i < b->slots_used; i++) {
        struct resource *r = b->by_slot[i];
        struct waiter *w;

        if (!r)
            continue;
        if (r->round)
            round_cancel(r->round);
        while ((w = TAILQ_FIRST(&r->waiters)))
            waiter_fail(w, HF_EGOING, "");
        if (!b->config->dev_nodes || !r->lease || r->lease->ending)
            continue;
        /* The private nodes end with this agent: jobs are stopped first, other holders are told. */
        if (r->lease->run)
            lease_end(b, r, MSG_LOSE, HF_LOSS_ASKED);
        else {
            r->lease->ending = true;
            lease_end(b, r, MSG_RELEASE, HF_LOSS_NONE);
        }
    }
}

int resources_create(struct broker *b)
{
    uint32_t capacity = b->agent->table.capacity;
    unsigned long buckets = 1;

    while (buckets < capacity)
        buckets <<= 1;
    TAILQ_INIT(&b->idle);
    TAILQ_INIT(&b->stalled);
    b->stalled_timer.fn = on_stalled_timer;
    b->by_slot = calloc(capacity, sizeof(struct resource *));
    b->generations = calloc(capacity, sizeof(*b->generations));
    /* Sized at once: growing it by itself can deadlock its end in liburcu 0.13. */
    b->resources = cds_lfht_new(buckets, buckets, buckets, 0, NULL);
    if (!b->by_slot || !b->generations || !b->resources)
        return HF_ENOMEM;
    return hf_text_pool_create(&b->agent->table, &b->text);
}

void resources_destroy(struct broker *b)
{
    if (b->by_slot && b->resources)
        for (uint32_t i = 0; i < b->agent->table.capacity; i++) {
            struct resource *r = b->by_slot[i];

            if (!r)
                continue;
            rcu_read_lock();
            (void)cds_lfht_del(b->resources, &r->node);
            rcu_read_unlock();
            free(r);
        }
    if (b->resources)
        (void)cds_lfht_destroy(b->resources, NULL);
    hf_text_pool_destroy(b->text);
    free(b->by_slot);
    free(b->generations);
}
