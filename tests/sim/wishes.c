#include "tests/sim/wishes.h"

#include <stdio.h>
#include <string.h>

#include "agent/broker/nodes/nodes.h"
#include "agent/broker/rooms.h"
#include "tests/sim/changes.h"
#include "tests/sim/fleets.h"
#include "tests/sim/host.h"
#include "tests/sim/vnode.h"

#define MEMBERS_MOST 6
#define NEW_MOST     12 /* servers */

static struct sim_rng *rng;
static int servers;

void wishes_begin(struct sim_rng *of)
{
    rng = of;
    servers = 0;
}

/* --- servers ------------------------------------------------------------------------------------ */

static bool is_in(const struct fleet_seat *seats, int count, const char *seat)
{
    for (int i = 0; i < count; i++)
        if (strcmp(seats[i].address, seat) == 0)
            return true;
    return false;
}

static void seat_of(const struct vnode *node, char ret_seat[HF_NODE_TEXT_MAX + 1])
{
    snprintf(ret_seat, HF_NODE_TEXT_MAX + 1, SIM_IP ":%d", vnode_port(node));
}

/* By a record that some agent goes by, or one that it is to put. */
static bool is_named(const struct vnode *node)
{
    char seat[HF_NODE_TEXT_MAX + 1];

    seat_of(node, seat);
    for (int h = 0; h < sim.plan.hosts; h++) {
        const struct fleet *f =
            sim.host[h]->broker ? &sim.host[h]->broker->nodes->fleet_view : NULL;

        if (f && f->known &&
            (is_in(f->record.seat, f->record.count, seat) ||
             is_in(f->record.before, f->record.before_count, seat) ||
             is_in(f->wish.seat, f->wish.count, seat)))
            return true;
    }
    return false;
}

static bool is_empty(const struct vnode *node)
{
    for (int k = 0; k < STORE_KEYS; k++)
        if (node->store.key[k].used)
            return false;
    return node->running;
}

/* (!) Every agent goes by a complete record without it. One that would come later, with a memory of a fleet of nothing but servers
 * that were emptied since, would found that one again: nobody promises anything of that. */
static struct vnode *left_over(const struct fleet_record *r)
{
    struct vnode *node = sim.node[rng_below(rng, sim.servers)];
    char seat[HF_NODE_TEXT_MAX + 1];

    seat_of(node, seat);
    if (sim.plan.lies || r->state != FLEET_COMPLETE || !fleets_are_one() || !node->running ||
        is_empty(node) || is_in(r->seat, r->count, seat))
        return NULL;
    for (int h = 0; h < sim.plan.hosts; h++) {
        const struct fleet *f = &sim.host[h]->broker->nodes->fleet_view;

        if (f->wish_until.ns > host_now(sim.host[h]).ns ||
            (sim.plan.gentle && f->settles.ns != HF_TIME_PAST.ns))
            return NULL;
    }
    return node;
}

/* The command looks at it first: it is empty. */
static struct vnode *empty_server(const struct fleet_record *r)
{
    struct vnode *node = left_over(r);

    if (node) {
        sim_trace("n%d is emptied, to be used anew", node->number);
        vnode_flush(node);
        changes_correct(r);
        return node;
    }
    for (int i = sim.plan.nodes; i < sim.servers; i++)
        if (is_empty(sim.node[i]) && !is_named(sim.node[i]))
            return sim.node[i];
    if (servers == NEW_MOST)
        return NULL;
    servers++;
    return vnode_new();
}

static void die(const char *seat)
{
    vnode_die(vnode_of_seat(seat), rng_chance(rng, 0.5));
}

void wishes_end(const struct fleet_record *latest)
{
    for (int i = 0; i < sim.servers; i++) {
        char seat[HF_NODE_TEXT_MAX + 1];
        const struct fleet_seat *list;
        bool waited_for = !latest;
        int count = latest ? fleet_record_list(latest, &list) : 0;

        seat_of(sim.node[i], seat);
        for (int n = 0; n < count; n++)
            waited_for |= strcmp(list[n].address, seat) == 0 && !list[n].gone;
        if (waited_for || is_in(latest->seat, latest->count, seat))
            vnode_rise(sim.node[i], sim.now);
    }
}

/* --- wishes ------------------------------------------------------------------------------------- */

/* Of a node that was removed before, perhaps. */
static void unused_id(const struct fleet_record *r, char ret_id[HF_NODE_TEXT_MAX + 1])
{
    int taken;

    do {
        snprintf(ret_id, HF_NODE_TEXT_MAX + 1, "n%d", (int)rng_below(rng, r->count + 3));
        taken = 0;
        for (int i = 0; i < r->count; i++)
            taken += strcmp(r->seat[i].id, ret_id) == 0;
    } while (taken);
}

static bool draw_new(const struct fleet_record *r, struct fleet_wish *wish)
{
    struct vnode *server = empty_server(r);

    if (server)
        seat_of(server, wish->seat);
    return server != NULL;
}

static void draw_member(const struct fleet_record *r, struct fleet_wish *wish)
{
    int at = (int)rng_below(rng, r->count);

    memcpy(wish->id, r->seat[at].id, sizeof(wish->id));
    wish->gone = !sim.plan.gentle && !sim.plan.sleepers && !sim.plan.lies && r->count > 2 &&
                 rng_chance(rng, 0.15);
    if (wish->gone)
        die(r->seat[at].address);
}

