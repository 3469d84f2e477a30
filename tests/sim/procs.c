#include "agent/broker/rooms.h"
#include "tests/sim/procs.h"

#include <stdlib.h>
#include <string.h>

#include "shm/status.h"
#include "tests/sim/groups.h"
#include "tests/sim/host.h"
#include "tests/sim/hot.h"
#include "tests/sim/sharers.h"
#include "tests/sim/wide.h"
#include "tests/support/status_name.h"

#define PIDFD_FIRST 3000000

struct sim_proc *procs[PROCS_MAX];
int proc_count;

static uint32_t next_pid;

/* Looked at again at times: the end of the faults ends the stop, too. */
static sim_ns later(sim_ns stopped_until)
{
    return stopped_until < sim.now + 50 * SIM_MS ? stopped_until : sim.now + 50 * SIM_MS;
}

/* --- requests --------------------------------------------------------------------------------- */

static void enqueue(struct sim_proc *p, const struct hf_request_entry *q)
{
    if (!p->session || !p->host->broker || p->queued == QUEUED_MAX)
        return;
    p->queue[p->queued++] = *q;
    loop_wake(p->host->broker->loop);
}

static void request(struct sim_proc *p, const struct hf_request_entry *q)
{
    p->request = *q;
    p->requested = true;
    enqueue(p, q);
}

/* As the library: sent again to the next agent, until one answers. */
static void give_back(struct sim_proc *p, const struct hf_request_entry *q)
{
    p->unwanted = *q;
    enqueue(p, q);
}

static void act_in(struct sim_proc *p, sim_ns low, sim_ns high)
{
    sim_at(&p->act, sim.now + rng_between(&sim.rng, low, high));
}

static sim_ns ttl_ns(const struct sim_proc *p)
{
    return (sim_ns)p->request.ttl_ms * SIM_MS;
}

static void go_idle(struct sim_proc *p)
{
    p->state = PROC_IDLE;
    p->requested = false;
    p->claim = NULL;
    if (p->hand) {
        sim_cancel(&p->act);
        hand_is_idle(p);
        return;
    }
    if (sim.settling || sim.plan.scene)
        sim_cancel(&p->act);
    else if (hot_hurries(p))
        sim_at(&p->act, sim.now + SIM_US);
    else
        act_in(p, SIM_MS, SIM_MS * sim.plan.ttl_ms);
}

/* --- acquiring -------------------------------------------------------------------------------- */

static void acquire(struct sim_proc *p, int resource)
{
    struct hf_request_entry q = {.op = HF_OP_ACQUIRE, .id = ++p->next_id};
    int64_t now = host_now(p->host).ns;
    sim_ns give_up = SIM_NEVER;

    p->resource = resource;
    p->claim = NULL;
    p->run =
        !p->probe && !wide_has(WIDE_HOT) && (rng_chance(&sim.rng, 0.25) || groups_wants_job(p));
    q.flags = p->run ? HF_REQ_JOB : 0;
    q.ttl_ms = (uint32_t)rng_between(&sim.rng, 500, sim.plan.ttl_max_ms);
    if (rng_chance(&sim.rng, 0.5) || wide_has(WIDE_FAR))
        q.ttl_ms = sim.plan.ttl_ms;
    if (!p->probe && !wide_has(WIDE_HOT) && rng_chance(&sim.rng, 0.1))
        q.max_hold_ms = (uint32_t)rng_between(&sim.rng, q.ttl_ms / 2, 4 * (int64_t)q.ttl_ms);
    switch (p->probe || wide_has(WIDE_HOT) ? 2 : rng_below(&sim.rng, 4)) {
    case 0:
        q.deadline_ns = 0; /* try */
        give_up = 2 * SIM_SEC;
        break;
    case 1:
        give_up = rng_log(&sim.rng, 10 * SIM_MS, 4 * SIM_SEC);
        q.deadline_ns = now + give_up;
        give_up += SIM_SEC;
        break;
    default:
        q.deadline_ns = INT64_MAX;
        if (!p->probe && !wide_has(WIDE_HOT) && rng_chance(&sim.rng, 0.2)) /* cancels */
            give_up = rng_log(&sim.rng, SIM_MS, 4 * SIM_SEC);
    }
    q.name_len = 2;
    q.name[0] = 'r';
    q.name[1] = (uint8_t)('0' + resource);
    p->state = PROC_WAITING;
    sim_trace("h%d p%d asks for r%d%s", p->host->number, p->number, resource,
              p->run ? " (run)" : "");
    request(p, &q);
    sim_cancel(&p->act);
    if (give_up < SIM_NEVER)
        sim_at(&p->act, sim.now + give_up);
}

