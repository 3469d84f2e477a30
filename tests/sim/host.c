/* The agent of a host: the start chain of agent/main.c, its end by signals, its restart. */
#include <stdlib.h>
#include <string.h>

#include "agent/broker/broker.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/names.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/broker/rooms.h"
#include "agent/config/config.h"
#include "agent/redis/link_internal.h"
#include "agent/renewal/renewal_internal.h"
#include "agent/state/stores.h"
#include "shm/status.h"
#include "tests/sim/addresses.h"
#include "tests/sim/changes.h"
#include "tests/sim/checks.h"
#include "tests/sim/drains.h"
#include "tests/sim/fake_hiredis.h"
#include "tests/sim/forces.h"
#include "tests/sim/host.h"
#include "tests/sim/os.h"
#include "tests/sim/procs.h"
#include "tests/sim/steps.h"
#include "tests/sim/vnode.h"
#include "tests/sim/wander.h"
#include "tests/sim/wide.h"
#include "tests/support/status_name.h"

#define HEAP_SIZE ((size_t)8 << 20) /* a journal has a byte for each slot of the largest capacity */
#define CAPACITY  4

hf_time host_now(const struct sim_host *host)
{
    return (hf_time){clock_at(&host->boot, sim.now)};
}

/* --- beginning -------------------------------------------------------------------------------- */

static bool took_up(const struct broker *b)
{
    for (uint32_t i = 0; i < b->locks->slots_used; i++)
        if (b->locks->by_slot[i] && name_lease(b->locks->by_slot[i]))
            return true;
    return false;
}

static void start(void *arg)
{
    struct sim_host *host = arg;
    struct agent *agent = &host->agent;
    char why[1024] = "";
    int rc;

    memset(agent, 0, sizeof(*agent));
    changes_configure(host);
    agent->config = &host->config;
    agent->timens_inode = 1;
    agent->pidns_inode = 2;
    agent->clock = host->clock;
    snprintf(agent->host, sizeof(agent->host), "h%d", host->number);
    snprintf(agent->socket_path, sizeof(agent->socket_path), "%s/sock", host->dir);
    snprintf(agent->shm_name, sizeof(agent->shm_name), "%s.shm", host->dir);
    fleet_board_init(&agent->fleet_board);
    if (stores_open(agent, host->dir, why, sizeof(why)) < 0) {
        sim_violation("start", "h%d: %s", host->number, why);
        return;
    }
    if ((rc = lease_table_create(host->config.capacity, &agent->leases)) < 0 ||
        (rc = renewal_create(agent, &agent->renewal)) < 0 ||
        (rc = broker_create(agent, &agent->broker)) < 0) {
        sim_violation("start", "h%d: %s", host->number, status_name(rc));
        return;
    }
    records_check_taken(host);
    if (took_up(agent->broker))
        sim.seen[SEEN_RECOVERY] = true;
    if ((rc = renewal_start(agent->renewal)) < 0) {
        sim_violation("start", "h%d: %s", host->number, status_name(rc));
        return;
    }
    hf_table_set_state(&agent->table, HF_TABLE_ALIVE);
    if ((rc = broker_start(agent->broker)) < 0) {
        sim_violation("start", "h%d: %s", host->number, status_name(rc));
        return;
    }
    host->phase = HOST_ON;
}

void host_start(struct sim_host *host)
{
    if (host->phase != HOST_OFF)
        return;
    if (steps_hold_back(host) || wander_holds_back()) {
        host_start_later(host, 20 * SIM_MS);
        return;
    }
    sim_cancel(&host->start);
    sim_trace("h%d agent starts", host->number);
    host->phase = HOST_STARTING;
    host->incarnation++;
    host->loops = 0;
    addresses_configure(host);
    sim_heap_reset(host->heap);
    (void)sim_agent_run(host, start, host);
}

static void on_start(struct sim_event *event)
{
    host_start(HF_CONTAINER(event, struct sim_host, start));
}

void host_start_later(struct sim_host *host, sim_ns after)
{
    sim_at(&host->start, sim.now + after);
}

/* --- ends ------------------------------------------------------------------------------------- */

/* Nothing of the process is left but its files. */
static void gone(struct sim_host *host)
{
    checks_counters(host);
    sim.agent_ended = true;
    host->incarnation++;
    host->phase = HOST_OFF;
    steps_agent_ends(host);
    host->broker = NULL;
    host->stopped_until = 0;
    for (int i = 0; i < host->loops; i++)
        loop_forget(host->loop[i]);
    host->loops = 0;
    sim_cancel(&host->step);
    fake_agent_gone(host);
    procs_agent_gone(host);
    forcers_agent_gone(host);
}

void host_kill(struct sim_host *host)
{
    if (host->phase == HOST_OFF)
        return;
    sim_trace("h%d agent is killed", host->number);
    sim.seen[SEEN_KILL] = true;
    if (host_is_running(host))
        checks_killed_inside(host);
    gone(host);
}

