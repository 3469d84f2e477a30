#include "tests/sim/faults.h"

#include <string.h>

#include "tests/sim/addresses.h"
#include "tests/sim/changes.h"
#include "tests/sim/host.h"
#include "tests/sim/procs.h"
#include "tests/sim/remedies.h"
#include "tests/sim/rollbacks.h"
#include "tests/sim/storms.h"
#include "tests/sim/wander.h"
#include "tests/sim/watches.h"
#include "tests/sim/vnode.h"
#include "tests/sim/wide.h"

const char *const sim_fault_names[FAULTS] = {
    [FAULT_PAUSE] = "pause",         [FAULT_STOP] = "stop",           [FAULT_KILL] = "kill",
    [FAULT_UPGRADE] = "upgrade",     [FAULT_TABLE] = "table",         [FAULT_REBOOT] = "reboot",
    [FAULT_NODE_STOP] = "node-stop", [FAULT_RESTART] = "restart",     [FAULT_FLUSH] = "flush",
    [FAULT_STEP] = "step",           [FAULT_ERRORS] = "errors",       [FAULT_SCRIPTS] = "scripts",
    [FAULT_PARTITION] = "partition", [FAULT_BREAK] = "break",         [FAULT_SLOW] = "slow",
    [FAULT_PROC_KILL] = "proc-kill", [FAULT_PROC_STOP] = "proc-stop", [FAULT_WRAPPER] = "wrapper",
    [FAULT_SUSPEND] = "suspend",     [FAULT_STORM] = "storm",         [FAULT_STRAY] = "stray",
};

#define TIMED_MOST 40

struct timed_fault {
    struct sim_event event;
    enum sim_fault kind;
};

/* --- the plan --------------------------------------------------------------------------------- */

static const double likelihood[FAULTS] = {
    [FAULT_PAUSE] = 0.4,     [FAULT_STOP] = 0.3,      [FAULT_KILL] = 0.35,
    [FAULT_UPGRADE] = 0.2,   [FAULT_TABLE] = 0.15,    [FAULT_REBOOT] = 0.1,
    [FAULT_NODE_STOP] = 0.3, [FAULT_RESTART] = 0.35,  [FAULT_FLUSH] = 0.15,
    [FAULT_STEP] = 0.15,     [FAULT_ERRORS] = 0.2,    [FAULT_SCRIPTS] = 0.1,
    [FAULT_PARTITION] = 0.4, [FAULT_BREAK] = 0.4,     [FAULT_SLOW] = 0.3,
    [FAULT_PROC_KILL] = 0.3, [FAULT_PROC_STOP] = 0.2, [FAULT_WRAPPER] = 0.3,
    [FAULT_SUSPEND] = 0.2,   [FAULT_STORM] = 0.35,    [FAULT_STRAY] = 0.25,
};

/* Faults of nodes and of the way to them alone. */
static bool is_nodes(enum sim_fault kind)
{
    switch (kind) {
    case FAULT_NODE_STOP:
    case FAULT_RESTART:
    case FAULT_FLUSH:
    case FAULT_STEP:
    case FAULT_ERRORS:
    case FAULT_SCRIPTS:
    case FAULT_PARTITION:
    case FAULT_BREAK:
    case FAULT_SLOW:
    case FAULT_STRAY:
        return true;
    default:
        return false;
    }
}

static bool is_harmless(enum sim_fault kind)
{
    return kind == FAULT_PROC_KILL || kind == FAULT_PROC_STOP || kind == FAULT_WRAPPER;
}

