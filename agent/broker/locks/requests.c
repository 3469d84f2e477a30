/* Requests of clients: each is judged and answered. */
#include "agent/broker/locks/orders.h"
#include "agent/base/thread_role.h"
#include "agent/broker/locks/requests.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/broker/clients/answers.h"
#include "agent/broker/clients/clients.h"
#include "agent/broker/clients/rights.h"
#include "agent/broker/clients/sessions.h"
#include "agent/broker/clients/users.h"
#include "agent/broker/locks/drains.h"
#include "agent/broker/locks/ended.h"
#include "agent/broker/locks/ends.h"
#include "agent/broker/locks/grants.h"
#include "agent/broker/locks/handoffs.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/resources.h"
#include "agent/broker/locks/round_words.h"
#include "agent/broker/locks/rounds.h"
#include "agent/broker/locks/step.h"
#include "agent/broker/locks/waiters.h"
#include "agent/broker/nodes/node_texts.h"
#include "agent/broker/nodes/nodes.h"
#include "shm/assert.h"
#include "shm/measures.h"
#include "shm/status.h"

/* Unanswered acquires of one session. Releases and cancels are taken beyond that. */
#define WAITING_MOST 4096
/* After a start, clients of an earlier agent come back within half a second unless something hinders them. */
#define COME_BACK hf_ms(5000)

static void requests_refuse(struct locks *locks, struct session *s,
                            const struct hf_request_entry *q, int status,
                            const char *text) IN_BROKER_THREAD
{
    struct hf_completion_entry answer = {.id = q->id, .op = q->op, .status = status};

    if (status != HF_EBUSY && status != HF_ENOTHELD)
        hf_counter_add(&locks->agent->table, HF_COUNTER_REFUSED, 1);
    if (q->op == HF_OP_ACQUIRE)
        hf_failure_add(&locks->agent->table, status);
    snprintf(answer.text, sizeof(answer.text), "%s", text);
    session_answer(s, &answer);
}

/* --- a wait is over --------------------------------------------------------------------------- */

/* (!) What was missing when it was decided: enough nodes may vote by now. */
static void request_explain_votes(const struct resource *r, hf_time now, char *ret_text,
                                  size_t size) IN_BROKER_THREAD
{
    const struct nodes *nodes = resource_locks(r)->nodes;
    struct round_whys whys = r->work->round ? round_whys(r->work->round) : r->work->refused;

    if (nodes_granting(nodes, now) < nodes->q)
        nodes_explain(nodes, now, ret_text, size);
    else if (!round_explain(nodes, &whys, ret_text, size))
        snprintf(ret_text, size, "too few nodes could vote until a moment ago; ask again");
}

static void request_on_timeout(struct loop_timer *timer, hf_time now) IN_BROKER_THREAD
{
    struct waiter *w = HF_CONTAINER(timer, struct waiter, timer);
    struct resource *r = w->resource;
    int status = HF_ETIMEDOUT;
    char text[184] = "";

    if (w->last_failure == HF_ENOQUORUM ||
        (!w->last_failure && round_is_slow(r->work->round, now))) {
        status = HF_ENOQUORUM;
        request_explain_votes(r, now, text, sizeof(text));
    }
    if (w->last_failure == HF_EDRAINED) {
        status = HF_EDRAINED;
        drains_explain(resource_locks(r), text);
    }
    if (handoff_is_to(r, w) || w->withheld)
        return; /* it is about to get the lock, or was */
    if (r->work->round && r->work->round->waiter == w)
        round_cancel(r->work->round);
    waiter_fail(w, status, text);
    resource_touch(r, TOUCH_LEFT);
}

/* --- acquires --------------------------------------------------------------------------------- */

/* The lease that was granted to this very request, by an agent that ended before the client was told; NULL. */
static const struct lease *requests_granted_already(const struct resource *r,
                                                    const struct session *s,
                                                    const struct hf_request_entry *q)
{
    const struct lease *lease = r ? resource_lease(r) : NULL;

    return lease && r->holder == s->client && lease->request_id == q->id && !lease->ending ? lease
                                                                                           : NULL;
}

