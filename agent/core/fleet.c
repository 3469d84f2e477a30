/* What is to be done next about the fleet's record. */
#include "agent/core/fleet.h"

#include <stdio.h>
#include <string.h>

#include "agent/core/ballot.h"
#include "agent/core/fleet_change.h"
#include "shm/assert.h"
#include "shm/status.h"

/* Of who is gone nothing is waited for. (!) Two nodes that are one server are not all: a fleet would be founded for good with too
 * few servers. */
static bool fleet_all_there(const struct fleet *f)
{
    for (int i = 0; i < f->n; i++)
        if (!(f->known && fleet_place(f, i)->gone) && (!f->node[i].there || !fleet_is_seated(f, i)))
            return false;
    return fleet_servers(f, (UINT32_C(1) << f->n) - 1) == f->n;
}

static bool fleet_all_proven(const struct fleet *f)
{
    for (int i = 0; i < f->n; i++)
        if (!f->node[i].proven)
            return false;
    return true;
}

/* --- founding --------------------------------------------------------------------------------- */

/* The record of a fleet of these servers, in that state. */
static void fleet_proposal(const struct fleet *f, enum fleet_state state,
                           struct fleet_record *ret_record)
{
    *ret_record = f->own;
    ret_record->state = state;
    ret_record->version = 1;
    for (int i = 0; i < f->n; i++)
        memcpy(ret_record->seat[i].address, f->node[i].peer, sizeof(f->node[i].peer));
    fleet_record_name(ret_record, ret_record->fleet);
}

static void fleet_put(const struct fleet *f, int i, const struct fleet_record *record,
                      struct fleet_action *ret_action)
{
    hf_assert(i >= 0 && i < f->n, "node %d of %d", i, f->n);
    hf_assert(record->count >= 1 && record->version >= 1, "count %d, version %llu", record->count,
              (unsigned long long)record->version);
    ret_action->step = FLEET_PUT;
    ret_action->node = i;
    ret_action->record = *record;
    ret_action->nonce = f->node[i].nonce;
    ret_action->digest = f->node[i].digest;
    ret_action->sure = fleet_may_mark(f, i) ? f->node[i].run_id : "";
}

static void fleet_again(const struct fleet_record *record, struct fleet_action *ret_action)
{
    ret_action->step = FLEET_AGAIN;
    ret_action->record = *record;
}

/* (!) `complete` only when every node has the founding record. */
static void fleet_found(const struct fleet *f, uint32_t skip, struct fleet_action *ret_action)
{
    struct fleet_record founding, complete;
    char of_founding[FLEET_DIGEST_LEN + 1];
    bool begun = false;

    fleet_proposal(f, FLEET_FOUNDING, &founding);
    fleet_proposal(f, FLEET_COMPLETE, &complete);
    fleet_record_own_digest(&founding, of_founding);
    for (int i = 0; i < f->n; i++) {
        if (f->node[i].said != FLEET_SAID_NONE && !fleet_says(f, i, of_founding))
            return;
        begun |= fleet_says(f, i, of_founding);
    }
    /* (!) Once begun it has to end: leases of a build before the records are renewed on nodes without one only. */
    if (!begun && skip)
        return;
    for (int i = 0; i < f->n; i++) {
        if (fleet_says(f, i, of_founding))
            continue;
        if (f->node[i].nonce[0] && !(skip >> i & 1))
            fleet_put(f, i, &founding, ret_action);
        return; /* in the list's order: of two founders one wins at the first node */
    }
    if (!(skip & 1))
        fleet_put(f, 0, &complete, ret_action);
}

/* --- without a record of our own --------------------------------------------------------------- */

/* What somebody left who founds as this host would. */
static bool fleet_has_our_founding(const struct fleet *f, int i)
{
    struct fleet_record founding;
    char digest[FLEET_DIGEST_LEN + 1];

    if (f->node[i].said != FLEET_SAID_RECORD || f->node[i].record.state != FLEET_FOUNDING)
        return false;
    fleet_proposal(f, FLEET_FOUNDING, &founding);
    fleet_record_own_digest(&founding, digest);
    return fleet_says(f, i, digest);
}

static bool fleet_is_our_founding(const struct fleet *f, int i)
{
    struct fleet_record complete;
    char digest[FLEET_DIGEST_LEN + 1];

    fleet_proposal(f, FLEET_COMPLETE, &complete);
    fleet_record_own_digest(&complete, digest);
    if (!fleet_all_there(f) || !fleet_says(f, i, digest))
        return false;
    for (int k = 0; k < f->n; k++)
        if (f->node[k].said != FLEET_SAID_NONE && !fleet_says(f, k, digest) &&
            !fleet_has_our_founding(f, k))
            return false;
    return true;
}