void proc_asks(struct sim_proc *p, uint32_t ttl_ms)
{
    struct hf_request_entry q = {.op = HF_OP_ACQUIRE,
                                 .id = ++p->next_id,
                                 .ttl_ms = ttl_ms,
                                 .name_len = 2,
                                 .name = {'r', '0'}};

    p->resource = 0;
    p->claim = NULL;
    p->run = false;
    p->state = PROC_WAITING;
    sim_trace("h%d p%d asks for r0 for %u ms", p->host->number, p->number, (unsigned)ttl_ms);
    request(p, &q);
}

void proc_asks_for(struct sim_proc *p, int resource, uint32_t ttl_ms, int64_t deadline_ns)
{
    struct hf_request_entry q = {.op = HF_OP_ACQUIRE,
                                 .id = ++p->next_id,
                                 .ttl_ms = ttl_ms,
                                 .deadline_ns = deadline_ns,
                                 .name_len = 2,
                                 .name = {'r', (uint8_t)('0' + resource)}};

    p->resource = resource;
    p->claim = NULL;
    p->run = false;
    p->state = PROC_WAITING;
    sim_trace("h%d p%d is told to ask for r%d", p->host->number, p->number, resource);
    request(p, &q);
}

static void cancel(struct sim_proc *p)
{
    struct hf_request_entry q = {.op = HF_OP_CANCEL, .id = ++p->next_id, .target = p->request.id};

    sim_trace("h%d p%d cancels", p->host->number, p->number);
    enqueue(p, &q);
    p->cancelled[p->cancels++ % CANCELLED_MAX] = p->request.id;
    go_idle(p);
}

/* --- a job and its guardians ------------------------------------------------------------------ */

static void leave(struct sim_proc *p, bool reaped)
{
    struct hf_request_entry q = {
        .op = HF_OP_RELEASE, .id = ++p->next_id, .ttl_ms = p->request.ttl_ms};
    struct claim *claim = p->claim;
    int64_t left =
        (int64_t)((atomic_load(&claim->slot->check) & HF_CHECK_TIME_MASK) << HF_CHECK_TIME_SHIFT) -
        host_now(p->host).ns;

    q.slot = p->slot;
    q.generation = claim->generation;
    q.flags = reaped ? HF_REQ_REAPED : 0;
    sim_trace("h%d p%d gives up r%d", p->host->number, p->number, p->resource);
    checks_dropped(claim); /* (!) its handle is empty before the agent hears of it */
    p->claim = NULL;
    p->state = PROC_LEAVING;
    request(p, &q);
    sim_at(&p->act, sim.now + (left > 0 && left < 60 * SIM_SEC ? left : 0) + SIM_SEC);
}

void proc_cancels(struct sim_proc *p)
{
    cancel(p);
}

void proc_leaves(struct sim_proc *p)
{
    leave(p, false);
}

static void job_gone(struct sim_proc *p, const char *how)
{
    if (!p->job_alive)
        return;
    sim_trace("h%d p%d its job %s", p->host->number, p->number, how);
    p->job_alive = false;
    p->claim->job = false;
    sim_cancel(&p->job);
    for (int i = 0; i < 2; i++)
        sim_cancel(&p->guardian[i].look);
    leave(p, true);
}

