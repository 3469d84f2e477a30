#include "tests/sim/hot.h"

#include <string.h>

#include "tests/sim/host.h"
#include "tests/sim/procs.h"
#include "tests/sim/vnode.h"
#include "tests/sim/wide.h"

#define BEGINS (350 * SIM_MS) /* links are up */
#define LASTS  (650 * SIM_MS)

static struct sim_event amnesia;

void hot_plan(void)
{
    struct sim_plan *p = &sim.plan;

    p->hosts = 2;
    p->procs = p->resources = 1;
    p->ttl_max_ms = p->ttl_ms = 500;
    p->young = p->tolerant = p->flushes = p->storm_steps = false;
    p->amnesia = true;
    memset(p->fault, 0, sizeof(p->fault));
    p->delay_low = 20 * SIM_US;
    p->delay_high = 30 * SIM_US;
    p->faults_until = BEGINS + LASTS + 100 * SIM_MS;
}

static void on_amnesia(struct sim_event *event)
{
    struct sim_rng *rng = wide_rng(WIDE_HOT);
    int hit = rng_chance(rng, 0.5) ? sim.plan.nodes : sim.plan.quorum;
    int first = (int)rng_below(rng, sim.plan.nodes);

    (void)event;
    for (int n = 0; n < hit; n++)
        vnode_flush(sim.node[(first + n) % sim.plan.nodes]);
    if (rng_chance(rng, 0.5)) {
        host_reboot(sim.host[0]); /* the only one that knows better */
        host_start_later(sim.host[0], SIM_MS);
    }
}

void hot_begin(void)
{
    amnesia = (struct sim_event){.fn = on_amnesia};
    sim_at(&amnesia, BEGINS + LASTS);
}

bool hot_hurries(const struct sim_proc *p)
{
    return wide_has(WIDE_HOT) && p->number == 0 && sim.now < BEGINS + LASTS;
}

sim_ns hot_waits(const struct sim_proc *p)
{
    if (!wide_has(WIDE_HOT) || sim.settling)
        return 0;
    if (p->number == 0)
        return sim.now < BEGINS ? BEGINS : 0;
    return sim.now < BEGINS + LASTS ? BEGINS + LASTS + SIM_MS : 0;
}
