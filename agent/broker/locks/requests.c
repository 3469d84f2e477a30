/* Requests of clients: each is judged and answered. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/base/thread.h"
#include "agent/broker/clients/answers.h"
#include "agent/broker/clients/clients.h"
#include "agent/broker/clients/sessions.h"
#include "agent/broker/clients/users.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/locks_internal.h"
#include "agent/broker/locks/names.h"
#include "agent/broker/locks/round_words.h"
#include "agent/broker/locks/rounds.h"
#include "agent/broker/locks/waiters.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/state/events.h"
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
static void request_explain_votes(const struct name *name, hf_time now, char *ret_text,
                                  size_t size) IN_BROKER_THREAD
{
    const struct nodes *nodes = name_locks(name)->nodes;
    struct round_whys whys =
        name->state->round ? round_whys(name->state->round) : name->state->refused;

    if (nodes_granting(nodes, now) < nodes->q)
        nodes_explain(nodes, now, ret_text, size);
    else if (!round_explain(nodes, &whys, ret_text, size))
        snprintf(ret_text, size, "too few nodes could vote until a moment ago; ask again");
}

static void request_on_timeout(struct loop_timer *timer, hf_time now) IN_BROKER_THREAD
{
    struct waiter *w = HF_CONTAINER(timer, struct waiter, timer);
    struct name *name = w->name;
    int status = HF_ETIMEDOUT;
    char text[184] = "";

    if (w->last_failure == HF_ENOQUORUM ||
        (!w->last_failure && round_is_slow(name->state->round, now))) {
        status = HF_ENOQUORUM;
        request_explain_votes(name, now, text, sizeof(text));
    }
    if (w->last_failure == HF_EDRAINED) {
        status = HF_EDRAINED;
        drains_explain(name_locks(name), text);
    }
    if (handoff_is_to(name, w) || w->withheld)
        return; /* it is about to get the lock, or was */
    if (name->state->round && name->state->round->waiter == w)
        round_cancel(name->state->round);
    waiter_fail(w, status, text);
    name_touch(name, TOUCH_LEFT);
}

/* --- acquires --------------------------------------------------------------------------------- */

/* The lease that was granted to this very request, by an agent that ended before the client was told; NULL. */
static const struct lease *requests_granted_already(const struct name *name,
                                                    const struct session *s,
                                                    const struct hf_request_entry *q)
{
    const struct lease *lease = name ? name_lease(name) : NULL;

    return lease && name->holder == s->client && lease->request_id == q->id && !lease->ending
               ? lease
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
        return HF_ESHUTDOWN;
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
        !requests_granted_already(name_find(locks, q->name, q->name_len), s, q) &&
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
                         .birth = c->birth,
                         .pidns_inode = locks->agent->pidns_inode,
                         .cookie_hash = c->cookie_hash,
                         .request_id = q->id,
                         .max_hold_ms = capped ? most : q->max_hold_ms,
                         .heartbeat_ms = q->heartbeat_ms,
                         .beat_word = q->beat_word,
                         .note_len = q->note_len,
                         .comm_len = (uint8_t)strlen(c->comm),
                         .is_job = (q->flags & HF_REQ_JOB) != 0};

    memcpy(who.note, q->note, q->note_len);
    memcpy(who.comm, c->comm, sizeof(who.comm));
    return who;
}

/* First come first served; requests from before this agent's start keep their order. */
static void requests_enqueue(struct name *name, struct waiter *w)
{
    struct waiter *after = TAILQ_LAST(&name->state->waiters, waiter_queue);

    hf_assert(name->state->name == name && w->name == name, "slot %u", (unsigned)name->slot);
    while (after && hf_time_before(w->asked, after->asked) &&
           !(name->state->round && name->state->round->waiter == after))
        after = TAILQ_PREV(after, waiter_queue, queue);
    if (after)
        TAILQ_INSERT_AFTER(&name->state->waiters, after, w, queue);
    else
        TAILQ_INSERT_HEAD(&name->state->waiters, w, queue);
}

