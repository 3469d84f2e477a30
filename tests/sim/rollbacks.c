#include "tests/sim/rollbacks.h"

#include <string.h>

#include "tests/sim/checks.h"
#include "tests/sim/host.h"
#include "tests/sim/procs.h"
#include "tests/sim/vnode.h"
#include "tests/sim/wide.h"

#define SNAPSHOTS 8 /* of each node: the newest */

struct snapshots {
    struct sim_event event;
    struct vnode *node;
    struct store store[SNAPSHOTS];
    sim_ns at[SNAPSHOTS];
    int count; /* ever taken */
};

struct blow { /* one node's part */
    struct sim_event event;
    struct vnode *node;
    sim_ns before; /* the data is of before that, if there is any */
};

static struct snapshots *snapshots[SIM_NODES];
static struct sim_rng *rng;

static sim_ns ttl(int64_t num, int64_t den)
{
    return (sim_ns)sim.plan.ttl_max_ms * SIM_MS * num / den;
}

static void on_snapshot(struct sim_event *event)
{
    struct snapshots *s = HF_CONTAINER(event, struct snapshots, event);

    if (s->node->running) {
        s->store[s->count % SNAPSHOTS] = s->node->store;
        s->at[s->count % SNAPSHOTS] = sim.now;
        s->count++;
    }
    if (!sim.settling)
        sim_at(event, sim.now + rng_between(rng, 20 * SIM_MS, ttl(1, 4)));
}

/* The newest of before then, or the oldest. NULL: none was taken. */
static const struct store *snapshot_of(int node, sim_ns before)
{
    const struct snapshots *s = snapshots[node];
    int i = s->count - 1, last = s->count > SNAPSHOTS ? s->count - SNAPSHOTS : 0;

    if (s->count == 0)
        return NULL;
    while (i > last && s->at[i % SNAPSHOTS] >= before)
        i--;
    return &s->store[i % SNAPSHOTS];
}

static void on_blow(struct sim_event *event)
{
    struct blow *blow = HF_CONTAINER(event, struct blow, event);
    struct vnode *node = blow->node;
    /* A clone is of the same fleet, and has the sentinel of the node that it was. */
    bool clone = rng_chance(rng, 0.1);
    const struct store *store =
        snapshot_of(clone ? (int)rng_below(rng, sim.plan.nodes) : node->number, blow->before);
    bool promoted = !node->proxied && !clone && rng_chance(rng, 0.3);

    if (!node->running || sim.settling || !store)
        return;
    vnode_replace(node, store, promoted, sim.now + rng_log(rng, SIM_MS, 300 * SIM_MS));
    if (rng_chance(rng, 0.3))
        node->next_wall_us = rng_between(rng, -200000, 200000); /* another machine's */
}

/* Around a lease: a quorum of nodes goes back to before it. */
static void on_storm(struct sim_event *event)
{
    const struct claim *claim = checks_some_valid();
    struct sim_host *other;
    int hit, first;

    (void)event;
    if (!claim || sim.settling)
        return;
    sim_trace("nodes go back to before the lease of r%d on h%d", claim->resource,
              claim->host->number);
    hit = rng_chance(rng, 0.5) ? sim.plan.nodes : sim.plan.quorum;
    first = (int)rng_below(rng, sim.plan.nodes);
    for (int n = 0; n < hit; n++) {
        struct blow *blow = sim_alloc(sizeof(*blow));

        blow->event.fn = on_blow;
        blow->node = sim.node[(first + n) % sim.plan.nodes];
        blow->before = claim->token_at;
        sim_at(&blow->event, sim.now + rng_below(rng, ttl(1, 6)));
    }
    if (rng_chance(rng, 0.7))
        host_cut_off(claim->host, sim.now + rng_between(rng, ttl(1, 8), ttl(3, 2)));
    other = sim.host[rng_below(rng, sim.plan.hosts)];
    if (other != claim->host && rng_chance(rng, 0.3)) {
        /* One that has never seen these nodes. */
        host_reboot(other);
        host_start_later(other, rng_below(rng, ttl(1, 3)));
    }
}

/* Any node, to any time. */
static void on_single(struct sim_event *event)
{
    struct blow *blow = sim_alloc(sizeof(*blow));

    (void)event;
    if (sim.settling)
        return;
    blow->event.fn = on_blow;
    blow->node = sim.node[rng_below(rng, sim.plan.nodes)];
    blow->before = sim.now - rng_log(rng, SIM_MS, 2 * SIM_SEC);
    sim_at(&blow->event, sim.now);
}

void rollbacks_begin(void)
{
    int singles, storms;

    rng = wide_rng(wide_has(WIDE_ROLLBACK) ? WIDE_ROLLBACK : WIDE_PROXY);
    for (int i = 0; i < sim.plan.nodes; i++) {
        snapshots[i] = sim_alloc(sizeof(*snapshots[i]));
        snapshots[i]->event.fn = on_snapshot;
        snapshots[i]->node = sim.node[i];
        sim_at(&snapshots[i]->event, rng_below(rng, 300 * SIM_MS));
        if (wide_has(WIDE_PROXY) && rng_chance(wide_rng(WIDE_PROXY), 0.7))
            sim.node[i]->proxied = true;
    }
    if (rng_chance(rng, 0.7))
        for (int i = 0; i < sim.plan.nodes; i++)
            sim.node[i]->durability = KEEPS_ALL; /* as it says */
    singles = (int)rng_between(rng, 0, 3);
    storms = (int)rng_between(rng, 1, 3);
    for (int i = 0; i < singles + storms; i++) {
        struct sim_event *event = sim_alloc(sizeof(*event));

        event->fn = i < singles ? on_single : on_storm;
        sim_at(event, rng_between(rng, 300 * SIM_MS, sim.plan.faults_until));
    }
}

void rollbacks_end(void)
{
    for (int i = 0; i < sim.plan.nodes; i++) {
        sim.node[i]->next_promoted = false; /* of one that is still to come */
        if (sim.node[i]->promoted) {
            sim.node[i]->promoted = false;
            sim.node[i]->durability = KEEPS_NOTHING;
            vnode_kill(sim.node[i], sim.now, false);
        }
    }
}
