#include "agent/broker/locks/drains.h"

#include <inttypes.h>
#include <stdio.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/broker/clients/sessions.h"
#include "agent/broker/locks/resources.h"
#include "agent/broker/locks/rounds.h"
#include "agent/broker/locks/waiters.h"
#include "agent/record/events.h"
#include "shm/status.h"

/* A hand-off is judged when the renewal thread has answered. */
static void drains_stop_name(struct resource *r) IN_BROKER_THREAD
{
    if (r->work->round)
        round_cancel(r->work->round);
    resource_touch(r, TOUCH_CHANGED);
}

static void drains_go_on_with_name(struct resource *r) IN_BROKER_THREAD
{
    struct waiter *w;

    TAILQ_FOREACH (w, &r->work->waiters, queue)
        w->last_failure = HF_OK;
    resource_touch(r, TOUCH_CHANGED);
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
        struct resource *r = locks->by_slot[i];

        if (!r || TAILQ_EMPTY(&r->work->waiters))
            continue;
        if (wanted->stands)
            drains_stop_name(r);
        else
            drains_go_on_with_name(r);
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
