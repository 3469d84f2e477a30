#include "tests/sim/wander.h"

#include <stdlib.h>
#include <string.h>

#include "agent/broker/nodes/nodes.h"
#include "agent/broker/rooms.h"
#include "agent/redis/script.h"
#include "agent/renewal/renewal_internal.h"
#include "tests/sim/checks.h"
#include "tests/sim/fake_hiredis.h"
#include "tests/sim/host.h"
#include "tests/sim/procs.h"
#include "tests/sim/vnode.h"
#include "tests/sim/wide.h"

#define LEGS 3
/* By which the ages of a sentinel are apart for whoever meets the node then, whatever the hosts' wall clocks are. */
#define AGES_APART_US INT64_C(2000000)

enum loses { LOSES_NONE, LOSES_ITS, LOSES_ALL, LOSES };

struct leg {
    int64_t us; /* ahead; below 0: behind */
    sim_ns lasts;
    double share; /* of the keys whose time is over that the node finds then */
};

struct storm {
    struct sim_event event;
    struct sim_host *host; /* of the lease */
    int left;              /* nodes that have not met a command yet */
};

struct wander {
    struct sim_event event;
    struct vnode *node;
    struct storm *storm; /* NULL: a single one */
    uint32_t scripts;    /* bit per script whose command begins it */
    int host;            /* whose; -1: anybody's */
    bool waits, anyway;  /* for such a command; it begins without one in the end */
    enum loses loses;    /* which answers */
    struct leg leg[LEGS];
    int legs, at;
};

static struct wander *wanders[SIM_NODES]; /* one per node */
static struct sim_rng *rng;

static sim_ns ttl(int64_t num, int64_t den)
{
    return (sim_ns)sim.plan.ttl_max_ms * SIM_MS * num / den;
}

/* --- what agents can see ---------------------------------------------------------------------- */

/* What an agent knows of the clock leaves room for this one: it would take the step for drift, or for slow answers. */
static bool is_hidden(const struct sim_host *host, const struct node_trust *t,
                      const struct vnode *node, int64_t us)
{
    int64_t now_us = host_now(host).ns / SIM_US;
    int64_t offset = vnode_wall_us(node) - node->astray_us + us - now_us;
    int64_t room = (now_us - t->sampled.ns / SIM_US) / 50 + ttl(1, 50) / SIM_US + 4000;

    return t->clock_known && offset >= t->low_us - room && offset <= t->high_us + room;
}

static bool is_seen_by(const struct sim_host *host, const struct vnode *node, int64_t us)
{
    const struct nodes *nodes = host->broker ? host->broker->nodes : NULL;
    const struct node_trust *broker, *renewal;

    if (host->phase == HOST_OFF)
        return true; /* it starts later, or not (wander_holds_back()) */
    if (!nodes || node->number >= nodes->n)
        return llabs(us) >= AGES_APART_US;
    broker = &nodes->node[node->number].trust;
    renewal = &host->agent.renewal->node[node->number].trust;
    if ((!broker->clock_known || !renewal->clock_known) && llabs(us) < AGES_APART_US)
        return false;
    return !is_hidden(host, broker, node, us) && !is_hidden(host, renewal, node, us);
}

/* Each agent that gets an answer sees that the clock is not right. */
static bool is_plain(const struct vnode *node, int64_t us)
{
    for (int h = 0; h < sim.plan.hosts; h++)
        if (!is_seen_by(sim.host[h], node, us))
            return false;
    return true;
}

bool wander_holds_back(void)
{
    for (int i = 0; wide_has(WIDE_WANDER) && i < sim.plan.nodes; i++)
        if (sim.node[i]->astray_us && llabs(sim.node[i]->astray_us) < AGES_APART_US &&
            wanders[i]->loses != LOSES_ALL)
            return true;
    return false;
}

/* --- on the way ------------------------------------------------------------------------------- */

static void be_back(struct wander *w)
{
    sim_cancel(&w->event);
    w->waits = false;
    w->at = w->legs;
    vnode_wander(w->node, 0);
}

static void go(struct wander *w)
{
    const struct leg *leg;

    while (w->at < w->legs && w->leg[w->at].us && w->loses != LOSES_ALL &&
           !is_plain(w->node, w->leg[w->at].us))
        w->at++;
    if (w->at == w->legs) {
        be_back(w);
        return;
    }
    leg = &w->leg[w->at++];
    vnode_wander(w->node, leg->us);
    vnode_expire(w->node, vnode_wall_us(w->node), leg->share, rng);
    sim_at(&w->event, sim.now + leg->lasts);
}

/* The host of the lease is away soon after, perhaps as soon as it has the answer. */
static void count_storm(struct storm *storm)
{
    if (storm && --storm->left == 0)
        sim_at(&storm->event,
               sim.now + (rng_chance(rng, 0.5)
                              ? rng_between(rng, sim.plan.delay_low, 2 * sim.plan.delay_high)
                              : rng_log(rng, 10 * SIM_US, ttl(1, 6))));
}

