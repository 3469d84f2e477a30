#include "tests/sim/sleepers.h"

#include <string.h>

#include "agent/broker/nodes/nodes.h"
#include "agent/broker/rooms.h"
#include "agent/core/fleet.h"
#include "tests/sim/changes.h"
#include "tests/sim/host.h"
#include "tests/sim/sim.h"
#include "tests/sim/vnode.h"

#define SHARE  0.25 /* of the other schedules with changes and more than one host */
#define LOOK   (20 * SIM_MS)
#define AWHILE (20 * SIM_SEC) /* until it is woken */

static struct sim_rng numbers, *const rng = &numbers;
static struct sim_event look;
static struct sim_host *sleeper; /* NULL: nobody sleeps */
static uint64_t version;         /* that it goes by */
static struct store earlier[SIM_SERVERS];
static bool has_earlier[SIM_SERVERS], went_back[SIM_SERVERS];

static const struct fleet *view(const struct sim_host *host)
{
    const struct fleet *f = host->broker ? &host->broker->nodes->fleet_view : NULL;

    return f && f->known && !f->leaving ? f : NULL;
}

static void fall_asleep(struct sim_host *host)
{
    struct vnode *servers[SIM_SERVERS];
    int count = changes_servers(servers);

    sleeper = host;
    version = view(host)->record.version;
    memset(has_earlier, 0, sizeof(has_earlier));
    for (int i = 0; i < count; i++) {
        earlier[servers[i]->number] = servers[i]->store;
        has_earlier[servers[i]->number] = servers[i]->running;
    }
    sim_trace("h%d falls asleep with version %d", host->number, (int)version);
    host->stopped_until = sim.now + AWHILE;
}

/* Fewer than a majority of the list, or more: then no lease of before is left but by its time. */
static void go_back(void)
{
    struct vnode *servers[SIM_SERVERS];
    int count = changes_servers(servers), most = (int)rng_between(rng, 1, count);

    memset(went_back, 0, sizeof(went_back));
    int first = (int)rng_below(rng, (uint64_t)count);

    for (int k = 0; k < most; k++) {
        struct vnode *node = servers[(first + k) % count];

        if (!has_earlier[node->number] || !node->running)
            continue;
        went_back[node->number] = true;
        vnode_replace(node, &earlier[node->number], false,
                      sim.now + rng_log(rng, SIM_MS, 100 * SIM_MS));
    }
}

/* Others who know what came since do not reach who went back, or are gone. */
static void keep_off(const struct sim_host *host)
{
    sim_ns until = sim.now + rng_between(rng, SIM_SEC, 6 * SIM_SEC);

    for (int n = 0; n < sim.servers; n++)
        for (int d = 0; went_back[n] && d < 2; d++)
            net_path(host, sim.node[n])->blocked_until[d] = until;
}

static void wake(void)
{
    sim_trace("h%d wakes", sleeper->number);
    for (int i = 0; !sim.settling && i < sim.plan.hosts; i++)
        if (sim.host[i] == sleeper)
            continue;
        else if (rng_chance(rng, 0.6))
            keep_off(sim.host[i]);
        else if (rng_chance(rng, 0.6))
            host_put_away(sim.host[i], sim.now + rng_between(rng, SIM_SEC, 4 * SIM_SEC), rng);
    host_continue(sleeper);
    sleeper = NULL;
}

/* All others know what came meanwhile, and count by it. */
static bool others_have_settled(const struct fleet_record *latest)
{
    for (int i = 0; i < sim.plan.hosts; i++) {
        const struct fleet *f = view(sim.host[i]);

        if (sim.host[i] != sleeper &&
            (!f || f->record.version != latest->version || f->settles.ns != HF_TIME_PAST.ns))
            return false;
    }
    return true;
}

static void on_look(struct sim_event *event)
{
    const struct fleet_record *latest = changes_latest();
    struct sim_host *host = sim.host[rng_below(rng, sim.plan.hosts)];
    const struct fleet *f = view(host);

    if (sim.settling) {
        if (sleeper)
            wake();
        return;
    }
    sim_at(event, sim.now + rng_below(rng, 2 * LOOK));
    if (!sleeper && f && host->phase == HOST_ON && f->record.state == FLEET_COMPLETE &&
        rng_chance(rng, 0.1))
        fall_asleep(host);
    else if (sleeper && latest && latest->version > version && others_have_settled(latest) &&
             rng_chance(rng, 0.2)) {
        go_back();
        wake();
    }
}

void sleepers_plan(void)
{
    struct sim_plan *p = &sim.plan;

    numbers = (struct sim_rng){sim.seed * UINT64_C(0x9fb21c651e98df25) + 29};
    p->sleepers = !p->gentle && !p->lies && p->hosts > 1 && rng_chance(rng, SHARE);
    if (!p->sleepers)
        return;
    memset(p->fault, 0, sizeof(p->fault));
    p->faults_until += 2 * (p->ttl_max_ms * SIM_MS * 102 / 100 + SIM_SEC);
}

void sleepers_begin(void)
{
    sleeper = NULL;
    look = (struct sim_event){.fn = on_look};
    if (sim.plan.sleepers)
        sim_at(&look, 300 * SIM_MS);
}