static void on_job_event(struct sim_event *event)
{
    struct sim_proc *p = HF_CONTAINER(event, struct sim_proc, job);

    if (sim.now < p->stopped_until)
        sim_at(event, later(p->stopped_until));
    else
        job_gone(p, "ended");
}

static bool is_losing(const struct claim *claim)
{
    return atomic_load(&claim->slot->generation) == claim->generation &&
           atomic_load(&claim->slot->lengths) >> 24 == HF_SLOT_LOSING;
}

static void on_look(struct sim_event *event)
{
    struct guardian_model *g = HF_CONTAINER(event, struct guardian_model, look);
    struct sim_proc *p = g->proc;
    int64_t now = host_now(p->host).ns, valid = 0;
    enum timeline_phase phase;
    uint64_t word;

    if (!p->job_alive || !g->alive)
        return;
    if (sim.now < g->stopped_until) {
        sim_at(event, g->stopped_until);
        return;
    }
    word = atomic_load(&p->claim->slot->check);
    if (claim_believes(p->claim) && !g->cleared)
        valid = (int64_t)((word & HF_CHECK_TIME_MASK) << HF_CHECK_TIME_SHIFT);
    else
        g->cleared = true;
    phase = timeline_judge(&g->timeline, now, valid, valid && is_losing(p->claim));
    if (phase == TIMELINE_KILL) {
        sim.seen[SEEN_RUN_STOPPED] = true;
        job_gone(p, "is killed");
        return;
    }
    if (phase == TIMELINE_STOP && !p->told_to_stop) {
        struct hf_request_entry q = {.op = HF_OP_LOSING,
                                     .id = ++p->next_id,
                                     .slot = p->slot,
                                     .generation = p->claim->generation};

        sim.seen[SEEN_RUN_STOPPED] = true;
        sim_trace("h%d p%d its job gets SIGTERM", p->host->number, p->number);
        p->told_to_stop = true;
        enqueue(p, &q);
        if (rng_chance(&sim.rng, 0.6))
            sim_at(&p->job, sim.now + rng_log(&sim.rng, SIM_MS, ttl_ns(p)));
    }
    /* Kernels wake a little late. */
    sim_at(event, clock_when(&p->host->boot, timeline_next(&g->timeline, now)) +
                      rng_below(&sim.rng, 3 * SIM_MS));
}

static void start_job(struct sim_proc *p)
{
    sim_trace("h%d p%d starts its job", p->host->number, p->number);
    p->job_alive = p->claim->job = true;
    p->told_to_stop = false;
    p->job_group = rng_chance(&sim.rng, 0.5) ? GROUP_RUN : GROUP_JOB;
    sim_at(&p->job, sim.now + rng_log(&sim.rng, 20 * SIM_MS, 6 * ttl_ns(p)));
    for (int i = 0; i < 2; i++) {
        struct guardian_model *g = &p->guardian[i];

        g->alive = true;
        g->group = i ? GROUP_RUN : GROUP_INNER; /* (!) never the same */
        g->cleared = false;
        g->stopped_until = 0;
        timeline_init(&g->timeline, ttl_ns(p), i ? ttl_ns(p) / 50 : 0);
        sim_at(&g->look, sim.now);
    }
    groups_job_starts(p);
}

void proc_guardian_kill(struct sim_proc *p, int which)
{
    const struct guardian_model *other = &p->guardian[!which];

    /* Nothing is promised with both of them out of action. */
    if (!p->job_alive || !p->guardian[which].alive || !other->alive ||
        other->stopped_until >= sim.now)
        return;
    sim_trace("h%d p%d guardian %d is killed", p->host->number, p->number, which);
    p->guardian[which].alive = false;
    sim_at(&p->job, sim.now + rng_below(&sim.rng, 5 * SIM_MS)); /* the other kills the tree */
}

