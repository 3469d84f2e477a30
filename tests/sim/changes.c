#include "tests/sim/changes.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "agent/broker/nodes/node_fleet.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/broker/rooms.h"
#include "agent/core/fleet_change.h"
#include "agent/record/fleet_start.h"
#include "tests/sim/fleets.h"
#include "tests/sim/host.h"
#include "tests/sim/vnode.h"
#include "tests/sim/wide.h"

#define LOOK_EVERY (10 * SIM_MS)  /* of main: whether the agent is to start again */
#define ASK_EVERY  (150 * SIM_MS) /* of operators, in the mean */
#define NEW_MOST   9              /* servers */

struct main_thread {
    struct sim_event event;
    struct sim_host *host;
};

struct ask {
    struct sim_host *host;
    struct fleet_wish wish;
    int rc;
};

static struct sim_rng *rng;
static struct config plain[SIM_HOSTS]; /* as configured */
static struct main_thread mains[SIM_HOSTS];
static struct sim_event operators;
static struct vnode *spare; /* a server with nothing in it that no change has taken yet */
static int servers;
static bool corrected[SIM_HOSTS];

static const struct fleet_record *latest_record(void)
{
    const struct fleet_record *latest = NULL;

    for (int i = 0; i < sim.plan.hosts; i++) {
        const struct fleet *f =
            sim.host[i]->broker ? &sim.host[i]->broker->nodes->fleet_view : NULL;

        if (f && f->known && (!latest || fleet_record_rank(&f->record, latest) > 0))
            latest = &f->record;
    }
    return latest;
}

void changes_configure(struct sim_host *host)
{
    const struct fleet_record *r = wide_has(WIDE_CHANGES) ? latest_record() : NULL;

    if (!wide_has(WIDE_CHANGES))
        return;
    host->config = plain[host->number];
    /* Operators keep this one in the file: before the fleet is known it is told by sentinels. */
    if (r)
        host->config.ttl_max_ms = host->config.ttl_longest_ms = (uint32_t)r->ttl_max_ms;
    fleet_start(&host->config, host->dir, host->boot_id);
}

/* --- main ------------------------------------------------------------------------------------- */

static void on_look(struct sim_event *event)
{
    struct main_thread *m = HF_CONTAINER(event, struct main_thread, event);
    struct sim_host *host = m->host;

    sim_at(event, sim.now + LOOK_EVERY);
    if (host->phase != HOST_ON || sim.now < host->stopped_until ||
        !atomic_load_explicit(&host->agent.again, memory_order_acquire))
        return;
    sim_trace("h%d agent starts again", host->number);
    atomic_store_explicit(&host->agent.stays, true, memory_order_release);
    host_upgrade(host, rng_log(rng, 10 * SIM_US, 5 * SIM_MS));
}

/* --- what befalls meanwhile --------------------------------------------------------------------- */

static struct vnode *some_member(const struct fleet_record *r)
{
    const struct fleet_seat *list;
    int count = fleet_record_list(r, &list);

    return vnode_of_seat(list[rng_below(rng, count)].address);
}

static void strike(const struct fleet_record *r)
{
    struct sim_host *host = sim.host[rng_below(rng, sim.plan.hosts)];
    struct vnode *node = some_member(r);
    sim_ns until = sim.now + rng_log(rng, SIM_MS, 2 * SIM_SEC);

    switch (rng_below(rng, 5)) {
    case 0:
        host_kill(host);
        host_start_later(host, until - sim.now);
        break;
    case 1:
        host_suspend(host, until);
        break;
    case 2:
        host_cut_off(host, until);
        break;
    case 3:
        vnode_stop(node, until);
        break;
    case 4:
        if (node->running)
            vnode_flush(node);
        break;
    }
}

/* --- operators ---------------------------------------------------------------------------------- */

static void put_wish(void *arg)
{
    struct ask *ask = arg;
    char why[512] = "";

    ask->rc = node_fleet_change(ask->host->broker->nodes, &ask->wish, why, sizeof(why));
    sim_trace("h%d is asked for a change (%d %s): %d %s", ask->host->number, (int)ask->wish.kind,
              ask->wish.id, ask->rc, why);
}

static bool is_new_server(const struct fleet_record *r)
{
    char seat[HF_NODE_TEXT_MAX + 1];

    if (!spare)
        return false;
    snprintf(seat, sizeof(seat), SIM_IP ":%d", vnode_port(spare));
    for (int i = 0; i < r->count; i++)
        if (strcmp(r->seat[i].address, seat) == 0)
            return false;
    return !vnode_field(spare, "record");
}