bool wish_draw(const struct fleet_record *r, struct fleet_wish *wish)
{
    memset(wish, 0, sizeof(*wish));
    switch (rng_below(rng, 8)) {
    case 0:
    case 1:
        wish->kind = FLEET_WISH_TTL_MAX;
        /* No shorter than what processes ask for. */
        wish->ttl_max_ms =
            rng_between(rng, sim.plan.ttl_max_ms, (int64_t)sim.plan.ttl_max_ms * 13 / 10);
        return true;
    case 2:
    case 3:
        wish->kind = FLEET_WISH_REMOVE;
        draw_member(r, wish);
        return true;
    case 4:
    case 5:
        wish->kind = FLEET_WISH_ADD;
        unused_id(r, wish->id);
        return r->count < MEMBERS_MOST && draw_new(r, wish);
    default:
        wish->kind = FLEET_WISH_MOVE;
        if (!draw_new(r, wish))
            return false;
        draw_member(r, wish);
        return true;
    }
}

bool wish_gone(const struct fleet_record *r, struct fleet_wish *wish)
{
    memset(wish, 0, sizeof(*wish));
    wish->kind = FLEET_WISH_GONE;
    for (int i = 0; i < r->before_count; i++)
        if (!r->before[i].gone && !fleet_record_stays(r, &r->before[i])) {
            memcpy(wish->id, r->before[i].id, sizeof(wish->id));
            die(r->before[i].address);
            return true;
        }
    return false;
}

bool wish_gone_member(const struct fleet_record *r, struct sim_rng *of, struct fleet_wish *wish)
{
    const struct fleet_seat *seat = &r->before[rng_below(of, r->before_count)];
    int gone = 1;

    for (int i = 0; i < r->before_count; i++)
        gone += r->before[i].gone;
    if (seat->gone || gone > r->before_count / 2)
        return false; /* the operator starts an empty server instead */
    memset(wish, 0, sizeof(*wish));
    wish->kind = FLEET_WISH_GONE;
    memcpy(wish->id, seat->id, sizeof(wish->id));
    die(seat->address);
    return true;
}

static const struct fleet_seat *find_id(const struct fleet_seat *seats, int count, const char *id)
{
    for (int i = 0; i < count; i++)
        if (strcmp(seats[i].id, id) == 0)
            return &seats[i];
    return NULL;
}

static bool more_gone(const struct fleet_record *r, const struct fleet_record *lone,
                      struct fleet_wish *wish)
{
    wish->kind = FLEET_WISH_GONE;
    for (int i = 0; i < lone->before_count; i++)
        if (lone->before[i].gone && !r->before[i].gone) {
            memcpy(wish->id, lone->before[i].id, sizeof(wish->id));
            return true;
        }
    return false;
}

static bool given_up(const struct fleet_record *r, const struct fleet_record *lone,
                     struct fleet_wish *wish)
{
    wish->kind = FLEET_WISH_ABORT;
    for (int i = 0; i < lone->before_count; i++)
        wish->gone |= lone->before[i].gone && !fleet_record_stays(r, &lone->before[i]);
    return true;
}

bool wish_again(const struct fleet_record *r, const struct fleet_record *lone,
                struct fleet_wish *wish)
{
    memset(wish, 0, sizeof(*wish));
    if (lone->state != FLEET_CHANGING)
        return false;
    if (lone->version == r->version)
        return fleet_record_is_same_change(r, lone) && more_gone(r, lone, wish);
    if (lone->version != r->version + 1)
        return false;
    if (r->state == FLEET_CHANGING)
        return given_up(r, lone, wish);
    wish->kind = FLEET_WISH_TTL_MAX;
    wish->ttl_max_ms = lone->ttl_max_ms;
    for (int i = 0; i < lone->before_count; i++) {
        const struct fleet_seat *before = &lone->before[i],
                                *now = find_id(lone->seat, lone->count, before->id);

        if (now && strcmp(now->address, before->address) == 0)
            continue;
        wish->kind = now ? FLEET_WISH_MOVE : FLEET_WISH_REMOVE;
        wish->gone = before->gone;
        memcpy(wish->id, before->id, sizeof(wish->id));
        if (now)
            memcpy(wish->seat, now->address, sizeof(wish->seat));
    }
    for (int i = 0; i < lone->count; i++)
        if (!find_id(lone->before, lone->before_count, lone->seat[i].id)) {
            wish->kind = FLEET_WISH_ADD;
            memcpy(wish->id, lone->seat[i].id, sizeof(wish->id));
            memcpy(wish->seat, lone->seat[i].address, sizeof(wish->seat));
        }
    return true;
}

/* --- whether it may ------------------------------------------------------------------------------ */

static int majority(int count)
{
    return count / 2 + 1;
}

void wish_check(const struct fleet_record *r, const struct fleet_wish *wish)
{
    int after = r->count + (wish->kind == FLEET_WISH_ADD) - (wish->kind == FLEET_WISH_REMOVE);
    int stay = r->count - (wish->kind == FLEET_WISH_REMOVE || wish->kind == FLEET_WISH_MOVE);

    if (wish->kind == FLEET_WISH_GONE || wish->kind == FLEET_WISH_CONFIRM)
        return;
    if (wish->kind == FLEET_WISH_ABORT) {
        if (r->state != FLEET_CHANGING)
            sim_violation("change", "a change is given up that is not under way");
        return;
    }
    if (r->state != FLEET_COMPLETE)
        sim_violation("change", "a change begins while another one is under way");
    if (stay < majority(r->count) || stay < majority(after))
        sim_violation("change", "a change from %d nodes to %d begins, in which %d stay", r->count,
                      after, stay);
}