/* Checks an acquire; on failure `text` says what is wrong, which limit, and the remedy. */
static int requests_judge_acquire(struct locks *locks, struct session *s,
                                  const struct hf_request_entry *q, struct timing *ret_timing,
                                  char *text, size_t size) IN_BROKER_THREAD
{
    const struct config *c = locks->config;
    uint8_t key[CONFIG_KEY_MAX];
    size_t key_len;
    int rc;

    if (locks->going)
        return HF_EGOING;
    if (q->name_len == 0) {
        snprintf(text, size, "give a name of 1 to %d bytes: it is empty", HF_NAME_MAX);
        return HF_ENAME;
    }
    rc = config_key(c, q->name, q->name_len, key, &key_len);
    if (rc < 0) {
        config_key_refused(c, q->name, q->name_len, text, size);
        return rc;
    }
    /* (!) Before anything tells who holds it. A lease that is held stays, whatever rule has gone. */
    if (!rights_has(s, RIGHT_TAKE, q->name, q->name_len) &&
        !requests_granted_already(resource_find(locks, q->name, q->name_len), s, q) &&
        !rights_allow(s, RIGHT_TAKE, q->name, q->name_len, text, size))
        return HF_EPERM;
    rc = timing_derive(hf_ms(q->ttl_ms ? q->ttl_ms : c->ttl_ms), hf_ms(c->ttl_max_ms), ret_timing,
                       text, size);
    if (rc < 0)
        return rc;
    if (q->heartbeat_ms && q->heartbeat_ms < HF_HEARTBEAT_LEAST_MS) {
        snprintf(text, size, "use a heartbeat of at least %d ms, not %" PRIu32 " ms",
                 HF_HEARTBEAT_LEAST_MS, q->heartbeat_ms);
        return HF_EINVAL;
    }
    if (q->beat_word >= HF_BEATS) {
        snprintf(text, size, "there is no heartbeat word %" PRIu32, q->beat_word);
        return HF_EINVAL;
    }
    if (s->answers.owed > WAITING_MOST) {
        snprintf(
            text, size,
            "wait for fewer locks: this process already waits for %d, the limit of one connection",
            WAITING_MOST);
        return HF_ELIMIT;
    }
    return user_judge_acquire(locks->clients, s->user, user_text_units(q->name_len, q->note_len),
                              text, size);
}

/* When it was first requested. (!) A client's word: it counts only while clients of the earlier agent come
 * back, and only among their requests. */
static hf_time requests_asked_at(const struct locks *locks, const struct hf_request_entry *q,
                                 hf_time now)
{
    hf_time asked = {q->asked_ns};
    bool comes_back = asked.ns > 0 && hf_time_before(asked, locks->started) &&
                      hf_time_before(now, hf_time_add(locks->started, COME_BACK));

    return comes_back ? asked : now;
}

static struct holder requests_holder_of(const struct locks *locks, const struct client *c,
                                        const struct hf_request_entry *q)
{
    uint32_t most = locks->config->max_hold_ms; /* 0: no cap */
    bool capped = most && (!q->max_hold_ms || q->max_hold_ms > most);
    struct holder who = {.pid = c->pid,
                         .uid = c->uid,
                         .start_time = c->start_time,
                         .pidns_inode = locks->agent->pidns_inode,
                         .cookie_hash = c->cookie_hash,
                         .request_id = q->id,
                         .max_hold_ms = capped ? most : q->max_hold_ms,
                         .heartbeat_ms = q->heartbeat_ms,
                         .beat_word = q->beat_word,
                         .note_len = q->note_len,
                         .comm_len = (uint8_t)strlen(c->comm),
                         .run = (q->flags & HF_REQ_RUN) != 0};

    memcpy(who.note, q->note, q->note_len);
    memcpy(who.comm, c->comm, sizeof(who.comm));
    return who;
}

