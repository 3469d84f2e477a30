#include "agent/core/fleet.h"

#include <stdio.h>
#include <string.h>

#include "agent/core/ballot.h"
#include "shm/status.h"

/* How long a host without a memory waits for the other nodes before it goes by a record that fewer than q of them
 * have: they may have a later one. */
#define PATIENCE (2 * HF_NS_PER_SEC)

void fleet_init(struct fleet *f, const struct fleet_record *own, bool anew, hf_time now)
{
    memset(f, 0, sizeof(*f));
    f->n = own->count;
    f->own = *own;
    f->anew = anew;
    f->started = now;
    for (int i = 0; i < f->n; i++) {
        f->node[i].empty_since = HF_TIME_NEVER;
        f->node[i].asked = HF_TIME_PAST;
    }
}

static void digest_of(const struct fleet_record *record, char ret_digest[FLEET_DIGEST_LEN + 1])
{
    char text[FLEET_TEXT_SIZE];
    size_t length = fleet_record_text(record, text);

    fleet_record_digest(text, length, ret_digest);
}

void fleet_adopt(struct fleet *f, const struct fleet_record *record)
{
    f->known = true;
    f->record = *record;
    digest_of(record, f->digest);
}

void fleet_restore(struct fleet *f, const struct fleet_record *record)
{
    fleet_adopt(f, record);
}

/* --- what nodes say --------------------------------------------------------------------------- */

void fleet_on_up(struct fleet *f, int i, const char *peer)
{
    f->node[i].there = f->node[i].proven = false;
    snprintf(f->node[i].peer, sizeof(f->node[i].peer), "%s", peer);
}

/* (!) What it said was another connection's, and may have been another server's. */
void fleet_on_down(struct fleet *f, int i)
{
    struct fleet_node *node = &f->node[i],
                      gone = {.asked = HF_TIME_PAST, .empty_since = HF_TIME_NEVER};

    memcpy(gone.left, node->left, sizeof(gone.left));
    *node = gone;
}

void fleet_on_leave(struct fleet *f, int i)
{
    struct fleet_node *node = &f->node[i];

    if (f->known && strcmp(node->digest, f->digest) == 0)
        memcpy(node->left, node->nonce, sizeof(node->left));
}

/* The configuration led to a server with our record, and the seat is another one. */
static bool is_stranger(const struct fleet *f, int i)
{
    const struct fleet_node *node = &f->node[i];

    return f->known && node->left[0] && node->said != FLEET_SAID_NOTHING &&
           strcmp(node->left, node->nonce) != 0;
}

void fleet_on_usable(struct fleet *f, int i, bool usable, bool proven)
{
    f->node[i].there = usable;
    f->node[i].proven = usable && proven;
}

bool fleet_on_answer(struct fleet *f, int i, const char *nonce, const char *digest, hf_time sent,
                     hf_time received)
{
    struct fleet_node *node = &f->node[i];

    snprintf(node->nonce, sizeof(node->nonce), "%s", nonce);
    snprintf(node->digest, sizeof(node->digest), "%s", digest);
    node->asked = sent;
    if (!*digest) {
        node->said = FLEET_SAID_NONE;
        node->read[0] = '\0';
        if (node->empty_since.ns == HF_TIME_NEVER.ns)
            node->empty_since = received;
        return false;
    }
    node->empty_since = HF_TIME_NEVER;
    if (node->said != FLEET_SAID_NOTHING && strcmp(node->read, digest) == 0)
        return false;
    node->said = FLEET_SAID_NOTHING;
    return true;
}

/* (!) Later versions of Holdfast change fleets, by rules that this one does not know: it goes by version 1 only. */
static bool is_later(const struct fleet_record *record)
{
    return record->version != 1 || record->state == FLEET_CHANGING;
}

void fleet_on_record(struct fleet *f, int i, const char *digest, const char *text, size_t length)
{
    struct fleet_node *node = &f->node[i];
    char found[FLEET_DIGEST_LEN + 1];
    int rc;

    if (!*digest || strcmp(digest, node->digest) != 0)
        return;
    snprintf(node->read, sizeof(node->read), "%s", digest);
    rc = fleet_record_read(text, length, &node->record);
    fleet_record_digest(text, length, found);
    if (rc == HF_EVERSION || (rc == HF_OK && is_later(&node->record)))
        node->said = FLEET_SAID_LATER;
    else if (rc == HF_OK && strcmp(found, digest) == 0)
        node->said = FLEET_SAID_RECORD;
    else
        node->said = FLEET_SAID_UNREADABLE;
}

