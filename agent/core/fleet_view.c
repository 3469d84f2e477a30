/* What the nodes of a fleet were seen to say, and what counts by it. */
#include "agent/core/fleet.h"

#include <stdio.h>
#include <string.h>

#include "agent/core/ballot.h"
#include "agent/core/timing.h"
#include "shm/assert.h"
#include "shm/status.h"

void fleet_init(struct fleet *f, const struct fleet_record *own, bool anew, hf_time now)
{
    hf_assert(own->count >= 1 && own->count <= HF_NODES_MAX, "nodes %d", own->count);
    memset(f, 0, sizeof(*f));
    f->n = own->count;
    f->own = *own;
    f->anew = anew;
    f->started = now;
    for (int i = 0; i < f->n; i++) {
        f->node[i].empty_since = f->node[i].sighted = f->node[i].doubted = HF_TIME_NEVER;
        f->node[i].asked = f->node[i].shown = HF_TIME_PAST;
    }
    f->wish_until = f->confirmed_until = f->shown = HF_TIME_PAST;
}

bool fleet_may_go_by(const struct fleet_record *record)
{
    return record->state != FLEET_FOUNDING;
}

void fleet_restore(struct fleet *f, const struct fleet_record *record, hf_time settles)
{
    f->known = true;
    f->record = *record;
    f->settles = record->version == 1 ? HF_TIME_PAST : settles;
    f->counting = strcmp(record->keys, f->own.keys) == 0
                      ? fleet_record_counting(record, f->settles.ns == HF_TIME_PAST.ns)
                      : 0;
    fleet_record_own_digest(record, f->digest);
    f->over[0] = '\0';
    if (record->state == FLEET_CHANGING) {
        struct fleet_record over = *record;

        fleet_record_complete(&over);
        fleet_record_own_digest(&over, f->over);
    }
}

void fleet_restore_shown(struct fleet *f, hf_time shown)
{
    f->shown = shown;
}

void fleet_adopt(struct fleet *f, const struct fleet_record *record)
{
    fleet_restore(f, record, HF_TIME_PAST);
    for (int i = 0; i < f->n; i++)
        if (fleet_shows(f, i) && !fleet_is_doubted(f, i))
            f->node[i].shown = hf_time_max(f->node[i].shown, f->node[i].asked);
}

void fleet_leave(struct fleet *f)
{
    hf_assert(!f->leaving, "version %llu", (unsigned long long)f->record.version);
    f->leaving = true;
}

const struct fleet_seat *fleet_place(const struct fleet *f, int i)
{
    const struct fleet_seat *list;

    hf_assert(i >= 0 && i < f->n, "node %d of %d", i, f->n);
    (void)fleet_record_list(&f->record, &list);
    return &list[i];
}

/* --- what nodes say --------------------------------------------------------------------------- */

void fleet_on_configured(struct fleet *f, int i, const char *seat)
{
    memcpy(f->node[i].configured, seat, strlen(seat) + 1);
}

bool fleet_is_doubted(const struct fleet *f, int i)
{
    return f->node[i].doubted.ns != HF_TIME_NEVER.ns;
}

bool fleet_may_mark(const struct fleet *f, int i)
{
    return !f->known || f->node[i].marked || !fleet_is_doubted(f, i);
}

void fleet_on_put(struct fleet *f, int i, bool refused, bool taken)
{
    f->node[i].refuses = refused;
    f->node[i].marked = taken && fleet_may_mark(f, i);
}

void fleet_on_reload(struct fleet *f, int i, const char *seat)
{
    if (f->known && strcmp(fleet_place(f, i)->address, seat) == 0)
        f->node[i].left[0] = '\0';
}

void fleet_on_written(struct fleet *f, int i, const char *file, int line)
{
    f->node[i].line = line;
    snprintf(f->file, sizeof(f->file), "%s", line ? file : "");
}

void fleet_on_up(struct fleet *f, int i, const char *peer)
{
    f->node[i].there = f->node[i].proven = false;
    snprintf(f->node[i].peer, sizeof(f->node[i].peer), "%s", peer);
}

