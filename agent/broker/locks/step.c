#include "agent/broker/locks/step.h"

#include <inttypes.h>
#include <stdio.h>

#include "agent/base/clock.h"
#include "agent/base/failure.h"
#include "agent/broker/locks/drains.h"
#include "agent/broker/locks/rounds.h"
#include "agent/broker/locks/waiters.h"
#include "agent/broker/locks/wakeups.h"
#include "agent/broker/nodes/node_texts.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/core/name_step.h"
#include "shm/assert.h"
#include "shm/status.h"

/* --- what waiters are told -------------------------------------------------------------------- */

static void step_stall(struct resource *r, hf_time now) IN_BROKER_THREAD
{
    struct locks *locks = resource_locks(r);
    struct waiter *w;
    char text[184];

    hf_assert(!r->idle, "slot %u", (unsigned)r->slot);
    if (!r->stalled) {
        r->stalled = true;
        TAILQ_INSERT_TAIL(&locks->stalled, r, stalled_link);
    }
    if (!heap_has(&locks->stalled_timer.item))
        loop_timer_set(locks->loop, &locks->stalled_timer, hf_time_add(now, hf_ms(200)));
    if (nodes_settling(locks->nodes, now)) {
        TAILQ_FOREACH (w, &r->work->waiters, queue)
            w->last_failure = HF_ENOQUORUM;
        return;
    }
    nodes_explain(locks->nodes, now, text, sizeof(text));
    waiters_hear_all(r, HF_ENOQUORUM, text);
}

/* Of one that came to a name that is stalled already. */
static void step_hear_stalled(struct waiter *w, hf_time now) IN_BROKER_THREAD
{
    struct nodes *nodes = resource_locks(w->resource)->nodes;
    char text[184];

    w->last_failure = HF_ENOQUORUM;
    if (nodes_settling(nodes, now))
        return;
    nodes_explain(nodes, now, text, sizeof(text));
    waiter_hear(w, 0, HF_ENOQUORUM, text);
}

/* No round begins, whoever may have the lock. */
static void step_hear_drained(struct resource *r) IN_BROKER_THREAD
{
    char text[DRAINS_TEXT];

    loop_timer_cancel(resource_locks(r)->loop, &r->work->retry);
    wakeups_forget(r);
    drains_explain(resource_locks(r), text);
    waiters_hear_all(r, HF_EDRAINED, text);
}

/* A lease of an earlier agent is over, but its holder may rely on it for some time yet. */
static void step_say_barred(const struct resource *r, hf_time now, char *ret_text, size_t size)
{
    snprintf(ret_text, size,
             "a lease from before the agent restarted may be in use for up to %" PRId64 " s",
             hf_time_since(r->work->barred_until, now).ns / HF_NS_PER_SEC + 1);
}

static void step_hear_barred(struct resource *r, hf_time now) IN_BROKER_THREAD
{
    char text[184];

    step_say_barred(r, now, text, sizeof(text));
    waiters_hear_all(r, HF_EBUSY, text);
}

/* Tells a waiter that joins others for another host's lock: the next round may be far off. */
static void step_hear_of_others(struct waiter *w) IN_BROKER_THREAD
{
    const struct waiter *before = TAILQ_PREV(w, waiter_queue, queue);

    if (waiter_tries(w) || !before || before->last_failure != HF_EBUSY ||
        !heap_has(&w->resource->work->retry.item))
        return;
    w->holder = before->holder;
    w->holder_at = before->holder_at;
    waiter_hear(w, 0, HF_EBUSY, "");
}

/* --- one name --------------------------------------------------------------------------------- */

static struct name_facts step_facts(const struct resource *r, hf_time now) IN_BROKER_THREAD
{
    const struct locks *locks = resource_locks(r);
    const struct resource_work *work = r->work;
    const struct waiter *first = TAILQ_FIRST(&work->waiters);

    return (struct name_facts){
        .held = resource_lease(r),
        .waited_for = first,
        .drained = drains_stands(locks),
        .undoing = r->undoing,
        .barred = r->undoing && hf_time_before(now, work->barred_until),
        .asking = work->round,
        .waits = heap_has(&work->retry.item),
        .tried = work->tries,
        .yields = first && !waiter_tries(first) && hf_time_before(now, work->yield_until),
        .foreign = *nodes_fleet_text(locks->nodes),
        .quorum = nodes_voting(locks->nodes, now) >= locks->q,
    };
}

static void step_refuse(struct resource *r) IN_BROKER_THREAD
{
    struct locks *locks = resource_locks(r);
    struct waiter *w;

    while ((w = TAILQ_FIRST(&r->work->waiters)))
        waiter_fail(w, HF_EFLEET, nodes_fleet_text(locks->nodes));
}

