#include "tests/sim/moments.h"

#include <string.h>

#include "agent/broker/nodes/nodes.h"
#include "agent/broker/rooms.h"
#include "tests/sim/changes.h"
#include "tests/sim/host.h"
#include "tests/sim/vnode.h"

#define LOOK_EVERY SIM_MS

enum moment {
    MOMENT_PUT,      /* a node has it, and no agent goes by it */
    MOMENT_TOLD,     /* an agent goes by it, and has seen some nodes with it */
    MOMENT_ALL_TOLD, /* it has seen all of them, and asks again */
    MOMENT_COMPLETE, /* an agent goes by it as complete */
    MOMENT_NARROW,   /* some time later */
    MOMENT_SETTLED,
    MOMENTS
};
static const char *const names[MOMENTS] = {"put",      "told",   "told to all",
                                           "complete", "narrow", "settled"};

static struct sim_rng *rng;
static struct sim_event look;
static enum moment moment;
static uint64_t version;
static int told_least;
static bool strikes; /* with the next look */

static const struct fleet *view(const struct sim_host *host)
{
    const struct fleet *f = host->broker ? &host->broker->nodes->fleet_view : NULL;

    return f && f->known ? f : NULL;
}

static bool is_put(const struct fleet *f)
{
    const struct vnode *first;
    const char *digest;

    if (f->record.version + 1 != version)
        return false;
    first = vnode_of_seat(fleet_place(f, 0)->address);
    digest = vnode_field(first, "digest");
    return digest && strcmp(digest, f->digest) != 0;
}

static int count_told(const struct fleet *f, int *ret_wanted)
{
    int told = 0;

    *ret_wanted = 0;
    for (int i = 0; i < f->n; i++) {
        *ret_wanted += !fleet_place(f, i)->gone;
        told += !fleet_place(f, i)->gone && f->node[i].sighted.ns != HF_TIME_NEVER.ns;
    }
    return told;
}

static bool is_there(const struct fleet *f)
{
    bool complete = f->record.state == FLEET_COMPLETE;
    int wanted, told;

    if (moment == MOMENT_PUT)
        return is_put(f);
    if (f->record.version != version)
        return false;
    switch (moment) {
    case MOMENT_TOLD:
    case MOMENT_ALL_TOLD:
        told = count_told(f, &wanted);
        return !complete && (told == wanted || (moment == MOMENT_TOLD && told >= told_least));
    case MOMENT_SETTLED:
        return complete && f->settles.ns == HF_TIME_PAST.ns;
    default:
        return complete;
    }
}

static void strike(void)
{
    struct vnode *servers[SIM_SERVERS];
    int count = changes_servers(servers);
    /* The first one is where all meet. */
    struct vnode *node = servers[rng_chance(rng, 0.3) ? 0 : rng_below(rng, count)];
    struct sim_host *host = sim.host[rng_below(rng, sim.plan.hosts)];
    sim_ns until = sim.now + rng_log(rng, SIM_MS, 2 * SIM_SEC);

    sim_trace("the change to version %d is %s", (int)version, names[moment]);
    if (!node->running)
        return;
    switch (rng_below(rng, 8)) {
    case 0:
        vnode_stop(node, until);
        break;
    case 1:
        vnode_kill(node, until, rng_chance(rng, 0.5));
        break;
    case 2:
        host_kill(host);
        host_start_later(host, until - sim.now);
        break;
    default:
        vnode_flush(node);
    }
}

static void on_look(struct sim_event *event)
{
    if (sim.settling)
        return;
    if (strikes) {
        strikes = false;
        strike();
        return;
    }
    for (int h = 0; h < sim.plan.hosts; h++) {
        const struct fleet *f = view(sim.host[h]);

        if (!f || !is_there(f))
            continue;
        strikes = true;
        sim_at(event, sim.now + rng_log(rng, 10 * SIM_US,
                                        moment == MOMENT_NARROW ? 3 * SIM_SEC : 20 * SIM_MS));
        return;
    }
    sim_at(event, sim.now + (moment == MOMENT_SETTLED ? 10 : 1) * LOOK_EVERY);
}

void moments_arm(const struct fleet_record *before)
{
    if (sim.plan.gentle || sim.plan.sleepers || sim.plan.lies || rng_chance(rng, 0.3))
        return;
    moment = (enum moment)rng_below(rng, MOMENTS);
    version = before->version + 1;
    strikes = false;
    told_least = (int)rng_between(rng, 1, before->count);
    sim_at(&look, sim.now + LOOK_EVERY);
}

void moments_begin(struct sim_rng *of)
{
    rng = of;
    look = (struct sim_event){.fn = on_look};
}
