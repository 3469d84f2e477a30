/* The waiters for a name, and what their clients hear. Local waiters are served first come first served. */
#include "agent/broker/locks/waiters.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/failure.h"
#include "agent/base/thread.h"
#include "agent/broker/clients/clients.h"
#include "agent/broker/clients/sessions.h"
#include "agent/broker/clients/users.h"
#include "agent/broker/locks/locks_internal.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/names.h"
#include "agent/broker/locks/rounds.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/state/journal.h"
#include "shm/assert.h"
#include "shm/measures.h"
#include "shm/status.h"
#include "shm/waiters.h"

/* --- those that are shown --------------------------------------------------------------------- */

void shown_waiters_create(struct locks *locks)
{
    struct shown_waiters *shown = &locks->shown_waiters;
    uint32_t rows = locks->agent->table.waiter_rows;

    TAILQ_INIT(&shown->without_a_row);
    /* A later version's table may have more. */
    for (uint32_t i = rows < HF_WAITERS_SHOWN ? rows : HF_WAITERS_SHOWN; i > 0; i--)
        shown->free[shown->free_count++] = i - 1;
}

static void shown_waiters_give_row(struct shown_waiters *shown, struct waiter *w)
{
    const struct client *c = w->session->client;
    struct hf_waiter_row row = {.flags = HF_WAITER_F_USED | (w->who.is_job ? HF_WAITER_F_JOB : 0),
                                .pid = c->pid,
                                .uid = c->uid,
                                .since_ns = w->since.ns,
                                .asked_ns = w->asked.ns,
                                .deadline_ns =
                                    w->deadline.ns < HF_TIME_NEVER.ns ? w->deadline.ns : INT64_MAX,
                                .number = w->number,
                                .ttl_ms = (uint32_t)hf_dur_ms(w->timing.ttl),
                                .name_len = (uint8_t)w->name->len};

    snprintf(row.comm, sizeof(row.comm), "%s", c->comm);
    memcpy(row.name, w->name->bytes, w->name->len);
    w->row = shown->free[--shown->free_count];
    hf_waiter_publish(&name_locks(w->name)->agent->table, w->row, &row);
}

/* It waits from now on. It is never a try. */
static void shown_waiters_add(struct waiter *w) IN_BROKER_THREAD
{
    struct shown_waiters *shown = &name_locks(w->name)->shown_waiters;

    w->number = ++shown->number;
    w->row = SHOWN_WAITERS_NONE;
    if (shown->free_count)
        shown_waiters_give_row(shown, w);
    else
        TAILQ_INSERT_TAIL(&shown->without_a_row, w, without_a_row);
}

/* It waits no more; its row goes to the oldest one without. */
static void shown_waiters_remove(struct waiter *w) IN_BROKER_THREAD
{
    struct locks *locks = name_locks(w->name);
    struct shown_waiters *shown = &locks->shown_waiters;
    struct waiter *next = TAILQ_FIRST(&shown->without_a_row);

    if (w->row == SHOWN_WAITERS_NONE) {
        TAILQ_REMOVE(&shown->without_a_row, w, without_a_row);
        return;
    }
    shown->free[shown->free_count++] = w->row;
    if (!next) {
        hf_waiter_clear(&locks->agent->table, w->row);
        return;
    }
    TAILQ_REMOVE(&shown->without_a_row, next, without_a_row);
    shown_waiters_give_row(shown, next);
}

/* --- waiters ---------------------------------------------------------------------------------- */

/* How often a waiter is told who holds a lock whose holder changes all the time. */
#define TELL_EVERY hf_ms(500)

/* Of who waits longest the table tells since when, for alerts. */
static void waiter_tell_oldest(struct locks *locks)
{
    const struct waiter *oldest = TAILQ_FIRST(&locks->waiters_by_age);

    hf_gauge_set(&locks->agent->table, HF_GAUGE_OLDEST_WAITER_NS,
                 oldest ? (uint64_t)oldest->since.ns : 0);
}

