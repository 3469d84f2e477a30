/* Judges what the nodes say of themselves as the broker would. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/base/clock.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/check/findings.h"
#include "agent/config/config.h"
#include "agent/core/fleet.h"
#include "agent/state/fleet_memory.h"
#include "shm/status.h"

/* The first node of the list that leads to the same server; -1: none. */
static int nodes_same_server(const struct trial *nodes, int node)
{
    for (int i = 0; i < node; i++)
        if (nodes[i].answered && nodes[node].answered &&
            strcmp(nodes[i].facts.run_id, nodes[node].facts.run_id) == 0)
            return i;
    return -1;
}

/* How the node differs from this configuration, by its record or, where it has none, by its sentinel. */
static bool nodes_differs(const struct config *c, const struct trial *there, int i, char *ret_text,
                          size_t size)
{
    struct fleet_record own;

    if (there->recorded == HF_ENOTHELD)
        return sentinel_differs(&there->sentinel, c, i, ret_text, size);
    /* The record of a fleet that has changed goes before the list of the configuration. */
    if (there->recorded == HF_OK && !c->reset_fleet && config_is_of(c, &there->record, ""))
        return false;
    config_fleet(c, &own);
    if (there->recorded == HF_OK)
        return fleet_record_differs(&there->record, &own, c->nodes[i].id, ret_text, size);
    snprintf(ret_text, size, "the fleet's record on node %s %s", c->nodes[i].id,
             there->recorded == HF_EVERSION ? "is of a later version of Holdfast: upgrade this host"
                                            : "cannot be read");
    return true;
}

static bool nodes_same_fleet(const struct trial *x, const struct trial *y)
{
    const struct node_sentinel *a = &x->sentinel, *b = &y->sentinel;

    if (x->recorded == HF_OK || y->recorded == HF_OK)
        return x->recorded == y->recorded && strcmp(x->record.fleet, y->record.fleet) == 0 &&
               x->record.ttl_max_ms == y->record.ttl_max_ms;
    return a->ttl_max_ms == b->ttl_max_ms && a->nodes == b->nodes &&
           strcmp(a->list_hash, b->list_hash) == 0;
}

/* The nodes of the bits, from the one behind the first: " (also b, c)"; "" when there is only one. */
static void nodes_list_others(const struct config *c, unsigned which, char *ret_text, size_t size)
{
    size_t at = 0;

    ret_text[0] = '\0';
    for (int i = __builtin_ctz(which) + 1; i < c->node_count && at < size; i++)
        if (which >> i & 1)
            at += (size_t)snprintf(ret_text + at, size - at, "%s%s", at ? ", " : " (also ",
                                   c->nodes[i].id);
    if (at && at + 1 < size)
        memcpy(ret_text + at, ")", sizeof(")"));
}

/* All nodes of one other fleet are one finding, at its first node. */
static void nodes_judge_fleet(const struct config *c, const struct trial *nodes, unsigned which,
                              struct findings *f)
{
    const struct config_report *r = f->report;
    int first = __builtin_ctz(which);
    int64_t theirs = nodes[first].recorded == HF_OK ? nodes[first].record.ttl_max_ms
                                                    : nodes[first].sentinel.ttl_max_ms;
    int64_t longest = theirs > c->ttl_max_ms ? theirs : c->ttl_max_ms;
    int line = theirs != c->ttl_max_ms ? r->line[CONFIG_ID_ttl_max] : r->node_line[first];
    char text[256], others[200];

    (void)nodes_differs(c, &nodes[first], first, text, sizeof(text));
    nodes_list_others(c, which, others, sizeof(others));
    if (c->reset_fleet)
        find_warning(f, line, "%s%s: --reset-fleet replaces that", text, others);
    else
        find_fault(f, line,
                   "%s%s; use what the fleet has, or stop all its agents for %.0f s and start this "
                   "one with --reset-fleet",
                   text, others, (double)timing_quarantine(hf_ms(longest)).ns / HF_NS_PER_SEC + 1);
}

