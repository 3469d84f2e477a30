#include "tests/sim/steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/broker/nodes/nodes.h"
#include "agent/broker/rooms.h"
#include "tests/sim/checks.h"
#include "tests/sim/host.h"
#include "tests/sim/procs.h"
#include "tests/sim/vnode.h"
#include "tests/sim/wide.h"

#define LOOK_EVERY (20 * SIM_MS)
/* For an undisturbed agent to leave its trace, once it has seen the step. */
#define TRACE_WITHIN (120 * SIM_MS)
/* By then an agent has written what it knows. */
#define KNOWN_AFTER (500 * SIM_MS)
/* What an agent sees whatever it knew last, and however long its answers took. */
#define COARSE_US 400000
/* By which the ages of a sentinel are apart so clearly that a first contact tells. */
#define AGES_APART_US 1100000

struct trace { /* that a step is to leave on its node */
    struct sim_event look;
    struct vnode *node;
    bool due;
    char nonce[STORE_VALUE];
    sim_ns stepped, calm_since; /* SIM_NEVER: nobody has seen it, or something was in the way */
    uint32_t watchers;          /* bit per host */
    hf_time until[SIM_HOSTS];   /* each one's quarantine of the node, when it stepped */
};

struct step {
    struct sim_event event;
    struct vnode *node;
    int64_t us;
};

static struct trace traces[SIM_NODES];
static uint32_t known[SIM_HOSTS]; /* bit per node whose clock its agents knew */
static struct sim_rng *rng;

/* --- what it leaves --------------------------------------------------------------------------- */

static void nonce_of(struct vnode *node, char ret_nonce[STORE_VALUE])
{
    const struct store_key *key =
        store_find(&node->store, "holdfast:node", vnode_wall_us(node) / 1000);
    const char *nonce = key ? store_field(key, "nonce") : NULL;

    snprintf(ret_nonce, STORE_VALUE, "%s", nonce ? nonce : "");
}

/* This step, not one before it: that has not begun a quarantine as late. */
static bool has_seen(const struct sim_host *host, const struct trace *t)
{
    const struct node_trust *trust =
        host->broker ? &host->broker->nodes->node[t->node->number].trust : NULL;

    return trust && trust->reasons & HF_QUARANTINE_CLOCK &&
           hf_time_before(t->until[host->number], trust->until);
}

/* The agent and the way to the node, there and back. */
static bool is_calm(const struct sim_host *host, const struct vnode *node)
{
    const struct net_path *path = net_path(host, node);

    return host->phase == HOST_ON && sim.now >= host->stopped_until && !host_is_running(host) &&
           host_is_linked(host, node->number) && node->running && sim.now >= node->stopped_until &&
           sim.now >= node->error_until && sim.now >= path->slow_until &&
           sim.now >= path->blocked_until[NET_THERE] && sim.now >= path->blocked_until[NET_BACK];
}

static bool is_seen_in_calm(const struct trace *t)
{
    for (int h = 0; h < sim.plan.hosts; h++)
        if (t->watchers >> h & 1 && has_seen(sim.host[h], t) && is_calm(sim.host[h], t->node))
            return true;
    return false;
}

/* After a quarantine no key from before the step stands. */
static sim_ns harmless_after(void)
{
    return (sim_ns)sim.plan.ttl_max_ms * SIM_MS * 103 / 100 + SIM_SEC;
}

static void on_look(struct sim_event *event)
{
    struct trace *t = HF_CONTAINER(event, struct trace, look);
    char nonce[STORE_VALUE];

    nonce_of(t->node, nonce);
    if (!is_seen_in_calm(t))
        t->calm_since = SIM_NEVER;
    else if (t->calm_since == SIM_NEVER)
        t->calm_since = sim.now;
    if (strcmp(nonce, t->nonce) != 0 || sim.now - t->calm_since > TRACE_WITHIN ||
        sim.now - t->stepped > harmless_after())
        t->due = false;
    else
        sim_at(event, sim.now + LOOK_EVERY);
}

void steps_agent_ends(const struct sim_host *host)
{
    if (!wide_has(WIDE_STEPS) || !host->broker || sim.now - host->listening_since < KNOWN_AFTER)
        return;
    for (int i = 0; i < host->broker->nodes->n; i++)
        if (host->broker->nodes->node[i].trust.clock_known)
            known[host->number] |= UINT32_C(1) << i;
}

void steps_forgotten(const struct sim_host *host)
{
    known[host->number] = 0;
}

/* The node's clock is so far from where it was when the sentinel was made that its ages tell: by then nobody need
 * have left a trace. */