void waiter_ages(struct waiter *w)
{
    struct locks *locks = name_locks(w->name);

    if (waiter_tries(w))
        return;
    TAILQ_INSERT_TAIL(&locks->waiters_by_age, w, by_age);
    shown_waiters_add(w);
    if (TAILQ_FIRST(&locks->waiters_by_age) == w)
        waiter_tell_oldest(locks);
}

static void waiter_forget_age(struct locks *locks, struct waiter *w) IN_BROKER_THREAD
{
    bool oldest = TAILQ_FIRST(&locks->waiters_by_age) == w;

    if (waiter_tries(w))
        return;
    TAILQ_REMOVE(&locks->waiters_by_age, w, by_age);
    shown_waiters_remove(w);
    if (oldest)
        waiter_tell_oldest(locks);
}

void waiter_free(struct waiter *w)
{
    struct locks *locks = name_locks(w->name);

    hf_assert(locks->waiter_count > 0 && w->session->user->waiters > 0,
              "waiters %u, of its user %u", (unsigned)locks->waiter_count,
              (unsigned)w->session->user->waiters);
    hf_assert(!waiter_tries(w) || w->name->state->tries > 0, "slot %u", (unsigned)w->name->slot);
    hf_assert(!w->name->state->round || w->name->state->round->waiter != w,
              "slot %u, its round is under way", (unsigned)w->name->slot);
    loop_timer_cancel(locks->loop, &w->timer);
    loop_timer_cancel(locks->loop, &w->tell);
    if (handoff_is_to(w->name, w))
        handoff_forget_waiter(w->name->state->handoff);
    turns_drop(&locks->turns, &w->want);
    TAILQ_REMOVE(&w->name->state->waiters, w, queue);
    if (waiter_tries(w))
        w->name->state->tries--;
    if (TAILQ_EMPTY(&w->name->state->waiters))
        name_touch(w->name, TOUCH_LEFT);
    LIST_REMOVE(w, of_session);
    waiter_forget_age(locks, w);
    locks->waiter_count--;
    w->session->user->waiters--;
    w->session->user->text_units -= user_text_units(w->name->len, w->who.note_len);
    hf_counter_set(&locks->agent->table, HF_COUNTER_WAITERS, locks->waiter_count);
    name_free_idle_state(w->name);
    free(w);
}

struct lease *waiter_new_lease(const struct waiter *w, const void *key, size_t key_len, bool extra)
{
    const struct lease_words words = {.name = w->name->bytes,
                                      .name_len = w->name->len,
                                      .key = key,
                                      .key_len = key_len,
                                      .holder = &w->who,
                                      .extra = extra};
    struct lease *lease = lease_new(name_locks(w->name)->n, &words);

    if (!lease)
        return NULL;
    lease->ttl_ms = (uint32_t)hf_dur_ms(w->timing.ttl);
    lease->second_guardian = w->second_guardian;
    if (w->who.heartbeat_ms)
        lease_extra(lease)->beats = beats_hold(w->session->beats);
    return lease;
}

hf_time waiter_hold_end(const struct waiter *w, hf_time now)
{
    return w->who.max_hold_ms ? hf_time_add(now, hf_ms(w->who.max_hold_ms)) : HF_TIME_NEVER;
}

void waiter_describe_local(const struct name *name, struct hf_wire_holder *ret)
{
    const struct lease *l = name_lease(name);

    *ret = (struct hf_wire_holder){.fence = l->fence,
                                   .since_wall_ms = l->since_wall.ms,
                                   .pttl_ms = -2,
                                   .pid = l->pid,
                                   .uid = l->uid};
    snprintf(ret->host, sizeof(ret->host), "%s", name_locks(name)->agent->host);
    snprintf(ret->comm, sizeof(ret->comm), "%s", lease_comm(l));
    snprintf(ret->note, sizeof(ret->note), "%s", lease_note(l));
}