/* First come first served; requests from before this agent's start keep their order. */
static void requests_enqueue(struct resource *r, struct waiter *w)
{
    struct waiter *after = TAILQ_LAST(&r->work->waiters, waiter_queue);

    hf_assert(r->work->resource == r && w->resource == r, "slot %u", (unsigned)r->slot);
    while (after && hf_time_before(w->asked, after->asked) &&
           !(r->work->round && r->work->round->waiter == after))
        after = TAILQ_PREV(after, waiter_queue, queue);
    if (after)
        TAILQ_INSERT_AFTER(&r->work->waiters, after, w, queue);
    else
        TAILQ_INSERT_HEAD(&r->work->waiters, w, queue);
}

void request_acquire(struct locks *locks, struct session *s, const struct hf_request_entry *q)
{
    struct timing timing;
    struct resource *r;
    const struct lease *lease;
    struct waiter *w;
    char text[184] = "";
    int rc;

    LIST_FOREACH (w, &s->waiters, of_session)
        if (w->who.request_id == q->id) {
            /* Sent again after a reconnect: the same request. Its place in the ring
             * is freed. */
            answers_forgo(&s->answers);
            return;
        }
    if (locks->again) {
        answers_forgo(&s->answers);
        return;
    }
    rc = requests_judge_acquire(locks, s, q, &timing, text, sizeof(text));
    if (rc < 0) {
        requests_refuse(locks, s, q, rc, text);
        return;
    }
    rc = resource_get(locks, q->name, q->name_len, &r);
    if (rc < 0) {
        resources_say_full(locks, text, sizeof(text));
        requests_refuse(locks, s, q, rc, rc == HF_EFULL ? text : "");
        return;
    }
    lease = requests_granted_already(r, s, q);
    if (lease) {
        grant_answer(s, lease);
        return;
    }
    lease = resource_lease(r);
    w = resource_work(r) ? calloc(1, sizeof(*w)) : NULL;
    if (!w) {
        requests_refuse(locks, s, q, HF_ENOMEM, "");
        return;
    }
    w->session = s;
    w->resource = r;
    w->timing = timing;
    w->guarded = q->flags & HF_REQ_GUARDED;
    w->who = requests_holder_of(locks, s->client, q);
    w->holder.pttl_ms = -2;
    w->timer.fn = request_on_timeout;
    w->tell.fn = waiter_on_tell;
    w->since = clock_now();
    w->deadline = q->deadline_ns == 0                  ? HF_TIME_PAST
                  : q->deadline_ns < 0                 ? w->since
                  : q->deadline_ns >= HF_TIME_NEVER.ns ? HF_TIME_NEVER
                                                       : (hf_time){q->deadline_ns};
    w->asked = requests_asked_at(locks, q, w->since);
    requests_enqueue(r, w);
    waiter_ages(w);
    if (waiter_tries(w))
        r->work->tries++;
    LIST_INSERT_HEAD(&s->waiters, w, of_session);
    locks->waiter_count++;
    s->user->waiters++;
    s->user->text_units += user_text_units(r->name_len, w->who.note_len);
    hf_counter_set(&locks->agent->table, HF_COUNTER_WAITERS, locks->waiter_count);
    resource_rouse(r);
    if (!waiter_tries(w) && w->deadline.ns != HF_TIME_NEVER.ns)
        loop_timer_set(locks->loop, &w->timer, w->deadline);
    /* The other waiters know of the lease: to tell all of them each time would be much talk. */
    if (drains_stands(locks)) {
        drains_explain(locks, text);
        waiter_hear(w, 0, HF_EDRAINED, text);
    } else if (lease) {
        waiter_hear(w, 0, HF_EBUSY, "");
    } else {
        step_join(w);
    }
}

/* The lease that a request names, if this session's client holds it. */
static struct lease *requests_own_lease(struct locks *locks, struct session *s,
                                        const struct hf_request_entry *q)
{
    struct lease *lease = resources_lease(locks, q->slot, q->generation);

    return lease && locks->by_slot[q->slot]->holder == s->client ? lease : NULL;
}

