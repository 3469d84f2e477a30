#include "tests/sim/scenes.h"

#include <string.h>

#include "agent/core/timing.h"
#include "tests/sim/checks.h"
#include "tests/sim/host.h"
#include "tests/sim/procs.h"
#include "tests/sim/vnode.h"
#include "tests/sim/wide.h"

#define SHARE 0.03 /* of the schedules */

/* The holder's lease is on 0, 1 and LAST; the rival has the votes of FORGETS and STAYS, and lacks one. It hears
 * nothing of 0 and 1: that another's key is in the way would end its round sooner. */
enum { LAST = 2, FORGETS = 3, STAYS = 4 };

static struct {
    struct sim_event event;
    void (*next)(void);
    struct sim_rng rng; /* its own: the other schedules stay what they are */
    struct sim_host *host[2];
    struct sim_proc *holder, *rival;
    sim_ns ttl, attempt; /* of the holder; of the rival's commands */
    sim_ns began;        /* the rival's round */
} scene;

static sim_ns ms(int64_t count)
{
    return count * SIM_MS;
}

/* --- the plan --------------------------------------------------------------------------------- */

void scenes_plan(void)
{
    struct sim_plan *p = &sim.plan;
    sim_ns delay_low = p->delay_low, delay_high = p->delay_high;

    memset(&scene, 0, sizeof(scene));
    scene.rng.state = sim.seed * UINT64_C(0xa0761d6478bd642f) + 7;
    if (wide_groups || !rng_chance(&scene.rng, SHARE))
        return;
    memset(p, 0, sizeof(*p));
    p->scene = (enum sim_scene)rng_between(&scene.rng, 1, SCENES - 1);
    p->hosts = 2;
    p->nodes = 5;
    p->quorum = 3;
    p->resources = p->procs = 1;
    p->ttl_ms = p->ttl_max_ms = (uint32_t)rng_between(&scene.rng, 15000, 20000);
    p->amnesia = true;
    p->delay_low = delay_low;
    p->delay_high = delay_high;
    p->preempt_every = 1000000;
    p->faults_until = p->scene == SCENE_LONG_ROUND ? 9 * SIM_SEC : 4 * SIM_SEC;
}

/* --- what is played --------------------------------------------------------------------------- */

static void then(sim_ns at, void (*next)(void))
{
    scene.next = next;
    sim_at(&scene.event, at);
}

static void on_event(struct sim_event *event)
{
    (void)event;
    if (!sim.settling)
        scene.next();
}

static void cut(const struct sim_host *host, int node, sim_ns until)
{
    struct net_path *path = net_path(host, sim.node[node]);

    path->blocked_until[NET_THERE] = path->blocked_until[NET_BACK] = until;
}

static const char *value_on(int node)
{
    struct vnode *n = sim.node[node];
    const struct store_key *key = store_find(&n->store, "r0", vnode_wall_us(n) / 1000);

    return key ? key->value : "";
}

static bool rival_has_two(void)
{
    const char *value = value_on(FORGETS);

    return value[0] && strcmp(value, value_on(STAYS)) == 0 && strcmp(value, value_on(0)) != 0;
}

/* By a step its key goes early; by a restart what an older state lacks. */
static void forget(void)
{
    struct vnode *node = sim.node[FORGETS];

    switch (rng_below(&scene.rng, 3)) {
    case 0:
        vnode_flush(node);
        break;
    case 1:
        vnode_step(node, 2 * INT64_C(1000) * sim.plan.ttl_max_ms);
        break;
    case 2:
        node->durability = rng_chance(&scene.rng, 0.5) ? KEEPS_NOTHING : KEEPS_ALL_BUT_A_SECOND;
        node->saved = node->store;
        for (struct store_key *key = store_find(&node->saved, "r0", 0); key; key = NULL)
            store_delete(key);
        vnode_kill(node, sim.now + ms(rng_between(&scene.rng, 1, 20)), false);
        break;
    }
}

static void holder_is_cut_off(void)
{
    cut(scene.host[0], LAST, sim.now + ms(1500));
}

/* Nothing that the rival sends to LAST from now on arrives before. */
static void rival_is_late_until(sim_ns after)
{
    net_path(scene.host[1], sim.node[LAST])->blocked_until[NET_THERE] = scene.began + after;
}

/* The third command is in time again; the holder has no key there by then, and counts FORGETS. */
static void third_command(void)
{
    rival_is_late_until(3 * scene.attempt - ms(250));
    then(scene.began + ms(60) + (sim_ns)timing_age(hf_ms(sim.plan.ttl_max_ms)).ns + ms(80),
         holder_is_cut_off);
}

static void scripts_are_forgotten(void)
{
    sim.node[LAST]->scripts = 0;
    then(sim.now + ms(110), third_command);
}

static void node_forgets(void)
{
    if (!rival_has_two())
        return;
    cut(scene.host[1], FORGETS, sim.plan.faults_until);
    forget();
    if (sim.plan.scene == SCENE_LONG_ROUND) {
        /* The second is STALE, and answered in time: the rival takes that clock for 1 % slower since it last
         * heard of it. */
        rival_is_late_until(2 * scene.attempt - ms(82));
        then(scene.began + scene.attempt - ms(60), scripts_are_forgotten);
    }
}

static void rival_asks(void)
{
    scene.began = sim.now;
    for (int i = 0; i < LAST; i++)
        cut(scene.host[1], i, sim.plan.faults_until);
    if (sim.plan.scene == SCENE_LONG_ROUND)
        rival_is_late_until(scene.attempt - ms(55));
    else
        vnode_stop(sim.node[LAST], sim.now + scene.ttl * 106 / 100 + ms(30));
    proc_asks(scene.rival, sim.plan.ttl_max_ms);
    then(sim.now + ms(rng_between(&scene.rng, 40, 60)), node_forgets);
}

/* Its keys lapse on two nodes that are stopped meanwhile. */
static void two_nodes_stop(void)
{
    sim_ns asks = sim.now + scene.ttl * 105 / 100;

    if (!checks_some_valid())
        return;
    for (int i = FORGETS; i <= STAYS; i++)
        vnode_stop(sim.node[i], asks + ms(20));
    then(asks, rival_asks);
}

static void holder_asks(void)
{
    proc_asks(scene.holder, (uint32_t)(scene.ttl / SIM_MS));
    then(sim.now + ms(200), two_nodes_stop);
}

void scenes_begin(void)
{
    if (!sim.plan.scene)
        return;
    sim_trace("a scene: %s",
              sim.plan.scene == SCENE_LONG_ROUND ? "a round that lasts" : "a vote of before");
    scene.event.fn = on_event;
    for (int i = 0; i < 2; i++)
        scene.host[i] = sim.host[i];
    scene.holder = procs[0];
    scene.rival = procs[1];
    scene.attempt = (sim_ns)timing_of(hf_ms(sim.plan.ttl_max_ms)).attempt.ns;
    scene.ttl = ms(rng_between(&scene.rng, 500, 600));
    sim.node[LAST]->clock.ppb = 4400000; /* and it is not */
    scene.host[1]->boot.ppb = -4400000;
    then(sim.plan.scene == SCENE_LONG_ROUND ? ms(2000) : ms(400), holder_asks);
}