static void nodes_judge_sentinels(const struct config *c, const struct trial *nodes,
                                  unsigned answered, struct findings *f)
{
    unsigned foreign = 0;
    char text[256];

    for (int i = 0; i < c->node_count; i++)
        if (answered >> i & 1 && nodes_differs(c, &nodes[i], i, text, sizeof(text)))
            foreign |= 1u << i;
    while (foreign) {
        const struct trial *one = &nodes[__builtin_ctz(foreign)];
        unsigned alike = 0;

        for (int i = 0; i < c->node_count; i++)
            if (foreign >> i & 1 && nodes_same_fleet(&nodes[i], one))
                alike |= 1u << i;
        nodes_judge_fleet(c, nodes, alike, f);
        foreign &= ~alike;
    }
}

/* The record by which an agent of this configuration would go: that of most nodes. NULL: none, or as many have
 * another one. */
static const struct fleet_record *nodes_record_of_most(const struct config *c,
                                                       const struct trial *nodes, unsigned answered)
{
    const struct fleet_record *best = NULL;
    int most = 0;
    bool tie = false;

    for (int i = 0; i < c->node_count; i++) {
        int count = 0;

        if (!(answered >> i & 1) || nodes[i].recorded != HF_OK)
            continue;
        for (int k = 0; k < c->node_count; k++)
            count += answered >> k & 1 && nodes[k].recorded == HF_OK &&
                     strcmp(nodes[k].record.fleet, nodes[i].record.fleet) == 0;
        if (count > most)
            tie = false;
        else if (count == most && strcmp(best->fleet, nodes[i].record.fleet) != 0)
            tie = true;
        if (count > most) {
            most = count;
            best = &nodes[i].record;
        }
    }
    return tie || !best || best->count != c->node_count ? NULL : best;
}

static const char *nodes_seat_in(const struct fleet_record *record, const char *id)
{
    const struct fleet_seat *seats;
    int count = fleet_record_list(record, &seats);

    for (int i = 0; i < count; i++)
        if (strcmp(seats[i].id, id) == 0)
            return seats[i].address;
    return NULL;
}

/* What an agent would do about addresses: the record counts. Returns the nodes that answer at another place. */
static unsigned nodes_judge_seats(const struct config *c, const struct trial *nodes,
                                  unsigned answered, struct findings *f)
{
    const struct fleet_record *record = nodes_record_of_most(c, nodes, answered);
    unsigned elsewhere = 0;

    for (int i = 0; record && !c->reset_fleet && i < c->node_count; i++) {
        const char *seat = nodes_seat_in(record, c->nodes[i].id);
        int line = f->report->node_line[i];

        if (!seat || !nodes[i].peer[0] || strcmp(seat, nodes[i].peer) == 0)
            continue;
        elsewhere |= 1u << i;
        find_warning(f, line,
                     "node %s is at %s for this fleet, and this leads to %s: agents go to %s",
                     c->nodes[i].id, seat, nodes[i].peer, seat);
    }
    for (int i = 0; record && !c->reset_fleet && i < c->node_count; i++)
        if (answered >> i & 1 && nodes[i].recorded == HF_OK &&
            strcmp(nodes[i].record.fleet, record->fleet) != 0)
            find_warning(f, f->report->node_line[i],
                         "node %s (%s) belongs to another fleet (%.8s; this one is %.8s)",
                         c->nodes[i].id, c->nodes[i].text, nodes[i].record.fleet, record->fleet);
    return elsewhere;
}

/* Returns whether its sentinel can be judged: it answers, and nothing else is against it. */
static bool nodes_judge(const struct config *c, const struct trial *nodes, int i,
                        struct findings *f)
{
    const struct trial *there = &nodes[i];
    const struct node_address *a = &c->nodes[i];
    int line = f->report->node_line[i], other = nodes_same_server(nodes, i);
    const struct hf_why *why;