static bool ages_tell(const struct sim_host *host, struct vnode *node)
{
    const struct store_key *key =
        store_find(&node->store, "holdfast:node", vnode_wall_us(node) / 1000);
    const char *us = key ? store_field(key, "created_us") : NULL;
    const char *wall_ms = key ? store_field(key, "created_wall_ms") : NULL;
    int64_t wall = host_now(host).ns / SIM_MS + host->wall_ms;

    return us && wall_ms &&
           llabs(vnode_wall_us(node) - atoll(us) - (wall - atoll(wall_ms)) * 1000) > AGES_APART_US;
}

/* If an earlier agent knew the clock, this one sees the step, as that one would have: what is known stays. */
bool steps_hold_back(const struct sim_host *host)
{
    if (!wide_has(WIDE_STEPS))
        return false;
    for (int i = 0; i < sim.plan.nodes; i++)
        if (traces[i].due && !(known[host->number] >> i & 1) && !ages_tell(host, sim.node[i]))
            return true;
    return false;
}

/* --- steps ------------------------------------------------------------------------------------ */

static bool knows_clock(const struct sim_host *host, int node)
{
    return host->broker && node < host->broker->nodes->n &&
           host->broker->nodes->node[node].trust.clock_known;
}

/* Bit per host whose agent watches the node. 0: none does, or one is there that knows nothing of its clock. */
static uint32_t watchers_of(const struct vnode *node, bool *ret_all)
{
    uint32_t watchers = 0;

    *ret_all = true;
    for (int h = 0; h < sim.plan.hosts; h++) {
        const struct sim_host *host = sim.host[h];

        if (host->phase != HOST_OFF && !knows_clock(host, node->number))
            return 0;
        if (host->broker && host_watches(host, node->number))
            watchers |= UINT32_C(1) << h;
        else
            *ret_all = false;
    }
    return watchers;
}

static void step(struct vnode *node, int64_t us)
{
    struct trace *t = &traces[node->number];
    bool all;
    uint32_t watchers = watchers_of(node, &all);

    if (!node->running || sim.now < node->stopped_until || sim.settling || !watchers)
        return;
    if (!all && llabs(us) < COARSE_US)
        return;
    vnode_step(node, us);
    t->watchers = watchers;
    for (int h = 0; h < sim.plan.hosts; h++)
        if (sim.host[h]->broker)
            t->until[h] = sim.host[h]->broker->nodes->node[node->number].trust.until;
    t->stepped = sim.now;
    t->calm_since = SIM_NEVER;
    t->due = true;
    nonce_of(node, t->nonce);
    sim_at(&t->look, sim.now);
}

static void on_step(struct sim_event *event)
{
    struct step *s = HF_CONTAINER(event, struct step, event);

    step(s->node, s->us);
}

static void step_at(struct vnode *node, sim_ns at, int64_t us)
{
    struct step *s = sim_alloc(sizeof(*s));

    s->event.fn = on_step;
    s->node = node;
    s->us = us;
    sim_at(&s->event, at);
}

static void on_single(struct sim_event *event)
{
    int64_t us = rng_log(rng, 1000, 5000000);

    (void)event;
    step(sim.node[rng_below(rng, sim.plan.nodes)], rng_chance(rng, 0.5) ? us : -us);
}

/* --- storms ----------------------------------------------------------------------------------- */

static sim_ns ttl(int64_t num, int64_t den)
{
    return (sim_ns)sim.plan.ttl_max_ms * SIM_MS * num / den;
}

/* An agent that has watched forgets: its host reboots, or it ends cleanly, which leaves nothing of it if it holds nothing. */
static void forget(struct sim_host *host)
{
    if (rng_chance(rng, 0.5)) {
        host_reboot(host);
        host_start_later(host, rng_below(rng, ttl(1, 8)));
    } else {
        host_upgrade(host, rng_below(rng, ttl(1, 8)));
    }
}

struct forgetting {
    struct sim_event event;
    struct sim_host *host;
};

static void on_forget(struct sim_event *event)
{
    if (!sim.settling)
        forget(HF_CONTAINER(event, struct forgetting, event)->host);
}

/* About what that host cannot tell from drift and from the time that its answers take, should the ways there and back
 * change places. */
static int64_t far_step(const struct sim_host *host)
{
    const sim_ns *way = sim.plan.far[host->number];
    int64_t trip = (way[NET_THERE] + way[NET_BACK] + 2 * sim.plan.delay_low) / SIM_US;

    return trip + rng_below(rng, (int64_t)sim.plan.ttl_ms * 20); /* twice the drift allowance */
}

static void change_ways(int host)
{
    sim_ns there = sim.plan.far[host][NET_THERE];

    sim.plan.far[host][NET_THERE] = sim.plan.far[host][NET_BACK];
    sim.plan.far[host][NET_BACK] = there;
}