/* The holder that was last seen in the way, with the time that its key has left by now. */
static struct hf_wire_holder waiter_holder_now(const struct waiter *w, hf_time now)
{
    struct hf_wire_holder holder = w->holder;
    int64_t passed_ms = hf_dur_ms(hf_time_since(now, w->holder_at));

    if (holder.pttl_ms >= 0)
        holder.pttl_ms = holder.pttl_ms > passed_ms ? holder.pttl_ms - passed_ms : 0;
    return holder;
}

void waiters_notify_left(struct name *name, int64_t pttl_ms, hf_time now)
{
    struct waiter *w;

    TAILQ_FOREACH (w, &name->state->waiters, queue) {
        if (w->holder.fence || w->last_failure != HF_EBUSY)
            continue;
        w->holder.pttl_ms = pttl_ms;
        w->holder_at = now;
    }
}

void waiter_fail(struct waiter *w, int status, const char *text)
{
    hf_time now = clock_now();
    struct hf_completion_entry answer = {.id = w->who.request_id,
                                         .op = HF_OP_ACQUIRE,
                                         .status = status,
                                         .holder = waiter_holder_now(w, now)};
    struct session *s = w->session;
    struct name *name = w->name;

    hf_assert(status < 0, "slot %u, status %d", (unsigned)name->slot, status);
    hf_assert(!handoff_is_to(name, w), "slot %u, generation %u", (unsigned)name->slot,
              (unsigned)name->generation);
    answer.nodes_voting = (uint32_t)nodes_granting(name_locks(name)->nodes, now);
    answer.nodes_up = (uint32_t)nodes_up(name_locks(name)->nodes);
    if (name_lease(name) && (status == HF_EBUSY || status == HF_ETIMEDOUT))
        waiter_describe_local(name, &answer.holder);
    snprintf(answer.text, sizeof(answer.text), "%s", text);
    hf_failure_add(&name_locks(name)->agent->table,
                   w->last_failure == HF_EDRAINED ? HF_EDRAINED : status);
    waiter_free(w);
    session_answer(s, &answer);
}

/* Not counted beyond a thousand: only people read it. */
#define PLACES 1000

/* 1: it is served next. (!) A walk: who tells many counts them as it goes. */
static uint32_t waiter_place_of(const struct waiter *w)
{
    uint32_t place = 1;

    while (place < PLACES && (w = TAILQ_PREV(w, waiter_queue, queue)))
        place++;
    return place;
}

/* Tells it unless it knows; where changes are many, not of each one. `place`: in the queue, from 1; 0 if the caller has not
 * counted. */
static void waiter_progress(struct waiter *w, uint32_t place, int reason,
                            const char *text) IN_BROKER_THREAD
{
    struct locks *locks = name_locks(w->name);
    const struct lease *lease = name_lease(w->name);
    hf_time now = loop_now(locks->loop);
    struct hf_completion_entry entry = {.id = w->who.request_id,
                                        .op = HF_OP_PROGRESS,
                                        .status = reason,
                                        .holder = waiter_holder_now(w, now)};
    uint64_t what = reason == HF_EDRAINED ? (uint64_t)locks->agent->drained.since_wall_ms
                    : reason != HF_EBUSY  ? nodes_situation(locks->nodes, now)
                    : lease               ? lease->fence
                                          : w->holder.fence;

    if (w->told == reason && w->told_what == what)
        return;
    if (w->told == reason && hf_time_before(now, hf_time_add(w->told_at, TELL_EVERY))) {
        if (!heap_has(&w->tell.item))
            loop_timer_set(locks->loop, &w->tell, hf_time_add(w->told_at, TELL_EVERY));
        return;
    }
    if (!session_takes_progress(w->session)) {
        w->told = HF_OK; /* of many waits of one client some would never hear of it */
        loop_timer_set(locks->loop, &w->tell, hf_time_add(now, TELL_EVERY));
        return;
    }
    if (lease && reason == HF_EBUSY)
        waiter_describe_local(w->name, &entry.holder);
    w->told = reason;
    w->told_what = what;
    w->told_at = now;
    if (reason == HF_EDRAINED)
        entry.status = HF_EDRAINED;
    if (!place)
        place = waiter_place_of(w);
    entry.place = place < PLACES ? place : PLACES;
    entry.nodes_voting = (uint32_t)nodes_granting(locks->nodes, now);
    entry.nodes_up = (uint32_t)nodes_up(locks->nodes);
    snprintf(entry.text, sizeof(entry.text), "%s", text);
    (void)session_progress(w->session, &entry);
}