/* (!) Nothing that this host could not have founded itself, and no other record is written over by it. */
static bool fleet_is_of_all_here(const struct fleet *f, int i)
{
    const struct fleet_record *record = &f->node[i].record;

    if (!fleet_all_there(f) || !fleet_is_candidate(f, i) || record->state != FLEET_COMPLETE ||
        !fleet_later_is_sound(record) || record->count != f->n ||
        !fleet_is_of_these_servers(f, record))
        return false;
    for (int k = 0; k < f->n; k++)
        if (f->node[k].said != FLEET_SAID_NONE && !fleet_says(f, k, f->node[i].digest))
            return false;
    return true;
}

/* (!) The same with a majority, of a fleet that never changed: for a node that is away the configuration itself names the
 * seat, so the record leads this host nowhere else. */
static bool fleet_is_of_most_here(const struct fleet *f, int i, hf_time now)
{
    const struct fleet_record *record = &f->node[i].record;
    char text[256];
    uint32_t there = 0;

    if (!hf_time_reached(now, hf_time_add(f->started, FLEET_PATIENCE)) || f->anew ||
        !fleet_is_candidate(f, i) || record->state != FLEET_COMPLETE || record->version != 1 ||
        record->count != f->n || fleet_record_differs(record, &f->own, "", text, sizeof(text)))
        return false;
    for (int k = 0; k < f->n; k++) {
        const struct fleet_node *node = &f->node[k];

        if (strcmp(record->seat[k].address, node->peer[0] ? node->peer : node->configured) != 0 ||
            (node->peer[0] && node->said != FLEET_SAID_NONE &&
             !fleet_says(f, k, f->node[i].digest)))
            return false;
        if (node->there)
            there |= UINT32_C(1) << k;
    }
    return fleet_servers(f, there) >= ballot_quorum(f->n);
}

static int fleet_find_ours(const struct fleet *f, hf_time now)
{
    int found = fleet_later_find_first(f);

    for (int i = 0; found < 0 && i < f->n; i++)
        if (fleet_is_our_founding(f, i) || fleet_is_of_all_here(f, i) ||
            fleet_is_of_most_here(f, i, now))
            found = i;
    return found;
}

static void fleet_next_unknown(const struct fleet *f, hf_time now, uint32_t skip,
                               struct fleet_action *ret_action)
{
    int count, ours = fleet_find_ours(f, now);

    (void)fleet_choose(f, &count);
    if (ours >= 0) {
        fleet_again(&f->node[ours].record, ret_action);
        if (f->node[ours].record.version == 1)
            ret_action->step = FLEET_ADOPT;
    } else if (!count && fleet_all_there(f) && fleet_all_proven(f)) {
        fleet_found(f, skip, ret_action);
    }
}

/* --- with a record ------------------------------------------------------------------------------ */

/* It has what the fleet went by before. */
static bool fleet_is_behind(const struct fleet *f, int i)
{
    const struct fleet_node *node = &f->node[i];

    return f->record.version > 1 && node->said == FLEET_SAID_RECORD &&
           strcmp(node->record.fleet, f->record.fleet) == 0 &&
           fleet_record_rank(&node->record, &f->record) < 0 && !fleet_is_refounded(f, i);
}

static bool fleet_may_put(const struct fleet *f, int i, uint32_t skip)
{
    const struct fleet_node *node = &f->node[i];

    return !(skip >> i & 1) && node->there && node->nonce[0] && fleet_is_seated(f, i) &&
           !fleet_place(f, i)->gone;
}

/* The record on nodes that have none, or an earlier one; or on which it is to be seen that it is the latest. */
static bool fleet_spread(const struct fleet *f, uint32_t skip, struct fleet_action *ret_action)
{
    for (int i = 0; i < f->n; i++) {
        const struct fleet_node *node = &f->node[i];
        bool empty = node->said == FLEET_SAID_NONE;

        if (!fleet_may_put(f, i, skip))
            continue;
        if ((fleet_is_bare(f, i) &&
             fleet_is_shown(f, i, empty ? node->empty_since : HF_TIME_PAST)) ||
            fleet_is_behind(f, i) || fleet_is_unmarked(f, i)) {
            fleet_put(f, i, &f->record, ret_action);
            return true;
        }
    }
    return false;
}

/* It has our record; or of the change that is under way, or of the wish itself, one from which fewer are gone; or it forgot, and
 * another one shows the wish. */