/* --- a job whose outer guardian is gone: nobody tells the agent of its end */

struct orphan {
    struct orphan *next;
    struct sim_event end;
    struct sim_host *host;
    struct claim *claim;
    sim_ns stopped_until;
};

static struct orphan *orphans;

static void on_orphan_ends(struct sim_event *event)
{
    struct orphan *o = HF_CONTAINER(event, struct orphan, end);

    if (sim.now < o->stopped_until) {
        sim_at(event, later(o->stopped_until));
        return;
    }
    sim_trace("h%d the job of r%d that its guardian left ended", o->host->number,
              o->claim->resource);
    checks_dropped(o->claim);
}

static void end(struct sim_proc *p);

/* The process that the agent knows of the run is dead, and its job lives on until p->job. */
static void leave_job(struct sim_proc *p)
{
    struct orphan *o = sim_alloc(sizeof(*o));

    *o = (struct orphan){.next = orphans,
                         .end.fn = on_orphan_ends,
                         .host = p->host,
                         .claim = p->claim,
                         .stopped_until = p->stopped_until};
    sim_at(&o->end, p->job.at);
    orphans = o;
    p->claim->orphan = true;
    p->claim = NULL;
    end(p);
}

static void orphans_suspend(const struct sim_host *host, sim_ns until)
{
    for (struct orphan *o = orphans; o; o = o->next)
        if (o->host == host && o->claim->job) {
            o->stopped_until = until;
            if (o->claim->frozen_until < until + 10 * SIM_MS)
                o->claim->frozen_until = until + 10 * SIM_MS;
        }
}

static void orphans_settle(void)
{
    for (struct orphan *o = orphans; o; o = o->next)
        o->stopped_until = 0;
}

void proc_group_kill(struct sim_proc *p, int group)
{
    int left = 0;

    /* As above, but for the guardians that share the group: that is for the model to show. */
    for (int i = 0; i < 2; i++)
        if (p->guardian[i].group != group &&
            (!p->guardian[i].alive || p->guardian[i].stopped_until >= sim.now))
            return;
    if (!p->job_alive)
        return;
    sim_trace("h%d p%d SIGKILL to group %d", p->host->number, p->number, group);
    sim.seen[SEEN_GROUP_KILL] = true;
    for (int i = 0; i < 2; i++) {
        if (p->guardian[i].group == group)
            p->guardian[i].alive = false;
        left += p->guardian[i].alive;
    }
    /* What has left the group lives until a guardian kills it; without one, for as long as it likes. */
    if (left > 0 && (left < 2 || p->job_group == group))
        sim_at(&p->job, sim.now + rng_below(&sim.rng, 5 * SIM_MS));
    if (wide_has(WIDE_GROUPS) && group == GROUP_RUN)
        leave_job(p);
}

void proc_guardian_stop(struct sim_proc *p, int which, sim_ns until)
{
    struct guardian_model *other = &p->guardian[!which];

    if (p->job_alive && other->alive && other->stopped_until < sim.now) {
        sim_trace("h%d p%d guardian %d is stopped", p->host->number, p->number, which);
        p->guardian[which].stopped_until = until;
    }
}

void proc_signal(struct sim_proc *p)
{
    for (int i = 0; i < 2 && p->job_alive; i++)
        if (p->guardian[i].alive)
            sim_at(&p->guardian[i].look, sim.now + rng_below(&sim.rng, 2 * SIM_MS));
}

struct coming {
    struct sim_event event;
    struct sim_proc *proc;
    int resource;
};

/* --- completions ------------------------------------------------------------------------------ */

struct delivery {
    struct sim_event event;
    struct sim_proc *proc;
    uint32_t pid;
    struct hf_completion_entry entry;
};