/* For the first waiter that a round can begin for. */
static void step_ask(struct resource *r) IN_BROKER_THREAD
{
    struct locks *locks = resource_locks(r);
    struct waiter *w;
    int rc;

    while ((w = waiter_first(r))) {
        rc = locks->generations[r->slot] >= HF_GEN_MAX ? resource_move(r) : HF_OK;
        loop_timer_cancel(locks->loop, &r->work->retry);
        if (rc == HF_OK)
            rc = round_begin(r, w);
        if (rc == HF_OK)
            return;
        waiter_fail(w, rc, "");
    }
}

static void step_go(struct resource *r, hf_time now) IN_BROKER_THREAD
{
    struct locks *locks = resource_locks(r);
    const struct name_facts facts = step_facts(r, now);
    enum name_step step = name_step(&facts);

    resource_unstall(r);
    hf_assert(step < NAME_BARRED || (!r->work->handoff && !r->work->short_hold && !r->holder),
              "slot %u, handed over or held without a lease", (unsigned)r->slot);
    switch (step) {
    case NAME_DRAINED:
        step_hear_drained(r);
        break;
    case NAME_HELD:
        waiters_hear_all(r, HF_EBUSY, "");
        break;
    case NAME_REST:
        loop_timer_cancel(locks->loop, &r->work->retry);
        resource_rest(r);
        break;
    case NAME_BARRED:
        step_hear_barred(r, now);
        break;
    case NAME_WAIT:
        break;
    case NAME_YIELD:
        loop_timer_set(locks->loop, &r->work->retry, r->work->yield_until);
        break;
    case NAME_FOREIGN:
        step_refuse(r);
        break;
    case NAME_STALL:
        step_stall(r, now);
        break;
    case NAME_ASK:
        step_ask(r);
        break;
    }
}

/* (!) Where a waiter has left, and the others wait for the same as before, they hear nothing: to tell all of them for each
 * that goes would take as long as their number squared. */
static bool step_is_idle(const struct resource *r) IN_BROKER_THREAD
{
    bool waits = resource_lease(r) || r->undoing || r->stalled || drains_stands(resource_locks(r));

    return waits && !TAILQ_EMPTY(&r->work->waiters);
}

static void step_take(struct resource *r, unsigned how, hf_time now) IN_BROKER_THREAD
{
    ABOUT_LOCK(r->name, r->name_len);

    if (TAILQ_EMPTY(&r->work->waiters))
        wakeups_forget(r);
    if (how & TOUCH_RETRY && wakeups_due(r, now))
        how |= TOUCH_CHANGED;
    if (how & TOUCH_CHANGED || (how & TOUCH_LEFT && !step_is_idle(r)))
        step_go(r, now);
    resource_calm(r);
}

/* --- all names -------------------------------------------------------------------------------- */

void locks_step(struct locks *locks)
{
    struct resource_work *work;

    while ((work = TAILQ_FIRST(&locks->touched))) {
        unsigned how = work->touched;

        hf_assert(how && work->resource->work == work, "slot %u", (unsigned)work->resource->slot);
        TAILQ_REMOVE(&locks->touched, work, touched_link);
        work->touched = 0;
        step_take(work->resource, how, clock_now());
    }
}

void step_join(struct waiter *w)
{
    struct resource *r = w->resource;
    struct locks *locks = resource_locks(r);
    hf_time now = clock_now();
    char text[184];

    /* Nobody waited any more a moment ago, and the step for that is still to come: this is a new wait. */
    if (w == TAILQ_FIRST(&r->work->waiters) && !TAILQ_NEXT(w, queue) && !r->work->round) {
        wakeups_forget(r);
        loop_timer_cancel(locks->loop, &r->work->retry);
    }

    if (r->undoing && hf_time_before(now, r->work->barred_until)) {
        step_say_barred(r, now, text, sizeof(text));
        waiter_hear(w, 0, HF_EBUSY, text);
    } else if (r->stalled && !r->undoing && !*nodes_fleet_text(locks->nodes) &&
               nodes_voting(locks->nodes, now) < locks->q) {
        step_hear_stalled(w, now);
    } else {
        step_hear_of_others(w);
        wakeups_joined(w);
        resource_touch(r, TOUCH_CHANGED);
    }
}

void step_stalled(struct locks *locks)
{
    struct resource *r;

    TAILQ_FOREACH (r, &locks->stalled, stalled_link)
        resource_touch(r, TOUCH_CHANGED);
}

static void step_on_stalled(struct loop_timer *timer, hf_time now)
{
    is_broker_thread();
    (void)now;
    step_stalled(HF_CONTAINER(timer, struct locks, stalled_timer));
}

static void step_on_retry(struct loop_timer *timer, hf_time now)
{
    is_broker_thread();
    (void)now;
    resource_touch(HF_CONTAINER(timer, struct resource_work, retry)->resource, TOUCH_RETRY);
}

void step_init(struct locks *locks)
{
    locks->on_retry = step_on_retry;
    locks->stalled_timer.fn = step_on_stalled;
}