/* (!) What it said was another connection's, and may have been another server's. */
void fleet_on_down(struct fleet *f, int i)
{
    struct fleet_node *node = &f->node[i], gone = {.asked = HF_TIME_PAST,
                                                   .empty_since = HF_TIME_NEVER,
                                                   .sighted = HF_TIME_NEVER,
                                                   .doubted = HF_TIME_NEVER,
                                                   .young = node->young,
                                                   .shown = node->shown};

    memcpy(gone.configured, node->configured, sizeof(gone.configured));
    memcpy(gone.left, node->left, sizeof(gone.left));
    memcpy(gone.left_at, node->left_at, sizeof(gone.left_at));
    gone.line = node->line;
    memcpy(gone.left_run_id, node->left_run_id, sizeof(gone.left_run_id));
    memcpy(gone.sure, node->sure, sizeof(gone.sure));
    *node = gone;
}

void fleet_on_leave(struct fleet *f, int i)
{
    struct fleet_node *node = &f->node[i];

    if (!f->known || strcmp(node->digest, f->digest) != 0)
        return;
    memcpy(node->left, node->nonce, sizeof(node->left));
    memcpy(node->left_run_id, node->run_id, sizeof(node->left_run_id));
    memcpy(node->left_at, node->peer, sizeof(node->left_at));
}

int fleet_servers(const struct fleet *f, uint32_t nodes)
{
    struct twins twins = {0};

    for (int i = 0; i < f->n; i++)
        for (int k = 0; k < i; k++)
            if (f->node[i].run_id[0] && strcmp(f->node[i].run_id, f->node[k].run_id) == 0)
                twins_pair(&twins, i, k);
    return twins_count(&twins, nodes);
}

static uint32_t fleet_view_bit(int i)
{
    return UINT32_C(1) << i;
}

/* The configuration led to a server with our record, and the seat is another one. */
bool fleet_is_stranger(const struct fleet *f, int i)
{
    const struct fleet_node *node = &f->node[i];

    return f->known && node->left[0] && node->said != FLEET_SAID_NOTHING &&
           strcmp(node->left, node->nonce) != 0 &&
           !(node->run_id[0] && strcmp(node->left_run_id, node->run_id) == 0);
}

int fleet_misplaced(const struct fleet *f, int i)
{
    if (!fleet_is_stranger(f, i))
        return -1;
    for (int k = 0; k < f->n; k++)
        if (k != i && strcmp(fleet_place(f, k)->address, f->node[i].left_at) == 0)
            return k;
    return -1;
}

/* At the seat it is the one that was left: from here on what it forgets is a node's forgetting. */
static void fleet_view_settle_who_was_left(struct fleet *f, int i)
{
    struct fleet_node *node = &f->node[i];

    if (node->left[0] && node->said == FLEET_SAID_RECORD && fleet_shows(f, i) &&
        !fleet_is_stranger(f, i))
        node->left[0] = '\0';
}

void fleet_on_usable(struct fleet *f, int i, bool usable, bool proven)
{
    hf_assert(i >= 0 && i < f->n, "node %d of %d", i, f->n);
    f->node[i].there = usable;
    f->node[i].proven = usable && proven;
}

bool fleet_on_answer(struct fleet *f, int i, const char *nonce, const char *digest, hf_time sent,
                     hf_time received)
{
    struct fleet_node *node = &f->node[i];
    bool same = strcmp(node->nonce, nonce) == 0;

    hf_assert(i >= 0 && i < f->n, "node %d of %d", i, f->n);
    hf_assert(hf_time_reached(received, sent), "node %d, sent %lld, received %lld", i,
              (long long)sent.ns, (long long)received.ns);
    /* (!) A node that forgot in between begins anew. */
    if (!f->known || !fleet_is_seated(f, i) ||
        (strcmp(digest, f->digest) != 0 && (!f->over[0] || strcmp(digest, f->over) != 0)))
        node->sighted = HF_TIME_NEVER;
    else if (node->sighted.ns == HF_TIME_NEVER.ns || !same)
        node->sighted = received;
    snprintf(node->nonce, sizeof(node->nonce), "%s", nonce);
    snprintf(node->digest, sizeof(node->digest), "%s", digest);
    node->asked = sent;
    if (fleet_shows(f, i) && !fleet_is_doubted(f, i))
        node->shown = hf_time_max(node->shown, sent);
    if (!*digest) {
        node->said = FLEET_SAID_NONE;
        node->read[0] = '\0';
        /* (!) What it had in between it may have forgotten again. */
        if (node->empty_since.ns == HF_TIME_NEVER.ns || !same)
            node->empty_since = received;
        return false;
    }
    node->empty_since = HF_TIME_NEVER;
    if (node->said != FLEET_SAID_NOTHING && strcmp(node->read, digest) == 0) {
        fleet_view_settle_who_was_left(f, i);
        return false;
    }
    node->said = FLEET_SAID_NOTHING;
    return true;
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
    if (rc == HF_EVERSION)
        node->said = FLEET_SAID_LATER;
    else if (rc == HF_OK && strcmp(found, digest) == 0)
        node->said = FLEET_SAID_RECORD;
    else
        node->said = FLEET_SAID_UNREADABLE;
    fleet_view_settle_who_was_left(f, i);
}

