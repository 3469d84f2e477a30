#include "agent/process/fleet_wishes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/broker/nodes/nodes.h"
#include "agent/redis/resolver.h"
#include "agent/redis/trial.h"
#include "shm/compiler.h"
#include "shm/status.h"

#define PATIENCE hf_ms(2000)
#define GLANCE   hf_ms(500) /* at nodes that answer the agent */

static bool fleet_probe_refuse(struct fleet_probe *p, const char *format, ...) HF_PRINTF(2, 3);
static bool fleet_probe_refuse(struct fleet_probe *p, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(p->why, sizeof(p->why), format, args);
    va_end(args);
    return false;
}

/* The configured node of that id; else the first one: its user, password and database are used. */
static const struct node_address *fleet_probe_credentials(const struct fleet_probe *p)
{
    for (int i = 0; i < p->config.node_count; i++)
        if (strcmp(p->config.nodes[i].id, p->wish.id) == 0)
            return &p->config.nodes[i];
    return &p->config.nodes[0];
}

static void fleet_probe_use_credentials(struct node_address *a, const struct node_address *of)
{
    memcpy(a->user, of->user, sizeof(a->user));
    memcpy(a->password, of->password, sizeof(a->password));
    a->db = of->db;
    a->tls = of->tls && !a->unix_socket;
    memcpy(a->tls_name, of->tls_name, sizeof(a->tls_name));
}

#define EMPTY_ONE "give an empty server, or flush that one if it is nobody's any more"

/* --- the server that is to be a node ----------------------------------------------------------- */

static bool fleet_probe_read_address(struct fleet_probe *p, struct node_address *ret_address)
{
    char text[2 * HF_NODE_TEXT_MAX + 2], why[256];
    /* The id of a node that has none in the configuration is its address. */
    bool is_address = p->wish.kind == FLEET_WISH_MOVE && strpbrk(p->wish.id, "/:");

    snprintf(text, sizeof(text), "%s%s%s", is_address ? "" : p->wish.id, is_address ? "" : "=",
             p->wish.seat);
    if (node_address_parse(text, ret_address, why, sizeof(why)) < 0)
        return fleet_probe_refuse(p, "%s", why);
    if (strcmp(ret_address->id, is_address ? ret_address->text : p->wish.id) != 0)
        return fleet_probe_refuse(p, "%s is no id of a node; give ID=ADDRESS",
                                  is_address ? ret_address->id : p->wish.id);
    memcpy(ret_address->id, p->wish.id, sizeof(ret_address->id));
    if (ret_address->user[0] || ret_address->password[0] || ret_address->password_file[0] ||
        ret_address->db || ret_address->tls)
        return fleet_probe_refuse(
            p,
            "the user, the password, the database and whether it is TLS are those of this host's "
            "configuration; give HOST:PORT only");
    fleet_probe_use_credentials(ret_address, fleet_probe_credentials(p));
    return true;
}

/* It does not answer as a node does. */
static bool fleet_probe_judge_answer(struct fleet_probe *p, const struct trial *there)
{
    const char *at = p->wish.seat;

    if (there->answered)
        return true;
    if (trial_may_pass(there))
        return fleet_probe_refuse(
            p, "no server answers at %s (%s); start one there, or give another address", at,
            there->text);
    if (there->error == HF_NODE_ERR_AUTH)
        return fleet_probe_refuse(
            p,
            "the server at %s does not take the user and the password that this host's "
            "configuration has for node %s (%s); give it these",
            at, fleet_probe_credentials(p)->id, there->text);
    if (strstr(there->text, "holdfast:node"))
        return fleet_probe_refuse(p, "at %s: %s; " EMPTY_ONE, at, there->text);
    return fleet_probe_refuse(
        p, "the server at %s can be no node: %s; give the address of another one", at, there->text);
}

static bool fleet_probe_judge_identity(struct fleet_probe *p, const struct trial *there)
{
    const struct hf_why *why;

    for (int i = 0; i < p->config.node_count; i++)
        if (p->run_id[i][0] && strcmp(p->run_id[i], there->facts.run_id) == 0)
            return fleet_probe_refuse(p, "the server at %s is node %s; give another one",
                                      p->wish.seat, p->config.nodes[i].id);
    why = node_facts_refusal(&p->config, &there->facts);
    return !why || fleet_probe_refuse(p, "at %s: %s; %s, or give another server", p->wish.seat,
                                      why->sentence, why->remedy);
}

