#include "tests/sim/changes.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "agent/broker/nodes/node_fleet.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/broker/rooms.h"
#include "agent/config/config.h"
#include "agent/core/fleet_change.h"
#include "agent/state/fleet_memory.h"
#include "shm/status.h"
#include "tests/sim/fleets.h"
#include "tests/sim/host.h"
#include "tests/sim/instants.h"
#include "tests/sim/liars.h"
#include "tests/sim/moments.h"
#include "tests/sim/remedies.h"
#include "tests/sim/sleepers.h"
#include "tests/sim/vnode.h"
#include "tests/sim/wide.h"
#include "tests/sim/wishes.h"

#define LOOK_EVERY (10 * SIM_MS)  /* of main: whether the agent is to start again */
#define ASK_EVERY  (150 * SIM_MS) /* of operators, in the mean */
#define HASTE      (10 * SIM_MS)  /* the same, of those who cannot wait */
#define LYING      0.2  /* of the other schedules with three nodes or more: one member lies */
#define GENTLE     0.15 /* of the schedules: nothing befalls but changes */

struct main_thread {
    struct sim_event event;
    struct sim_host *host;
};

struct ask {
    struct sim_host *host;
    struct fleet_wish wish;
    int rc;
};

static struct sim_rng *rng, doubts;
static bool doubting;
static struct sim_event second_thoughts;
static struct config plain[SIM_HOSTS]; /* as configured */
static struct main_thread mains[SIM_HOSTS];
static struct sim_event operators;
static sim_ns ask_every;
static bool corrected[SIM_HOSTS];
static uint32_t checked[SIM_HOSTS]; /* incarnations */
static uint32_t ttl_max_ms;         /* as operators know it; 0: as it was configured */
static struct { /* a server was stopped for good, and that is still to be said */
    bool due;
    uint64_t version;
    struct fleet_wish wish;
    char seat[HF_NODE_TEXT_MAX + 1];
} unsaid;

/* --- what the fleet is -------------------------------------------------------------------------- */

static const struct fleet *view(const struct sim_host *host)
{
    const struct fleet *f = host->broker ? &host->broker->nodes->fleet_view : NULL;

    return f && f->known ? f : NULL;
}

const struct fleet_record *changes_latest(void)
{
    const struct fleet_record *latest = NULL;

    for (int i = 0; i < sim.plan.hosts; i++) {
        const struct fleet *f = view(sim.host[i]);

        if (f && (!latest || fleet_record_rank(&f->record, latest) > 0))
            latest = &f->record;
    }
    return latest;
}

/* As an operator finds it who looks at the nodes, where no agent knows it; NULL: none. */
static const struct fleet_record *latest_on_nodes(void)
{
    static struct fleet_record latest, r;
    bool found = false;

    for (int i = 0; i < sim.servers; i++) {
        const char *text = vnode_field(sim.node[i], "record");

        if (!text || fleet_record_read(text, strlen(text), &r) != HF_OK ||
            r.state == FLEET_FOUNDING || (found && fleet_record_rank(&r, &latest) <= 0))
            continue;
        latest = r;
        found = true;
    }
    return found ? &latest : NULL;
}

int changes_servers(struct vnode *ret_servers[SIM_SERVERS])
{
    const struct fleet_record *r = wide_has(WIDE_CHANGES) ? changes_latest() : NULL;
    int count = 0;

    for (int i = 0; !r && i < sim.plan.nodes; i++)
        ret_servers[count++] = sim.node[i];
    for (int i = 0; r && i < r->count; i++)
        ret_servers[count++] = vnode_of_seat(r->seat[i].address);
    for (int i = 0; r && i < r->before_count; i++)
        if (!fleet_record_stays(r, &r->before[i]))
            ret_servers[count++] = vnode_of_seat(r->before[i].address);
    return count;
}

static bool has_settled(const struct sim_host *host)
{
    const struct fleet *f = view(host);

    if (!f || f->record.state != FLEET_COMPLETE || f->settles.ns != HF_TIME_PAST.ns || f->leaving)
        return false;
    for (int i = 0; i < f->n; i++)
        if (!fleet_counts(f, i) ||
            !trust_may_vote(&host->broker->nodes->node[i].trust, host_now(host)))
            return false;
    return f->n == f->record.count;
}

bool changes_have_settled(void)
{
    for (int i = 0; i < sim.plan.hosts; i++)
        if (!has_settled(sim.host[i]))
            return false;
    return fleets_are_one();
}

/* --- configurations ----------------------------------------------------------------------------- */

