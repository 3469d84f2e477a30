/* What a host says of its fleet's record: what is against a node's, how this host differs, what is waited for. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/ballot.h"
#include "agent/core/fleet.h"
#include "agent/core/fleet_change.h"

#define ADDRESSES_SIZE 200

static bool fleet_words_all_connected(const struct fleet *f)
{
    for (int i = 0; i < f->n; i++)
        if (!f->node[i].peer[0])
            return false;
    return true;
}

static bool fleet_words_is_another_of_its_rank(const struct fleet *f, int i)
{
    const struct fleet_node *node = &f->node[i];

    return f->known && fleet_may_go_by(&node->record) &&
           fleet_record_rank(&node->record, &f->record) == 0 &&
           strcmp(node->digest, f->digest) != 0;
}

/* Only ids that are in neither of its lists, or its key formats, tell a fleet that has changed from this host's. */
static void fleet_words_say_not_akin(const struct fleet *f, int i, char *ret_text, size_t size)
{
    const struct fleet_record *theirs = &f->node[i].record;
    const char *id = f->own.seat[i].id;

    if (theirs->version > 1 && strcmp(theirs->keys, f->own.keys) != 0)
        snprintf(ret_text, size,
                 "put the key_format, key_format_for and database of version %" PRIu64
                 " of the fleet into this host's configuration file, as its hosts that hold locks "
                 "have them, and restart its agent: node %s says that it has other ones",
                 theirs->version, id);
    else
        (void)fleet_record_differs(theirs, &f->own, id, ret_text, size);
}

/* " (line 3 of FILE)", or of several nodes " (lines 3 and 4 of FILE)"; "" for what is in no file. */
static void fleet_words_say_where(const struct fleet *f, int i, int k, char *ret_text, size_t size)
{
    ret_text[0] = '\0';
    if (f->file[0] && f->node[i].line && (k < 0 || f->node[k].line)) {
        if (k < 0)
            snprintf(ret_text, size, " (line %d of %s)", f->node[i].line, f->file);
        else
            snprintf(ret_text, size, " (lines %d and %d of %s)", f->node[i].line, f->node[k].line,
                     f->file);
    }
}

/* (!) fleet_address= would vouch for another node's server. */
static void fleet_words_say_misplaced(const struct fleet *f, int i, int k, char *ret_text,
                                      size_t size)
{
    int first = i < k ? i : k, second = i < k ? k : i;
    char where[sizeof(f->file) + 48];

    if (strcmp(f->node[k].left_at, fleet_place(f, i)->address) == 0) {
        fleet_words_say_where(f, first, second, where, sizeof(where));
        snprintf(ret_text, size,
                 "this host's configuration has the addresses of nodes %s and %s the other way "
                 "round%s; write %s=%s and %s=%s there, and restart the agent",
                 fleet_place(f, first)->id, fleet_place(f, second)->id, where,
                 fleet_place(f, first)->id, fleet_place(f, first)->address,
                 fleet_place(f, second)->id, fleet_place(f, second)->address);
    } else {
        fleet_words_say_where(f, i, -1, where, sizeof(where));
        snprintf(ret_text, size,
                 "this host's configuration has the address of node %s for node %s%s; write %s=%s "
                 "there, and restart the agent",
                 fleet_place(f, k)->id, fleet_place(f, i)->id, where, fleet_place(f, i)->id,
                 fleet_place(f, i)->address);
    }
}

