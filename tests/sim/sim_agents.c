/* Entering the agents' code, and taking the CPU away from it at any place where it looks at the
 * clock, writes the journal or sends something. */
#include "tests/sim/checks.h"
#include "tests/sim/host.h"

#define NESTED_MOST 3 /* pauses within pauses */

bool sim_agent_run(struct sim_host *host, void (*fn)(void *), void *arg)
{
    struct sim_frame frame;
    bool lived;

    frame.host = host;
    frame.incarnation = host->incarnation;
    frame.outer = sim.frame;
    frame.heap_before = sim_heap_now;
    frame.role_before = thread_role_now;
    sim.frame = &frame;
    thread_role_now = THREAD_ROLE_NONE;
    sim_heap_now = host->heap;
    if (_setjmp(frame.env) == 0) {
        fn(arg);
        lived = true;
    } else {
        lived = false;
    }
    sim.frame = frame.outer;
    sim_heap_now = frame.heap_before;
    thread_role_now = frame.role_before;
    return lived;
}

void sim_unwind_if_dead(void)
{
    struct sim_frame *frame = sim.frame;

    if (frame && frame->incarnation != frame->host->incarnation)
        _longjmp(frame->env, 1);
}

static int depth_of(const struct sim_frame *frame)
{
    int depth = 0;

    for (; frame; frame = frame->outer)
        depth++;
    return depth;
}

static void lose_cpu(sim_ns until)
{
    struct sim_heap *heap = sim_heap_now;

    checks_run();
    sim_heap_now = NULL;
    do
        sim_run_until(until);
    while (!sim.over && (until = sim.frame->host->stopped_until) > sim.now);
    /* Who lost it further out could not go on either, however short its own time was. */
    for (const struct sim_frame *f = sim.frame; f; f = f->outer)
        f->host->no_cpu_until = sim.now;
    sim_heap_now = heap;
    sim_unwind_if_dead();
}

static void next_preemption(void)
{
    sim.preempt_in = rng_between(&sim.rng, 1, 2 * sim.plan.preempt_every);
}

static void kill_inside(struct sim_host *host)
{
    sim_trace("h%d agent is killed inside its code", host->number);
    host_kill(host);
    host_start_later(host, rng_log(&sim.rng, 10 * SIM_MS, 2 * SIM_MS * sim.plan.ttl_max_ms));
    sim_unwind_if_dead();
}

void sim_preempt(void)
{
    struct sim_host *host;
    int64_t longest;
    sim_ns until;

    if (--sim.preempt_in > 0)
        return;
    next_preemption();
    if (sim.settling || sim.over || !sim.frame || depth_of(sim.frame) > NESTED_MOST)
        return;
    host = sim.frame->host;
    if (sim.plan.fault[FAULT_KILL] && rng_chance(&sim.rng, 0.15))
        kill_inside(host);
    if (!sim.plan.fault[FAULT_PAUSE])
        return;
    /* Mostly short ones, as a busy machine makes them. */
    longest = rng_chance(&sim.rng, 0.2) ? 2 * SIM_MS * sim.plan.ttl_max_ms : 20 * SIM_MS;
    until = sim.now + rng_log(&sim.rng, 10 * SIM_US, longest);
    if (sim.plan.fault[FAULT_STOP] && rng_chance(&sim.rng, 0.3)) {
        sim_trace("h%d agent is stopped inside its code for %.3f s", host->number,
                  (double)(until - sim.now) / SIM_SEC);
        if (host->stopped_until < until)
            host->stopped_until = until;
    } else {
        sim_trace("h%d a thread gets no CPU for %.6f s", host->number,
                  (double)(until - sim.now) / SIM_SEC);
    }
    lose_cpu(until);
}

void sim_kill_here(double chance)
{
    if (!sim.settling && !sim.over && sim.frame && sim.plan.fault[FAULT_KILL] &&
        rng_chance(&sim.rng, chance))
        kill_inside(sim.frame->host);
}

void sim_preempt_until(sim_ns until)
{
    if (sim.settling || sim.over || !sim.frame || depth_of(sim.frame) > NESTED_MOST)
        return;
    sim_trace("h%d a thread gets no CPU for %.6f s, as a lease ends", sim.frame->host->number,
              (double)(until - sim.now) / SIM_SEC);
    lose_cpu(until);
}