static void granted(struct sim_proc *p, const struct hf_completion_entry *e)
{
    struct claim *claim = claims_find(p->host, e->slot, e->generation);

    p->requested = false;
    p->slot = e->slot;
    if (!claim || !claim_believes(claim)) { /* as the library: over before it was read of */
        if (claim)
            checks_dropped(claim);
        if (p->run) { /* nothing was started under it */
            struct hf_request_entry q = {.op = HF_OP_RELEASE,
                                         .id = ++p->next_id,
                                         .slot = e->slot,
                                         .generation = e->generation,
                                         .flags = HF_REQ_REAPED};

            give_back(p, &q);
        }
        if (p->hand)
            hand_hears(p, HF_ELOST);
        go_idle(p);
        if (p->probe)
            acquire(p, p->resource);
        return;
    }
    p->claim = claim;
    p->state = PROC_HOLDING;
    sim_trace("h%d p%d has r%d", p->host->number, p->number, p->resource);
    if (p->hand) {
        sim_cancel(&p->act);
        hand_hears(p, HF_OK);
        return;
    }
    if (sim.settling || hot_hurries(p))
        p->until = sim.now;
    else
        p->until = sim.plan.scene ? SIM_NEVER : sim.now + rng_log(&sim.rng, SIM_MS, 8 * ttl_ns(p));
    if (p->run && !sim.settling)
        start_job(p);
    else if (p->run)
        leave(p, true);
    else if (hot_hurries(p))
        sim_at(&p->act, sim.now + SIM_US);
    else
        act_in(p, 0, 50 * SIM_MS);
}

static void on_delivery(struct sim_event *event)
{
    struct delivery *d = HF_CONTAINER(event, struct delivery, event);
    struct sim_proc *p = d->proc;
    const struct hf_completion_entry *e = &d->entry;

    if (p->alive && p->pid == d->pid && sim.now < p->stopped_until) {
        sim_at(event, later(p->stopped_until));
        return;
    }
    if (!p->alive || p->pid != d->pid) {
        sim_free(d);
        return;
    }
    if (e->id == p->unwanted.id)
        p->unwanted.id = 0;
    for (int i = 0; i < CANCELLED_MAX;
         i++) /* as the library: what is answered is not asked again */
        if (e->id == p->cancelled[i] && e->status != HF_OK)
            p->cancelled[i] = 0;
    if (p->requested && e->id == p->request.id) {
        if (e->op == HF_OP_ACQUIRE && e->status == HF_OK) {
            granted(p, e);
        } else {
            sim_trace("h%d p%d is answered %s", p->host->number, p->number, status_name(e->status));
            /* A host that does not know the fleet yet may find a node whose sentinel has the ttl_max of before. */
            if (p->probe && e->op == HF_OP_ACQUIRE &&
                !(wide_has(WIDE_CHANGES) && e->status == HF_EFLEET))
                sim_violation("liveness", "a waiter without a limit was answered %s",
                              status_name(e->status));
            if (p->probe && e->op == HF_OP_RELEASE)
                p->probe = false;
            if (p->hand && e->op == HF_OP_ACQUIRE)
                hand_hears(p, e->status);
            go_idle(p);
            if (p->probe) /* once more */
                act_in(p, 20 * SIM_MS, 50 * SIM_MS);
        }
    } else if (e->op == HF_OP_ACQUIRE && e->status == HF_OK) {
        struct claim *claim = claims_find(p->host, e->slot, e->generation);

        if (!claim || claim != p->claim) {
            struct hf_request_entry q = {.op = HF_OP_RELEASE,
                                         .id = ++p->next_id,
                                         .slot = e->slot,
                                         .generation = e->generation,
                                         .flags = HF_REQ_REAPED};

            if (claim)
                checks_dropped(claim);
            give_back(p, &q); /* as the library: nobody waits for it any more */
        }
    }
    sim_free(d);
}

