#include "tests/sim/addresses.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/broker/nodes/nodes.h"
#include "agent/broker/rooms.h"
#include "tests/sim/fleets.h"
#include "tests/sim/host.h"
#include "tests/sim/vnode.h"
#include "tests/sim/wide.h"

enum astray {
    ASTRAY_EMPTY,   /* one id leads to a server with nothing in it */
    ASTRAY_CLONE,   /* to one with the data of the node, and its nonce and record */
    ASTRAY_FOREIGN, /* to a node of another fleet */
    ASTRAY_PATH,    /* to the node, but by another address */
    ASTRAY_AS,      /* the same, and the configuration says as what it is known */
    ASTRAY_ALL,     /* all ids but one lead to servers with nothing in them */
    ASTRAYS
};

static const char *const names[ASTRAYS] = {"an empty server",
                                           "a clone",
                                           "another fleet's node",
                                           "its other way",
                                           "its other way, by the way of `as`",
                                           "empty servers, as all but one"};

#define TIMES_MOST 3

struct change { /* of one host's configuration */
    struct sim_event event;
    struct sim_host *host;
    enum astray kind;
    int id;
};

static struct sim_rng *rng;
static struct vnode *foreign[SIM_NODES]; /* another fleet */
static struct vnode *empty[SIM_NODES];   /* what `all but one` leads to */
static enum astray kinds[TIMES_MOST];
static int times;
static struct {
    int port[SIM_NODES]; /* 0: the node's own */
    bool as[SIM_NODES];
    bool to_a_clone;
} leads[SIM_HOSTS];

void addresses_configure(struct sim_host *host)
{
    for (int i = 0; i < sim.plan.nodes; i++) {
        struct node_address *a = &host->config.nodes[i];
        int own = vnode_port(sim.node[i]), port = leads[host->number].port[i];

        snprintf(a->id, sizeof(a->id), "n%d", i);
        snprintf(a->host, sizeof(a->host), SIM_IP);
        a->numeric = true;
        a->port = (uint16_t)(port ? port : own);
        snprintf(a->text, sizeof(a->text), SIM_IP ":%d", a->port);
        a->as[0] = '\0';
        if (leads[host->number].as[i])
            snprintf(a->as, sizeof(a->as), SIM_IP ":%d", own);
    }
}

/* --- other servers ---------------------------------------------------------------------------- */

static struct vnode *clone_of(const struct vnode *node)
{
    struct vnode *clone = vnode_new();

    clone->store = clone->saved = node->store;
    /* Or its keys would end at another time than where they were set. A clock that is ahead or behind for a while comes right
     * there, and the clone's would not. */
    clone->wall_us = node->wall_us - node->astray_us;
    clone->durability = node->durability;
    clone->last_step = node->last_step; /* its keys may end as late as the original's */
    clone->started = rng_chance(rng, 0.5) ? -3600 * SIM_SEC : sim.now;
    return clone;
}

static struct vnode *foreign_node(int id)
{
    if (foreign[0])
        return foreign[id];
    for (int i = 0; i < sim.plan.nodes; i++) {
        foreign[i] = vnode_new();
        foreign[i]->started = -3600 * SIM_SEC;
        vnode_make_sentinel(foreign[i]);
    }
    fleets_found(foreign);
    return foreign[id];
}

/* The same for all hosts: two that share no server would be two fleets. */
static struct vnode *empty_node(int id)
{
    if (!empty[id])
        empty[id] = vnode_new();
    return empty[id];
}

static int port_of(enum astray kind, int id)
{
    switch (kind) {
    case ASTRAY_CLONE:
        return vnode_port(clone_of(sim.node[id]));
    case ASTRAY_FOREIGN:
        return vnode_port(foreign_node(id));
    case ASTRAY_PATH:
    case ASTRAY_AS:
        return vnode_port(sim.node[id]) + VNODE_OTHER_WAY;
    case ASTRAY_ALL:
        return vnode_port(empty_node(id));
    default:
        return vnode_port(vnode_new());
    }
}

/* --- what befalls ----------------------------------------------------------------------------- */

static void lead(const struct change *c, int id)
{
    leads[c->host->number].port[id] = port_of(c->kind, id);
    leads[c->host->number].as[id] = c->kind == ASTRAY_AS;
    leads[c->host->number].to_a_clone |= c->kind == ASTRAY_CLONE;
}