bool fleet_is_foreign(const struct fleet *f, int i, char *ret_text, size_t size)
{
    const struct fleet_node *node = &f->node[i];
    const char *id = f->own.seat[i].id;
    int misplaced = fleet_misplaced(f, i);

    ret_text[0] = '\0';
    if (misplaced >= 0)
        fleet_words_say_misplaced(f, i, misplaced, ret_text, size);
    else if (fleet_is_stranger(f, i))
        snprintf(ret_text, size,
                 "say fleet_address=%s behind the address of node %s, if that leads to the fleet's "
                 "server: "
                 "another one is at %s for this host",
                 fleet_place(f, i)->address, id, fleet_place(f, i)->address);
    else if (node->said == FLEET_SAID_LATER)
        snprintf(ret_text, size,
                 "upgrade this host: the fleet's record on node %s is of a later version of "
                 "Holdfast",
                 id);
    else if (node->said == FLEET_SAID_UNREADABLE)
        snprintf(ret_text, size,
                 "look at the key holdfast:node of node %s: its record of the fleet cannot be read",
                 id);
    else if (node->said != FLEET_SAID_RECORD)
        return false;
    else if (fleet_is_refounded(f, i))
        snprintf(ret_text, size,
                 "start this agent with --reset-fleet, too: on node %s the fleet was founded anew, "
                 "and this host remembers version %" PRIu64 " of before",
                 id, f->record.version);
    else if (!fleet_is_of_our_fleet(f, i) && !fleet_is_akin(f, &node->record))
        fleet_words_say_not_akin(f, i, ret_text, size);
    else if (f->anew && !f->known && fleet_words_all_connected(f) &&
             (!fleet_is_of_these_servers(f, &node->record) || node->record.state == FLEET_CHANGING))
        snprintf(ret_text, size, "the record on node %s is of other servers", id);
    else if (f->known && !fleet_is_of_our_fleet(f, i))
        snprintf(
            ret_text, size,
            "correct the address of node %s: at %s is a node of another fleet (%.8s, this one "
            "is %.8s); or, if this fleet was founded anew, start this agent with --reset-fleet",
            id, node->peer, node->record.fleet, f->record.fleet);
    else if (fleet_words_is_another_of_its_rank(f, i) &&
             (f->record.version > 1 ||
              !fleet_record_differs(&node->record, &f->record, id, ret_text, size)))
        snprintf(
            ret_text, size,
            "drain all hosts, and start them with --reset-fleet: two changes of the fleet were "
            "made at once, and node %s has the other version %" PRIu64,
            id, node->record.version);
    return ret_text[0] != '\0';
}

bool fleet_differs(const struct fleet *f, char *ret_text, size_t size)
{
    struct fleet_record ours = f->own;

    ret_text[0] = '\0';
    if (!f->known)
        return false;
    if (f->record.version > 1) { /* the configuration goes by the record, but for the keys */
        ours = f->record;
        memcpy(ours.keys, f->own.keys, sizeof(ours.keys));
    }
    return fleet_record_differs(&f->record, &ours, f->own.seat[0].id, ret_text, size);
}

static void fleet_words_missing(const struct fleet *f, char *ret_ids, size_t size)
{
    size_t used = 0;

    ret_ids[0] = '\0';
    for (int i = 0; i < f->n && used < size; i++)
        if (!f->node[i].peer[0] && !(f->known && fleet_place(f, i)->gone))
            used += (size_t)snprintf(ret_ids + used, size - used, "%s%s", used ? ", " : "",
                                     f->own.seat[i].id);
}

static int fleet_words_first_bare(const struct fleet *f)
{
    for (int i = 0; i < f->n; i++)
        if (f->node[i].there && fleet_is_bare(f, i))
            return i;
    return -1;
}

static int fleet_words_first_with(const struct fleet *f, enum fleet_said said)
{
    for (int i = 0; i < f->n; i++)
        if (f->node[i].there && f->node[i].said == said)
            return i;
    return -1;
}

/* "n1=ADDRESS, n2=ADDRESS" by the record: of the nodes that are not connected there, or of all; as many as there is room for. */
static void fleet_words_list_addresses(const struct fleet *f, const struct fleet_record *record,
                                       bool all, char *ret_list, size_t size)
{
    const struct fleet_seat *list;
    int count = fleet_record_list(record, &list);
    size_t used = 0;

    ret_list[0] = '\0';
    for (int m = 0; m < count; m++) {
        bool there = false;

        for (int i = 0; i < f->n; i++)
            there |= strcmp(list[m].id, f->own.seat[i].id) == 0 &&
                     strcmp(list[m].address, f->node[i].peer) == 0;
        if (there && !all)
            continue;
        if (used + strlen(list[m].id) + strlen(list[m].address) + sizeof("=, , ...") > size) {
            snprintf(ret_list + used, size - used, "%s...", used ? ", " : "");
            return;
        }
        used += (size_t)snprintf(ret_list + used, size - used, "%s%s=%s", used ? ", " : "",
                                 list[m].id, list[m].address);
    }
}