void proc_answer(struct sim_proc *p, const struct hf_completion_entry *entry)
{
    struct delivery *d = sim_alloc(sizeof(*d));

    d->event.fn = on_delivery;
    d->proc = p;
    d->pid = p->pid;
    d->entry = *entry;
    sim_at(&d->event,
           sim.now + (hot_hurries(p) ? 5 * SIM_US : rng_log(&sim.rng, 5 * SIM_US, 2 * SIM_MS)));
}

static void attach_later(struct sim_proc *p, sim_ns most)
{
    sim_at(&p->attach, sim.now + rng_below(&sim.rng, most));
}

static void end(struct sim_proc *p)
{
    if (p->claim)
        checks_dropped(p->claim);
    claims_drop_all(p);
    p->alive = false;
    p->job_alive = false;
    p->session = NULL;
    p->claim = NULL;
    p->requested = p->attaching = false;
    p->stopped_until = 0;
    memset(p->cancelled, 0, sizeof(p->cancelled));
    p->unwanted.id = 0;
    p->state = PROC_IDLE;
    sim_cancel(&p->act);
    sim_cancel(&p->job);
    for (int i = 0; i < 2; i++)
        sim_cancel(&p->guardian[i].look);
    loops_tell_end(p->host, proc_pidfd(p->pid));
    attach_later(p, SIM_MS * sim.plan.ttl_ms);
    if (p->hand)
        hand_ended(p);
}

void proc_ends(struct sim_proc *p)
{
    if (p->alive)
        end(p);
}

/* --- what it does by itself ------------------------------------------------------------------- */

static void hold_on(struct sim_proc *p)
{
    if (p->run)
        return;                      /* the guardians look */
    if (!claim_believes(p->claim)) { /* it asked, and empties its handle */
        struct hf_request_entry q = {.op = HF_OP_RELEASE,
                                     .id = ++p->next_id,
                                     .slot = p->slot,
                                     .generation = p->claim->generation};

        uint32_t reason = atomic_load(&p->claim->slot->marks) >> 24;
        /* A step, a mark or an empty node from before the faults ended may be found only now; whom the lock was
         * handed on to has a token from then, too. */
        bool of_before = reason == HF_LOSS_CLOCK || reason == HF_LOSS_FORCED ||
                         p->claim->token_at < sim.settled_at;

        sim_trace("h%d p%d has lost r%d", p->host->number, p->number, p->resource);
        checks_dropped(p->claim);
        give_back(p, &q); /* the agent may have extended it in the last moment */
        go_idle(p);
        if (p->probe && !of_before)
            sim_violation("liveness", "a lease is lost after the faults");
        else if (p->probe)
            acquire(p, p->resource);
        return;
    }
    if (sim.now >= p->until) {
        leave(p, false);
        return;
    }
    checks_write(p->claim);
    act_in(p, SIM_MS, ttl_ns(p) / 4);
}

static void on_act(struct sim_event *event)
{
    struct sim_proc *p = HF_CONTAINER(event, struct sim_proc, act);

    if (!p->alive)
        return;
    if (sim.now < p->stopped_until) {
        sim_at(event, later(p->stopped_until));
        return;
    }
    switch (p->state) {
    case PROC_IDLE:
        if (hot_waits(p))
            sim_at(event, hot_waits(p));
        else if (!sim.settling)
            acquire(p, (int)rng_below(&sim.rng, sim.plan.resources));
        else if (p->probe)
            acquire(p, p->resource);
        break;
    case PROC_WAITING:
        cancel(p);
        break;
    case PROC_HOLDING:
        hold_on(p);
        break;
    case PROC_LEAVING:
        if (p->probe)
            sim_violation("liveness", "a release is not answered");
        if (p->session) {
            /* The library does not wait on, but sends it again to the next agent. */
            p->unwanted = p->request;
            go_idle(p);
        } else
            end(p); /* it could not get rid of its lease: as a program, it ends with an error */
        break;
    }
}

/* --- sessions --------------------------------------------------------------------------------- */