    if (there->lacks[0])
        find_warning(f, line, "node %s (%s): %s; without them waiters poll", a->id, a->text,
                     there->lacks);
    if (trial_may_pass(there)) {
        find_warning(f, line, "node %s (%s) does not answer: %s", a->id, a->text, there->text);
    } else if (!there->answered) {
        find_fault(f, line, "node %s (%s): %s", a->id, a->text, there->text);
    } else if ((why = node_facts_refusal(c, &there->facts))) {
        find_fault(f, line, "node %s (%s): %s; %s", a->id, a->text, why->sentence, why->remedy);
    } else if (other >= 0) {
        find_fault(
            f, line,
            "node %s (%s): it says that it is the same server as node %s (%s), and both have "
            "one vote together; list each server once, or, if these are two servers, stop the "
            "one that lies",
            a->id, a->text, c->nodes[other].id, c->nodes[other].text);
    } else {
        return true;
    }
    return false;
}

void check_nodes(const struct config *c, const struct trial *nodes, struct findings *f)
{
    unsigned answered = 0, elsewhere;
    int before = f->faults, count;

    for (int i = 0; i < c->node_count; i++)
        if (nodes_judge(c, nodes, i, f))
            answered |= 1u << i;
    nodes_judge_sentinels(c, nodes, answered, f);
    elsewhere = nodes_judge_seats(c, nodes, answered, f);
    count = __builtin_popcount(answered & ~elsewhere);
    f->no_quorum = count < c->quorum;
    if (f->no_quorum)
        find_warning(f, 0, "%d of %d nodes answer as they should, and %d are needed for any lock",
                     count, c->node_count, c->quorum);
    else if (f->faults == before)
        find_fact("nodes: %d of %d answer as they should, %d are needed", count, c->node_count,
                  c->quorum);
}

/* --- the fleet -------------------------------------------------------------------------------- */

/* By which record of the fleet a start would go: that which this host remembers, or a later one that the nodes tell. */

#define PATIENCE     hf_ms(2000)
#define FLEET_ROUNDS 3 /* a record leads to nodes that may have a later one */

struct look {
    struct fleet fleet;
    struct fleet_memory memory;
    struct fleet_record record; /* by which a start would go, where there is one */
    struct fleet_action action;
    struct config file;
};

/* --- how the fleet by whose record this host goes differs from the file ------------------------ */

static void fleet_say_record(const struct config *c, const struct config *now, struct findings *f)
{
    for (int i = 0; i < now->node_count; i++)
        if (now->unconfigured >> i & 1)
            find_warning(f, 0,
                         "node %s is at %s for this fleet, and not in this file: agents go there",
                         now->nodes[i].id, now->nodes[i].text);
    for (int i = 0; i < c->node_count; i++) {
        const struct node_address *a = &c->nodes[i];
        int place = config_place_of(now, a->id), line = f->report->node_line[i];

        if (place < 0)
            find_warning(f, line,
                         "node %s is not of this fleet, or not any more: agents do not go there",
                         a->id);
        else if ((a->numeric || a->unix_socket) && !a->as[0] &&
                 !node_address_same(a, &now->nodes[place]))
            find_warning(f, line,
                         "node %s is at %s for this fleet, and this leads to %s: agents go to %s",
                         a->id, now->nodes[place].text, a->text, now->nodes[place].text);
    }
    if (c->ttl_max_ms < now->ttl_longest_ms)
        find_warning(
            f, f->report->line[CONFIG_ID_ttl_max],
            "ttl_max is %.1f s for this fleet, write that here, too: by the %.1f s of this "
            "file an agent without a memory of the fleet, as after a reboot, may count "
            "emptied nodes while a longer lease is still held",
            (double)now->ttl_longest_ms / 1000, (double)c->ttl_max_ms / 1000);
    else if (now->settled && now->ttl_max_ms != c->ttl_max_ms)
        find_warning(f, f->report->line[CONFIG_ID_ttl_max],
                     "ttl_max is %.1f s for this fleet, whatever this file says",
                     (double)now->ttl_max_ms / 1000);
}