/* The command looks at it first: it is empty. */
static struct vnode *empty_server(const struct fleet_record *r)
{
    if (!is_new_server(r)) {
        if (servers == NEW_MOST)
            return NULL;
        spare = vnode_new();
        servers++;
    }
    return spare;
}

static void on_operator(struct sim_event *event)
{
    struct ask ask = {.host = sim.host[rng_below(rng, sim.plan.hosts)]};
    const struct fleet *f;
    struct vnode *server;

    if (sim.settling) {
        changes_end();
        return;
    }
    sim_at(event, sim.now + rng_below(rng, 2 * ASK_EVERY));
    if (ask.host->phase != HOST_ON || !ask.host->broker || sim.now < ask.host->stopped_until)
        return;
    f = &ask.host->broker->nodes->fleet_view;
    if (!f->known)
        return;
    if (f->record.state == FLEET_CHANGING || rng_chance(rng, 0.15)) {
        strike(&f->record);
        return;
    }
    if (rng_chance(rng, 0.25)) {
        ask.wish.kind = FLEET_WISH_TTL_MAX;
        /* No shorter than what processes ask for. */
        ask.wish.ttl_max_ms =
            rng_between(rng, sim.plan.ttl_max_ms, (int64_t)sim.plan.ttl_max_ms * 13 / 10);
    } else if ((server = empty_server(&f->record))) {
        ask.wish.kind = FLEET_WISH_MOVE;
        snprintf(ask.wish.id, sizeof(ask.wish.id), "n%d", (int)rng_below(rng, sim.plan.nodes));
        snprintf(ask.wish.seat, sizeof(ask.wish.seat), SIM_IP ":%d", vnode_port(server));
    } else {
        return;
    }
    (void)sim_agent_run(ask.host, put_wish, &ask);
}

void changes_end(void)
{
    const struct fleet_record *r = wide_has(WIDE_CHANGES) ? latest_record() : NULL;

    if (wide_has(WIDE_CHANGES))
        sim_at(&operators, sim.now + SIM_SEC);
    for (int i = 0; r && i < sim.plan.hosts; i++) {
        struct sim_host *host = sim.host[i];

        if (corrected[i] || (host->broker && host->broker->nodes->fleet_view.known))
            continue;
        corrected[i] = true;
        for (int n = 0; n < sim.plan.nodes; n++) {
            struct node_address *a = &plain[i].nodes[n];

            a->port = (uint16_t)vnode_port(vnode_of_seat(r->seat[n].address));
            snprintf(a->text, sizeof(a->text), SIM_IP ":%d", a->port);
        }
        host_kill(host);
        host_start_later(host, SIM_MS);
    }
}

bool changes_are_stuck(void)
{
    for (int i = 0; wide_has(WIDE_CHANGES) && i < sim.plan.hosts; i++)
        for (int n = 0; sim.host[i]->broker && n < sim.plan.nodes; n++)
            if (strstr(sim.host[i]->broker->nodes->node[n].fleet_text, "two changes"))
                return true;
    return false;
}

/* --- the plan ----------------------------------------------------------------------------------- */

void changes_plan(void)
{
    struct sim_plan *p = &sim.plan;

    rng = wide_rng(WIDE_CHANGES);
    if (p->nodes < 3)
        sim.wide &= ~(1u << WIDE_CHANGES); /* too few would stay */
    if (!wide_has(WIDE_CHANGES))
        return;
    p->tolerant = p->flushes = false;
    p->amnesia = true;
    p->fault[FAULT_STEP] = p->storm_steps = false;
    p->faults_until += rng_between(rng, 1, 3) * (p->ttl_max_ms * SIM_MS * 102 / 100 + SIM_SEC);
}

void changes_begin(void)
{
    spare = NULL;
    servers = 0;
    memset(corrected, 0, sizeof(corrected));
    for (int i = 0; i < sim.plan.hosts; i++) {
        plain[i] = sim.host[i]->config;
        mains[i] = (struct main_thread){.event = {.fn = on_look}, .host = sim.host[i]};
        sim_at(&mains[i].event, LOOK_EVERY);
    }
    operators = (struct sim_event){.fn = on_operator};
    sim_at(&operators, 300 * SIM_MS);
}