static bool fleet_takes_wish(const struct fleet *f, int i)
{
    const struct fleet_record *r = &f->node[i].record;

    if (fleet_shows(f, i) || fleet_later_is_told(f, i, &f->wish))
        return true;
    return f->node[i].said == FLEET_SAID_RECORD && strcmp(r->fleet, f->wish.fleet) == 0 &&
           r->state == FLEET_CHANGING && fleet_record_rank(r, &f->wish) < 0 &&
           (fleet_record_is_same_change(r, &f->wish) ||
            (r->version == f->record.version && fleet_record_is_same_change(r, &f->record)));
}

/* (!) An operator's change begins on the first member before it that is not gone, where it has our record: one point for all
 * operators. Of a way back that is the first one that stays. Then the agent that was asked puts it on the others, before it goes by
 * it itself: nobody else may do so before a majority shows it. */
static bool fleet_begin_change(const struct fleet *f, hf_time now, uint32_t skip,
                               struct fleet_action *ret_action)
{
    int first = fleet_change_first(f, &f->wish);
    bool begun = fleet_later_has(f, first, &f->wish);

    if (fleet_record_rank(&f->wish, &f->record) <= 0 ||
        (!begun && hf_time_reached(now, f->wish_until)))
        return false;
    for (int i = begun ? 0 : first; i < f->n; i++) {
        if (fleet_may_put(f, i, skip) && fleet_takes_wish(f, i)) {
            fleet_put(f, i, &f->wish, ret_action);
            return true;
        }
        if (!begun)
            break;
    }
    return false;
}

/* --- where no node has it any more --------------------------------------------------------------- */

/* (!) By the operator's word: what the nodes that are away have nobody sees, nor what they had before they forgot. */
static bool fleet_is_confirmed(const struct fleet *f, hf_time now)
{
    return hf_time_before(now, f->confirmed_until);
}

static bool fleet_all_are_bare(const struct fleet *f)
{
    for (int i = 0; i < f->n; i++)
        if (!fleet_place(f, i)->gone && !fleet_is_bare(f, i) && !fleet_says(f, i, f->digest) &&
            !fleet_is_behind(f, i))
            return false;
    return true;
}

static bool fleet_may_found_again(const struct fleet *f, hf_time now)
{
    return fleet_none_has_it(f) && !fleet_later_is_seen(f) &&
           (fleet_is_confirmed(f, now) ||
            (fleet_all_there(f) && fleet_all_are_bare(f) && fleet_is_latest(f, HF_TIME_NEVER)));
}

/* Complete at once: the fleet was founded before. What the first node is given the others are shown. */
static void fleet_found_again(const struct fleet *f, uint32_t skip, struct fleet_action *ret_action)
{
    for (int i = 0; i < f->n; i++)
        if (fleet_is_bare(f, i) && fleet_is_of_new_list(f, i) && fleet_may_put(f, i, skip)) {
            fleet_put(f, i, &f->record, ret_action);
            return;
        }
}

static void fleet_next_known(const struct fleet *f, hf_time now, uint32_t skip,
                             struct fleet_action *ret_action)
{
    int later = fleet_later_find(f);

    if (later >= 0) {
        fleet_again(&f->node[later].record, ret_action);
    } else if (fleet_change_is_over(f)) {
        fleet_again(&f->record, ret_action);
        fleet_record_complete(&ret_action->record);
    } else if (f->settles.ns != HF_TIME_PAST.ns && hf_time_reached(now, f->settles)) {
        fleet_again(&f->record, ret_action);
    } else if (!fleet_begin_change(f, now, skip, ret_action) &&
               !fleet_spread(f, skip, ret_action) && fleet_may_found_again(f, now)) {
        fleet_found_again(f, skip, ret_action);
    }
}

uint32_t fleet_awaits(const struct fleet *f)
{
    hf_time since = HF_TIME_PAST;
    uint32_t which = 0;

    if (!f->known || f->leaving)
        return 0;
    for (int i = 0; i < f->n; i++) {
        if (f->node[i].there && f->node[i].said == FLEET_SAID_NONE)
            since = hf_time_max(since, f->node[i].empty_since);
        if (f->node[i].there && fleet_is_doubted(f, i))
            since = hf_time_max(since, f->node[i].doubted);
    }
    for (int i = 0; since.ns != HF_TIME_PAST.ns && i < f->n; i++)
        if (((fleet_shows(f, i) && !fleet_is_doubted(f, i)) || fleet_later_has(f, i, &f->wish)) &&
            !hf_time_before(since, f->node[i].asked))
            which |= 1u << i;
    return which | fleet_change_awaits(f);
}

void fleet_next(const struct fleet *f, hf_time now, uint32_t skip, struct fleet_action *ret_action)
{
    memset(ret_action, 0, sizeof(*ret_action));
    if (f->leaving)
        return;
    if (f->known)
        fleet_next_known(f, now, skip, ret_action);
    else
        fleet_next_unknown(f, now, skip, ret_action);
}
