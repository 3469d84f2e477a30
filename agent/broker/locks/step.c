#include "agent/broker/locks/locks_internal.h"

#include <inttypes.h>
#include <stdio.h>

#include "agent/base/clock.h"
#include "agent/base/failure.h"
#include "agent/broker/locks/rounds.h"
#include "agent/broker/locks/waiters.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/core/name_step.h"
#include "shm/assert.h"
#include "shm/status.h"

/* --- what waiters are told -------------------------------------------------------------------- */

static void step_stall(struct name *name, hf_time now) IN_BROKER_THREAD
{
    struct locks *locks = name_locks(name);
    struct waiter *w;
    char text[184];

    hf_assert(!name->idle, "slot %u", (unsigned)name->slot);
    if (!name->stalled) {
        name->stalled = true;
        TAILQ_INSERT_TAIL(&locks->stalled, name, stalled_link);
    }
    if (!heap_has(&locks->stalled_timer.item))
        loop_timer_set(locks->loop, &locks->stalled_timer, hf_time_add(now, hf_ms(200)));
    if (nodes_settling(locks->nodes, now)) {
        TAILQ_FOREACH (w, &name->state->waiters, queue)
            w->last_failure = HF_ENOQUORUM;
        return;
    }
    nodes_explain(locks->nodes, now, text, sizeof(text));
    waiters_notify_all(name, HF_ENOQUORUM, text);
}

/* Of one that came to a name that is stalled already. */
static void step_notify_stalled(struct waiter *w, hf_time now) IN_BROKER_THREAD
{
    struct nodes *nodes = name_locks(w->name)->nodes;
    char text[184];

    w->last_failure = HF_ENOQUORUM;
    if (nodes_settling(nodes, now))
        return;
    nodes_explain(nodes, now, text, sizeof(text));
    waiter_notify(w, 0, HF_ENOQUORUM, text);
}

/* No round begins, whoever may have the lock. */
static void step_notify_drained(struct name *name) IN_BROKER_THREAD
{
    char text[DRAINS_TEXT];

    loop_timer_cancel(name_locks(name)->loop, &name->state->retry);
    wakeups_forget(name);
    drains_explain(name_locks(name), text);
    waiters_notify_all(name, HF_EDRAINED, text);
}

/* A lease of an earlier agent is over, but its holder may rely on it for some time yet. */
static void step_say_barred(const struct name *name, hf_time now, char *ret_text, size_t size)
{
    snprintf(ret_text, size,
             "a lease from before the agent restarted may be in use for up to %" PRId64 " s",
             hf_time_since(name->state->barred_until, now).ns / HF_NS_PER_SEC + 1);
}

static void step_notify_barred(struct name *name, hf_time now) IN_BROKER_THREAD
{
    char text[184];

    step_say_barred(name, now, text, sizeof(text));
    waiters_notify_all(name, HF_EBUSY, text);
}

/* Tells a waiter that joins others for another host's lock: the next round may be far off. */
static void step_notify_of_others(struct waiter *w) IN_BROKER_THREAD
{
    const struct waiter *before = TAILQ_PREV(w, waiter_queue, queue);

    if (waiter_tries(w) || !before || before->last_failure != HF_EBUSY ||
        !heap_has(&w->name->state->retry.item))
        return;
    w->holder = before->holder;
    w->holder_at = before->holder_at;
    waiter_notify(w, 0, HF_EBUSY, "");
}

/* --- one name --------------------------------------------------------------------------------- */

static struct name_facts step_facts(const struct name *name, hf_time now) IN_BROKER_THREAD
{
    const struct locks *locks = name_locks(name);
    const struct name_state *state = name->state;
    const struct waiter *first = TAILQ_FIRST(&state->waiters);

    return (struct name_facts){
        .held = name_lease(name),
        .waited_for = first,
        .drained = drains_stands(locks),
        .undoing = name->undoing,
        .barred = name->undoing && hf_time_before(now, state->barred_until),
        .asking = state->round,
        .waits = heap_has(&state->retry.item),
        .tried = state->tries,
        .yields = first && !waiter_tries(first) && hf_time_before(now, state->yield_until),
        .foreign = *nodes_fleet_text(locks->nodes),
        .quorum = nodes_voting(locks->nodes, now) >= locks->q,
    };
}

static void step_refuse(struct name *name) IN_BROKER_THREAD
{
    struct locks *locks = name_locks(name);
    struct waiter *w;

    while ((w = TAILQ_FIRST(&name->state->waiters)))
        waiter_fail(w, HF_EFLEET, nodes_fleet_text(locks->nodes));
}