/* The member of the record that is at that seat. */
static const char *fleet_probe_member_at(const struct fleet_record *r, const char *seat)
{
    for (int i = 0; i < r->count; i++)
        if (strcmp(r->seat[i].address, seat) == 0)
            return r->seat[i].id;
    return NULL;
}

/* (!) What it has of a fleet may be counted by somebody, and what it had may have been forgotten. */
static bool fleet_probe_judge_record(struct fleet_probe *p, const struct trial *there)
{
    const struct fleet_record *theirs = &there->record;
    const char *at = p->wish.seat, *member;

    if (there->recorded == HF_OK && strcmp(theirs->fleet, p->shown.record.fleet) == 0) {
        member = fleet_probe_member_at(&p->shown.record, there->peer);
        if (member)
            return fleet_probe_refuse(
                p, "the server at %s is node %s of this fleet; give another one", at, member);
        return fleet_probe_refuse(
            p,
            "the server at %s has a record of this fleet, so it was a node of it, or is a "
            "copy of one; " EMPTY_ONE,
            at);
    }
    if (there->recorded == HF_OK)
        return fleet_probe_refuse(
            p, "the server at %s is a node of another fleet (%.8s); " EMPTY_ONE, at, theirs->fleet);
    if (there->recorded != HF_ENOTHELD || there->sentinel.present)
        return fleet_probe_refuse(
            p, "agents use or used the server at %s (it has the key holdfast:node); " EMPTY_ONE,
            at);
    if (there->key[0])
        return fleet_probe_refuse(p, "the server at %s has keys of agents (%s); " EMPTY_ONE, at,
                                  there->key);
    return true;
}

static bool fleet_probe_all_private(const struct fleet_record *r)
{
    for (int i = 0; i < r->count; i++)
        if (!node_address_seat_is_private(r->seat[i].address))
            return false;
    return true;
}

/* (!) A private seat is another server on each host. */
static bool fleet_probe_judge_seat(struct fleet_probe *p, const struct trial *there)
{
    if (!there->peer[0])
        return fleet_probe_refuse(
            p, "%s is no address for all hosts; give an absolute path, or HOST:PORT", p->wish.seat);
    if (node_address_seat_is_private(there->peer) && !fleet_probe_all_private(&p->shown.record))
        return fleet_probe_refuse(
            p, "%s is another server on each host; give an address by which every host reaches it",
            there->peer);
    return true;
}

static bool probe_new_server(struct fleet_probe *p)
{
    struct node_address address;
    struct trial there = {.address = &address, .asks_rights = true, .seeks_keys = true};
    bool good;

    if (!fleet_probe_read_address(p, &address))
        return false;
    (void)trial_run(&there, 1, PATIENCE);
    explicit_bzero(&address, sizeof(address)); /* a password */
    good = fleet_probe_judge_answer(p, &there) && fleet_probe_judge_identity(p, &there) &&
           fleet_probe_judge_record(p, &there) && fleet_probe_judge_seat(p, &there);
    if (good)
        memcpy(p->wish.seat, there.peer, sizeof(p->wish.seat));
    return good;
}

/* --- the server that is said to be gone --------------------------------------------------------- */

/* The server that came by the change that is given up. */
static const struct fleet_seat *fleet_probe_newcomer(const struct fleet_record *r)
{
    for (int i = 0; r->state == FLEET_CHANGING && i < r->count; i++)
        if (!fleet_record_stays(r, &r->seat[i]))
            return &r->seat[i];
    return NULL;
}

/* Where the member that leaves is, or was: that of the version before while one changes. */
static const struct fleet_seat *fleet_probe_leaving(const struct fleet_probe *p)
{
    const struct fleet_record *r = &p->shown.record;
    const struct fleet_seat *list = p->wish.kind == FLEET_WISH_GONE ? r->before : r->seat;
    int count = p->wish.kind == FLEET_WISH_GONE ? r->before_count : r->count;

    if (p->wish.kind == FLEET_WISH_ABORT)
        return fleet_probe_newcomer(r);
    if (p->wish.kind == FLEET_WISH_GONE && r->state != FLEET_CHANGING)
        return NULL; /* nobody leaves */
    for (int i = 0; i < count; i++)
        if (strcmp(list[i].id, p->wish.id) == 0)
            return &list[i];
    return NULL;
}