/* For a lease that is over: lost, unless its release was under way when an earlier agent was killed. */
static void requests_release_again(struct locks *locks, struct session *s,
                                   const struct hf_request_entry *q) IN_BROKER_THREAD
{
    struct ended *e = ended_find(s->client, q->slot, q->generation);
    struct hf_completion_entry answer = {
        .id = q->id, .op = q->op, .status = HF_OK, .slot = q->slot, .generation = q->generation};

    if (!e) {
        requests_refuse(locks, s, q, HF_ELOST, "");
    } else if (e->resource && !e->session) {
        e->session = s;
        e->request_id = q->id;
    } else {
        session_answer(s, &answer);
    }
}

void request_release(struct locks *locks, struct session *s, const struct hf_request_entry *q)
{
    struct lease *lease = requests_own_lease(locks, s, q);
    struct resource *r;

    if (!lease) {
        requests_release_again(locks, s, q);
        return;
    }
    r = locks->by_slot[q->slot];
    hf_assert(r && resource_lease(r) == lease, "slot %u, generation %u", (unsigned)lease->slot,
              (unsigned)lease->generation);
    if (lease->run && !(q->flags & HF_REQ_REAPED)) {
        requests_refuse(
            locks, s, q, HF_EINVAL,
            "a lease taken for a job ends with hf_release_reaped(): say that the job is gone");
        return;
    }
    if (r->work->release_session) {
        requests_refuse(locks, s, q, HF_ELOST, "");
        return;
    }
    if (resource_work(r)) {
        r->work->release_session = s;
        r->work->release_id = q->id;
    } else {
        requests_refuse(locks, s, q, HF_ENOMEM,
                        ""); /* it is released, but its end is told to nobody */
    }
    release_begin(r, RELEASE_UNWANTED);
}

void request_cancel(struct session *s, uint64_t id)
{
    struct resource *r;
    struct waiter *w;

    LIST_FOREACH (w, &s->waiters, of_session)
        if (w->who.request_id == id) {
            r = w->resource;
            if (handoff_is_to(r, w)) {
                handoff_cancel(r->work->handoff);
                return;
            }
            if (w->withheld) {
                w->deadline = w->since;
                return;
            }
            if (r->work->round && r->work->round->waiter == w)
                round_cancel(r->work->round);
            waiter_fail(w, HF_ECANCELED, "");
            resource_touch(r, TOUCH_LEFT);
            return;
        }
    /* Granted in the meantime: the answer is in the ring, but nobody wants the lock any more. */
    LIST_FOREACH (r, &s->client->held, of_holder) {
        const struct lease *lease = resource_lease(r);

        hf_assert(lease && r->holder == s->client, "slot %u", (unsigned)r->slot);
        if (lease->request_id == id && !lease->ending) {
            release_begin(r, RELEASE_UNWANTED);
            return;
        }
    }
}

/* Of another user's lease. (!) Who may not see the name is not told whether it is held. */
static bool requests_may_ask(struct session *s, const struct hf_request_entry *q,
                             const struct lease *lease, char *text, size_t size) IN_BROKER_THREAD
{
    if (!q->name_len || rights_has(s, RIGHT_FORCE, q->name, q->name_len))
        return true;
    if (!rights_allow(s, RIGHT_SEE, q->name, q->name_len, text, size))
        return false;
    if (!lease || rights_allow(s, RIGHT_FORCE, q->name, q->name_len, text, size))
        return true;
    snprintf(
        text, size,
        "it is held by user %" PRIu32
        "; only that user, the agent's user, root and whom a rule lets force it may ask for it",
        lease->uid);
    return false;
}