/* For the first waiter that a round can begin for. */
static void step_ask(struct name *name) IN_BROKER_THREAD
{
    struct locks *locks = name_locks(name);
    struct waiter *w;
    int rc;

    while ((w = waiter_first(name))) {
        rc = locks->generations[name->slot] >= HF_GEN_MAX ? name_move(name) : HF_OK;
        loop_timer_cancel(locks->loop, &name->state->retry);
        if (rc == HF_OK)
            rc = round_begin(name, w);
        if (rc == HF_OK)
            return;
        waiter_fail(w, rc, "");
    }
}

static void step_go(struct name *name, hf_time now) IN_BROKER_THREAD
{
    struct locks *locks = name_locks(name);
    const struct name_facts facts = step_facts(name, now);
    enum name_step step = name_step(&facts);

    name_unstall(name);
    hf_assert(step < NAME_BARRED ||
                  (!name->state->handoff && !name->state->short_hold && !name->holder),
              "slot %u, handed over or held without a lease", (unsigned)name->slot);
    switch (step) {
    case NAME_DRAINED:
        step_notify_drained(name);
        break;
    case NAME_HELD:
        waiters_notify_all(name, HF_EBUSY, "");
        break;
    case NAME_REST:
        loop_timer_cancel(locks->loop, &name->state->retry);
        name_park(name);
        break;
    case NAME_BARRED:
        step_notify_barred(name, now);
        break;
    case NAME_WAIT:
        break;
    case NAME_YIELD:
        loop_timer_set(locks->loop, &name->state->retry, name->state->yield_until);
        break;
    case NAME_FOREIGN:
        step_refuse(name);
        break;
    case NAME_STALL:
        step_stall(name, now);
        break;
    case NAME_ASK:
        step_ask(name);
        break;
    }
}

/* (!) Where a waiter has left, and the others wait for the same as before, they hear nothing: to tell all of them for each
 * that goes would take as long as their number squared. */
static bool step_is_idle(const struct name *name) IN_BROKER_THREAD
{
    bool waits =
        name_lease(name) || name->undoing || name->stalled || drains_stands(name_locks(name));

    return waits && !TAILQ_EMPTY(&name->state->waiters);
}

static void step_take(struct name *name, unsigned how, hf_time now) IN_BROKER_THREAD
{
    ABOUT_LOCK(name->bytes, name->len);

    if (TAILQ_EMPTY(&name->state->waiters))
        wakeups_forget(name);
    if (how & TOUCH_RETRY && wakeups_due(name, now))
        how |= TOUCH_CHANGED;
    if (how & TOUCH_CHANGED || (how & TOUCH_LEFT && !step_is_idle(name)))
        step_go(name, now);
    name_free_idle_state(name);
}

/* --- all names -------------------------------------------------------------------------------- */

void locks_step(struct locks *locks)
{
    struct name_state *state;

    while ((state = TAILQ_FIRST(&locks->touched))) {
        unsigned how = state->touched;

        hf_assert(how && state->name->state == state, "slot %u", (unsigned)state->name->slot);
        TAILQ_REMOVE(&locks->touched, state, touched_link);
        state->touched = 0;
        step_take(state->name, how, clock_now());
    }
}

void step_join(struct waiter *w)
{
    struct name *name = w->name;
    struct locks *locks = name_locks(name);
    hf_time now = clock_now();
    char text[184];

    /* Nobody waited any more a moment ago, and the step for that is still to come: this is a new wait. */
    if (w == TAILQ_FIRST(&name->state->waiters) && !TAILQ_NEXT(w, queue) && !name->state->round) {
        wakeups_forget(name);
        loop_timer_cancel(locks->loop, &name->state->retry);
    }

    if (name->undoing && hf_time_before(now, name->state->barred_until)) {
        step_say_barred(name, now, text, sizeof(text));
        waiter_notify(w, 0, HF_EBUSY, text);
    } else if (name->stalled && !name->undoing && !*nodes_fleet_text(locks->nodes) &&
               nodes_voting(locks->nodes, now) < locks->q) {
        step_notify_stalled(w, now);
    } else {
        step_notify_of_others(w);
        wakeups_joined(w);
        name_touch(name, TOUCH_CHANGED);
    }
}

void step_stalled(struct locks *locks)
{
    struct name *name;

    TAILQ_FOREACH (name, &locks->stalled, stalled_link)
        name_touch(name, TOUCH_CHANGED);
}

static void step_on_stalled(struct loop_timer *timer, hf_time now)
{
    ASSERT_BROKER_THREAD();
    (void)now;
    step_stalled(HF_CONTAINER(timer, struct locks, stalled_timer));
}

static void step_on_retry(struct loop_timer *timer, hf_time now)
{
    ASSERT_BROKER_THREAD();
    (void)now;
    name_touch(HF_CONTAINER(timer, struct name_state, retry)->name, TOUCH_RETRY);
}

void step_init(struct locks *locks)
{
    locks->on_retry = step_on_retry;
    locks->stalled_timer.fn = step_on_stalled;
}