/* (!) A server that takes connections is not gone, whatever it says: it may be stopped for a moment only. */
static bool probe_gone_server(struct fleet_probe *p)
{
    const struct node_address *like = fleet_probe_credentials(p);
    const struct fleet_seat *seat = fleet_probe_leaving(p);
    struct node_address address;
    struct trial trial = {.address = &address};
    bool here = strcmp(like->id, p->wish.id) == 0;
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
        return fleet_probe_refuse(p, "the server of node %s cannot be tried: %s", seat->id,
                                  hf_status_text(rc));
    if (trial.connected && p->wish.kind == FLEET_WISH_GONE) {
        fleet_change_say_answers(seat, p->why, sizeof(p->why));
        return false;
    }
    if (trial.connected)
        return fleet_probe_refuse(
            p,
            "somebody answers at %s for node %s; leave --old-server-dead away, or stop the server "
            "for good first",
            seat->address, seat->id);
    return true;
}

/* --- the servers that stay ------------------------------------------------------------------------ */

/* Of a server that does not answer, or is not at its seat, the core says what to do. */
static bool fleet_probe_is_staying(const struct fleet_probe *p, int i)
{
    const struct fleet_shown_node *node = &p->shown.node[i];
    bool leaves = (p->wish.kind == FLEET_WISH_MOVE || p->wish.kind == FLEET_WISH_REMOVE) &&
                  strcmp(node->id, p->wish.id) == 0;

    return !leaves && node->peer[0] && strcmp(node->peer, node->seat) == 0;
}

static bool fleet_probe_judge_staying(struct fleet_probe *p, int i, const struct trial *there)
{
    const struct hf_why *why =
        there->answered ? node_facts_refusal(&p->config, &there->facts) : NULL;

    return !why ||
           fleet_probe_refuse(
               p,
               "node %s may give no votes: %s; mend it, or replace that node first: a change "
               "needs every node that stays",
               p->shown.node[i].id, why->sentence);
}

/* (!) What the agent read of them may be seconds old, and a change that has begun without one of them has too few votes. */
static bool probe_staying_servers(struct fleet_probe *p)
{
    struct node_address *address = calloc(HF_NODES_MAX, sizeof(*address));
    struct trial *trial = calloc(HF_NODES_MAX, sizeof(*trial));
    bool good = address && trial;
    int count = 0, of[HF_NODES_MAX];

    for (int i = 0; good && i < p->config.node_count; i++) {
        const struct node_address *like = &p->config.nodes[i];

        if (!fleet_probe_is_staying(p, i))
            continue;
        if (like->as[0])
            address[count] = *like;
        else if (!node_address_from_seat(p->shown.node[i].seat, like, &address[count]))
            continue;
        trial[count].address = &address[count];
        of[count++] = i;
    }
    if (!good || (count && trial_run(trial, count, GLANCE) < 0))
        good = fleet_probe_refuse(
            p, "the nodes that stay cannot be looked at now; try again in some seconds");
    for (int k = 0; good && k < count; k++)
        good = fleet_probe_judge_staying(p, of[k], &trial[k]);
    if (address)
        explicit_bzero(address, HF_NODES_MAX * sizeof(*address)); /* passwords */
    free(address);
    free(trial);
    return good;
}

static bool fleet_probe_begins_anew(enum fleet_wish_kind kind)
{
    return kind == FLEET_WISH_MOVE || kind == FLEET_WISH_ADD || kind == FLEET_WISH_REMOVE ||
           kind == FLEET_WISH_TTL_MAX;
}

void fleet_probe(struct fleet_probe *p)
{
    bool is_new = p->wish.kind == FLEET_WISH_MOVE || p->wish.kind == FLEET_WISH_ADD,
         gone = p->wish.gone || p->wish.kind == FLEET_WISH_GONE;

    p->good = (!is_new || probe_new_server(p)) && (!gone || probe_gone_server(p)) &&
              (!fleet_probe_begins_anew(p->wish.kind) || probe_staying_servers(p));
}