void fleet_on_since(struct fleet *f, int i, int64_t since_ms, int64_t ours_ms)
{
    f->node[i].since_ms = since_ms;
    f->since_ms = ours_ms;
}

void fleet_on_way_back(struct fleet *f, bool way_back)
{
    f->way_back = way_back;
}

static bool fleet_view_has_later_founding(const struct fleet *f, int i)
{
    const struct fleet_node *node = &f->node[i];

    return node->said == FLEET_SAID_RECORD && node->record.version == 1 &&
           strcmp(node->record.fleet, f->record.fleet) == 0 && node->since_ms > f->since_ms;
}

bool fleet_is_refounded(const struct fleet *f, int i)
{
    uint32_t have = 0, ours = 0;

    if (!f->known || f->record.version == 1 || f->record.state != FLEET_COMPLETE ||
        f->since_ms == 0 || !fleet_view_has_later_founding(f, i))
        return false;
    for (int k = 0; k < f->n; k++) {
        if (fleet_shows(f, k))
            ours |= fleet_view_bit(k);
        if (fleet_view_has_later_founding(f, k) || f->node[k].said == FLEET_SAID_NOTHING)
            have |= fleet_view_bit(k);
    }
    return fleet_servers(f, ours) < ballot_quorum(f->n) &&
           fleet_servers(f, have) >= ballot_quorum(f->n);
}

bool fleet_is_unread(const struct fleet *f, int i)
{
    return f->node[i].digest[0] && f->node[i].said == FLEET_SAID_NOTHING;
}

/* --- what counts ------------------------------------------------------------------------------ */

bool fleet_is_seated(const struct fleet *f, int i)
{
    return !f->known || strcmp(f->node[i].peer, fleet_place(f, i)->address) == 0;
}

/* It has our record, whether it counts by it or not. */
bool fleet_shows(const struct fleet *f, int i)
{
    return f->known && fleet_is_seated(f, i) && strcmp(f->node[i].digest, f->digest) == 0;
}

bool fleet_counts(const struct fleet *f, int i)
{
    return f->known && f->counting >> i & 1 && fleet_shows(f, i) && !fleet_is_doubted(f, i);
}

/* --- what is made of it ------------------------------------------------------------------------- */

static bool fleet_view_same_ids(const struct fleet_record *a, const struct fleet_record *b)
{
    if (a->count != b->count)
        return false;
    for (int i = 0; i < a->count; i++)
        if (strcmp(a->seat[i].id, b->seat[i].id) != 0)
            return false;
    return true;
}

/* The record that this host would found now. */
bool fleet_is_of_these_servers(const struct fleet *f, const struct fleet_record *record)
{
    char text[256];

    for (int k = 0; k < f->n; k++)
        if (strcmp(record->seat[k].address, f->node[k].peer) != 0)
            return false;
    return !fleet_record_differs(record, &f->own, "", text, sizeof(text));
}

bool fleet_is_of_our_fleet(const struct fleet *f, int i)
{
    return f->known && f->node[i].said == FLEET_SAID_RECORD &&
           strcmp(f->node[i].record.fleet, f->record.fleet) == 0;
}

bool fleet_says(const struct fleet *f, int i, const char *digest)
{
    return f->node[i].said != FLEET_SAID_NOTHING && strcmp(f->node[i].digest, digest) == 0;
}

static bool fleet_view_is_listed(const struct fleet_seat *seats, int count, const char *id)
{
    for (int i = 0; i < count; i++)
        if (strcmp(seats[i].id, id) == 0)
            return true;
    return false;
}