/* A link is at another server than the record names. Nodes that are away are told otherwise. */
static bool fleet_words_leads_elsewhere(const struct fleet *f, const struct fleet_record *record)
{
    const struct fleet_seat *list;
    int count = fleet_record_list(record, &list);

    for (int i = 0; i < f->n; i++)
        for (int m = 0; f->node[i].peer[0] && m < count; m++)
            if (strcmp(list[m].id, f->own.seat[i].id) == 0 &&
                strcmp(list[m].address, f->node[i].peer) != 0)
                return true;
    return false;
}

/* A fleet that has changed and is not akin to this host: with which remedy. */
static bool fleet_words_is_kept_out(const struct fleet *f, char *ret_text, size_t size)
{
    for (int i = 0; i < f->n; i++)
        if (f->node[i].said == FLEET_SAID_RECORD && f->node[i].record.version > 1 &&
            fleet_is_foreign(f, i, ret_text, size))
            return true;
    ret_text[0] = '\0';
    return false;
}

static void fleet_words_waits_unknown(const struct fleet *f, hf_time now, char *ret_text,
                                      size_t size)
{
    int other = fleet_words_first_with(f, FLEET_SAID_RECORD), count, best = fleet_choose(f, &count);
    char ids[80], addresses[ADDRESSES_SIZE];

    if (best < 0 && fleet_words_is_kept_out(f, ret_text, size))
        return;

    fleet_words_missing(f, ids, sizeof(ids));
    if (best >= 0)
        fleet_words_list_addresses(f, &f->node[best].record, false, addresses, sizeof(addresses));
    if (best >= 0 && fleet_words_leads_elsewhere(f, &f->node[best].record))
        snprintf(ret_text, size,
                 "correct the addresses of the other nodes%s%s: node %s is of a fleet (%.8s) whose "
                 "servers are not those of this host's configuration; it has %s",
                 ids[0] ? ", or let them answer, " : "", ids, f->own.seat[best].id,
                 f->node[best].record.fleet, addresses);
    else if (best >= 0 && addresses[0] &&
             hf_time_reached(now, hf_time_add(f->started, FLEET_PATIENCE)))
        snprintf(
            ret_text, size,
            "put %s into this host's configuration file and restart its agent: version %" PRIu64
            " of the fleet (%.8s), which node %s tells, has them there; or let node %s answer, "
            "or correct the address of node %s if it is of another fleet",
            addresses, f->node[best].record.version, f->node[best].record.fleet,
            f->own.seat[best].id, ids[0] ? ids : "s there", f->own.seat[best].id);
    else if (best >= 0 && hf_time_reached(now, hf_time_add(f->started, FLEET_PATIENCE)))
        snprintf(ret_text, size,
                 "too few nodes have a record of the fleet: node %s has version %" PRIu64
                 "; let those answer that have it; or, if all hosts are drained, start this agent "
                 "with --reset-fleet",
                 f->own.seat[best].id, f->node[best].record.version);
    else if (best < 0 && count)
        snprintf(ret_text, size,
                 "correct the addresses of the nodes: as many of them belong to one fleet as to "
                 "another");
    else if (best < 0 && ids[0])
        snprintf(ret_text, size,
                 "let node %s answer, too: a fleet is founded once, with all its nodes up", ids);
    else if (other >= 0 && f->node[other].record.state == FLEET_FOUNDING &&
             !fleet_is_of_these_servers(f, &f->node[other].record))
        snprintf(ret_text, size,
                 "give all hosts the same addresses of nodes: another host began to found this "
                 "fleet with other ones (seen on node %s)",
                 f->own.seat[other].id);
}