void host_reboot(struct sim_host *host)
{
    int64_t wall = host_now(host).ns / SIM_MS + host->wall_ms;

    sim_trace("h%d reboots", host->number);
    if (host->phase != HOST_OFF)
        gone(host);
    procs_kill_all(host);
    checks_host_rebooted(host);
    drains_host_rebooted(host);
    os_remove_all(host->dir);
    steps_forgotten(host);
    host->boots++;
    memcpy(host->clock.boot_id, &host->boots, sizeof(host->boots));
    host->boot.base_ns = SIM_SEC - (clock_at(&host->boot, sim.now) - host->boot.base_ns);
    host->wall_ms = wall - host_now(host).ns / SIM_MS;
}

void host_lose_table(struct sim_host *host)
{
    char name[HF_TABLE_NAME_MAX];

    snprintf(name, sizeof(name), "%s.shm", host->dir);
    os_remove(name);
}

void host_cut_off(const struct sim_host *host, sim_ns until)
{
    sim_trace("h%d is cut off for %.3f s", host->number, (double)(until - sim.now) / SIM_SEC);
    for (int n = 0; n < vnodes_struck(); n++)
        for (int d = 0; d < 2; d++)
            if (net_path(host, sim.node[n])->blocked_until[d] < until)
                net_path(host, sim.node[n])->blocked_until[d] = until;
}

void host_put_away(struct sim_host *host, sim_ns until, struct sim_rng *rng)
{
    switch (rng_below(rng, 3)) {
    case 0:
        host_cut_off(host, until);
        break;
    case 1:
        if (host->stopped_until < until)
            host->stopped_until = until;
        break;
    case 2:
        host_kill(host);
        host_start_later(host, until - sim.now);
        break;
    }
}

void host_suspend(struct sim_host *host, sim_ns until)
{
    sim_trace("h%d is suspended for %.3f s", host->number, (double)(until - sim.now) / SIM_SEC);
    if (host->stopped_until < until)
        host->stopped_until = until;
    procs_suspend(host, until);
}

void host_continue(struct sim_host *host)
{
    if (host->stopped_until <= sim.now)
        return;
    host->stopped_until = sim.now;
    for (int i = 0; i < host->loops; i++)
        loop_resume(host->loop[i]);
}

bool host_is_running(const struct sim_host *host)
{
    for (const struct sim_frame *f = sim.frame; f; f = f->outer)
        if (f->host == host)
            return true;
    return false;
}

/* Where the link leads; NULL: nowhere, or it is not up. */
static const struct vnode *server_of(const struct link *link)
{
    return link_is_up(link) ? HF_CONTAINER(link->context, struct sim_connection, context)->node
                            : NULL;
}

static bool watches(const struct sim_host *host, const struct node *node)
{
    return node->trust.clock_known &&
           host_now(host).ns - node->trust.sampled.ns < sim.plan.ttl_ms * SIM_MS / 2;
}

/* The server may have any place in the list that its agent goes by, or none. */
bool host_watches(const struct sim_host *host, int number)
{
    const struct nodes *nodes = host->broker ? host->broker->nodes : NULL;

    /* In the middle of its code a link may have no connection any more. */
    if (!nodes || host->phase != HOST_ON || sim.now < host->stopped_until || host_is_running(host))
        return false;
    for (int i = 0; i < nodes->n; i++)
        if (nodes->node[i].up && server_of(nodes->node[i].link) == sim.node[number] &&
            watches(host, &nodes->node[i]))
            return true;
    return false;
}

/* Both threads' links of that place in its list. */
static bool leads_to(const struct sim_host *host, int i, const struct vnode *node)
{
    return server_of(host->broker->nodes->links[i]) == node &&
           server_of(host->agent.renewal->node[i].link) == node;
}

bool host_is_linked(const struct sim_host *host, int number)
{
    for (int i = 0; host->broker && i < host->config.node_count; i++)
        if (leads_to(host, i, sim.node[number]))
            return true;
    return false;
}

/* Where its agent is to be connected: to the fleet's seats, once it knows them. */
static const struct vnode *wanted(const struct sim_host *host, int i)
{
    const struct fleet *f = &host->broker->nodes->fleet_view;

    if (!f->known || host->config.nodes[i].as[0])
        return vnode_at(host->config.nodes[i].port);
    return vnode_of_seat(fleet_place(f, i)->address);
}

/* Nobody waits for it. */
static bool is_gone(const struct sim_host *host, int i)
{
    const struct fleet *f = &host->broker->nodes->fleet_view;

    return f->known && fleet_place(f, i)->gone;
}