void request_ask(struct locks *locks, struct session *s, const struct hf_request_entry *q)
{
    struct resource *r = q->name_len ? resource_find(locks, q->name, q->name_len) : NULL;
    const struct lease *lease = r ? resource_lease(r) : NULL;
    struct hf_completion_entry answer = {.id = q->id, .op = q->op, .status = HF_OK};
    struct message *m;
    char text[184];

    if (!(lease && lease->uid == s->uid) && !requests_may_ask(s, q, lease, text, sizeof(text))) {
        requests_refuse(locks, s, q, HF_EPERM, text);
        return;
    }
    if (!lease) {
        requests_refuse(locks, s, q, HF_ENOTHELD, "nobody on this host holds it");
        return;
    }
    m = message_new(MSG_LOSE);
    m->slot = r->slot;
    m->generation = lease->generation;
    m->reason = HF_LOSS_ASKED;
    m->by = (struct asker){s->pid, s->uid};
    order_renewal(locks, m);
    session_answer(s, &answer);
}

void request_losing(struct locks *locks, struct session *s, const struct hf_request_entry *q)
{
    if (requests_own_lease(locks, s, q))
        order_losing(locks->by_slot[q->slot], q->flags & HF_REQ_KILLING);
}

/* True: it was told, and is no more. */
static bool requests_turned_down(struct waiter *w) IN_BROKER_THREAD
{
    struct resource *r = w->resource;
    char text[184];

    if (handoff_is_to(r, w) || w->withheld || waiter_may_wait(w, text, sizeof(text)))
        return false;
    if (r->work->round && r->work->round->waiter == w)
        round_cancel(r->work->round);
    waiter_fail(w, HF_EPERM, text);
    return true;
}

void requests_look_at_rules(struct locks *locks)
{
    for (uint32_t i = 0; i < locks->slots_used; i++) {
        struct resource *r = locks->by_slot[i];
        struct waiter *w, *next;
        bool any = false;

        for (w = r ? TAILQ_FIRST(&r->work->waiters) : NULL; w; w = next) {
            next = TAILQ_NEXT(w, queue);
            any |= requests_turned_down(w);
        }
        if (any)
            resource_touch(r, TOUCH_CHANGED);
    }
}

/* --- ends of sessions and clients, and of the agent ------------------------------------------- */

/* (!) They may be thousands, all for one name. The newest goes first: a round of this session ends with the last
 * that waits for it. */
void requests_drop_session(struct session *s)
{
    struct waiter *w;

    while ((w = LIST_FIRST(&s->waiters))) {
        struct resource *r = w->resource;

        if (r->work->round && r->work->round->waiter == w)
            round_cancel(r->work->round);
        waiter_free(w);
        resource_touch(r, TOUCH_LEFT);
    }
    if (s->client) {
        struct resource *r;

        LIST_FOREACH (r, &s->client->held, of_holder)
            if (r->work->release_session == s)
                r->work->release_session = NULL;
        ended_drop_session(s);
    }
}

void requests_client_gone(struct locks *locks, struct client *c)
{
    struct resource *r;

    if (!LIST_EMPTY(&c->held))
        hf_counter_add(&locks->agent->table, HF_COUNTER_HOLDER_DEATHS, 1);
    LIST_FOREACH (r, &c->held, of_holder)
        if (!resource_lease(r)->ending)
            release_begin(r, RELEASE_HOLDER_GONE);
    locks->owner.lease_changed(locks->owner.arg, c);
}

void requests_rebind(struct locks *locks, struct session *s)
{
    struct resource *r;

    LIST_FOREACH (r, &s->client->held, of_holder) {
        const struct lease *lease = resource_lease(r);
        struct message *m;

        if (!lease_heartbeat_ms(lease))
            continue;
        m = message_new(MSG_BEATS);
        m->slot = r->slot;
        m->generation = lease->generation;
        m->beats = beats_hold(s->beats);
        order_renewal(locks, m);
    }
}

void requests_go_away(struct locks *locks)
{
    for (uint32_t i = 0; i < locks->slots_used; i++)
        if (locks->by_slot[i])
            lease_go_away(locks->by_slot[i]);
}