void changes_configure(struct sim_host *host)
{
    const struct fleet_record *r = wide_has(WIDE_CHANGES) ? changes_latest() : NULL;

    if (!wide_has(WIDE_CHANGES))
        return;
    host->config = plain[host->number];
    /* Operators keep this one in the file: before the fleet is known it is told by sentinels. */
    if (r)
        ttl_max_ms = (uint32_t)r->ttl_max_ms;
    if (ttl_max_ms)
        host->config.ttl_max_ms = host->config.ttl_longest_ms = ttl_max_ms;
    host->config.file_ttl_max_ms = host->config.ttl_max_ms;
    fleet_start(&host->config, host->dir, &host->clock);
}

/* Once a change is complete. */
static void correct(struct config *c, const struct fleet_record *r)
{
    const struct fleet_seat *list;

    c->node_count = fleet_record_list(r, &list);
    for (int n = 0; n < c->node_count; n++) {
        struct node_address *a = &c->nodes[n];

        *a = c->nodes[0];
        memcpy(a->id, list[n].id, sizeof(a->id));
        a->port = (uint16_t)vnode_port(vnode_of_seat(list[n].address));
        snprintf(a->text, sizeof(a->text), SIM_IP ":%d", a->port);
    }
    list_hash_with(c->nodes, c->node_count, "", c->list_hash);
    memcpy(c->file_hash, c->list_hash, sizeof(c->file_hash));
    config_count_all(c);
}

void changes_correct(const struct fleet_record *r)
{
    for (int i = 0; i < sim.plan.hosts; i++)
        correct(&plain[i], r);
}

/* (!) By a rule of the simulator's own. */
static void check_ttls(const struct sim_host *host, const struct fleet_record *r)
{
    const struct config *c = &host->config;
    bool narrow = r->version > 1 && !(r->state == FLEET_COMPLETE && c->settled);
    int64_t grant = r->ttl_max_ms, longest = r->ttl_max_ms;

    if (narrow && r->ttl_max_before_ms < grant)
        grant = r->ttl_max_before_ms;
    if (narrow && r->ttl_max_before_ms > longest)
        longest = r->ttl_max_before_ms;
    if (narrow && c->file_ttl_max_ms > longest)
        longest = c->file_ttl_max_ms;
    if (r->version > 1 && (c->ttl_max_ms != grant || c->ttl_longest_ms != longest))
        sim_violation("change", "h%d grants for %d ms and waits for %d ms by version %d",
                      host->number, (int)c->ttl_max_ms, (int)c->ttl_longest_ms, (int)r->version);
}

/* --- main ------------------------------------------------------------------------------------- */

static void on_look(struct sim_event *event)
{
    struct main_thread *m = HF_CONTAINER(event, struct main_thread, event);
    struct sim_host *host = m->host;

    sim_at(event, sim.now + LOOK_EVERY);
    if (view(host) && checked[host->number] != host->incarnation) {
        checked[host->number] = host->incarnation;
        instants_check(host, &view(host)->record);
        liars_check(host, &view(host)->record);
        check_ttls(host, &view(host)->record);
    }
    if (host->phase != HOST_ON || sim.now < host->stopped_until ||
        !atomic_load_explicit(&host->agent.again, memory_order_acquire))
        return;
    sim_trace("h%d agent starts again", host->number);
    atomic_store_explicit(&host->agent.stays, true, memory_order_release);
    host_upgrade(host, rng_log(rng, 10 * SIM_US, 5 * SIM_MS));
}

/* --- what befalls meanwhile --------------------------------------------------------------------- */