bool fleet_is_unread(const struct fleet *f, int i)
{
    return f->node[i].digest[0] && f->node[i].said == FLEET_SAID_NOTHING;
}

/* --- what counts ------------------------------------------------------------------------------ */

bool fleet_is_seated(const struct fleet *f, int i)
{
    return !f->known || strcmp(f->node[i].peer, f->record.seat[i].address) == 0;
}

bool fleet_counts(const struct fleet *f, int i)
{
    return f->known && fleet_is_seated(f, i) && strcmp(f->node[i].digest, f->digest) == 0;
}

static bool all_connected(const struct fleet *f)
{
    for (int i = 0; i < f->n; i++)
        if (!f->node[i].peer[0])
            return false;
    return true;
}

static bool all_there(const struct fleet *f)
{
    for (int i = 0; i < f->n; i++)
        if (!f->node[i].there || !fleet_is_seated(f, i))
            return false;
    return true;
}

static bool all_proven(const struct fleet *f)
{
    for (int i = 0; i < f->n; i++)
        if (!f->node[i].proven)
            return false;
    return true;
}

static bool same_ids(const struct fleet_record *a, const struct fleet_record *b)
{
    if (a->count != b->count)
        return false;
    for (int i = 0; i < a->count; i++)
        if (strcmp(a->seat[i].id, b->seat[i].id) != 0)
            return false;
    return true;
}

/* The record that this host would found now. */
static bool is_of_these_servers(const struct fleet *f, const struct fleet_record *record)
{
    char text[256];

    for (int k = 0; k < f->n; k++)
        if (strcmp(record->seat[k].address, f->node[k].peer) != 0)
            return false;
    return !fleet_record_differs(record, &f->own, "", text, sizeof(text));
}

bool fleet_is_foreign(const struct fleet *f, int i, char *ret_text, size_t size)
{
    const struct fleet_node *node = &f->node[i];
    const char *id = f->own.seat[i].id;

    ret_text[0] = '\0';
    if (is_stranger(f, i))
        snprintf(ret_text, size,
                 "say as=%s behind the address of node %s, if that leads to the fleet's server: "
                 "another one is at %s for this host",
                 f->record.seat[i].address, id, f->record.seat[i].address);
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
    else if (!same_ids(&node->record, &f->own))
        (void)fleet_record_differs(&node->record, &f->own, id, ret_text, size);
    else if (f->anew && !f->known && all_connected(f) && !is_of_these_servers(f, &node->record))
        snprintf(ret_text, size, "the record on node %s is of other servers", id);
    else if (f->known && strcmp(node->record.fleet, f->record.fleet) != 0)
        snprintf(ret_text, size,
                 "correct the address of node %s: at %s is a node of another fleet (%.8s, this one "
                 "is %.8s); or, if this fleet was founded anew, start this agent with --new-list",
                 id, node->peer, node->record.fleet, f->record.fleet);
    else if (f->known && node->record.state == FLEET_COMPLETE && !fleet_counts(f, i) &&
             strcmp(node->digest, f->digest) != 0)
        (void)fleet_record_differs(&node->record, &f->record, id, ret_text, size);
    return ret_text[0] != '\0';
}

bool fleet_differs(const struct fleet *f, char *ret_text, size_t size)
{
    ret_text[0] = '\0';
    return f->known && fleet_record_differs(&f->record, &f->own, f->own.seat[0].id, ret_text, size);
}

/* --- founding --------------------------------------------------------------------------------- */

/* The record of a fleet of these servers, in that state. */
static void proposal(const struct fleet *f, enum fleet_state state, struct fleet_record *ret_record)
{
    *ret_record = f->known ? f->record : f->own;
    ret_record->state = state;
    if (f->known)
        return;
    ret_record->version = 1;
    for (int i = 0; i < f->n; i++)
        memcpy(ret_record->seat[i].address, f->node[i].peer, sizeof(f->node[i].peer));
    fleet_record_name(ret_record, ret_record->fleet);
}

static void put(const struct fleet *f, int i, const struct fleet_record *record,
                struct fleet_action *ret_action)
{
    ret_action->step = FLEET_PUT;
    ret_action->node = i;
    ret_action->record = *record;
    ret_action->nonce = f->node[i].nonce;
    ret_action->digest = f->node[i].digest;
}

static bool says(const struct fleet *f, int i, const char *digest)
{
    return f->node[i].said != FLEET_SAID_NOTHING && strcmp(f->node[i].digest, digest) == 0;
}