static void on_attach(struct sim_event *event)
{
    struct sim_proc *p = HF_CONTAINER(event, struct sim_proc, attach);

    if (sim.now < p->stopped_until) {
        sim_at(event, later(p->stopped_until));
        return;
    }
    if (!p->alive) { /* the next process in its place */
        p->alive = true;
        p->pid = next_pid++;
        p->start_time = (uint64_t)host_now(p->host).ns / (10 * SIM_MS) + 1;
        p->cookie = 0;
        p->probe = false;
        go_idle(p);
    }
    if (!p->host->broker || p->session)
        return;
    p->attaching = true;
    loop_wake(p->host->broker->loop);
}

void proc_attached(struct sim_proc *p, struct session *session)
{
    p->session = session;
    p->queued = 0;
    for (int i = 0; i < CANCELLED_MAX; i++) { /* which the last one may not have heard of */
        struct hf_request_entry q = {
            .op = HF_OP_CANCEL, .id = ++p->next_id, .target = p->cancelled[i]};

        if (q.target)
            p->queue[p->queued++] = q;
    }
    if (p->unwanted.id)
        p->queue[p->queued++] = p->unwanted;
    if (p->requested)
        p->queue[p->queued++] = p->request;
}

void proc_detached(struct sim_proc *p)
{
    p->session = NULL;
    p->queued = 0;
    p->attaching = false;
    if (p->alive)
        attach_later(p, 300 * SIM_MS);
}

void procs_agent_gone(struct sim_host *host)
{
    for (int i = 0; i < proc_count; i++)
        if (procs[i]->host == host)
            proc_detached(procs[i]);
}

void procs_agent_listens(struct sim_host *host)
{
    for (int i = 0; i < proc_count; i++)
        if (procs[i]->host == host && procs[i]->alive)
            attach_later(procs[i], 100 * SIM_MS);
}

/* --- what befalls them ------------------------------------------------------------------------ */

void procs_rate_changed(const struct sim_host *host)
{
    for (int i = 0; i < proc_count; i++)
        for (int k = 0; k < 2; k++)
            if (procs[i]->host == host && procs[i]->guardian[k].look.place)
                sim_at(&procs[i]->guardian[k].look, sim.now);
}

void proc_kill(struct sim_proc *p)
{
    /* Both guardians at once: nothing is promised of that. */
    if (!p->alive || p->job_alive)
        return;
    sim_trace("h%d p%d is killed", p->host->number, p->number);
    end(p);
}

struct sim_proc *proc_waiting(const struct sim_host *host, uint32_t pid)
{
    for (int i = 0; i < proc_count; i++)
        if (procs[i]->host == host && procs[i]->alive && procs[i]->pid == pid &&
            procs[i]->state == PROC_WAITING && !procs[i]->probe && !procs[i]->hand)
            return procs[i];
    return NULL;
}

void proc_turn_away(struct sim_proc *p)
{
    if (rng_chance(&sim.rng, 0.3))
        proc_kill(p);
    else
        act_in(p, 0, SIM_MS);
}

void procs_kill_all(struct sim_host *host)
{
    for (int i = 0; i < proc_count; i++)
        if (procs[i]->host == host && procs[i]->alive)
            end(procs[i]);
}

void proc_stop(struct sim_proc *p, sim_ns until)
{
    if (!p->alive || p->job_alive)
        return;
    sim_trace("h%d p%d is stopped", p->host->number, p->number);
    p->stopped_until = until;
    if (p->hand)
        hand_stops(p, until);
}

void procs_suspend(struct sim_host *host, sim_ns until)
{
    for (int i = 0; i < proc_count; i++) {
        struct sim_proc *p = procs[i];

        if (p->host != host)
            continue;
        if (p->stopped_until < until)
            p->stopped_until = until;
        for (int k = 0; k < 2; k++)
            if (p->guardian[k].stopped_until < until)
                p->guardian[k].stopped_until = until;
        /* Its guardians kill it as soon as they run again; so long it may run, too. */
        if (p->job_alive && p->claim->frozen_until < until + 10 * SIM_MS)
            p->claim->frozen_until = until + 10 * SIM_MS;
    }
    orphans_suspend(host, until);
}

