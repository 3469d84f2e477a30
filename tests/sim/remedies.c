#include "tests/sim/remedies.h"

#include <stdio.h>
#include <string.h>

#include "agent/broker/nodes/node_fleet.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/broker/rooms.h"
#include "agent/core/fleet.h"
#include "tests/sim/changes.h"
#include "tests/sim/host.h"
#include "tests/sim/liars.h"
#include "tests/sim/os.h"
#include "tests/sim/vnode.h"
#include "tests/sim/wishes.h"

#define PATIENCE 2 /* looks, one a second */

static int looks[SIM_HOSTS]; /* in a row at which the host needed something */

void remedies_begin(void)
{
    memset(looks, 0, sizeof(looks));
}

static struct sim_event settling;

static const struct fleet *view(const struct sim_host *host)
{
    return host->broker && host->phase == HOST_ON ? &host->broker->nodes->fleet_view : NULL;
}

/* False: it is refused, or nobody ever gave such a command: what a liar shows is not given again. */
static bool give_again(struct sim_host *host, const struct fleet *f, int lone)
{
    struct fleet_record ours = f->record, record = f->node[lone].record;
    struct fleet_wish wish;

    return !liars_is_one(vnode_of_seat(f->node[lone].peer)) &&
           !hf_time_before(host_now(host), f->wish_until) && wish_again(&ours, &record, &wish) &&
           changes_ask(host, &wish);
}

/* --- a record that no node has any more --------------------------------------------------------- */

/* Or what they came back with may be an earlier one. */
static bool is_forgotten(const struct fleet *f)
{
    bool bare = false;

    for (int i = 0; i < f->n; i++)
        bare |= f->node[i].there &&
                (fleet_is_bare(f, i) || (fleet_is_doubted(f, i) && !fleet_doubt_is_newcomer(f)));
    return bare && fleet_none_has_it(f) && !fleet_is_latest(f, HF_TIME_NEVER);
}

/* (!) The operator's word is about every host. */
static struct sim_host *find_latest(void)
{
    struct sim_host *latest = NULL;

    for (int i = 0; i < sim.plan.hosts; i++) {
        struct sim_host *host = sim.host[i];
        const struct fleet *f = view(host);

        if (!f || sim.now < host->stopped_until || f->leaving)
            return NULL;
        if (f->known && (!latest || fleet_record_rank(&f->record, &view(latest)->record) > 0))
            latest = host;
    }
    return latest;
}

static void confirm(void *arg)
{
    struct sim_host *host = arg;
    const struct fleet_wish wish = {.kind = FLEET_WISH_CONFIRM};
    char why[512] = "";
    int rc = node_fleet_change(host->broker->nodes, &wish, why, sizeof(why));

    sim_trace("h%d is asked to confirm: %d %s", host->number, rc, why);
}

void remedies_confirm(void)
{
    struct sim_host *latest = find_latest();

    if (latest && is_forgotten(view(latest)))
        (void)sim_agent_run(latest, confirm, latest);
}

static void on_settling(struct sim_event *event)
{
    sim_at(event, sim.now + SIM_SEC);
    remedies_confirm();
}

void remedies_settle(void)
{
    settling = (struct sim_event){.fn = on_settling};
    sim_at(&settling, sim.now + SIM_SEC);
}

/* --- a record that most nodes do not have -------------------------------------------------------- */

void remedies_carry_on(struct sim_host *host)
{
    const struct fleet *f = view(host);
    int lone = f && f->known && !f->leaving ? fleet_later_find_lone(f) : -1;

    if (lone >= 0)
        (void)give_again(host, f, lone);
}

/* Its memory of the fleet is removed, and its file has the fleet's nodes. */
static void start_anew(struct sim_host *host, const struct fleet_record *latest)
{
    sim_trace("h%d is started anew: the fleet went on without it", host->number);
    changes_correct(latest);
    os_remove(host->agent.fleet_path);
    host_kill(host);
    host_start_later(host, SIM_MS);
}

static void empty(const struct fleet *f, int i)
{
    struct vnode *node = vnode_of_seat(f->node[i].peer);

    sim_trace("n%d is emptied: its record is nobody's", node->number);
    vnode_flush(node);
}

static void on_lone(struct sim_host *host, const struct fleet *f, int lone)
{
    const struct fleet_record *latest = changes_latest();

    if (give_again(host, f, lone) || ++looks[host->number] < PATIENCE)
        return;
    looks[host->number] = 0;
    f = view(host);
    if (!f)
        return;
    if (fleet_record_rank(latest, &f->record) > 0)
        start_anew(host, latest);
    else
        empty(f, lone);
}

/* No host knows the fleet, and too few nodes do: it is founded anew. */
static void on_unknown(struct sim_host *host, const struct fleet *f)
{
    bool all = true;
    char seat[HF_NODE_TEXT_MAX + 1];

    if (changes_latest() || ++looks[host->number] < PATIENCE)
        return;
    for (int i = 0; i < host->config.node_count; i++) {
        all = all && f->node[i].peer[0];
        snprintf(seat, sizeof(seat), SIM_IP ":%d", host->config.nodes[i].port);
        vnode_rise(vnode_of_seat(seat), sim.now);
    }
    for (int i = 0; all && i < f->n; i++)
        if (f->node[i].said == FLEET_SAID_RECORD)
            empty(f, i);
    looks[host->number] = 0;
}

void remedies_end(struct sim_host *host)
{
    const struct fleet *f = view(host);
    int lone = f && f->known && !f->leaving ? fleet_later_find_lone(f) : -1;

    if (lone >= 0)
        on_lone(host, f, lone);
    else if (f && !f->known)
        on_unknown(host, f);
    else
        looks[host->number] = 0;
}
