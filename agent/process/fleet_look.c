#include "agent/process/fleet_look.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/broker/nodes/node_texts.h"
#include "agent/redis/seat.h"
#include "agent/redis/trial.h"
#include "shm/compiler.h"
#include "shm/status.h"

#define PATIENCE hf_ms(2000)
#define GLANCE   hf_ms(500) /* at nodes that answer the agent */

static bool fleet_look_refuse(struct fleet_look *l, const char *format, ...) HF_PRINTF(2, 3);
static bool fleet_look_refuse(struct fleet_look *l, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(l->why, sizeof(l->why), format, args);
    va_end(args);
    return false;
}

/* The configured node of that id; else the first one: its user, password and database are used. */
static const struct node_address *fleet_look_credentials(const struct fleet_look *l)
{
    for (int i = 0; i < l->config.node_count; i++)
        if (strcmp(l->config.nodes[i].id, l->wish.id) == 0)
            return &l->config.nodes[i];
    return &l->config.nodes[0];
}

static void fleet_look_use_credentials(struct node_address *a, const struct node_address *of)
{
    memcpy(a->user, of->user, sizeof(a->user));
    memcpy(a->password, of->password, sizeof(a->password));
    a->db = of->db;
    a->tls = of->tls && !a->unix_socket;
    memcpy(a->tls_name, of->tls_name, sizeof(a->tls_name));
}

#define EMPTY_ONE "give an empty server, or flush that one if it is nobody's any more"

/* --- the server that is to be a node ----------------------------------------------------------- */

static bool fleet_look_read_address(struct fleet_look *l, struct node_address *ret_address)
{
    char text[2 * HF_NODE_TEXT_MAX + 2], why[256];
    /* The id of a node that has none in the configuration is its address. */
    bool is_address = l->wish.kind == FLEET_WISH_MOVE && strpbrk(l->wish.id, "/:");

    snprintf(text, sizeof(text), "%s%s%s", is_address ? "" : l->wish.id, is_address ? "" : "=",
             l->wish.seat);
    if (node_address_parse(text, ret_address, why, sizeof(why)) < 0)
        return fleet_look_refuse(l, "%s", why);
    if (strcmp(ret_address->id, is_address ? ret_address->text : l->wish.id) != 0)
        return fleet_look_refuse(l, "%s is no id of a node; give ID=ADDRESS",
                                 is_address ? ret_address->id : l->wish.id);
    memcpy(ret_address->id, l->wish.id, sizeof(ret_address->id));
    if (ret_address->user[0] || ret_address->password[0] || ret_address->password_file[0] ||
        ret_address->db || ret_address->tls)
        return fleet_look_refuse(
            l,
            "the user, the password, the database and whether it is TLS are those of this host's "
            "configuration; give HOST:PORT only");
    fleet_look_use_credentials(ret_address, fleet_look_credentials(l));
    return true;
}

/* It does not answer as a node does. */
static bool fleet_look_judge_answer(struct fleet_look *l, const struct trial *there)
{
    const char *at = l->wish.seat;

    if (there->answered)
        return true;
    if (trial_may_pass(there))
        return fleet_look_refuse(
            l, "no server answers at %s (%s); start one there, or give another address", at,
            there->text);
    if (there->error == HF_NODE_ERR_AUTH)
        return fleet_look_refuse(
            l,
            "the server at %s does not take the user and the password that this host's "
            "configuration has for node %s (%s); give it these",
            at, fleet_look_credentials(l)->id, there->text);
    if (strstr(there->text, "holdfast:node"))
        return fleet_look_refuse(l, "at %s: %s; " EMPTY_ONE, at, there->text);
    return fleet_look_refuse(
        l, "the server at %s can be no node: %s; give the address of another one", at, there->text);
}

static bool fleet_look_judge_identity(struct fleet_look *l, const struct trial *there)
{
    const struct hf_why *why;

    for (int i = 0; i < l->config.node_count; i++)
        if (l->run_id[i][0] && strcmp(l->run_id[i], there->facts.run_id) == 0)
            return fleet_look_refuse(l, "the server at %s is node %s; give another one",
                                     l->wish.seat, l->config.nodes[i].id);
    why = node_facts_refusal(&l->config, &there->facts);
    return !why || fleet_look_refuse(l, "at %s: %s; %s, or give another server", l->wish.seat,
                                     why->sentence, why->remedy);
}