void plan_draw(void)
{
    struct sim_plan *p = &sim.plan;
    int faulty;

    memset(p, 0, sizeof(*p));
    p->hosts = rng_chance(&sim.rng, 0.7) ? 2 : rng_chance(&sim.rng, 0.5) ? 3 : 1;
    p->nodes = rng_chance(&sim.rng, 0.75) ? 3 : 5;
    p->nodes = wide_nodes(p->nodes);
    p->quorum = p->nodes / 2 + 1;
    p->resources = rng_chance(&sim.rng, 0.6) ? 1 : (int)rng_between(&sim.rng, 2, SIM_RESOURCES);
    p->procs = (int)rng_between(&sim.rng, 1, 3);
    p->ttl_max_ms = (uint32_t)rng_between(&sim.rng, 500, 2500);
    p->ttl_ms = p->ttl_max_ms;
    if (rng_chance(&sim.rng, 0.3))
        p->ttl_ms = (uint32_t)rng_between(&sim.rng, 500, p->ttl_max_ms);
    p->young = rng_chance(&sim.rng, 0.08);
    p->tolerant = rng_chance(&sim.rng, 0.12) && p->nodes > p->quorum;
    p->flushes = !p->tolerant && rng_chance(&sim.rng, 0.03);
    p->delay_low = rng_log(&sim.rng, 20 * SIM_US, 2 * SIM_MS);
    p->delay_high = p->delay_low + rng_log(&sim.rng, 20 * SIM_US, 4 * SIM_MS);
    p->faults_until = rng_between(&sim.rng, 2 * SIM_SEC, 5 * SIM_SEC);
    p->fault_count = (int)rng_below(&sim.rng, 12);
    p->preempt_every = rng_log(&sim.rng, 60, 4000);
    faulty = p->tolerant ? p->nodes - p->quorum : p->nodes;
    while (__builtin_popcount(p->faulty_nodes) < faulty)
        p->faulty_nodes |= 1u << rng_below(&sim.rng, p->nodes);
    for (int i = 0; i < FAULTS; i++) {
        bool on = rng_chance(&sim.rng, likelihood[i]);

        p->fault[i] =
            on && (!p->tolerant || is_nodes((enum sim_fault)i) || is_harmless((enum sim_fault)i));
        if (p->flushes)
            p->fault[i] = i == FAULT_FLUSH || i == FAULT_SCRIPTS;
    }
    /* A majority that forgets is found by the next renewal, and counts again once it is of age: what lasts so
     * long before it is losing is kept (docs/SAFETY.md). */
    if (p->flushes)
        p->ttl_ms = p->ttl_max_ms = (uint32_t)(2000 + p->ttl_max_ms);
    /* An agent that forgets what it knew of the clocks (with its memory, or because it held
     * nothing when it ended) has not been watching: nothing is promised then. */
    p->storm_steps = p->fault[FAULT_STORM] && rng_chance(&sim.rng, 0.4);
    if ((p->fault[FAULT_STEP] || p->storm_steps) && !wide_has(WIDE_STEPS))
        p->fault[FAULT_REBOOT] = p->fault[FAULT_UPGRADE] = false;
    p->amnesia = p->fault[FAULT_RESTART] || p->fault[FAULT_FLUSH] || p->fault[FAULT_STEP] ||
                 p->fault[FAULT_STORM];
    wide_plan();
}

/* --- single faults ---------------------------------------------------------------------------- */

static sim_ns span(int64_t high_ms)
{
    return rng_log(&sim.rng, 5 * SIM_MS, high_ms * SIM_MS);
}

static struct vnode *some_node(void)
{
    struct vnode *servers[SIM_SERVERS];

    if (wide_has(WIDE_CHANGES))
        return servers[rng_below(&sim.rng, changes_servers(servers))];
    for (;;) {
        int i = (int)rng_below(&sim.rng, sim.plan.nodes);

        if (sim.plan.faulty_nodes >> i & 1)
            return sim.node[i];
    }
}

static struct sim_host *some_host(void)
{
    return sim.host[rng_below(&sim.rng, sim.plan.hosts)];
}

static struct sim_proc *some_proc(void)
{
    return procs[rng_below(&sim.rng, proc_count)];
}

static void stop_agent(struct sim_host *host)
{
    sim_ns until = sim.now + span(3 * (int64_t)sim.plan.ttl_max_ms);

    if (host->phase != HOST_ON)
        return;
    sim_trace("h%d agent is stopped for %.3f s", host->number, (double)(until - sim.now) / SIM_SEC);
    if (host->stopped_until < until)
        host->stopped_until = until;
}