void fleet_note_told(struct fleet *f, int i)
{
    const struct fleet_node *node = &f->node[i];

    if (!f->known || node->said != FLEET_SAID_RECORD || fleet_is_seated(f, i) ||
        strcmp(node->record.fleet, f->record.fleet) != 0 || !fleet_may_go_by(&node->record) ||
        fleet_record_rank(&node->record, f->told.count ? &f->told : &f->record) <= 0)
        return;
    f->told = node->record;
    f->told_by = i;
}

/* The fleet went on while this host was away, and of the servers that it remembers too few are left to say so. */
static bool fleet_words_is_left_behind(const struct fleet *f, hf_time now)
{
    int away = 0;

    for (int i = 0; i < f->n; i++)
        away += fleet_change_is_away(f, i, now) || f->node[i].said == FLEET_SAID_NONE;
    return f->told.count && away > f->n - ballot_quorum(f->n);
}

static void fleet_words_say_left_behind(const struct fleet *f, char *ret_text, size_t size)
{
    char addresses[ADDRESSES_SIZE];

    fleet_words_list_addresses(f, &f->told, true, addresses, sizeof(addresses));
    snprintf(ret_text, size,
             "see that this host's configuration file has %s and ttl_max %" PRId64
             " ms, stop its agent, remove the file fleet in its runtime directory, and start it: "
             "that is version %" PRIu64 ", which the configured address of node %s told, and the "
             "servers of version %" PRIu64 ", which this host remembers, do not answer or have no "
             "record",
             addresses, f->told.ttl_max_ms, f->told.version, f->own.seat[f->told_by].id,
             f->record.version);
}

/* This host was asked for it, and puts it on the others. */
static bool fleet_words_begins(const struct fleet *f, int i)
{
    return fleet_record_is_same(&f->wish, &f->node[i].record);
}

static void fleet_words_say_lone(const struct fleet *f, int i, char *ret_text, size_t size)
{
    const struct fleet_record *r = &f->node[i].record;
    char addresses[ADDRESSES_SIZE];
    uint32_t ours = 0;

    for (int k = 0; k < f->n; k++)
        if (fleet_shows(f, k) && !fleet_is_doubted(f, k))
            ours |= UINT32_C(1) << k;
    fleet_words_list_addresses(f, r, true, addresses, sizeof(addresses));
    if (fleet_servers(f, ours) >= ballot_quorum(f->n))
        snprintf(ret_text, size,
                 "node %s has version %" PRIu64
                 " of the fleet, and most nodes do not; if an operator began that change, give the "
                 "same command again; else somebody else wrote it: delete the key holdfast:node "
                 "there, and see who can write to that node",
                 f->own.seat[i].id, r->version);
    else
        snprintf(
            ret_text, size,
            "node %s has version %" PRIu64
            " of the fleet, and too few others; if other hosts go by it, write %s and ttl_max "
            "%" PRId64
            " ms into this host's configuration file, stop its agent, remove the file fleet in "
            "its runtime directory, and start it; else give the command again that began it",
            f->own.seat[i].id, r->version, addresses, r->ttl_max_ms);
}

/* No node has the record any more. (!) While nodes are being connected to, one of them may. */
static void fleet_words_say_forgotten(const struct fleet *f, hf_time now, char *ret_text,
                                      size_t size)
{
    bool connecting = false;
    char ids[80];

    fleet_words_missing(f, ids, sizeof(ids));
    for (int i = 0; i < f->n; i++)
        connecting |= !f->node[i].peer[0] && !fleet_change_is_away(f, i, now);
    if (ids[0] && fleet_is_latest(f, now))
        snprintf(ret_text, size,
                 "let node %s answer, too: no node that answers has the fleet's record any more, "
                 "and it is founded again with all of them up; or, if that server is stopped for "
                 "good: holdfast fleet confirm",
                 ids);
    else if (!connecting && !fleet_is_latest(f, now))
        snprintf(ret_text, size,
                 "no node has the fleet's record any more, and version %" PRIu64
                 " of this host may not be the latest one; %s%s%son the host with the latest one "
                 "(holdfast fleet): holdfast fleet confirm",
                 f->record.version, ids[0] ? "let node " : "", ids, ids[0] ? " answer, or, " : "");
}