/* It may be of this host's fleet: of version 1 it has the configured ids, a later one may have others since. */
bool fleet_is_akin(const struct fleet *f, const struct fleet_record *record)
{
    if (record->version == 1)
        return fleet_view_same_ids(record, &f->own);
    if (strcmp(record->keys, f->own.keys) != 0)
        return false;
    for (int i = 0; i < f->n; i++)
        if (fleet_view_is_listed(record->seat, record->count, f->own.seat[i].id) ||
            fleet_view_is_listed(record->before, record->before_count, f->own.seat[i].id))
            return true;
    return false;
}

bool fleet_is_candidate(const struct fleet *f, int i)
{
    const struct fleet_node *node = &f->node[i];

    return node->there && node->said == FLEET_SAID_RECORD && fleet_may_go_by(&node->record) &&
           fleet_is_akin(f, &node->record) &&
           (!f->anew || fleet_is_of_these_servers(f, &node->record));
}

static int fleet_view_how_many(const struct fleet *f, int like)
{
    int count = 0;

    for (int i = 0; i < f->n; i++)
        count += fleet_is_candidate(f, i) &&
                 strcmp(f->node[i].record.fleet, f->node[like].record.fleet) == 0;
    return count;
}

int fleet_choose(const struct fleet *f, int *ret_count)
{
    int best = -1, most = 0;
    bool tie = false;

    for (int i = 0; i < f->n; i++) {
        int count = fleet_is_candidate(f, i) ? fleet_view_how_many(f, i) : 0, rank;

        if (count == 0)
            continue;
        rank = best < 0 || strcmp(f->node[i].record.fleet, f->node[best].record.fleet) != 0
                   ? 0
                   : fleet_record_rank(&f->node[i].record, &f->node[best].record);
        if (count > most || rank > 0) {
            best = i;
            most = count;
            tie = false;
        } else if (count == most && rank == 0 && !fleet_says(f, i, f->node[best].digest)) {
            tie = true;
        }
    }
    *ret_count = most;
    return tie ? -1 : best;
}

bool fleet_is_of_new_list(const struct fleet *f, int i)
{
    return f->record.state != FLEET_CHANGING || fleet_record_stays(&f->record, fleet_place(f, i));
}

bool fleet_none_has_it(const struct fleet *f)
{
    for (int i = 0; i < f->n; i++)
        if (fleet_is_of_new_list(f, i) && fleet_says(f, i, f->digest) && !fleet_is_doubted(f, i))
            return false;
    return true;
}

bool fleet_is_bare(const struct fleet *f, int i)
{
    const struct fleet_node *node = &f->node[i];
    struct fleet_record founding;

    if (node->said != FLEET_SAID_RECORD || node->record.state != FLEET_FOUNDING || !f->known)
        return node->said == FLEET_SAID_NONE;
    founding = f->record;
    founding.state = FLEET_FOUNDING;
    return fleet_record_is_same(&node->record, &founding);
}

/* --- when a later record counts --------------------------------------------------------------- */

bool fleet_later_is_sound(const struct fleet_record *r)
{
    return r->version == 1 || (fleet_record_can_change(r) &&
                               fleet_record_gone_count(r) < ballot_quorum(r->before_count));
}

/* Its members before are those of `record`. */
static bool later_is_next(const struct fleet_record *r, const struct fleet_record *next)
{
    return next->version == r->version + 1 && next->ttl_max_before_ms == r->ttl_max_ms &&
           fleet_record_same_list(next->before, next->before_count, r->seat, r->count);
}

/* Of two changes that began at once the complete one is gone by. */
static bool later_is_of_same_version(const struct fleet_record *r, const struct fleet_record *next)
{
    return fleet_record_is_same_change(r, next) ||
           (next->state == FLEET_COMPLETE && next->ttl_max_before_ms == r->ttl_max_before_ms &&
            fleet_record_same_list(next->before, next->before_count, r->before, r->before_count));
}

/* Whether an agent that goes by `r` may go by `next`. */
static bool fleet_later_may_follow(const struct fleet_record *r, const struct fleet_record *next)
{
    if (strcmp(next->fleet, r->fleet) != 0 || strcmp(next->keys, r->keys) != 0 ||
        !fleet_may_go_by(next) || fleet_record_rank(next, r) <= 0 || !fleet_later_is_sound(next))
        return false;
    if (next->version == r->version)
        return later_is_of_same_version(r, next);
    /* This host slept through what is between them. */
    return next->version > r->version + 1 || later_is_next(r, next);
}

