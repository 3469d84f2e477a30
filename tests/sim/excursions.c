#include "tests/sim/excursions.h"

#include "tests/sim/checks.h"
#include "tests/sim/host.h"
#include "tests/sim/vnode.h"
#include "tests/sim/wide.h"

struct excursion {
    struct sim_event event;
    struct vnode *node;
    int64_t us;
    double share; /* of the keys whose time is over that the node finds meanwhile */
};

static struct sim_rng *rng;

static sim_ns ttl(int64_t num, int64_t den)
{
    return (sim_ns)sim.plan.ttl_max_ms * SIM_MS * num / den;
}

/* Ahead and back within one moment of the schedule: no command runs meanwhile. */
static void on_excursion(struct sim_event *event)
{
    struct excursion *e = HF_CONTAINER(event, struct excursion, event);

    if (e->node->running && sim.now >= e->node->stopped_until && !sim.settling)
        vnode_excursion(e->node, e->us, e->share, rng);
}

static void excursion_at(struct vnode *node, sim_ns at, int64_t us, double share)
{
    struct excursion *e = sim_alloc(sizeof(*e));

    e->event.fn = on_excursion;
    e->node = node;
    e->us = us;
    e->share = share;
    sim_at(&e->event, at);
}

/* Around a lease: on a quorum of nodes keys end, and its host is away. */
static void on_storm(struct sim_event *event)
{
    const struct claim *claim = checks_some_valid();
    int hit = rng_chance(rng, 0.5) ? sim.plan.nodes : sim.plan.quorum;
    int first = (int)rng_below(rng, sim.plan.nodes);
    int64_t us = rng_log(rng, 10000, 60000000);
    double share = rng_chance(rng, 0.5) ? 1 : 0.5;

    (void)event;
    if (!claim || sim.settling)
        return;
    sim_trace("clocks are ahead for a moment around the lease of r%d on h%d", claim->resource,
              claim->host->number);
    for (int n = 0; n < hit; n++)
        excursion_at(sim.node[(first + n) % sim.plan.nodes], sim.now + rng_below(rng, ttl(1, 6)),
                     us, share);
    if (rng_chance(rng, 0.7))
        host_put_away(claim->host, sim.now + rng_between(rng, ttl(1, 8), ttl(3, 2)), rng);
}

static void on_single(struct sim_event *event)
{
    (void)event;
    excursion_at(sim.node[rng_below(rng, sim.plan.nodes)], sim.now, rng_log(rng, 10000, 60000000),
                 rng_chance(rng, 0.5) ? 1 : 0.5);
}

void excursions_begin(void)
{
    int singles, storms;

    rng = wide_rng(WIDE_EXCURSIONS);
    singles = (int)rng_between(rng, 0, 3);
    storms = (int)rng_between(rng, 1, 4);
    for (int i = 0; i < singles + storms; i++) {
        struct sim_event *event = sim_alloc(sizeof(*event));

        event->fn = i < singles ? on_single : on_storm;
        sim_at(event, rng_between(rng, 300 * SIM_MS, sim.plan.faults_until));
    }
}
