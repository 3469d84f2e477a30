/* The waiters for a name, and what their clients hear. Local waiters are served first come first served. */
#include "agent/broker/locks/waiters.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/failure.h"
#include "agent/base/thread_role.h"
#include "agent/broker/clients/clients.h"
#include "agent/broker/clients/rights.h"
#include "agent/broker/clients/sessions.h"
#include "agent/broker/clients/users.h"
#include "agent/broker/locks/drains.h"
#include "agent/broker/locks/handoffs.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/resources.h"
#include "agent/broker/locks/rounds.h"
#include "agent/broker/locks/shown_waiters.h"
#include "agent/broker/nodes/node_texts.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/record/journal.h"
#include "shm/assert.h"
#include "shm/measures.h"
#include "shm/status.h"

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
    struct locks *locks = resource_locks(w->resource);

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
    struct locks *locks = resource_locks(w->resource);

    hf_assert(locks->waiter_count > 0 && w->session->user->waiters > 0,
              "waiters %u, of its user %u", (unsigned)locks->waiter_count,
              (unsigned)w->session->user->waiters);
    hf_assert(!waiter_tries(w) || w->resource->work->tries > 0, "slot %u",
              (unsigned)w->resource->slot);
    hf_assert(!w->resource->work->round || w->resource->work->round->waiter != w,
              "slot %u, its round is under way", (unsigned)w->resource->slot);
    loop_timer_cancel(locks->loop, &w->timer);
    loop_timer_cancel(locks->loop, &w->tell);
    if (handoff_is_to(w->resource, w))
        handoff_forget_waiter(w->resource->work->handoff);
    turns_drop(&locks->turns, &w->want);
    TAILQ_REMOVE(&w->resource->work->waiters, w, queue);
    if (waiter_tries(w))
        w->resource->work->tries--;
    if (TAILQ_EMPTY(&w->resource->work->waiters))
        resource_touch(w->resource, TOUCH_LEFT);
    LIST_REMOVE(w, of_session);
    waiter_forget_age(locks, w);
    locks->waiter_count--;
    w->session->user->waiters--;
    w->session->user->text_units -= user_text_units(w->resource->name_len, w->who.note_len);
    hf_counter_set(&locks->agent->table, HF_COUNTER_WAITERS, locks->waiter_count);
    resource_calm(w->resource);
    free(w);
}

struct lease *waiter_new_lease(const struct waiter *w, const void *key, size_t key_len, bool extra)
{
    const struct lease_words words = {.name = w->resource->name,
                                      .name_len = w->resource->name_len,
                                      .key = key,
                                      .key_len = key_len,
                                      .holder = &w->who,
                                      .extra = extra};
    struct lease *lease = lease_new(resource_locks(w->resource)->n, &words);

    if (!lease)
        return NULL;
    lease->ttl_ms = (uint32_t)hf_dur_ms(w->timing.ttl);
    lease->guarded = w->guarded;
    if (w->who.heartbeat_ms)
        lease_extra(lease)->beats = beats_hold(w->session->beats);
    return lease;
}

hf_time waiter_hold_end(const struct waiter *w, hf_time now)
{
    return w->who.max_hold_ms ? hf_time_add(now, hf_ms(w->who.max_hold_ms)) : HF_TIME_NEVER;
}

void waiter_describe_local(const struct resource *r, struct hf_wire_holder *ret)
{
    const struct lease *l = resource_lease(r);

    *ret = (struct hf_wire_holder){.fence = l->fence,
                                   .since_wall_ms = l->since_wall.ms,
                                   .pttl_ms = -2,
                                   .pid = l->pid,
                                   .uid = l->uid};
    snprintf(ret->host, sizeof(ret->host), "%s", resource_locks(r)->agent->host);
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

void waiters_hear_left(struct resource *r, int64_t pttl_ms, hf_time now)
{
    struct waiter *w;

    TAILQ_FOREACH (w, &r->work->waiters, queue) {
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
    struct resource *r = w->resource;

    hf_assert(status < 0, "slot %u, status %d", (unsigned)r->slot, status);
    hf_assert(!handoff_is_to(r, w), "slot %u, generation %u", (unsigned)r->slot,
              (unsigned)r->generation);
    answer.nodes_voting = (uint32_t)nodes_granting(resource_locks(r)->nodes, now);
    answer.nodes_up = (uint32_t)nodes_up(resource_locks(r)->nodes);
    if (resource_lease(r) && (status == HF_EBUSY || status == HF_ETIMEDOUT))
        waiter_describe_local(r, &answer.holder);
    snprintf(answer.text, sizeof(answer.text), "%s", text);
    hf_failure_add(&resource_locks(r)->agent->table,
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
    struct locks *locks = resource_locks(w->resource);
    const struct lease *lease = resource_lease(w->resource);
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
        waiter_describe_local(w->resource, &entry.holder);
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
    return rights_allow(w->session, RIGHT_TAKE, w->resource->name, w->resource->name_len, text,
                        size);
}

void waiters_let_go(struct resource *r)
{
    struct waiter *w, *next;
    char text[184];

    for (w = TAILQ_FIRST(&r->work->waiters); w; w = next) {
        next = TAILQ_NEXT(w, queue);
        if (w->withheld && !waiter_may_wait(w, text, sizeof(text))) {
            waiter_fail(w, HF_EPERM, text); /* a reload came meanwhile */
            continue;
        }
        if (w->withheld && w->deadline.ns != HF_TIME_NEVER.ns)
            loop_timer_set(resource_locks(r)->loop, &w->timer, w->deadline);
        w->withheld = false;
    }
}

void waiter_hear(struct waiter *w, uint32_t place, int failure, const char *text)
{
    w->contended |= failure == HF_EBUSY;
    w->last_failure = failure;
    if (waiter_tries(w))
        waiter_fail(w, failure, text);
    else
        waiter_progress(w, place, failure, text);
}

/* Tries are answered: whoever is left has its place. */
void waiters_hear_all(struct resource *r, int failure, const char *text)
{
    struct waiter *w, *next;
    uint32_t place = 0;

    for (w = TAILQ_FIRST(&r->work->waiters); w; w = next) {
        next = TAILQ_NEXT(w, queue);
        waiter_hear(w, waiter_tries(w) ? 0 : ++place, failure, text);
    }
}

void waiters_hear(struct resource *r, int failure, const struct hf_wire_holder *holder,
                  hf_time round_began, const char *text)
{
    struct locks *locks = resource_locks(r);
    hf_time now = loop_now(locks->loop);
    struct waiter *w, *next;
    uint32_t place = 0;

    for (w = TAILQ_FIRST(&r->work->waiters); w; w = next) {
        next = TAILQ_NEXT(w, queue);
        w->last_failure = failure;
        if (failure == HF_EBUSY) {
            w->holder = *holder;
            w->holder_at = loop_now(resource_locks(r)->loop);
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
struct waiter *waiter_first(struct resource *r)
{
    struct waiter *w;

    TAILQ_FOREACH (w, &r->work->waiters, queue)
        if (!w->session->closing)
            break;
    return w;
}

void waiter_go_away(struct waiter *w)
{
    if (resource_locks(w->resource)->again)
        waiter_free(w);
    else
        waiter_fail(w, HF_EGOING, "");
}