/* --- what the nodes tell ------------------------------------------------------------------------ */

static void fleet_ask_nodes(const struct config *c, struct trial *ret_nodes)
{
    for (int i = 0; i < c->node_count; i++)
        ret_nodes[i] = (struct trial){.address = &c->nodes[i], .asks_rights = true};
    (void)trial_run(ret_nodes, c->node_count, PATIENCE);
}

/* As an answer to the broker. */
static void fleet_hear(struct fleet *f, const struct config *c, int i, const struct trial *there,
                       hf_time now)
{
    char text[FLEET_TEXT_SIZE], digest[FLEET_DIGEST_LEN + 1] = "";
    size_t length = 0;

    if (!there->answered || (there->recorded != HF_OK && there->recorded != HF_ENOTHELD))
        return;
    fleet_on_up(f, i, there->peer);
    if (there->recorded == HF_OK) {
        length = fleet_record_text(&there->record, text);
        fleet_record_digest(text, length, digest);
    }
    (void)fleet_on_answer(f, i, "-", digest, now, now);
    fleet_on_record(f, i, digest, text, length);
    fleet_on_usable(f, i, !node_facts_refusal(c, &there->facts), false);
}

/* Whether an agent of that configuration would start again by a record that its nodes have. */
static bool fleet_find_later(struct look *l, const struct config *c, const struct trial *nodes)
{
    hf_time now = clock_now();
    struct fleet_record own;

    config_fleet(c, &own);
    fleet_init(&l->fleet, &own, c->reset_fleet, HF_TIME_PAST);
    if (c->by_record)
        fleet_restore(&l->fleet, &l->record, HF_TIME_NEVER);
    for (int i = 0; i < c->node_count; i++) {
        char named[HF_NODE_TEXT_MAX + 1];

        node_address_seat_named(&c->nodes[i], named);
        fleet_on_configured(&l->fleet, i, named);
        fleet_hear(&l->fleet, c, i, &nodes[i], now);
    }
    fleet_next(&l->fleet, now, UINT32_MAX, &l->action);
    if (l->action.step != FLEET_AGAIN)
        return false;
    l->record = l->action.record;
    return true;
}

static void fleet_go_by(const struct look *l, bool settled, struct config *now)
{
    *now = l->file;
    config_go_by(now, &l->record, settled, l->memory.here);
}

void check_fleet(struct config *c, const struct host *host, struct trial *ret_nodes,
                 struct findings *f)
{
    char dir[sizeof(c->runtime_dir) + sizeof(c->name) + 2];
    struct look *l = calloc(1, sizeof(*l));
    bool told = false;

    if (!l) {
        fleet_ask_nodes(c, ret_nodes);
        return;
    }
    l->file = *c;
    snprintf(dir, sizeof(dir), "%s/%s", c->runtime_dir, c->name);
    if (fleet_start_find(c, dir, &host->clock, &l->memory, &l->record))
        fleet_go_by(
            l, hf_time_reached(clock_now(), config_settles(&l->file, &l->record, l->memory.from)),
            c);
    for (int round = 0; round < FLEET_ROUNDS; round++) {
        fleet_ask_nodes(c, ret_nodes);
        if (!fleet_find_later(l, c, ret_nodes))
            break;
        fleet_go_by(l, l->record.state == FLEET_COMPLETE, c); /* after a quarantine */
        told = true;
    }
    if (c->by_record) {
        find_fact("fleet: %.8s version %" PRIu64 ", %s", l->record.fleet, l->record.version,
                  told ? "as its nodes tell" : "as this host remembers");
        fleet_say_record(&l->file, c, f);
    }
    explicit_bzero(l, sizeof(*l)); /* passwords */
    free(l);
}