static void on_leg(struct sim_event *event)
{
    struct wander *w = HF_CONTAINER(event, struct wander, event);

    if (sim.settling || (w->waits && !w->anyway)) {
        be_back(w);
        return;
    }
    if (w->waits)
        count_storm(w->storm);
    w->waits = false;
    go(w);
}

static void note_seen(int script)
{
    static const enum sim_seen seen[] = {
        [SCRIPT_ACQUIRE] = SEEN_ASTRAY_ACQUIRE, [SCRIPT_RAISE] = SEEN_ASTRAY_ACQUIRE,
        [SCRIPT_HEAL] = SEEN_ASTRAY_HEAL,       [SCRIPT_RENEW] = SEEN_ASTRAY_RENEWAL,
        [SCRIPT_RELEASE] = SEEN_ASTRAY_RELEASE,
    };

    if (script >= 0 && script < (int)HF_LENGTH(seen))
        sim.seen[seen[script]] = true;
    else if (script == SCRIPT_FORCE)
        sim.seen[SEEN_ASTRAY_FORCE] = true;
}

bool wander_meets(struct vnode *node, const struct sim_message *m)
{
    struct wander *w = node->number < SIM_NODES ? wanders[node->number] : NULL;
    int script = strcmp(m->command.argv[0], "EVALSHA") == 0 ? atoi(m->command.argv[1]) : -1;
    bool meant;

    if (!wide_has(WIDE_WANDER) || !w || sim.settling)
        return false;
    meant = script >= 0 && w->scripts >> script & 1 &&
            (w->host < 0 || w->host == m->connection->host->number);
    if (w->waits && meant) {
        w->waits = false;
        go(w);
        count_storm(w->storm);
    }
    if (!node->astray_us)
        return false;
    note_seen(script);
    return w->loses == LOSES_ALL || (w->loses == LOSES_ITS && meant);
}

/* --- drawing ---------------------------------------------------------------------------------- */

static int64_t draw_us(void)
{
    double kind = (double)rng_below(rng, 100) / 100;

    if (kind < 0.25)
        return rng_log(rng, 20000, 1000000);
    if (kind < 0.6)
        return rng_between(rng, ttl(1, 4), ttl(3, 2)) / SIM_US;
    if (kind < 0.85)
        return rng_log(rng, 1000000, 60000000);
    return rng_between(rng, 60000000, 120000000);
}

/* Further ahead, or behind, than before; or another way; or right for a moment. */
static void draw_legs(struct wander *w)
{
    static const double shares[] = {0, 0.5, 1, 1};

    w->legs = (int)rng_between(rng, 1, LEGS);
    for (int i = 0; i < w->legs; i++) {
        struct leg *leg = &w->leg[i];
        int64_t us = draw_us();

        if (i > 0 && rng_chance(rng, 0.5))
            leg->us = w->leg[i - 1].us + (w->leg[i - 1].us < 0 ? -us : us);
        else if (i > 0 && rng_chance(rng, 0.2))
            leg->us = 0;
        else
            leg->us = rng_chance(rng, 0.5) ? us : -us;
        leg->lasts = rng_log(rng, 50 * SIM_US, ttl(1, 3));
        leg->share = shares[rng_below(rng, (int64_t)HF_LENGTH(shares))];
    }
}

static uint32_t draw_scripts(void)
{
    static const uint32_t scripts[] = {
        1u << SCRIPT_RENEW,   1u << SCRIPT_RENEW,
        1u << SCRIPT_RENEW,   1u << SCRIPT_ACQUIRE | 1u << SCRIPT_RAISE,
        1u << SCRIPT_ACQUIRE, 1u << SCRIPT_HEAL,
        1u << SCRIPT_RELEASE, 1u << SCRIPT_FORCE | 1u << SCRIPT_QUERY,
    };

    return scripts[rng_below(rng, (int64_t)HF_LENGTH(scripts))];
}

/* On that node as `like` has it, but for when. */
static struct wander *wander_at(struct vnode *node, const struct wander *like)
{
    struct wander *w = wanders[node->number];

    if (node->astray_us || w->event.place || w->waits)
        return NULL;
    w->storm = NULL;
    w->scripts = like->scripts;
    w->host = like->host;
    w->waits = like->waits;
    w->anyway = like->anyway;
    w->loses = like->loses;
    memcpy(w->leg, like->leg, sizeof(w->leg));
    w->legs = like->legs;
    w->at = 0;
    sim_at(&w->event, sim.now + (w->waits ? ttl(1, 2) : 0) + rng_below(rng, ttl(1, 6)));
    return w;
}

/* Behind just as renewals come, and their answers tell. */
static struct wander draw_behind(void)
{
    struct wander like = {.scripts = 1u << SCRIPT_RENEW, .host = -1, .waits = true, .legs = 1};