void waiter_on_tell(struct loop_timer *timer, hf_time now)
{
    struct waiter *w = HF_CONTAINER(timer, struct waiter, tell);

    (void)now;
    if (w->last_failure == HF_EBUSY)
        waiter_progress(w, 0, HF_EBUSY, "");
}

bool waiter_may_wait(struct waiter *w, char *text, size_t size)
{
    return rights_allow(w->session, RIGHT_TAKE, w->name->bytes, w->name->len, text, size);
}

void waiters_let_go(struct name *name)
{
    struct waiter *w, *next;
    char text[184];

    for (w = TAILQ_FIRST(&name->state->waiters); w; w = next) {
        next = TAILQ_NEXT(w, queue);
        if (w->withheld && !waiter_may_wait(w, text, sizeof(text))) {
            waiter_fail(w, HF_EPERM, text); /* a reload came meanwhile */
            continue;
        }
        if (w->withheld && w->deadline.ns != HF_TIME_NEVER.ns)
            loop_timer_set(name_locks(name)->loop, &w->timer, w->deadline);
        w->withheld = false;
    }
}

void waiter_notify(struct waiter *w, uint32_t place, int failure, const char *text)
{
    w->contended |= failure == HF_EBUSY;
    w->last_failure = failure;
    if (waiter_tries(w))
        waiter_fail(w, failure, text);
    else
        waiter_progress(w, place, failure, text);
}

/* Tries are answered: whoever is left has its place. */
void waiters_notify_all(struct name *name, int failure, const char *text)
{
    struct waiter *w, *next;
    uint32_t place = 0;

    for (w = TAILQ_FIRST(&name->state->waiters); w; w = next) {
        next = TAILQ_NEXT(w, queue);
        waiter_notify(w, waiter_tries(w) ? 0 : ++place, failure, text);
    }
}

void waiters_notify(struct name *name, int failure, const struct hf_wire_holder *holder,
                    hf_time round_began, const char *text)
{
    struct locks *locks = name_locks(name);
    hf_time now = loop_now(locks->loop);
    struct waiter *w, *next;
    uint32_t place = 0;

    for (w = TAILQ_FIRST(&name->state->waiters); w; w = next) {
        next = TAILQ_NEXT(w, queue);
        w->last_failure = failure;
        if (failure == HF_EBUSY) {
            w->holder = *holder;
            w->holder_at = loop_now(name_locks(name)->loop);
            w->contended = true;
        }
        /* A later try gets a round of its own: the lock may just have become free. */
        if (waiter_tries(w) && !hf_time_before(round_began, w->since)) {
            waiter_fail(w, failure, text);
            continue;
        }
        place++;
        if (failure == HF_EBUSY && !waiter_tries(w))
            waiter_progress(w, place, failure, "");
        else if (failure == HF_ENOQUORUM && nodes_granting(locks->nodes, now) < locks->q)
            waiter_progress(w, place, failure, text);
    }
}

/* A waiter whose session is just ending is about to go. */
struct waiter *waiter_first(struct name *name)
{
    struct waiter *w;

    TAILQ_FOREACH (w, &name->state->waiters, queue)
        if (!w->session->closing)
            break;
    return w;
}

void waiter_go_away(struct waiter *w)
{
    if (name_locks(w->name)->again)
        waiter_free(w);
    else
        waiter_fail(w, HF_ESHUTDOWN, "");
}