/* The member of the record that is at that seat. */
static const char *fleet_look_member_at(const struct fleet_record *r, const char *seat)
{
    for (int i = 0; i < r->count; i++)
        if (strcmp(r->seat[i].address, seat) == 0)
            return r->seat[i].id;
    return NULL;
}

/* (!) What it has of a fleet may be counted by somebody, and what it had may have been forgotten. */
static bool fleet_look_judge_record(struct fleet_look *l, const struct trial *there)
{
    const struct fleet_record *theirs = &there->record;
    const char *at = l->wish.seat, *member;

    if (there->recorded == HF_OK && strcmp(theirs->fleet, l->shown.record.fleet) == 0) {
        member = fleet_look_member_at(&l->shown.record, there->peer);
        if (member)
            return fleet_look_refuse(
                l, "the server at %s is node %s of this fleet; give another one", at, member);
        return fleet_look_refuse(
            l,
            "the server at %s has a record of this fleet, so it was a node of it, or is a "
            "copy of one; " EMPTY_ONE,
            at);
    }
    if (there->recorded == HF_OK)
        return fleet_look_refuse(
            l, "the server at %s is a node of another fleet (%.8s); " EMPTY_ONE, at, theirs->fleet);
    if (there->recorded != HF_ENOTHELD || there->sentinel.present)
        return fleet_look_refuse(
            l, "agents use or used the server at %s (it has the key holdfast:node); " EMPTY_ONE,
            at);
    if (there->key[0])
        return fleet_look_refuse(l, "the server at %s has keys of agents (%s); " EMPTY_ONE, at,
                                 there->key);
    return true;
}

static bool fleet_look_all_private(const struct fleet_record *r)
{
    for (int i = 0; i < r->count; i++)
        if (!node_address_seat_is_private(r->seat[i].address))
            return false;
    return true;
}

/* (!) A private seat is another server on each host. */
static bool fleet_look_judge_seat(struct fleet_look *l, const struct trial *there)
{
    if (!there->peer[0])
        return fleet_look_refuse(
            l, "%s is no address for all hosts; give an absolute path, or HOST:PORT", l->wish.seat);
    if (node_address_seat_is_private(there->peer) && !fleet_look_all_private(&l->shown.record))
        return fleet_look_refuse(
            l, "%s is another server on each host; give an address by which every host reaches it",
            there->peer);
    return true;
}

static bool look_at_new(struct fleet_look *l)
{
    struct node_address address;
    struct trial there = {.address = &address, .asks_rights = true, .seeks_keys = true};
    bool good;

    if (!fleet_look_read_address(l, &address))
        return false;
    (void)trial_run(&there, 1, PATIENCE);
    explicit_bzero(&address, sizeof(address)); /* a password */
    good = fleet_look_judge_answer(l, &there) && fleet_look_judge_identity(l, &there) &&
           fleet_look_judge_record(l, &there) && fleet_look_judge_seat(l, &there);
    if (good)
        memcpy(l->wish.seat, there.peer, sizeof(l->wish.seat));
    return good;
}

/* --- the server that is said to be gone --------------------------------------------------------- */

/* The server that came by the change that is given up. */
static const struct fleet_seat *fleet_look_newcomer(const struct fleet_record *r)
{
    for (int i = 0; r->state == FLEET_CHANGING && i < r->count; i++)
        if (!fleet_record_stays(r, &r->seat[i]))
            return &r->seat[i];
    return NULL;
}

/* Where the member that leaves is, or was: that of the version before while one changes. */
static const struct fleet_seat *fleet_look_leaving(const struct fleet_look *l)
{
    const struct fleet_record *r = &l->shown.record;
    const struct fleet_seat *list = l->wish.kind == FLEET_WISH_GONE ? r->before : r->seat;
    int count = l->wish.kind == FLEET_WISH_GONE ? r->before_count : r->count;

    if (l->wish.kind == FLEET_WISH_ABORT)
        return fleet_look_newcomer(r);
    if (l->wish.kind == FLEET_WISH_GONE && r->state != FLEET_CHANGING)
        return NULL; /* nobody leaves */
    for (int i = 0; i < count; i++)
        if (strcmp(list[i].id, l->wish.id) == 0)
            return &list[i];
    return NULL;
}