bool hosts_connected(void)
{
    for (int h = 0; h < sim.plan.hosts; h++)
        for (int i = 0; i < sim.host[h]->config.node_count; i++)
            if (!sim.host[h]->broker ||
                !(is_gone(sim.host[h], i) || leads_to(sim.host[h], i, wanted(sim.host[h], i))))
                return false;
    return true;
}

/* --- SIGTERM ---------------------------------------------------------------------------------- */

static sim_ns back_after[SIM_HOSTS];

static void go_away(void *arg)
{
    struct sim_host *host = arg;

    mailbox_post(&host->agent.to_broker, message_new(MSG_GO_AWAY));
}

void host_upgrade(struct sim_host *host, sim_ns back)
{
    if (host->phase != HOST_ON || sim.now < host->stopped_until)
        return;
    sim_trace("h%d agent gets SIGTERM", host->number);
    back_after[host->number] = back;
    host->phase = HOST_GOING;
    (void)sim_agent_run(host, go_away, host);
}

static void stop(void *arg)
{
    struct sim_host *host = arg;

    mailbox_post(&host->agent.to_renewal, message_new(MSG_STOP));
}

static void destroy(void *arg)
{
    struct sim_host *host = arg;
    struct agent *agent = &host->agent;

    renewal_join(agent->renewal);
    broker_destroy(agent->broker);
    renewal_destroy(agent->renewal);
    lease_table_destroy(agent->leases);
    (void)stores_close(agent);
}

static void on_step(struct sim_event *event)
{
    struct sim_host *host = HF_CONTAINER(event, struct sim_host, step);

    if (host->phase == HOST_GOING) {
        host->phase = HOST_STOPPING;
        steps_agent_ends(host);
        host->broker = NULL;
        (void)sim_agent_run(host, stop, host);
    } else if (host->phase == HOST_STOPPING) {
        if (!sim_agent_run(host, destroy, host))
            return; /* killed in it */
        sim_trace("h%d agent has ended", host->number);
        gone(host);
        if (back_after[host->number] < SIM_NEVER)
            host_start_later(host, back_after[host->number]);
    }
}

void host_loop_stopped(struct sim_host *host, struct loop *loop)
{
    (void)loop;
    sim_at(&host->step, sim.now + 100 * SIM_US);
}

/* --- the hosts -------------------------------------------------------------------------------- */

static void configure(struct sim_host *host)
{
    const struct sim_plan *plan = &sim.plan;
    struct config *c = &host->config;
    char why[160];

    memset(c, 0, sizeof(*c));
    snprintf(c->name, sizeof(c->name), "sim%d", host->number);
    snprintf(c->runtime_dir, sizeof(c->runtime_dir), "/sim");
    snprintf(c->key_format, sizeof(c->key_format), "%%s");
    c->node_count = plan->nodes;
    addresses_configure(host);
    list_hash_with(c->nodes, c->node_count, "", c->list_hash);
    memcpy(c->file_hash, c->list_hash, sizeof(c->file_hash));
    c->ttl_ms = plan->ttl_ms;
    c->ttl_max_ms = plan->ttl_max_ms;
    config_count_all(c);
    c->capacity = CAPACITY;
    c->track_held = rng_chance(&sim.rng, 0.8) ? 1000 : 0;
    c->busy_poll_us = sim.seed % 2 ? 30 : 0;
    c->clients_max = 64;
    c->table_mode = 0644;
    c->group = (gid_t)-1;
    if (timing_derive(hf_ms(c->ttl_ms), hf_ms(c->ttl_max_ms), &c->timing, why, sizeof(why)) < 0) {
        fprintf(stderr, "sim: %s\n", why);
        abort();
    }
}

void hosts_begin(void)
{
    static struct sim_heap *heaps[SIM_HOSTS];

    for (int i = 0; i < sim.plan.hosts; i++) {
        struct sim_host *host = sim_alloc(sizeof(*host));

        if (!heaps[i])
            heaps[i] = sim_heap_new(HEAP_SIZE);
        host->number = i;
        host->heap = heaps[i];
        host->boot.base_ns = rng_between(&sim.rng, 10, 100000) * SIM_SEC;
        host->boot.ppb = rng_between(&sim.rng, -SIM_RATE_MOST, SIM_RATE_MOST);
        host->wall_ms =
            INT64_C(1700000000000) - host->boot.base_ns / SIM_MS + rng_between(&sim.rng, -300, 300);
        host->start.fn = on_start;
        host->step.fn = on_step;
        memset(host->clock.boot_id, 'b', sizeof(host->clock.boot_id));
        snprintf(host->dir, sizeof(host->dir), "/sim/h%d", i);
        configure(host);
        sim.host[i] = host;
        host_start_later(host, rng_below(&sim.rng, 200 * SIM_MS));
    }
}

void host_listens(struct sim_host *host, struct broker *broker)
{
    host->broker = broker;
    host->listening_since = sim.now;
    procs_agent_listens(host);
}