    like.leg[0].us = -rng_between(rng, ttl(2, 5), ttl(3, 2)) / SIM_US;
    like.leg[0].lasts = rng_log(rng, 50 * SIM_US, 50 * SIM_MS);
    return like;
}

static struct wander draw(void)
{
    struct wander like = {.scripts = draw_scripts(), .host = -1};

    if (rng_chance(rng, 0.2))
        return draw_behind();
    like.waits = rng_chance(rng, 0.75);
    like.anyway = rng_chance(rng, 0.5);
    like.loses = (enum loses)rng_below(rng, LOSES);
    draw_legs(&like);
    return like;
}

/* --- storms ----------------------------------------------------------------------------------- */

static void on_storm_met(struct sim_event *event)
{
    struct storm *storm = HF_CONTAINER(event, struct storm, event);

    if (!sim.settling)
        host_put_away(storm->host, sim.now + rng_between(rng, ttl(1, 4), ttl(3, 2)), rng);
}

/* Around a lease: the clocks of a quorum are wrong as its renewals, or others' commands, come, and then its host is away. */
static void on_storm(struct sim_event *event)
{
    const struct claim *claim = checks_some_valid();
    int hit = rng_chance(rng, 0.5) ? sim.plan.nodes : sim.plan.quorum;
    int first = (int)rng_below(rng, sim.plan.nodes);
    struct sim_host *other = sim.host[rng_below(rng, sim.plan.hosts)];
    struct storm *storm = rng_chance(rng, 0.8) ? sim_alloc(sizeof(*storm)) : NULL;
    struct wander like = draw();

    (void)event;
    if (!claim || sim.settling)
        return;
    if (like.scripts & (1u << SCRIPT_RENEW | 1u << SCRIPT_HEAL))
        like.host = claim->host->number;
    sim_trace("clocks wander around the lease of r%d on h%d", claim->resource, claim->host->number);
    if (storm) {
        storm->event.fn = on_storm_met;
        storm->host = claim->host;
    }
    for (int n = 0; n < hit; n++) {
        struct vnode *node = sim.node[(first + n) % sim.plan.nodes];
        struct wander *w = wander_at(node, &like);

        if (w && storm) {
            w->storm = storm;
            storm->left++;
        }
        if (like.scripts & 1u << SCRIPT_HEAL && rng_chance(rng, 0.7))
            vnode_excursion(node, ttl(3, 1) / SIM_US, 1, rng);
    }
    if (storm && !like.waits)
        sim_at(&storm->event, sim.now + rng_below(rng, ttl(1, 2)));
    if (other != claim->host && rng_chance(rng, 0.5))
        proc_come(other, claim->resource, sim.now + rng_below(rng, ttl(3, 2)));
}

static void on_single(struct sim_event *event)
{
    struct wander like = draw();

    (void)event;
    if (!sim.settling)
        (void)wander_at(sim.node[rng_below(rng, sim.plan.nodes)], &like);
}

void wander_begin(void)
{
    int singles, storms;

    rng = wide_rng(WIDE_WANDER);
    for (int i = 0; i < SIM_NODES; i++) {
        wanders[i] = sim_alloc(sizeof(*wanders[i]));
        wanders[i]->event.fn = on_leg;
        wanders[i]->node = sim.node[i];
        if (i < sim.plan.nodes)
            sim.node[i]->no_gt = rng_chance(rng, 0.3);
    }
    singles = (int)rng_between(rng, 0, 3);
    storms = (int)rng_between(rng, 1, 4);
    for (int i = 0; i < singles + storms; i++) {
        struct sim_event *event = sim_alloc(sizeof(*event));

        event->fn = i < singles ? on_single : on_storm;
        sim_at(event, rng_between(rng, 300 * SIM_MS, sim.plan.faults_until));
    }
}

void wander_end(void)
{
    for (int i = 0; wide_has(WIDE_WANDER) && i < sim.plan.nodes; i++)
        be_back(wanders[i]);
}

/* --- what is left ----------------------------------------------------------------------------- */

/* A promise of another nonce counts for nothing. */
static int64_t stands_ms(struct vnode *node, const struct store_key *key)
{
    int64_t now_ms = vnode_wall_us(node) / 1000;
    const char *until, *nonce = vnode_field(node, "nonce"), *by;

    if (!key->used)
        return 0;
    if (!key->is_hash)
        return key->expires_ms - now_ms;
    until = store_field(key, "until");
    by = until ? strchr(until, ' ') : NULL;
    return by && nonce && strncmp(by + 1, nonce, 8) == 0 ? atoll(until) - now_ms : 0;
}

sim_ns wander_stands(void)
{
    int64_t most_ms = 0;

    for (int i = 0; wide_has(WIDE_WANDER) && i < sim.plan.nodes; i++)
        for (int k = 0; k < STORE_KEYS; k++) {
            int64_t ms = stands_ms(sim.node[i], &sim.node[i]->store.key[k]);

            most_ms = most_ms < ms ? ms : most_ms;
        }
    return most_ms * SIM_MS;
}