/* (!) A server that takes connections is not gone, whatever it says: it may be stopped for a moment only. */
static bool look_at_gone(struct fleet_look *l)
{
    const struct node_address *like = fleet_look_credentials(l);
    const struct fleet_seat *seat = fleet_look_leaving(l);
    struct node_address address;
    struct trial trial = {.address = &address};
    bool here = strcmp(like->id, l->wish.id) == 0;
    int rc;

    if (!seat)
        return true; /* the core says so */
    if (here && like->as[0])
        address = *like;
    else if (!node_address_from_seat(seat->address, like, &address))
        return true;
    rc = trial_run(&trial, 1, PATIENCE);
    explicit_bzero(&address, sizeof(address));
    if (rc < 0)
        return fleet_look_refuse(l, "the server of node %s cannot be tried: %s", seat->id,
                                 hf_status_text(rc));
    if (trial.connected && l->wish.kind == FLEET_WISH_GONE) {
        fleet_change_say_answers(seat, l->why, sizeof(l->why));
        return false;
    }
    if (trial.connected)
        return fleet_look_refuse(
            l,
            "somebody answers at %s for node %s; leave --gone away, or stop the server "
            "for good first",
            seat->address, seat->id);
    return true;
}

/* --- the servers that stay ------------------------------------------------------------------------ */

/* Of a server that does not answer, or is not at its seat, the core says what to do. */
static bool fleet_look_is_staying(const struct fleet_look *l, int i)
{
    const struct fleet_shown_node *node = &l->shown.node[i];
    bool leaves = (l->wish.kind == FLEET_WISH_MOVE || l->wish.kind == FLEET_WISH_REMOVE) &&
                  strcmp(node->id, l->wish.id) == 0;

    return !leaves && node->peer[0] && strcmp(node->peer, node->seat) == 0;
}

static bool fleet_look_judge_staying(struct fleet_look *l, int i, const struct trial *there)
{
    const struct hf_why *why =
        there->answered ? node_facts_refusal(&l->config, &there->facts) : NULL;

    return !why ||
           fleet_look_refuse(
               l,
               "node %s may give no votes: %s; mend it, or replace that node first: a change "
               "needs every node that stays",
               l->shown.node[i].id, why->sentence);
}

/* (!) What the agent read of them may be seconds old, and a change that has begun without one of them has too few votes. */
static bool look_at_staying(struct fleet_look *l)
{
    struct node_address *address = calloc(HF_NODES_MAX, sizeof(*address));
    struct trial *trial = calloc(HF_NODES_MAX, sizeof(*trial));
    bool good = address && trial;
    int count = 0, of[HF_NODES_MAX];

    for (int i = 0; good && i < l->config.node_count; i++) {
        const struct node_address *like = &l->config.nodes[i];

        if (!fleet_look_is_staying(l, i))
            continue;
        if (like->as[0])
            address[count] = *like;
        else if (!node_address_from_seat(l->shown.node[i].seat, like, &address[count]))
            continue;
        trial[count].address = &address[count];
        of[count++] = i;
    }
    if (!good || (count && trial_run(trial, count, GLANCE) < 0))
        good = fleet_look_refuse(
            l, "the nodes that stay cannot be looked at now; try again in some seconds");
    for (int k = 0; good && k < count; k++)
        good = fleet_look_judge_staying(l, of[k], &trial[k]);
    if (address)
        explicit_bzero(address, HF_NODES_MAX * sizeof(*address)); /* passwords */
    free(address);
    free(trial);
    return good;
}

static bool fleet_look_begins_anew(enum fleet_wish_kind kind)
{
    return kind == FLEET_WISH_MOVE || kind == FLEET_WISH_ADD || kind == FLEET_WISH_REMOVE ||
           kind == FLEET_WISH_TTL_MAX;
}

void fleet_look(struct fleet_look *l)
{
    bool is_new = l->wish.kind == FLEET_WISH_MOVE || l->wish.kind == FLEET_WISH_ADD,
         gone = l->wish.gone || l->wish.kind == FLEET_WISH_GONE;

    l->good = (!is_new || look_at_new(l)) && (!gone || look_at_gone(l)) &&
              (!fleet_look_begins_anew(l->wish.kind) || look_at_staying(l));
}
