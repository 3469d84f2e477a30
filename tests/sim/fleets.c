#include "tests/sim/fleets.h"

#include <stdio.h>
#include <string.h>

#include "agent/broker/nodes/nodes.h"
#include "agent/broker/rooms.h"
#include "agent/config/config.h"
#include "agent/core/fleet_record.h"
#include "tests/sim/host.h"
#include "tests/sim/vnode.h"
#include "tests/sim/wide.h"

#define FOUNDED_BEFORE                                                                             \
    0.7 /* of the schedules with nodes of an hour ago; agents found the other fleets as they start */

/* The record that a host of that configuration founds with these servers. */
static void record_of(const struct config *c, struct vnode *const *servers,
                      struct fleet_record *ret_record)
{
    config_fleet(c, ret_record);
    ret_record->version = 1;
    ret_record->state = FLEET_COMPLETE;
    for (int i = 0; i < c->node_count; i++)
        snprintf(ret_record->seat[i].address, sizeof(ret_record->seat[i].address), SIM_IP ":%d",
                 vnode_port(servers[i]));
    fleet_record_name(ret_record, ret_record->fleet);
}

void fleets_found(struct vnode *const *servers)
{
    const struct config *c = &sim.host[0]->config;
    static struct fleet_record record;
    char text[FLEET_TEXT_SIZE], digest[FLEET_DIGEST_LEN + 1];
    size_t length;

    record_of(c, servers, &record);
    length = fleet_record_text(&record, text);
    fleet_record_digest(text, length, digest);
    for (int i = 0; i < c->node_count; i++)
        vnode_set_record(servers[i], text, digest);
}

void fleets_plan(void)
{
    struct sim_rng rng = {sim.seed * UINT64_C(0x9fb21c651e98df25) + 11};

    sim.plan.founded =
        !sim.plan.young && !wide_has(WIDE_FOUNDING) && rng_chance(&rng, FOUNDED_BEFORE);
}

const struct fleet_record *fleets_record(const struct sim_host *host)
{
    const struct fleet *f = host->broker ? &host->broker->nodes->fleet_view : NULL;

    return f && f->known ? &f->record : host->agent.fleet;
}

static bool is_narrow(const struct sim_host *host, const struct fleet_record *r)
{
    return r->version > 1 && (r->state == FLEET_CHANGING || !host->config.settled);
}

static int majority(int count)
{
    return count / 2 + 1;
}

int fleets_quorum(const struct sim_host *host)
{
    const struct fleet_record *r = fleets_record(host);

    if (!r)
        return majority(host->config.node_count);
    if (is_narrow(host, r) && r->before_count > r->count)
        return majority(r->before_count);
    return majority(r->count);
}

static bool has(const struct fleet_seat *seats, int count, const struct fleet_seat *seat)
{
    for (int i = 0; i < count; i++)
        if (strcmp(seats[i].id, seat->id) == 0 && strcmp(seats[i].address, seat->address) == 0)
            return true;
    return false;
}

bool fleets_counts(const struct sim_host *host, const struct fleet_record *r, int place)
{
    const struct fleet_seat *seats;

    return place < fleet_record_list(r, &seats) &&
           (!is_narrow(host, r) || (has(r->seat, r->count, &seats[place]) &&
                                    has(r->before, r->before_count, &seats[place])));
}

bool fleets_are_one(void)
{
    const struct fleet *first = NULL;

    for (int i = 0; i < sim.plan.hosts; i++) {
        const struct fleet *f =
            sim.host[i]->broker ? &sim.host[i]->broker->nodes->fleet_view : NULL;

        if (!f || !f->known || (first && strcmp(first->digest, f->digest) != 0))
            return false;
        first = f;
    }
    return true;
}

void fleets_trace(void)
{
    for (int i = 0; i < sim.plan.hosts; i++) {
        const struct sim_host *host = sim.host[i];
        const struct fleet *f = host->broker ? &host->broker->nodes->fleet_view : NULL;
        char waits[512];

        if (!f)
            continue;
        fleet_waits(f, host_now(host), waits, sizeof(waits));
        sim_trace("h%d: version %d, state %d, %s; %s%s", i, (int)f->record.version,
                  (int)f->record.state, f->digest, waits, host->broker->nodes->fleet);
        for (int n = 0; n < f->n; n++)
            sim_trace("h%d: n%d at %s: %s, said %d, digest %s, there %d, counts %d", i, n,
                      f->node[n].peer, host->broker->nodes->node[n].fleet_text,
                      (int)f->node[n].said, f->node[n].digest, f->node[n].there,
                      fleet_counts(f, n));
    }
}

void fleets_begin(void)
{
    if (sim.plan.founded)
        fleets_found(sim.node);
}