void request_acquire(struct locks *locks, struct session *s, const struct hf_request_entry *q)
{
    struct timing timing;
    struct name *name;
    const struct lease *lease;
    struct waiter *w;
    char text[184] = "";
    int rc;

    LIST_FOREACH (w, &s->waiters, of_session)
        if (w->who.request_id == q->id) {
            /* Sent again after a reconnect: the same request. Its place in the ring
             * is freed. */
            answers_owe_no_more(&s->answers);
            return;
        }
    if (locks->again) {
        answers_owe_no_more(&s->answers);
        return;
    }
    rc = requests_judge_acquire(locks, s, q, &timing, text, sizeof(text));
    if (rc < 0) {
        requests_refuse(locks, s, q, rc, text);
        return;
    }
    rc = name_get(locks, q->name, q->name_len, &name);
    if (rc < 0) {
        names_say_full(locks, text, sizeof(text));
        requests_refuse(locks, s, q, rc, rc == HF_EFULL ? text : "");
        return;
    }
    lease = requests_granted_already(name, s, q);
    if (lease) {
        grant_answer(s, lease);
        return;
    }
    lease = name_lease(name);
    w = name_state(name) ? calloc(1, sizeof(*w)) : NULL;
    if (!w) {
        requests_refuse(locks, s, q, HF_ENOMEM, "");
        return;
    }
    w->session = s;
    w->name = name;
    w->timing = timing;
    w->second_guardian = q->flags & HF_REQ_SECOND_GUARDIAN;
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
    requests_enqueue(name, w);
    waiter_ages(w);
    if (waiter_tries(w))
        name->state->tries++;
    LIST_INSERT_HEAD(&s->waiters, w, of_session);
    locks->waiter_count++;
    s->user->waiters++;
    s->user->text_units += user_text_units(name->len, w->who.note_len);
    hf_counter_set(&locks->agent->table, HF_COUNTER_WAITERS, locks->waiter_count);
    name_activate(name);
    if (!waiter_tries(w) && w->deadline.ns != HF_TIME_NEVER.ns)
        loop_timer_set(locks->loop, &w->timer, w->deadline);
    /* The other waiters know of the lease: to tell all of them each time would be much talk. */
    if (drains_stands(locks)) {
        drains_explain(locks, text);
        waiter_notify(w, 0, HF_EDRAINED, text);
    } else if (lease) {
        waiter_notify(w, 0, HF_EBUSY, "");
    } else {
        step_join(w);
    }
}

/* The lease that a request names, if this session's client holds it. */
static struct lease *requests_own_lease(struct locks *locks, struct session *s,
                                        const struct hf_request_entry *q)
{
    struct lease *lease = names_lease(locks, q->slot, q->generation);

    return lease && locks->by_slot[q->slot]->holder == s->client ? lease : NULL;
}

/* For a lease that is over: lost, unless its release was under way when an earlier agent was killed. */
static void requests_release_again(struct locks *locks, struct session *s,
                                   const struct hf_request_entry *q) IN_BROKER_THREAD
{
    struct pending_release *pending = pending_release_find(s->client, q->slot, q->generation);
    struct hf_completion_entry answer = {
        .id = q->id, .op = q->op, .status = HF_OK, .slot = q->slot, .generation = q->generation};

    if (!pending) {
        requests_refuse(locks, s, q, HF_ELOST, "");
    } else if (pending->name && !pending->session) {
        pending->session = s;
        pending->request_id = q->id;
    } else {
        session_answer(s, &answer);
    }
}

void request_release(struct locks *locks, struct session *s, const struct hf_request_entry *q)
{
    struct lease *lease = requests_own_lease(locks, s, q);
    struct name *name;

    if (!lease) {
        requests_release_again(locks, s, q);
        return;
    }
    name = locks->by_slot[q->slot];
    hf_assert(name && name_lease(name) == lease, "slot %u, generation %u", (unsigned)lease->slot,
              (unsigned)lease->generation);
    if (lease->is_job && !(q->flags & HF_REQ_REAPED)) {
        requests_refuse(
            locks, s, q, HF_EINVAL,
            "a lease taken for a job ends with hf_release_reaped(): say that the job is gone");
        return;
    }
    if (name->state->release_session) {
        requests_refuse(locks, s, q, HF_ELOST, "");
        return;
    }
    if (name_state(name)) {
        name->state->release_session = s;
        name->state->release_id = q->id;
    } else {
        requests_refuse(locks, s, q, HF_ENOMEM,
                        ""); /* it is released, but its end is told to nobody */
    }
    release_begin(name, RELEASE_UNWANTED);
}