/* (!) `complete` only when every node has the founding record. */
static void found(const struct fleet *f, uint32_t skip, struct fleet_action *ret_action)
{
    struct fleet_record founding, complete;
    char of_founding[FLEET_DIGEST_LEN + 1];

    proposal(f, FLEET_FOUNDING, &founding);
    proposal(f, FLEET_COMPLETE, &complete);
    digest_of(&founding, of_founding);
    for (int i = 0; i < f->n; i++)
        if (f->node[i].said != FLEET_SAID_NONE && !says(f, i, of_founding))
            return;
    for (int i = 0; i < f->n; i++) {
        if (says(f, i, of_founding))
            continue;
        if (f->node[i].nonce[0] && !(skip >> i & 1))
            put(f, i, &founding, ret_action);
        return; /* in the list's order: of two founders one wins at the first node */
    }
    if (!(skip & 1))
        put(f, 0, &complete, ret_action);
}

/* --- without a record of our own --------------------------------------------------------------- */

static bool is_candidate(const struct fleet *f, int i)
{
    const struct fleet_node *node = &f->node[i];

    return node->there && node->said == FLEET_SAID_RECORD && node->record.state == FLEET_COMPLETE &&
           same_ids(&node->record, &f->own) && (!f->anew || is_of_these_servers(f, &node->record));
}

static int how_many(const struct fleet *f, int like)
{
    int count = 0;

    for (int i = 0; i < f->n; i++)
        count += is_candidate(f, i) && says(f, i, f->node[like].digest);
    return count;
}

/* The node whose record most nodes have; -1: none, or as many have another one. */
static int choose(const struct fleet *f, int *ret_count)
{
    int best = -1, most = 0;
    bool tie = false;

    for (int i = 0; i < f->n; i++) {
        int count = is_candidate(f, i) ? how_many(f, i) : 0;

        if (count > most) {
            best = i;
            most = count;
            tie = false;
        } else if (count == most && count && strcmp(f->node[i].digest, f->node[best].digest) != 0) {
            tie = true;
        }
    }
    *ret_count = most;
    return tie ? -1 : best;
}

static bool is_our_founding(const struct fleet *f, int i)
{
    struct fleet_record complete;
    char digest[FLEET_DIGEST_LEN + 1];

    if (!all_there(f))
        return false;
    proposal(f, FLEET_COMPLETE, &complete);
    digest_of(&complete, digest);
    return says(f, i, digest);
}

/* (!) It names, for most ids, the servers that this host's configuration leads to. */
static bool names_our_servers(const struct fleet *f, const struct fleet_record *record)
{
    int count = 0;

    for (int k = 0; k < f->n; k++)
        count += f->node[k].peer[0] && strcmp(record->seat[k].address, f->node[k].peer) == 0;
    return count >= ballot_quorum(f->n);
}

/* (!) Most of the nodes have it; or fewer, and they are of the servers that this host is configured for: one address
 * that leads to another fleet's node does not lead this host into that fleet. */
static bool is_ours(const struct fleet *f, int i, int count, hf_time now)
{
    return count >= ballot_quorum(f->n) || is_our_founding(f, i) ||
           (names_our_servers(f, &f->node[i].record) &&
            hf_time_reached(now, hf_time_add(f->started, hf_ns(PATIENCE))));
}

static void next_unknown(const struct fleet *f, hf_time now, uint32_t skip,
                         struct fleet_action *ret_action)
{
    int count, best = choose(f, &count);

    if (best >= 0 && is_ours(f, best, count, now)) {
        ret_action->step = FLEET_ADOPT;
        ret_action->record = f->node[best].record;
    } else if (best < 0 && !count && all_there(f) && all_proven(f)) {
        found(f, skip, ret_action);
    }
}

/* --- with a record ------------------------------------------------------------------------------ */

/* Another member has told it since `since`. */
static bool is_shown(const struct fleet *f, int but, hf_time since)
{
    for (int i = 0; i < f->n; i++)
        if (i != but && fleet_counts(f, i) && hf_time_before(since, f->node[i].asked))
            return true;
    return false;
}

static bool none_has_it(const struct fleet *f)
{
    for (int i = 0; i < f->n; i++)
        if (says(f, i, f->digest))
            return false;
    return true;
}

/* What its founder left of our record. */
static bool has_our_founding(const struct fleet *f, int i)
{
    struct fleet_record founding;
    char digest[FLEET_DIGEST_LEN + 1];

    if (f->node[i].said != FLEET_SAID_RECORD || f->node[i].record.state != FLEET_FOUNDING)
        return false;
    proposal(f, FLEET_FOUNDING, &founding);
    digest_of(&founding, digest);
    return says(f, i, digest);
}