static void partition(void)
{
    bool all = rng_chance(&sim.rng, 0.3); /* of the host, or of the node, from everybody */
    const struct sim_host *host = some_host();
    const struct vnode *node = some_node();
    int directions = (int)rng_between(&sim.rng, 1, 3);
    sim_ns until = sim.now + span(3 * (int64_t)sim.plan.ttl_max_ms);

    for (int h = 0; h < sim.plan.hosts; h++)
        for (int n = 0; n < vnodes_struck(); n++) {
            bool hit = all && !sim.plan.tolerant ? h == host->number : n == node->number;
            struct net_path *path;

            if (!hit || (!all && h != host->number))
                continue;
            path = net_path(sim.host[h], sim.node[n]);
            sim_trace("h%d - n%d is cut (%d) for %.3f s", h, n, directions,
                      (double)(until - sim.now) / SIM_SEC);
            for (int d = 0; d < 2; d++)
                if (directions >> d & 1 && path->blocked_until[d] < until)
                    path->blocked_until[d] = until;
        }
}

static void break_some(void)
{
    const struct vnode *node = some_node();
    bool told = rng_chance(&sim.rng, 0.8);

    sim_trace("connections to n%d break%s", node->number, told ? "" : ", and nobody is told");
    for (struct sim_connection *c = connections_first(); c; c = c->next)
        if (c->node == node && rng_chance(&sim.rng, 0.6))
            connection_break(c, told);
    watches_break(node, told);
}

static void slow_down(void)
{
    const struct vnode *node = some_node();
    sim_ns until = sim.now + span(2 * (int64_t)sim.plan.ttl_max_ms);
    sim_ns by = rng_log(&sim.rng, SIM_MS, 400 * SIM_MS);

    sim_trace("n%d is slow (%.3f s) for %.3f s", node->number, (double)by / SIM_SEC,
              (double)(until - sim.now) / SIM_SEC);
    for (int h = 0; h < sim.plan.hosts; h++) {
        struct net_path *path = net_path(sim.host[h], node);

        path->slow_until = until;
        path->slow_by = by;
    }
}

/* Only while every agent watches the node: up, running, and in touch with it. Nobody promises
 * anything of steps that no agent saw. */
static void step_clock(void)
{
    struct vnode *node = some_node();
    int64_t us = rng_log(&sim.rng, 1000, 5000000);

    if (!node->running || sim.now < node->stopped_until)
        return;
    for (int h = 0; h < sim.plan.hosts; h++) {
        struct sim_host *host = sim.host[h];

        if (!host->broker || !host_watches(host, node->number))
            return;
    }
    vnode_step(node, rng_chance(&sim.rng, 0.5) ? us : -us);
}

static void fail(void)
{
    static const char *const errors[] = {
        "LOADING Redis is loading the dataset in memory",
        "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
        "MISCONF Redis is configured to save RDB snapshots",
        "OOM command not allowed when used memory > 'maxmemory'.",
        "READONLY You can't write against a read only replica.",
    };
    struct vnode *node = some_node();
    const char *error = errors[rng_below(&sim.rng, (int64_t)HF_LENGTH(errors))];

    sim_trace("n%d answers %s", node->number, error);
    vnode_fail(node, error, sim.now + span(2 * (int64_t)sim.plan.ttl_max_ms));
}

static void kill_agent(struct sim_host *host)
{
    if (host->phase == HOST_OFF)
        return;
    host_kill(host);
    if (sim.plan.fault[FAULT_TABLE] && rng_chance(&sim.rng, 0.4)) {
        sim_trace("h%d its table is removed", host->number);
        host_lose_table(host);
    }
    host_start_later(host, span(2 * (int64_t)sim.plan.ttl_max_ms));
}

static void wrapper(void)
{
    struct sim_proc *p = some_proc();
    int which = (int)rng_below(&sim.rng, 2);

    if (rng_chance(&sim.rng, 0.2))
        proc_group_kill(p, (int)rng_below(&sim.rng, SIM_GROUPS));
    else if (rng_chance(&sim.rng, 0.3))
        proc_guardian_kill(p, which);
    else
        proc_guardian_stop(p, which, sim.now + span(3 * (int64_t)sim.plan.ttl_max_ms));
}

