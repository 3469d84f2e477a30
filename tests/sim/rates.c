#include "tests/sim/rates.h"

#include "tests/sim/host.h"
#include "tests/sim/procs.h"
#include "tests/sim/vnode.h"
#include "tests/sim/wide.h"

static struct sim_event change;
static struct sim_rng *rng;

static void set_rate(struct sim_clock *clock, int64_t ppb)
{
    int64_t shows = clock_at(clock, sim.now);

    clock->ppb = ppb;
    clock->base_ns += shows - clock_at(clock, sim.now);
}

static void on_change(struct sim_event *event)
{
    int which = (int)rng_below(rng, sim.plan.hosts + vnodes_struck());
    int64_t ppb = rng_between(rng, -SIM_RATE_MOST, SIM_RATE_MOST);

    if (rng_chance(rng, 0.3))
        ppb = ppb < 0 ? -SIM_RATE_MOST : SIM_RATE_MOST;
    if (which < sim.plan.hosts) {
        struct sim_host *host = sim.host[which];

        set_rate(&host->boot, ppb);
        /* Timers are the clock's: whoever sleeps on one is to look when it is due by now. */
        for (int i = 0; i < host->loops; i++)
            loop_resume(host->loop[i]);
        procs_rate_changed(host);
    } else {
        set_rate(&sim.node[which - sim.plan.hosts]->clock, ppb);
    }
    sim_at(event, sim.now + rng_log(rng, 20 * SIM_MS, SIM_SEC));
}

void rates_begin(void)
{
    rng = wide_rng(WIDE_RATES);
    change = (struct sim_event){.fn = on_change};
    sim_at(&change, rng_log(rng, 20 * SIM_MS, SIM_SEC));
}
