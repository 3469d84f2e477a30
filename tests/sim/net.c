/* How long things travel. */
#include <string.h>

#include "tests/sim/fake_hiredis.h"
#include "tests/sim/vnode.h"

static struct net_path paths[SIM_HOSTS][SIM_SERVERS];

void net_reset(void)
{
    memset(paths, 0, sizeof(paths));
}

struct net_path *net_path(const struct sim_host *host, const struct vnode *node)
{
    return &paths[host->number][node->number];
}

sim_ns net_arrival(const struct sim_host *host, const struct vnode *node,
                   enum net_direction direction)
{
    const struct net_path *path = net_path(host, node);
    sim_ns at = sim.now + rng_between(&sim.rng, sim.plan.delay_low, sim.plan.delay_high);

    at += sim.plan.far[host->number][direction];
    if (sim.now < path->slow_until)
        at += rng_below(&sim.rng, path->slow_by);
    if (at < path->blocked_until[direction])
        at = path->blocked_until[direction] + rng_below(&sim.rng, 20 * SIM_MS);
    return at;
}