/* Somebody there wants it as it lapses on a quorum, by clocks that will be `us` ahead. */
static void ask_early(struct sim_host *host, int resource, int64_t us)
{
    char name[] = {'r', (char)('0' + resource), '\0'};
    sim_ns lapses[SIM_NODES];
    int count = 0;

    for (int i = 0; i < sim.plan.nodes; i++) {
        struct vnode *node = sim.node[i];
        const struct store_key *key = store_find(&node->store, name, vnode_wall_us(node) / 1000);
        sim_ns at =
            key ? clock_when(&node->clock, (key->expires_ms * 1000 - us - node->wall_us) * SIM_US)
                : 0;
        int k = count++;

        for (; k > 0 && lapses[k - 1] > at; k--)
            lapses[k] = lapses[k - 1];
        lapses[k] = at;
    }
    proc_come(host, resource,
              lapses[sim.plan.quorum - 1] - sim.plan.far[host->number][NET_THERE] +
                  rng_below(rng, 4 * SIM_MS));
}

static void forget_later(struct sim_host *host, sim_ns after)
{
    struct forgetting *f = sim_alloc(sizeof(*f));

    f->event.fn = on_forget;
    f->host = host;
    sim_at(&f->event, sim.now + after);
}

/* A quorum of clocks, or all of them. */
static void step_many(int64_t us, sim_ns within)
{
    int hit = rng_chance(rng, 0.5) ? sim.plan.nodes : sim.plan.quorum;
    int first = (int)rng_below(rng, sim.plan.nodes);

    for (int n = 0; n < hit; n++)
        step_at(sim.node[(first + n) % sim.plan.nodes], sim.now + 1 + rng_below(rng, within), us);
}

/* Around a lease: clocks go ahead, and its host is out of touch. */
static void on_storm(struct sim_event *event)
{
    const struct claim *claim = checks_some_valid();
    int64_t us = rng_chance(rng, 0.5) ? rng_log(rng, 50000, 5000000)
                                      : rng_between(rng, ttl(1, 2), ttl(6, 5)) / SIM_US;
    sim_ns within = rng_below(rng, ttl(1, 6)) + 1;
    struct sim_host *other = sim.host[rng_below(rng, sim.plan.hosts)];

    (void)event;
    if (!claim || sim.settling)
        return;
    sim_trace("clocks step around the lease of r%d on h%d", claim->resource, claim->host->number);
    step_many(us, within);
    if (rng_chance(rng, 0.6))
        host_cut_off(claim->host, sim.now + within + rng_between(rng, ttl(1, 8), ttl(3, 2)));
    if (other != claim->host && rng_chance(rng, 0.8))
        forget_later(other, within + rng_below(rng, ttl(1, 3)));
}

/* The same by so little that a far host takes it for the time that its answers need. */
static void on_far_storm(struct sim_event *event)
{
    const struct claim *claim = checks_some_valid();
    struct sim_host *other = sim.host[rng_below(rng, sim.plan.hosts)];
    int64_t us = far_step(other);

    (void)event;
    if (!claim || sim.settling || claim->host == other)
        return;
    sim_trace("clocks step by little around the lease of r%d on h%d", claim->resource,
              claim->host->number);
    host_cut_off(claim->host, sim.now + ttl(3, 2));
    step_many(us, SIM_MS);
    if (rng_chance(rng, 0.5))
        change_ways(other->number);
    ask_early(other, claim->resource, us);
}

void steps_begin(void)
{
    int singles = 0, storms = 0, far = 0;

    for (int i = 0; wide_has(WIDE_FAR) && i < sim.plan.hosts + sim.plan.nodes; i++)
        if (i < sim.plan.hosts)
            sim.host[i]->boot.ppb = 0;
        else
            sim.node[i - sim.plan.hosts]->clock.ppb = 0;
    rng = wide_rng(wide_has(WIDE_STEPS) ? WIDE_STEPS : WIDE_FAR);
    memset(traces, 0, sizeof(traces));
    memset(known, 0, sizeof(known));
    for (int i = 0; i < SIM_NODES; i++) {
        traces[i].node = sim.node[i];
        traces[i].look.fn = on_look;
    }
    if (wide_has(WIDE_STEPS)) {
        singles = (int)rng_between(rng, 0, 3);
        storms = (int)rng_between(rng, 1, 4);
    }
    if (wide_has(WIDE_FAR))
        far = (int)rng_between(rng, 1, 3);
    for (int i = 0; i < singles + storms + far; i++) {
        struct sim_event *event = sim_alloc(sizeof(*event));

        event->fn = i < singles ? on_single : i < singles + storms ? on_storm : on_far_storm;
        sim_at(event, rng_between(rng, 300 * SIM_MS, sim.plan.faults_until));
    }
}