static void strike(enum sim_fault kind)
{
    struct vnode *node = some_node();
    struct sim_host *host = some_host();

    switch (kind) {
    case FAULT_STOP:
        stop_agent(host);
        break;
    case FAULT_KILL:
        kill_agent(host);
        break;
    case FAULT_UPGRADE:
        host_upgrade(host, span(sim.plan.ttl_max_ms));
        break;
    case FAULT_REBOOT:
        host_reboot(host);
        host_start_later(host, span(sim.plan.ttl_max_ms));
        break;
    case FAULT_NODE_STOP:
        sim_trace("n%d is stopped", node->number);
        vnode_stop(node, sim.now + span(3 * (int64_t)sim.plan.ttl_max_ms));
        break;
    case FAULT_RESTART:
        vnode_kill(node, sim.now + span(2 * (int64_t)sim.plan.ttl_max_ms),
                   rng_chance(&sim.rng, 0.3));
        break;
    case FAULT_FLUSH:
        if (node->running)
            vnode_flush(node);
        break;
    case FAULT_STEP:
        step_clock();
        break;
    case FAULT_ERRORS:
        fail();
        break;
    case FAULT_SCRIPTS:
        sim_trace("n%d SCRIPT FLUSH", node->number);
        node->scripts = 0;
        break;
    case FAULT_PARTITION:
        partition();
        break;
    case FAULT_BREAK:
        break_some();
        break;
    case FAULT_SLOW:
        slow_down();
        break;
    case FAULT_PROC_KILL:
        proc_kill(some_proc());
        break;
    case FAULT_PROC_STOP:
        proc_stop(some_proc(), sim.now + span(3 * (int64_t)sim.plan.ttl_max_ms));
        break;
    case FAULT_WRAPPER:
        wrapper();
        break;
    case FAULT_SUSPEND:
        host_suspend(host, sim.now + span(3 * (int64_t)sim.plan.ttl_max_ms));
        break;
    case FAULT_STORM:
        storm_begin();
        break;
    case FAULT_PAUSE: /* anywhere: sim_preempt() */
    case FAULT_STRAY: /* as it is sent: fake_hiredis.c */
    case FAULT_TABLE: /* with kills */
    case FAULTS:
        break;
    }
}

static void on_timed(struct sim_event *event)
{
    strike(HF_CONTAINER(event, struct timed_fault, event)->kind);
}

void faults_begin(void)
{
    enum sim_fault kinds[FAULTS];
    int count = 0;

    for (int i = 0; i < FAULTS; i++)
        if (sim.plan.fault[i] && i != FAULT_PAUSE && i != FAULT_TABLE && i != FAULT_STRAY)
            kinds[count++] = (enum sim_fault)i;
    for (int i = 0; count && i < sim.plan.fault_count; i++) {
        struct timed_fault *f = sim_alloc(sizeof(*f));

        f->event.fn = on_timed;
        f->kind = kinds[rng_below(&sim.rng, count)];
        sim_at(&f->event, rng_between(&sim.rng, wide_has(WIDE_FOUNDING) ? 0 : 300 * SIM_MS,
                                      sim.plan.faults_until));
    }
}

void faults_end(void)
{
    sim_trace("the faults are over");
    net_reset();
    connections_hurry();
    rollbacks_end();
    addresses_end();
    changes_end();
    wander_end();
    remedies_settle();
    for (int i = 0; i < vnodes_struck(); i++) {
        struct vnode *node = sim.node[i];

        node->error = NULL;
        if (node->dead) {
            continue;
        } else if (!node->running) {
            sim_at(&node->start, sim.now);
        } else if (sim.now < node->stopped_until) {
            node->stopped_until = sim.now;
            sim_at(&node->resume, sim.now);
        }
    }
    for (int i = 0; i < sim.plan.hosts; i++) {
        struct sim_host *host = sim.host[i];

        host_continue(host);
        if (host->phase == HOST_OFF)
            host_start_later(host, 0);
    }
}