static void strike(void)
{
    struct vnode *servers[SIM_SERVERS];
    struct sim_host *host = sim.host[rng_below(rng, sim.plan.hosts)];
    struct vnode *node = servers[rng_below(rng, changes_servers(servers))];
    sim_ns until = sim.now + rng_log(rng, SIM_MS, 2 * SIM_SEC);

    switch (rng_below(rng, sim.plan.lies ? 4 : 5)) {
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
    sim_trace("h%d is asked for a change (%d %s %s%s): %d %s", ask->host->number,
              (int)ask->wish.kind, ask->wish.id, ask->wish.seat, ask->wish.gone ? " gone" : "",
              ask->rc, why);
}

/* The operator's command reaches the agent. */
static const struct fleet *answering(const struct sim_host *host)
{
    return host->phase == HOST_ON && sim.now >= host->stopped_until ? view(host) : NULL;
}

/* A change lasts for moments only, but where it waits for a server. */
static void begin_to_doubt(void)
{
    struct vnode *servers[SIM_SERVERS];
    struct vnode *node = servers[rng_below(&doubts, changes_servers(servers))];

    vnode_stop(node, sim.now + rng_log(&doubts, 150 * SIM_MS, 2 * SIM_SEC));
    sim_at(&second_thoughts, sim.now + rng_log(&doubts, 100 * SIM_MS, SIM_SEC));
}

bool changes_ask(struct sim_host *host, const struct fleet_wish *wish)
{
    struct ask ask = {.host = host, .wish = *wish, .rc = HF_EBUSY};
    const struct fleet *f = answering(host);
    struct fleet_record before;

    if (!f)
        return false;
    before = f->record;
    if (!sim_agent_run(host, put_wish, &ask) || ask.rc != HF_OK)
        return false;
    wish_check(&before, wish);
    moments_arm(&before);
    if (doubting && !sim.plan.gentle && !sim.plan.sleepers && before.state == FLEET_COMPLETE)
        begin_to_doubt();
    return true;
}

static const char *seat_that_leaves(const struct fleet_record *r, const char *id)
{
    const struct fleet_seat *list;
    int count = fleet_record_list(r, &list);

    for (int i = 0; i < count; i++)
        if (strcmp(list[i].id, id) == 0)
            return list[i].address;
    return "";
}

/* Said again until it is taken; who cannot say it starts an empty server in its place. */
static void say(const struct fleet_record *r, struct sim_host *host)
{
    bool over = r->version != unsaid.version;

    if (!over && !rng_chance(rng, 0.1 * (double)ask_every / ASK_EVERY)) {
        unsaid.due = !changes_ask(host, &unsaid.wish);
        return;
    }
    unsaid.due = false;
    vnode_rise(vnode_of_seat(unsaid.seat), sim.now);
}

static void say_later(const struct fleet_record *r, const struct fleet_wish *wish)
{
    unsaid.due = true;
    unsaid.version = r->version;
    unsaid.wish = *wish;
    snprintf(unsaid.seat, sizeof(unsaid.seat), "%s", seat_that_leaves(r, wish->id));
}

static void wish_for(const struct fleet_record *r, struct sim_host *host)
{
    struct sim_host *other = sim.host[rng_below(rng, sim.plan.hosts)];
    struct fleet_wish wish;

    if (!wish_draw(r, &wish))
        return;
    if (!changes_ask(host, &wish) && wish.gone)
        say_later(r, &wish);
    if (other != host && rng_chance(rng, 0.25) && wish_draw(r, &wish) &&
        !changes_ask(other, &wish) && wish.gone && !unsaid.due)
        say_later(r, &wish);
}

/* A wish with the word `gone` came to nothing: who sees that starts an empty server in its place. */
static void replace_dead(const struct fleet *f, const struct sim_host *host)
{
    for (int i = 0; i < f->n; i++) {
        struct vnode *node = vnode_of_seat(fleet_place(f, i)->address);

        if (node->dead && !fleet_place(f, i)->gone &&
            hf_time_reached(host_now(host), f->wish_until) &&
            rng_chance(rng, 0.2 * (double)ask_every / ASK_EVERY))
            vnode_rise(node, sim.now);
    }
}

/* Soon after a change began an operator gives it up, or says of a member, be it one that stays, that it is gone. */
static void on_second_thought(struct sim_event *event)
{
    struct sim_host *host = sim.host[rng_below(&doubts, sim.plan.hosts)];
    const struct fleet *f = answering(host);
    struct fleet_wish wish = {.kind = FLEET_WISH_ABORT};
    struct fleet_record r;

    if (sim.settling || unsaid.due)
        return;
    if (!f || f->record.state != FLEET_CHANGING) {
        if (rng_chance(&doubts, 0.9))
            sim_at(event, sim.now + 2 * SIM_MS);
        return;
    }
    r = f->record;
    if (rng_chance(&doubts, 0.7)) {
        (void)changes_ask(host, &wish);
        sim_at(event, sim.now + rng_log(&doubts, SIM_MS, 200 * SIM_MS)); /* or once more */
    } else if (!sim.plan.lies && wish_gone_member(&r, &doubts, &wish) &&
               !changes_ask(host, &wish)) {
        say_later(&r, &wish);
    }
}

static void on_operator(struct sim_event *event)
{
    struct sim_host *host = sim.host[rng_below(rng, sim.plan.hosts)];
    const struct fleet *f = answering(host);
    double often = (double)ask_every / ASK_EVERY;
    struct fleet_record r; /* the agent may be killed meanwhile */
    struct fleet_wish wish;

    if (sim.settling) {
        changes_end();
        return;
    }
    sim_at(event, sim.now + rng_below(rng, 2 * ask_every));
    if (!f)
        return;
    r = f->record;
    if (!unsaid.due)
        replace_dead(f, host);
    if (rng_chance(rng, 0.1 * often)) {
        remedies_carry_on(host);
        remedies_confirm();
    }
    f = answering(host);
    if (!f)
        return;
    r = f->record;
    if (unsaid.due) {
        say(&r, host);
    } else if (r.state != FLEET_CHANGING && !rng_chance(rng, 0.15 * often)) {
        if (f->settles.ns == HF_TIME_PAST.ns || rng_chance(rng, 0.1))
            wish_for(&r, host);
    } else if (sim.plan.gentle || sim.plan.sleepers) {
        return;
    } else if (!sim.plan.lies && r.state == FLEET_CHANGING && rng_chance(rng, 0.3 * often) &&
               wish_gone(&r, &wish)) {
        if (!changes_ask(host, &wish))
            say_later(&r, &wish);
    } else if (rng_chance(rng, often)) {
        strike();
    }
}

void changes_end(void)
{
    const struct fleet_record *r;

    if (!wide_has(WIDE_CHANGES))
        return;
    sim_at(&operators, sim.now + SIM_SEC);
    liars_end();
    r = changes_latest() ? changes_latest() : latest_on_nodes();
    wishes_end(r);
    for (int i = 0; i < sim.plan.hosts; i++)
        remedies_end(sim.host[i]);
    for (int i = 0; r && i < sim.plan.hosts; i++) {
        struct sim_host *host = sim.host[i];

        if (corrected[i] || view(host))
            continue;
        corrected[i] = true;
        correct(&plain[i], r);
        host_kill(host);
        host_start_later(host, SIM_MS);
    }
}

/* Everything forgot: no host has a record, and of the latest list no member; a server that left may. What operators have in the
 * files of some hosts is not what others left on the nodes. */
static bool is_forgotten(void)
{
    const struct fleet_record *latest = latest_on_nodes();
    const struct fleet_seat *list;
    int count = latest ? fleet_record_list(latest, &list) : 0;

    for (int i = 0; i < count; i++)
        if (vnode_field(vnode_of_seat(list[i].address), "record"))
            return false;
    return !changes_latest();
}

bool changes_are_stuck(void)
{
    if (wide_has(WIDE_CHANGES) && is_forgotten())
        return true;
    for (int i = 0; wide_has(WIDE_CHANGES) && i < sim.plan.hosts; i++)
        for (int n = 0; sim.host[i]->broker && n < sim.host[i]->config.node_count; n++) {
            const char *text = sim.host[i]->broker->nodes->node[n].fleet_text;

            /* Two changes, or a host without memory began where all nodes had forgotten: operators have to choose. */
            if (strstr(text, "two changes") || strstr(text, "was founded anew"))
                return true;
        }
    return false;
}

/* --- the plan ----------------------------------------------------------------------------------- */

void changes_plan(void)
{
    static const int sizes[] = {1, 2, 2, 3, 4};
    struct sim_plan *p = &sim.plan;

    rng = wide_rng(WIDE_CHANGES);
    if (!wide_has(WIDE_CHANGES))
        return;
    if (rng_chance(rng, 0.4)) {
        p->nodes = sizes[rng_below(rng, HF_LENGTH(sizes))];
        p->quorum = p->nodes / 2 + 1;
    }
    p->tolerant = p->flushes = false;
    if (wide_lies && p->nodes < 3) {
        p->nodes = 3;
        p->quorum = 2;
    }
    p->gentle = rng_chance(rng, GENTLE) && !wide_lies;
    p->lies = !p->gentle && p->nodes >= 3 && (rng_chance(rng, LYING) || wide_lies);
    if (p->gentle || p->lies)
        memset(p->fault, 0, sizeof(p->fault));
    p->amnesia = !p->gentle;
    p->fault[FAULT_STEP] = p->storm_steps = false;
    p->faults_until += rng_between(rng, 1, 3) * (p->ttl_max_ms * SIM_MS * 102 / 100 + SIM_SEC);
    ask_every = rng_chance(rng, 0.5) ? HASTE : ASK_EVERY;
    sleepers_plan();
}

void changes_begin(void)
{
    memset(corrected, 0, sizeof(corrected));
    memset(checked, 0, sizeof(checked));
    ttl_max_ms = 0;
    remedies_begin();
    instants_begin();
    memset(&unsaid, 0, sizeof(unsaid));
    doubts = *rng; /* other numbers by other bounds */
    doubting = rng_chance(&doubts, 0.4);
    second_thoughts = (struct sim_event){.fn = on_second_thought};
    wishes_begin(rng);
    liars_begin(rng);
    moments_begin(rng);
    sleepers_begin();
    for (int i = 0; i < sim.plan.hosts; i++) {
        plain[i] = sim.host[i]->config;
        mains[i] = (struct main_thread){.event = {.fn = on_look}, .host = sim.host[i]};
        sim_at(&mains[i].event, LOOK_EVERY);
    }
    operators = (struct sim_event){.fn = on_operator};
    sim_at(&operators, 300 * SIM_MS);
}