uint64_t proc_start_time(const struct sim_host *host, uint32_t pid)
{
    for (int i = 0; i < proc_count; i++)
        if (procs[i]->host == host && procs[i]->alive && procs[i]->pid == pid)
            return procs[i]->start_time;
    return 0;
}

int proc_pidfd(uint32_t pid)
{
    return PIDFD_FIRST + (int)pid;
}

/* --- beginning and end ------------------------------------------------------------------------ */

static struct sim_proc *proc_new(struct sim_host *host)
{
    struct sim_proc *p = sim_alloc(sizeof(*p));

    p->number = proc_count;
    p->host = host;
    p->alive = true;
    p->pid = next_pid++;
    p->start_time = p->pid;
    p->act.fn = on_act;
    p->attach.fn = on_attach;
    p->job.fn = on_job_event;
    for (int k = 0; k < 2; k++) {
        p->guardian[k].look.fn = on_look;
        p->guardian[k].proc = p;
    }
    procs[proc_count++] = p;
    return p;
}

struct sim_proc *proc_hand(struct sim_host *host, struct hand *hand)
{
    struct sim_proc *p = proc_new(host);

    p->start_time = (uint64_t)host_now(host).ns / (10 * SIM_MS) + 1;
    p->hand = hand;
    attach_later(p, SIM_MS);
    return p;
}

static void on_come(struct sim_event *event)
{
    struct coming *c = HF_CONTAINER(event, struct coming, event);

    if (!sim.settling && c->proc->alive && c->proc->state == PROC_IDLE)
        acquire(c->proc, c->resource);
}

void proc_come(struct sim_host *host, int resource, sim_ns at)
{
    struct coming *c = sim_alloc(sizeof(*c));

    c->event.fn = on_come;
    c->proc = proc_new(host);
    c->proc->start_time = (uint64_t)host_now(host).ns / (10 * SIM_MS) + 1;
    c->resource = resource;
    attach_later(c->proc, SIM_MS);
    sim_at(&c->event, at);
}

void procs_begin(void)
{
    proc_count = 0;
    orphans = NULL;
    next_pid = 100;
    for (int i = 0; i < sim.plan.hosts * sim.plan.procs; i++) {
        struct sim_proc *p = proc_new(sim.host[i % sim.plan.hosts]);

        if (!sim.plan.scene)
            act_in(p, 0, 300 * SIM_MS);
    }
}

void procs_settle(void)
{
    int next = 0;

    for (int i = 0; i < proc_count; i++) {
        struct sim_proc *p = procs[i];

        p->stopped_until = 0;
        if (!p->session)
            attach_later(p, 100 * SIM_MS);
        if (p->hand)
            continue;
        if (p->state == PROC_HOLDING && p->job_alive)
            sim_at(&p->job, sim.now + rng_below(&sim.rng, SIM_MS));
        else if (p->state == PROC_HOLDING) {
            p->until = sim.now;
            sim_at(&p->act, sim.now);
        } else if (p->state == PROC_IDLE) {
            sim_cancel(&p->act);
        }
    }
    sharers_settle();
    orphans_settle();
    /* A waiter of its own for each resource. */
    for (int r = 0; r < sim.plan.resources; r++) {
        struct sim_proc *p = proc_new(sim.host[(next++ + sim.now) % sim.plan.hosts]);

        p->start_time = (uint64_t)host_now(p->host).ns / (10 * SIM_MS) + 1;
        p->probe = true;
        attach_later(p, SIM_MS);
        acquire(p, r);
    }
}

bool procs_settled(void)
{
    for (int i = 0; i < proc_count; i++)
        if (procs[i]->alive && (procs[i]->probe || procs[i]->state != PROC_IDLE))
            return false;
    return sharers_settled();
}