/* What the nodes have may be of before the latest change, and too few others say that it is not. Doubts that end by themselves do
 * so at once. */
static bool fleet_words_say_doubted(const struct fleet *f, hf_time now, char *ret_text, size_t size)
{
    uint32_t counts = 0, doubted = 0;
    char ids[80];

    for (int i = 0; i < f->n; i++) {
        if (fleet_counts(f, i))
            counts |= UINT32_C(1) << i;
        else if (f->node[i].there && fleet_is_doubted(f, i) &&
                 hf_time_reached(now, hf_time_add(f->node[i].doubted, FLEET_PATIENCE)))
            doubted |= UINT32_C(1) << i;
    }
    if (!doubted || fleet_doubt_is_newcomer(f) ||
        fleet_servers(f, counts) >=
            fleet_record_quorum(&f->record, f->settles.ns == HF_TIME_PAST.ns))
        return false;
    fleet_words_missing(f, ids, sizeof(ids));
    snprintf(ret_text, size,
             "the nodes restarted, perhaps with an earlier record, and version %" PRIu64
             " of this host may not be the latest one; %s%s%son the host with the latest one "
             "(holdfast fleet): holdfast fleet confirm",
             f->record.version, ids[0] ? "let node " : "", ids, ids[0] ? " answer, or, " : "");
    return true;
}

static void fleet_words_waits_known(const struct fleet *f, hf_time now, char *ret_text, size_t size)
{
    int empty = fleet_words_first_bare(f), others = 0, later = 0;
    int lone = fleet_later_find_lone(f);

    for (int i = 0; i < f->n; i++) {
        others += f->node[i].said == FLEET_SAID_RECORD &&
                  strcmp(f->node[i].record.fleet, f->record.fleet) != 0;
        later += f->node[i].said == FLEET_SAID_LATER;
    }
    if (later > f->n - ballot_quorum(f->n)) {
        snprintf(
            ret_text, size,
            "upgrade this host: the fleet's record on %d of its %d nodes is of a later version "
            "of Holdfast",
            later, f->n);
        return;
    }
    if (others > f->n - ballot_quorum(f->n)) {
        snprintf(ret_text, size,
                 "start this agent with --reset-fleet if the fleet was founded anew: %d of its %d "
                 "nodes belong to another fleet than %.8s, by which it goes",
                 others, f->n, f->record.fleet);
        return;
    }

    if (fleet_words_is_left_behind(f, now)) {
        fleet_words_say_left_behind(f, ret_text, size);
        return;
    }
    if (lone >= 0 && !fleet_words_begins(f, lone))
        fleet_words_say_lone(f, lone, ret_text, size);
    else if (empty >= 0 && fleet_none_has_it(f) && !fleet_later_is_seen(f))
        fleet_words_say_forgotten(f, now, ret_text, size);
    else if (!fleet_words_say_doubted(f, now, ret_text, size))
        fleet_change_waits(f, now, ret_text, size);
}

void fleet_waits(const struct fleet *f, hf_time now, char *ret_text, size_t size)
{
    ret_text[0] = '\0';
    if (f->unkept)
        snprintf(
            ret_text, size,
            "make room in the agent's directory, or give the agent its rights there (its log has "
            "the reason): it cannot keep the fleet's record, and so not go by it");
    else if (f->known)
        fleet_words_waits_known(f, now, ret_text, size);
    else if (hf_time_reached(now, hf_time_add(f->started, hf_ns(HF_NS_PER_SEC / 2))))
        fleet_words_waits_unknown(f, now, ret_text, size);
}
