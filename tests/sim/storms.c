#include "tests/sim/storms.h"

#include "tests/sim/changes.h"
#include "tests/sim/checks.h"
#include "tests/sim/host.h"
#include "tests/sim/procs.h"
#include "tests/sim/vnode.h"

struct blow { /* one node's part in it */
    struct sim_event event;
    struct vnode *node;
};

static sim_ns ttl(int64_t num, int64_t den)
{
    return (sim_ns)sim.plan.ttl_max_ms * SIM_MS * num / den;
}

/* Contenders must have been watching: what they see of the step makes it harmless. The lease's own
 * host may be away. */
static bool is_watched(const struct vnode *node, const struct sim_host *away)
{
    for (int h = 0; h < sim.plan.hosts; h++)
        if (sim.host[h] != away &&
            (!sim.host[h]->broker || !host_watches(sim.host[h], node->number)))
            return false;
    return true;
}

static void step(struct vnode *node)
{
    int64_t us = rng_log(&sim.rng, 50000, 5000000);

    vnode_step(node, rng_chance(&sim.rng, 0.8) ? us : -us);
}

static void on_blow(struct sim_event *event)
{
    struct blow *blow = HF_CONTAINER(event, struct blow, event);
    struct vnode *node = blow->node;
    const struct claim *claim = checks_some_valid();
    bool steps = sim.plan.storm_steps && is_watched(node, claim ? claim->host : NULL);
    sim_ns back = sim.now + rng_log(&sim.rng, SIM_MS, 300 * SIM_MS);

    if (!node->running || sim.settling)
        return;
    switch (rng_below(&sim.rng, steps ? 5 : 3)) {
    case 0:
        vnode_flush(node);
        break;
    case 1:
        vnode_flush(node);
        vnode_kill(node, back, false);
        break;
    case 2:
        vnode_kill(node, back, false);
        break;
    case 3:
        step(node);
        break;
    case 4:
        vnode_kill(node, back, false);
        step(node);
        break;
    }
}

void storm_begin(void)
{
    const struct claim *claim = checks_some_valid();
    struct sim_host *host, *other;
    sim_ns until;
    struct vnode *servers[SIM_SERVERS];
    int hit, all = changes_servers(servers);

    if (!claim)
        return;
    host = claim->host;
    until = sim.now + rng_between(&sim.rng, ttl(1, 8), ttl(3, 2));
    sim_trace("a storm around the lease of r%d on h%d", claim->resource, host->number);
    host_put_away(host, until, &sim.rng);
    /* All of them, or as many as others need. */
    hit = rng_chance(&sim.rng, 0.5) ? all : all / 2 + 1;
    for (int n = 0, first = (int)rng_below(&sim.rng, all); n < hit; n++) {
        struct blow *blow = sim_alloc(sizeof(*blow));

        blow->event.fn = on_blow;
        blow->node = servers[(first + n) % all];
        sim_at(&blow->event, sim.now + rng_below(&sim.rng, ttl(1, 6)));
    }
    other = sim.host[rng_below(&sim.rng, sim.plan.hosts)];
    if (other != host && !sim.plan.storm_steps && rng_chance(&sim.rng, 0.3)) {
        /* One that has never seen these nodes. */
        host_reboot(other);
        host_start_later(other, rng_below(&sim.rng, ttl(1, 3)));
    }
}
