#include "tests/sim/foundings.h"

#include "tests/sim/host.h"
#include "tests/sim/vnode.h"
#include "tests/sim/wide.h"

#define TIMES_MOST 6

static struct sim_rng *rng;
static bool forgets; /* nodes do, meanwhile */

static void cut(const struct sim_host *host, const struct vnode *node, sim_ns until)
{
    struct net_path *path = net_path(host, node);
    int directions = (int)rng_between(rng, 1, 3);

    sim_trace("h%d - n%d is cut (%d) for %.3f s", host->number, node->number, directions,
              (double)(until - sim.now) / SIM_SEC);
    for (int d = 0; d < 2; d++)
        if (directions >> d & 1 && path->blocked_until[d] < until)
            path->blocked_until[d] = until;
}

static void on_blow(struct sim_event *event)
{
    struct sim_host *host = sim.host[rng_below(rng, sim.plan.hosts)];
    struct vnode *node = sim.node[rng_below(rng, sim.plan.nodes)];
    sim_ns until = sim.now + rng_log(rng, SIM_MS, 2 * SIM_SEC);

    (void)event;
    if (sim.settling)
        return;
    switch (rng_below(rng, forgets ? 7 : 5)) {
    case 0:
        host_kill(host);
        host_start_later(host, until - sim.now);
        break;
    case 1:
        host_suspend(host, until);
        break;
    case 2:
    case 3:
        cut(host, node, until);
        break;
    case 4:
        sim_trace("n%d is stopped", node->number);
        vnode_stop(node, until);
        break;
    case 5:
        if (node->running)
            vnode_flush(node);
        break;
    case 6:
        vnode_kill(node, until, false);
        break;
    }
}

/* They see the same, and propose it at the same time. */
static void start_together(void)
{
    sim_ns at = rng_below(rng, 100 * SIM_MS), within = rng_log(rng, 20 * SIM_US, 5 * SIM_MS);

    for (int i = 0; i < sim.plan.hosts; i++)
        host_start_later(sim.host[i], at + rng_below(rng, within));
}

void foundings_plan(void)
{
    struct sim_plan *p = &sim.plan;

    rng = wide_rng(WIDE_FOUNDING);
    p->young = rng_chance(rng, 0.5);
    p->tolerant = p->flushes = false;
    forgets = rng_chance(rng, 0.5);
    p->amnesia |= forgets;
}

void foundings_begin(void)
{
    int times = (int)rng_below(rng, TIMES_MOST + 1);

    if (rng_chance(rng, 0.7))
        start_together();
    for (int i = 0; i < times; i++) {
        struct sim_event *event = sim_alloc(sizeof(*event));

        event->fn = on_blow;
        sim_at(event, rng_below(rng, 600 * SIM_MS));
    }
}
