#include "tests/sim/liars.h"

#include <stdio.h>
#include <string.h>

#include "agent/core/fleet_change.h"
#include "shm/status.h"
#include "tests/sim/changes.h"
#include "tests/sim/host.h"
#include "tests/sim/vnode.h"

#define NOBODYS    "10.0.0.9:%d" /* an attacker's servers */
#define KEPT       8             /* records that were seen on some node */
#define LIES_EVERY (60 * SIM_MS)

static struct sim_rng *rng;
static struct vnode *liar;
static bool ended;
static struct sim_event event;
static struct fleet_record kept[KEPT];
static int count;

bool liars_is_one(const struct vnode *node)
{
    return node == liar;
}

static bool read(const struct vnode *node, struct fleet_record *ret)
{
    const char *text = vnode_field(node, "record");

    return text && fleet_record_read(text, strlen(text), ret) == HF_OK;
}

static void look(void)
{
    struct fleet_record r;

    for (int i = 0; i < sim.servers; i++) {
        bool known = sim.node[i] == liar || !read(sim.node[i], &r);

        for (int k = 0; !known && k < count && k < KEPT; k++)
            known = fleet_record_is_same(&kept[k], &r);
        if (!known)
            kept[count++ % KEPT] = r;
    }
}

static void move_to_nobodys(struct fleet_seat *seats, int first, int n)
{
    for (int i = first; i < n; i++)
        snprintf(seats[i].address, sizeof(seats[i].address), NOBODYS, 1000 + i);
}

/* A change that nobody asked for, of the latest record. */
static void invent(struct fleet_record *r)
{
    *r = *changes_latest();
    r->version += rng_below(rng, 3) + (r->state == FLEET_COMPLETE);
    r->state = rng_chance(rng, 0.5) ? FLEET_CHANGING : FLEET_COMPLETE;
    memcpy(r->before, r->seat, sizeof(r->before));
    r->before_count = r->count;
    r->ttl_max_before_ms = r->ttl_max_ms;
    move_to_nobodys(r->seat, rng_chance(rng, 0.5) ? r->count - 1 : 0, r->count);
    if (rng_chance(rng, 0.3))
        move_to_nobodys(r->before, 0, r->before_count);
    if (r->state == FLEET_CHANGING && rng_chance(rng, 0.3))
        r->before[rng_below(rng, r->before_count)].gone = true;
    if (r->version < 2)
        r->version = 2;
}

static void draw(struct fleet_record *r)
{
    *r = kept[rng_below(rng, count < KEPT ? count : KEPT)];
    if (rng_chance(rng, 0.4)) {
        invent(r);
    } else if (r->state == FLEET_CHANGING && rng_chance(rng, 0.6)) {
        if (rng_chance(rng, 0.5))
            fleet_record_complete(r);
        else
            r->before[rng_below(rng, r->before_count)].gone = true;
    }
}

/* That it is another member's server, or itself again. */
static void claim(void)
{
    const struct vnode *other = sim.node[rng_below(rng, sim.servers)];

    liar->claims = other == liar ? NULL : other;
    sim_trace("n%d says that it is n%d", liar->number, other->number);
    sim.seen[SEEN_CLAIM] |= liar->claims != NULL;
}

static void on_lie(struct sim_event *e)
{
    struct fleet_record r;
    char text[FLEET_TEXT_SIZE], digest[FLEET_DIGEST_LEN + 1];

    if (sim.settling)
        return;
    sim_at(e, sim.now + rng_log(rng, SIM_MS, 2 * LIES_EVERY));
    look();
    if (!liar->running || !vnode_field(liar, "nonce") || !count || !changes_latest())
        return;
    draw(&r);
    fleet_record_digest(text, fleet_record_text(&r, text), digest);
    sim_trace("n%d lies: version %d, state %d, %s", liar->number, (int)r.version, (int)r.state,
              digest);
    vnode_set_record(liar, text, digest);
    sim.seen[SEEN_LIE] = true;
    if (rng_chance(rng, 0.3))
        claim();
}

void liars_check(const struct sim_host *host, const struct fleet_record *r)
{
    for (int i = 0; i < r->count; i++)
        if (strncmp(r->seat[i].address, NOBODYS, strlen(NOBODYS) - 2) == 0)
            sim_violation("lie", "h%d goes by version %d, which nobody asked for", host->number,
                          (int)r->version);
    for (int i = 0; i < r->before_count; i++)
        if (strncmp(r->before[i].address, NOBODYS, strlen(NOBODYS) - 2) == 0)
            sim_violation("lie", "h%d goes by version %d, of members that nobody has", host->number,
                          (int)r->version);
}

void liars_begin(struct sim_rng *of)
{
    rng = of;
    for (int i = 0; i < sim.servers; i++)
        sim.node[i]->claims = NULL;
    liar = NULL;
    ended = false;
    count = 0;
    if (!sim.plan.lies)
        return;
    liar = sim.node[rng_below(rng, sim.plan.nodes)];
    event = (struct sim_event){.fn = on_lie};
    sim_at(&event, 300 * SIM_MS);
}

void liars_end(void)
{
    if (liar)
        liar->claims = NULL;
    if (liar && liar->running && !ended)
        vnode_flush(liar);
    ended = true;
}