void request_cancel(struct session *s, uint64_t id)
{
    struct name *name;
    struct waiter *w;
    unsigned looked_at = 0;

    LIST_FOREACH (w, &s->waiters, of_session)
        if (w->who.request_id == id) {
            name = w->name;
            if (handoff_is_to(name, w)) {
                handoff_cancel(name->state->handoff);
                return;
            }
            if (w->withheld) {
                w->deadline = w->since;
                return;
            }
            if (name->state->round && name->state->round->waiter == w)
                round_cancel(name->state->round);
            waiter_fail(w, HF_ECANCELED, "");
            name_touch(name, TOUCH_LEFT);
            return;
        }
    /* Granted in the meantime: the answer is in the ring, but nobody wants the lock any more. (!) It is among the newest, and who asks
     * for what is not there pays for each that is looked at. */
    LIST_FOREACH (name, &s->client->held, of_holder) {
        const struct lease *lease = name_lease(name);

        hf_assert(lease && name->holder == s->client, "slot %u", (unsigned)name->slot);
        if (lease->request_id == id && !lease->ending) {
            release_begin(name, RELEASE_UNWANTED);
            break;
        }
        looked_at++;
    }
    if (looked_at)
        user_searched(s->clients, s->user, looked_at, loop_now(s->clients->loop));
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

void request_stop_holder(struct locks *locks, struct session *s, const struct hf_request_entry *q)
{
    struct name *name = q->name_len ? name_find(locks, q->name, q->name_len) : NULL;
    const struct lease *lease = name ? name_lease(name) : NULL;
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
    m->slot = name->slot;
    m->generation = lease->generation;
    m->reason = HF_LOSS_ASKED;
    m->by = (struct asker){s->pid, s->uid};
    tell_renewal(locks, m);
    session_answer(s, &answer);
}

void request_losing(struct locks *locks, struct session *s, const struct hf_request_entry *q)
{
    if (requests_own_lease(locks, s, q))
        tell_renewal_guardian_stopping(locks->by_slot[q->slot], q->flags & HF_REQ_KILLING);
}

/* True: it was told, and is no more. */
static bool requests_turned_down(struct waiter *w) IN_BROKER_THREAD
{
    struct name *name = w->name;
    char text[184];

    if (handoff_is_to(name, w) || w->withheld || waiter_may_wait(w, text, sizeof(text)))
        return false;
    if (name->state->round && name->state->round->waiter == w)
        round_cancel(name->state->round);
    waiter_fail(w, HF_EPERM, text);
    return true;
}

void requests_look_at_rules(struct locks *locks)
{
    for (uint32_t i = 0; i < locks->slots_used; i++) {
        struct name *name = locks->by_slot[i];
        struct waiter *w, *next;
        bool any = false;

        for (w = name ? TAILQ_FIRST(&name->state->waiters) : NULL; w; w = next) {
            next = TAILQ_NEXT(w, queue);
            any |= requests_turned_down(w);
        }
        if (any)
            name_touch(name, TOUCH_CHANGED);
    }
}

/* --- ends of sessions and clients, and of the agent ------------------------------------------- */

/* (!) They may be thousands, all for one name. The newest goes first: a round of this session ends with the last
 * that waits for it. */
void requests_drop_session(struct session *s)
{
    struct waiter *w;

    while ((w = LIST_FIRST(&s->waiters))) {
        struct name *name = w->name;

        if (name->state->round && name->state->round->waiter == w)
            round_cancel(name->state->round);
        waiter_free(w);
        name_touch(name, TOUCH_LEFT);
    }
    if (s->client) {
        struct name *name;

        LIST_FOREACH (name, &s->client->held, of_holder)
            if (name->state->release_session == s)
                name->state->release_session = NULL;
        pending_release_drop_session(s);
    }
}

void requests_client_gone(struct locks *locks, struct client *c)
{
    struct name *name;

    if (!LIST_EMPTY(&c->held))
        hf_counter_add(&locks->agent->table, HF_COUNTER_HOLDER_DEATHS, 1);
    LIST_FOREACH (name, &c->held, of_holder)
        if (!name_lease(name)->ending)
            release_begin(name, RELEASE_HOLDER_GONE);
    locks->owner.lease_changed(locks->owner.arg, c);
}

void requests_rebind(struct locks *locks, struct session *s)
{
    struct name *name;

    LIST_FOREACH (name, &s->client->held, of_holder) {
        const struct lease *lease = name_lease(name);
        struct message *m;

        if (!lease_heartbeat_ms(lease))
            continue;
        m = message_new(MSG_BEATS);
        m->slot = name->slot;
        m->generation = lease->generation;
        m->beats = beats_hold(s->beats);
        tell_renewal(locks, m);
    }
}

void requests_go_away(struct locks *locks)
{
    for (uint32_t i = 0; i < locks->slots_used; i++)
        if (locks->by_slot[i])
            lease_go_away(locks->by_slot[i]);
}

/* --- the drain -------------------------------------------------------------------------------- */

/* A hand-off is judged when the renewal thread has answered. */
static void drains_stop_name(struct name *name) IN_BROKER_THREAD
{
    if (name->state->round)
        round_cancel(name->state->round);
    name_touch(name, TOUCH_CHANGED);
}

static void drains_go_on_with_name(struct name *name) IN_BROKER_THREAD
{
    struct waiter *w;

    TAILQ_FOREACH (w, &name->state->waiters, queue)
        w->last_failure = HF_OK;
    name_touch(name, TOUCH_CHANGED);
}

/* (!) The record first, also of a drain that stands, since it may have been removed: a drain that was answered
 * outlives a kill. */
static int drains_change(struct locks *locks, const struct hf_drained *wanted, char *why,
                         size_t why_size) IN_BROKER_THREAD
{
    struct agent *agent = locks->agent;
    bool stood = agent->drained.stands;
    int rc = drain_record_keep(agent->drain_path, &agent->clock, wanted, why, why_size);

    if (rc < 0)
        return rc;
    agent->drained = *wanted;
    hf_drained_publish(&agent->table, wanted);
    for (uint32_t i = 0; i < locks->slots_used && stood != wanted->stands; i++) {
        struct name *name = locks->by_slot[i];

        if (!name || TAILQ_EMPTY(&name->state->waiters))
            continue;
        if (wanted->stands)
            drains_stop_name(name);
        else
            drains_go_on_with_name(name);
    }
    return HF_OK;
}

static void drains_answer(struct session *s, const struct hf_request_entry *q, bool before,
                          const struct hf_drained *drained) IN_BROKER_THREAD
{
    struct hf_completion_entry entry = {.id = q->id,
                                        .op = q->op,
                                        .status = HF_OK,
                                        .holder = {.since_wall_ms = drained->since_wall_ms,
                                                   .pttl_ms = -2,
                                                   .pid = drained->pid,
                                                   .uid = drained->uid},
                                        .drained_before = before};

    session_answer(s, &entry);
}

static void drains_refuse(struct session *s, const struct hf_request_entry *q, int status,
                          const char *text) IN_BROKER_THREAD
{
    struct hf_completion_entry entry = {.id = q->id, .op = q->op, .status = status};

    snprintf(entry.text, sizeof(entry.text), "%s", text);
    session_answer(s, &entry);
}

void drains_ask(struct locks *locks, struct session *s, const struct hf_request_entry *q)
{
    const struct hf_drained before = locks->agent->drained;
    struct hf_drained wanted = {.stands = !(q->flags & HF_REQ_UNDRAIN)};
    char why[160];

    if (!session_is_own(s)) {
        drains_refuse(s, q, HF_EPERM,
                      "only root and the agent's user may drain or undrain this host");
        return;
    }
    if (wanted.stands && before.since_wall_ms) {
        wanted = before;
    } else if (wanted.stands) {
        wanted.since_wall_ms = clock_wall().ms > 0 ? clock_wall().ms : 1;
        wanted.uid = s->uid;
        wanted.pid = s->pid;
    }
    if (drains_change(locks, &wanted, why, sizeof(why)) < 0) {
        drains_refuse(s, q, HF_ESYS, why);
        return;
    }
    if (before.stands == wanted.stands) {
        drains_answer(s, q, before.stands, &before);
        return;
    }
    log_info("%s by user %" PRIu32 " (pid %" PRIu32 ")", wanted.stands ? "drained" : "undrained",
             s->uid, s->pid);
    event_drained(locks->agent, wanted.stands, s->pid, s->uid);
    drains_answer(s, q, before.stands, wanted.stands ? &wanted : &before);
}