/* (!) A server that was told more since shows that it was told of a change, too: of the same one, which went on; or, by the members
 * before its own record, of the one right behind ours. Never of a complete record: who is told of a way back has seen none. */
static bool later_shows(const struct fleet_record *shown, const struct fleet_record *of,
                        const struct fleet_record *by)
{
    if (strcmp(shown->fleet, of->fleet) != 0 || strcmp(shown->keys, of->keys) != 0)
        return false;
    if (fleet_record_is_same(shown, of))
        return true;
    if (of->state != FLEET_CHANGING || !fleet_may_go_by(shown))
        return false;
    if (shown->version == of->version)
        return fleet_record_is_same_change(shown, of) && fleet_record_rank(shown, of) > 0;
    return by && later_is_next(by, of) && fleet_record_gone_count(of) == 0 &&
           later_is_next(of, shown);
}

static bool later_is_shown_by_most(const struct fleet *f, const struct fleet_record *of,
                                   const struct fleet_record *by)
{
    uint32_t shown = 0;

    for (int i = 0; i < f->n; i++)
        if (f->node[i].said == FLEET_SAID_RECORD && fleet_is_seated(f, i) &&
            later_shows(&f->node[i].record, of, by))
            shown |= UINT32_C(1) << i;
    return fleet_servers(f, shown) >= ballot_quorum(f->n);
}

static bool later_is_later(const struct fleet *f, int i)
{
    return f->node[i].said == FLEET_SAID_RECORD && fleet_is_seated(f, i) &&
           fleet_later_may_follow(&f->record, &f->node[i].record);
}

bool fleet_later_has(const struct fleet *f, int i, const struct fleet_record *record)
{
    return f->node[i].said == FLEET_SAID_RECORD && fleet_is_seated(f, i) &&
           fleet_record_is_same(&f->node[i].record, record);
}

bool fleet_later_is_told(const struct fleet *f, int i, const struct fleet_record *record)
{
    for (int k = 0; f->node[i].said == FLEET_SAID_NONE && k < f->n; k++)
        if (k != i && fleet_later_has(f, k, record) &&
            fleet_record_stays(record, fleet_place(f, k)) &&
            hf_time_before(f->node[i].empty_since, f->node[k].asked))
            return true;
    return false;
}

int fleet_later_find(const struct fleet *f)
{
    int found = -1;

    for (int i = 0; i < f->n; i++) {
        const struct fleet_record *r = &f->node[i].record;

        if (later_is_later(f, i) && later_is_shown_by_most(f, r, &f->record) &&
            (found < 0 || fleet_record_rank(r, &f->node[found].record) > 0))
            found = i;
    }
    return found;
}

int fleet_later_find_first(const struct fleet *f)
{
    int found = -1;

    for (int i = 0; i < f->n; i++) {
        const struct fleet_record *r = &f->node[i].record;

        if (fleet_is_candidate(f, i) && fleet_later_is_sound(r) &&
            later_is_shown_by_most(f, r, NULL) &&
            (found < 0 || fleet_record_rank(r, &f->node[found].record) > 0))
            found = i;
    }
    return found;
}

int fleet_later_find_lone(const struct fleet *f)
{
    for (int i = 0; f->known && i < f->n; i++) {
        const struct fleet_node *node = &f->node[i];

        if (node->said == FLEET_SAID_RECORD && fleet_is_seated(f, i) &&
            strcmp(node->record.fleet, f->record.fleet) == 0 &&
            fleet_record_rank(&node->record, &f->record) > 0 &&
            !(later_is_later(f, i) && later_is_shown_by_most(f, &node->record, &f->record)))
            return i;
    }
    return -1;
}

bool fleet_later_is_seen(const struct fleet *f)
{
    for (int i = 0; i < f->n; i++) {
        const struct fleet_node *node = &f->node[i];

        if (node->said == FLEET_SAID_LATER || fleet_is_unread(f, i) ||
            (node->said == FLEET_SAID_RECORD && strcmp(node->record.fleet, f->record.fleet) == 0 &&
             fleet_record_rank(&node->record, &f->record) > 0))
            return true;
    }
    return f->told.count > 0;
}