static void next_known(const struct fleet *f, uint32_t skip, struct fleet_action *ret_action)
{
    for (int i = 0; i < f->n; i++) {
        const struct fleet_node *node = &f->node[i];
        bool empty = node->said == FLEET_SAID_NONE, begun = has_our_founding(f, i);

        if (skip >> i & 1 || !node->there || !node->nonce[0] || !fleet_is_seated(f, i))
            continue;
        if ((empty && is_shown(f, i, node->empty_since)) ||
            (begun && is_shown(f, i, HF_TIME_PAST))) {
            put(f, i, &f->record, ret_action);
            return;
        }
    }
    if (all_there(f) && none_has_it(f))
        found(f, skip, ret_action);
}

void fleet_next(const struct fleet *f, hf_time now, uint32_t skip, struct fleet_action *ret_action)
{
    memset(ret_action, 0, sizeof(*ret_action));
    if (f->known)
        next_known(f, skip, ret_action);
    else
        next_unknown(f, now, skip, ret_action);
}

/* --- words ------------------------------------------------------------------------------------ */

static void missing(const struct fleet *f, char *ret_ids, size_t size)
{
    size_t used = 0;

    ret_ids[0] = '\0';
    for (int i = 0; i < f->n && used < size; i++)
        if (!f->node[i].peer[0])
            used += (size_t)snprintf(ret_ids + used, size - used, "%s%s", used ? ", " : "",
                                     f->own.seat[i].id);
}

static int first_with(const struct fleet *f, enum fleet_said said)
{
    for (int i = 0; i < f->n; i++)
        if (f->node[i].there && f->node[i].said == said)
            return i;
    return -1;
}

/* A link is at another server than the record names. Nodes that are away are told otherwise. */
static bool leads_elsewhere(const struct fleet *f, const struct fleet_record *record)
{
    for (int i = 0; i < f->n; i++)
        if (f->node[i].peer[0] && strcmp(record->seat[i].address, f->node[i].peer) != 0)
            return true;
    return false;
}

static void waits_unknown(const struct fleet *f, char *ret_text, size_t size)
{
    int other = first_with(f, FLEET_SAID_RECORD), count, best = choose(f, &count);
    char ids[80];

    missing(f, ids, sizeof(ids));
    if (best >= 0 && leads_elsewhere(f, &f->node[best].record))
        snprintf(ret_text, size,
                 "correct the addresses of the other nodes%s%s: node %s is of a fleet (%.8s) whose "
                 "servers are not those of this host's configuration",
                 ids[0] ? ", or let them answer, " : "", ids, f->own.seat[best].id,
                 f->node[best].record.fleet);
    else if (best < 0 && count)
        snprintf(ret_text, size,
                 "correct the addresses of the nodes: as many of them belong to one fleet as to "
                 "another");
    else if (best < 0 && ids[0])
        snprintf(ret_text, size,
                 "let node %s answer, too: a fleet is founded once, with all its nodes up", ids);
    else if (other >= 0 && f->node[other].record.state == FLEET_FOUNDING &&
             !is_of_these_servers(f, &f->node[other].record))
        snprintf(ret_text, size,
                 "give all hosts the same addresses of nodes: another host began to found this "
                 "fleet with other ones (seen on node %s)",
                 f->own.seat[other].id);
}

static void waits_known(const struct fleet *f, char *ret_text, size_t size)
{
    int empty = first_with(f, FLEET_SAID_NONE), others = 0;
    char ids[80];

    for (int i = 0; i < f->n; i++)
        others += f->node[i].said == FLEET_SAID_RECORD &&
                  strcmp(f->node[i].record.fleet, f->record.fleet) != 0;
    if (others > f->n - ballot_quorum(f->n)) {
        snprintf(ret_text, size,
                 "start this agent with --new-list if the fleet was founded anew: %d of its %d "
                 "nodes belong to another fleet than %.8s, by which it goes",
                 others, f->n, f->record.fleet);
        return;
    }

    missing(f, ids, sizeof(ids));
    if (empty >= 0 && none_has_it(f) && ids[0])
        snprintf(ret_text, size,
                 "let node %s answer, too: no node that answers has the fleet's record any more, "
                 "and it is founded again with all of them up",
                 ids);
}

void fleet_waits(const struct fleet *f, hf_time now, char *ret_text, size_t size)
{
    ret_text[0] = '\0';
    if (f->known)
        waits_known(f, ret_text, size);
    else if (hf_time_reached(now, hf_time_add(f->started, hf_ns(HF_NS_PER_SEC / 2))))
        waits_unknown(f, ret_text, size);
}