static void apply(const struct change *c)
{
    memset(&leads[c->host->number], 0, sizeof(leads[0]));
    sim_trace("h%d's configuration leads to %s for n%d", c->host->number, names[c->kind], c->id);
    if (c->kind != ASTRAY_ALL) {
        lead(c, c->id);
        return;
    }
    for (int i = 0; i < sim.plan.nodes; i++)
        if (i != c->id)
            lead(c, i);
}

static void restart(struct sim_host *host)
{
    sim_ns back = rng_log(rng, SIM_MS, 500 * SIM_MS);

    switch (rng_below(rng, 3)) {
    case 0:
        host_kill(host);
        host_start_later(host, back);
        break;
    case 1:
        host_reboot(host);
        host_start_later(host, back);
        break;
    case 2:
        host_upgrade(host, back);
        break;
    }
}

static void on_change(struct sim_event *event)
{
    const struct change *c = HF_CONTAINER(event, struct change, event);

    if (sim.settling)
        return;
    apply(c);
    restart(c->host);
}

/* Who does not may wait for people: too few of its nodes speak for one fleet. */
static bool goes_by_a_record(const struct sim_host *host)
{
    return host->broker && host->broker->nodes->fleet_view.known;
}

static void correct(struct sim_host *host, bool anew)
{
    memset(&leads[host->number], 0, sizeof(leads[0]));
    host_kill(host);
    host->config.reset_fleet = anew;
    host_start_later(host, SIM_MS);
}

bool addresses_found_anew(void)
{
    if (!wide_has(WIDE_ADDRESSES) || fleets_are_one())
        return false;
    sim_trace("the fleet is founded anew");
    for (int i = 0; i < sim.plan.hosts; i++)
        correct(sim.host[i], true);
    return true;
}

/* The host's configuration leads to a copy, which has the record, and whose nonce may part from the one of the server at
 * the seat, by a step or as that one forgets: the agent cannot know which one the fleet means. */
static bool has_a_stranger(const struct sim_host *host)
{
    if (leads[host->number].to_a_clone)
        return true;
    for (int i = 0; i < sim.plan.nodes; i++)
        if (host->broker->nodes->fleet_view.node[i].left[0])
            return true;
    return false;
}

void addresses_end(void)
{
    for (int i = 0; wide_has(WIDE_ADDRESSES) && i < sim.plan.hosts; i++) {
        struct sim_host *host = sim.host[i];

        if (goes_by_a_record(host) && !has_a_stranger(host) && rng_chance(rng, 0.5))
            continue;
        correct(host, false);
    }
}

/* (!) Two fleets without a server that both have cannot be noticed by anybody. So where a host's list has less than a
 * quorum of the fleet's servers, none of these forgets the fleet. */
static void forget_nothing(void)
{
    sim.plan.fault[FAULT_FLUSH] = sim.plan.fault[FAULT_RESTART] = sim.plan.fault[FAULT_STORM] =
        false;
    sim.wide &= ~(1u << WIDE_ROLLBACK | 1u << WIDE_PROXY);
}

static bool sees_few(void)
{
    for (int i = 0; i < times; i++)
        if (kinds[i] == ASTRAY_ALL)
            return true;
    return false;
}

void addresses_plan(void)
{
    struct sim_plan *p = &sim.plan;

    rng = wide_rng(WIDE_ADDRESSES);
    memset(leads, 0, sizeof(leads));
    memset(foreign, 0, sizeof(foreign));
    memset(empty, 0, sizeof(empty));
    if (p->nodes == 1)
        sim.wide &= ~(1u << WIDE_ADDRESSES); /* it would be another fleet */
    if (!wide_has(WIDE_ADDRESSES))
        return;
    p->tolerant = p->flushes = false;
    /* Who founds the fleet may found it of other servers than the list's. */
    p->amnesia |= !p->founded;
    times = (int)rng_between(rng, 1, TIMES_MOST);
    for (int i = 0; i < times; i++) {
        kinds[i] = (enum astray)rng_below(rng, ASTRAYS);
    }
    /* Hosts with other lists might share too few servers. */
    if (!p->founded)
        times = 1;
    if (p->nodes == 2 || sees_few())
        forget_nothing();
}

void addresses_begin(void)
{
    for (int i = 0; i < times; i++) {
        struct change *c = sim_alloc(sizeof(*c));

        c->event.fn = on_change;
        c->host = sim.host[rng_below(rng, sim.plan.hosts)];
        c->kind = kinds[i];
        c->id = (int)rng_below(rng, sim.plan.nodes);
        if (rng_chance(rng, 0.5))
            apply(c);
        else
            sim_at(&c->event, rng_between(rng, 300 * SIM_MS, sim.plan.faults_until));
    }
}
