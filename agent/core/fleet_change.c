#include "agent/core/fleet_change.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/ballot.h"
#include "agent/core/fleet.h"
#include "agent/core/timing.h"
#include "shm/status.h"

#define TTL_MAX_MOST_MS INT64_C(86400000)

/* --- when it is over -------------------------------------------------------------------------- */

static bool fleet_change_is_told(const struct fleet *f, int i)
{
    return f->node[i].sighted.ns != HF_TIME_NEVER.ns;
}

/* Since when every node that must be told was seen with the record; HF_TIME_NEVER: one was not. */
static hf_time fleet_change_told_since(const struct fleet *f)
{
    hf_time since = HF_TIME_PAST;

    for (int i = 0; i < f->n; i++) {
        if (f->record.before[i].gone)
            continue;
        if (!fleet_change_is_told(f, i))
            return HF_TIME_NEVER;
        since = hf_time_max(since, f->node[i].sighted);
    }
    return since;
}

static bool fleet_change_is_changing(const struct fleet *f)
{
    return f->known && f->record.state == FLEET_CHANGING;
}

bool fleet_change_is_over(const struct fleet *f)
{
    hf_time since = fleet_change_is_changing(f) ? fleet_change_told_since(f) : HF_TIME_NEVER;

    if (since.ns == HF_TIME_NEVER.ns)
        return false;
    for (int i = 0; i < f->n; i++)
        if (!f->record.before[i].gone && !hf_time_before(since, f->node[i].asked))
            return false;
    return true;
}

uint32_t fleet_change_awaits(const struct fleet *f)
{
    hf_time since = fleet_change_is_changing(f) ? fleet_change_told_since(f) : HF_TIME_NEVER;
    uint32_t which = 0;

    for (int i = 0; since.ns != HF_TIME_NEVER.ns && i < f->n; i++)
        if (!f->record.before[i].gone && !hf_time_before(since, f->node[i].asked))
            which |= 1u << i;
    return which;
}

/* --- what an operator asks for ---------------------------------------------------------------- */

static int fleet_change_find(const struct fleet_record *r, const char *id)
{
    for (int i = 0; i < r->count; i++)
        if (strcmp(r->seat[i].id, id) == 0)
            return i;
    return -1;
}

/* The seat is nobody's, and the id is the member's that it should be. */
static bool fleet_change_is_free(const struct fleet_record *r, const char *seat, char *why,
                                 size_t size)
{
    for (int i = 0; i < r->count; i++)
        if (strcmp(r->seat[i].address, seat) == 0) {
            snprintf(why, size, "%s is node %s of this fleet; give another address", seat,
                     r->seat[i].id);
            return false;
        }
    return true;
}

static bool fleet_change_is_known(const struct fleet_record *r, const char *id, int *ret_at,
                                  char *why, size_t size)
{
    *ret_at = fleet_change_find(r, id);
    if (*ret_at < 0)
        snprintf(why, size, "no node has the id %s; name a node of the fleet (holdfast fleet)", id);
    return *ret_at >= 0;
}

static int fleet_change_move(struct fleet_record *r, const struct fleet_wish *w, char *why,
                             size_t size)
{
    int at;

    if (!fleet_change_is_known(r, w->id, &at, why, size) ||
        !fleet_change_is_free(r, w->seat, why, size))
        return HF_EINVAL;
    r->before[at].gone = w->gone;
    memcpy(r->seat[at].address, w->seat, sizeof(w->seat));
    return HF_OK;
}

static int fleet_change_add(struct fleet_record *r, const struct fleet_wish *w, char *why,
                            size_t size)
{
    if (fleet_change_find(r, w->id) >= 0) {
        snprintf(why, size,
                 "the fleet has a node %s; give another id (to put it elsewhere: holdfast fleet "
                 "move)",
                 w->id);
        return HF_EINVAL;
    }
    if (r->count == HF_NODES_MAX) {
        snprintf(why, size, "a fleet has %d nodes at most; remove one first", HF_NODES_MAX);
        return HF_EINVAL;
    }
    if (!fleet_change_is_free(r, w->seat, why, size))
        return HF_EINVAL;
    memcpy(r->seat[r->count].id, w->id, sizeof(w->id));
    memcpy(r->seat[r->count].address, w->seat, sizeof(w->seat));
    r->count++;
    return HF_OK;
}

static int fleet_change_remove_member(struct fleet_record *r, const struct fleet_wish *w, char *why,
                                      size_t size)
{
    int at;

    if (!fleet_change_is_known(r, w->id, &at, why, size))
        return HF_EINVAL;
    if (r->count == 1) {
        snprintf(why, size, "a fleet has one node at least; keep node %s", w->id);
        return HF_EINVAL;
    }
    r->before[at].gone = w->gone;
    r->count--;
    memmove(&r->seat[at], &r->seat[at + 1], (size_t)(r->count - at) * sizeof(r->seat[0]));
    memset(&r->seat[r->count], 0, sizeof(r->seat[0]));
    return HF_OK;
}

static int fleet_change_set_ttl_max(struct fleet_record *r, const struct fleet_wish *w, char *why,
                                    size_t size)
{
    int64_t least = hf_dur_ms(timing_ttl_min());

    if (w->ttl_max_ms < least || w->ttl_max_ms > TTL_MAX_MOST_MS) {
        snprintf(why, size,
                 "a ttl_max of %" PRId64 " ms is none; give one from %" PRId64 " ms to 24 h",
                 w->ttl_max_ms, least);
        return HF_EINVAL;
    }
    if (w->ttl_max_ms == r->ttl_max_ms) {
        snprintf(why, size, "ttl_max of the fleet is %" PRId64 " ms already; nothing changes",
                 r->ttl_max_ms);
        return HF_EINVAL;
    }
    r->ttl_max_ms = w->ttl_max_ms;
    return HF_OK;
}

/* By the operator's word; a server that answers is not gone. */
static int fleet_change_set_gone(struct fleet_record *r, const char *id, char *why, size_t size)
{
    for (int i = 0; i < r->before_count; i++) {
        if (strcmp(r->before[i].id, id) != 0)
            continue;
        r->before[i].gone = true;
        if (fleet_record_gone_count(r) < ballot_quorum(r->before_count))
            return HF_OK;
        snprintf(why, size,
                 "with node %s gone, too, a majority of the %d nodes would not be told of the "
                 "change; start an empty server at %s instead",
                 id, r->before_count, r->before[i].address);
        return HF_EINVAL;
    }
    snprintf(why, size, "no node of the list before the change has the id %s; name one of them",
             id);
    return HF_EINVAL;
}

static int fleet_change_next_version(const struct fleet *f, const struct fleet_wish *w,
                                     struct fleet_record *r, char *why, size_t size)
{
    *r = f->record;
    r->version++;
    r->state = FLEET_CHANGING;
    memcpy(r->before, f->record.seat, sizeof(r->before));
    r->before_count = f->record.count;
    r->ttl_max_before_ms = f->record.ttl_max_ms;
    switch (w->kind) {
    case FLEET_WISH_MOVE:
        return fleet_change_move(r, w, why, size);
    case FLEET_WISH_ADD:
        return fleet_change_add(r, w, why, size);
    case FLEET_WISH_REMOVE:
        return fleet_change_remove_member(r, w, why, size);
    case FLEET_WISH_TTL_MAX:
        return fleet_change_set_ttl_max(r, w, why, size);
    case FLEET_WISH_GONE:
    case FLEET_WISH_ABORT:
    case FLEET_WISH_CONFIRM:
        break;
    }
    return HF_EINVAL;
}

/* (!) A change with a member down would wait for it with fewer nodes counting than before. */
/* It counts; or the very change is on its way there already. */
static bool fleet_change_is_ready(const struct fleet *f, const struct fleet_record *wish, int i)
{
    if (!f->node[i].there || !(f->counting >> i & 1))
        return false;
    return fleet_counts(f, i) || fleet_later_has(f, i, wish) || fleet_later_is_told(f, i, wish);
}

static bool fleet_change_all_answer(const struct fleet *f, const struct fleet_record *r,
                                    hf_time now, char *why, size_t size)
{
    for (int i = 0; i < f->n; i++) {
        const struct fleet_seat *seat = &r->before[i];
        const struct fleet_node *node = &f->node[i];
        bool stays = fleet_record_stays(r, seat);

        if (seat->gone && node->peer[0])
            snprintf(
                why, size,
                "node %s answers at %s; leave --old-server-dead away, or stop the server first",
                seat->id, seat->address);
        else if (!seat->gone && !fleet_change_is_ready(f, r, i) &&
                 fleet_change_is_early(f, i, now, why, size))
            return false;
        else if (!seat->gone && node->peer[0] && fleet_is_seated(f, i) && stays &&
                 !fleet_change_is_ready(f, r, i))
            snprintf(
                why, size,
                "a change needs every node that stays, and node %s does not count; wait until it "
                "does, correct what holdfast nodes says of it, or replace it first",
                seat->id);
        else if (!seat->gone && node->peer[0] && fleet_is_seated(f, i) &&
                 !fleet_change_is_ready(f, r, i))
            fleet_change_say_untold(f, i, why, size);
        else if (!seat->gone && !fleet_change_is_ready(f, r, i))
            fleet_change_say_down(f, r, i, why, size);
        else if (stays && !node->proven)
            snprintf(
                why, size,
                "a change needs every node that stays, and node %s does not vote; wait until it "
                "votes again (holdfast nodes)",
                seat->id);
        else
            continue;
        return false;
    }
    return true;
}

static int fleet_change_may_begin(const struct fleet *f, hf_time now, char *why, size_t size)
{
    if (!f->known)
        snprintf(why, size, "the fleet is not known yet; wait until it is (holdfast fleet)");
    else if (f->leaving || hf_time_before(now, f->wish_until))
        snprintf(why, size, "a change of the fleet begins; try again in some seconds");
    else if (f->record.state == FLEET_CHANGING)
        snprintf(why, size,
                 "a change is under way; wait until version %" PRIu64
                 " of the fleet is complete (holdfast fleet)",
                 f->record.version);
    else if (f->settles.ns != HF_TIME_PAST.ns)
        fleet_change_say_unsettled(f, now, why, size);
    else
        return HF_OK;
    return HF_EBUSY;
}

static int fleet_change_change(const struct fleet *f, const struct fleet_wish *w, hf_time now,
                               struct fleet_record *r, char *why, size_t size)
{
    int rc = fleet_change_may_begin(f, now, why, size);

    if (rc == HF_OK && !fleet_change_has_keys(f, why, size))
        rc = HF_EINVAL;
    if (rc == HF_OK)
        rc = fleet_change_next_version(f, w, r, why, size);
    if (rc < 0)
        return rc;
    if (!fleet_record_can_change(r)) {
        snprintf(
            why, size,
            "too few nodes stay for locks to be held meanwhile (%d nodes before, %d after); drain "
            "all hosts, and start them with --reset-fleet",
            r->before_count, r->count);
        return HF_EINVAL;
    }
    return fleet_change_all_answer(f, r, now, why, size) ? HF_OK : HF_EBUSY;
}

/* No other node takes it first. */
static int fleet_change_can_be_put(const struct fleet *f, const struct fleet_record *wish,
                                   hf_time now, char *why, size_t size)
{
    int first = fleet_change_first(f, wish);
    const struct fleet_seat *seat = fleet_place(f, first);

    if (!fleet_change_is_away(f, first, now))
        return HF_OK;
    snprintf(why, size,
             "node %s has to take this before any other node; let it answer, or start an empty "
             "server at %s, and ask again",
             seat->id, seat->address);
    return HF_EBUSY;
}

static int fleet_change_mark_dead(const struct fleet *f, const struct fleet_wish *w, hf_time now,
                                  struct fleet_record *r, char *why, size_t size)
{
    int rc;

    if (!fleet_change_is_changing(f) || f->leaving) {
        snprintf(why, size, "no change of the fleet is under way, so nothing waits for a server");
        return HF_EINVAL;
    }
    *r = f->record;
    rc = fleet_change_set_gone(r, w->id, why, size);
    for (int i = 0; rc == HF_OK && i < f->n; i++)
        if (r->before[i].gone && f->node[i].peer[0]) {
            fleet_change_say_answers(&r->before[i], why, size);
            rc = HF_EINVAL;
        }
    return rc == HF_OK ? fleet_change_can_be_put(f, r, now, why, size) : rc;
}

/* Who has been told of the change that is given up is told of the way back, the new server included: votes of it may
 * count by the change. */
static void fleet_change_turn_back(const struct fleet_record *of, bool gone,
                                   struct fleet_record *ret_record)
{
    struct fleet_record *r = ret_record;

    *r = *of;
    r->version++;
    r->count = of->before_count;
    r->before_count = of->count;
    memcpy(r->seat, of->before, sizeof(r->seat));
    memcpy(r->before, of->seat, sizeof(r->before));
    r->ttl_max_ms = of->ttl_max_before_ms;
    r->ttl_max_before_ms = of->ttl_max_ms;
    for (int i = 0; i < r->count; i++)
        r->seat[i].gone = false;
    for (int i = 0; i < r->before_count; i++)
        r->before[i].gone = gone && !fleet_record_stays(of, &r->before[i]);
    for (int i = 0; i < of->before_count; i++)
        for (int k = 0; of->before[i].gone && k < r->before_count; k++)
            r->before[k].gone |= strcmp(of->before[i].id, r->before[k].id) == 0 &&
                                 strcmp(of->before[i].address, r->before[k].address) == 0;
}

static int fleet_change_turn(const struct fleet *f, const struct fleet_wish *w, hf_time now,
                             struct fleet_record *r, char *why, size_t size)
{
    if (f->known && f->record.state == FLEET_COMPLETE && f->record.version > 1) {
        fleet_change_say_complete(f, now, why, size);
        return HF_EINVAL;
    }
    if (!fleet_change_is_changing(f)) {
        snprintf(why, size, "nothing is to be given up: no change of the fleet is under way");
        return HF_EINVAL;
    }
    if (f->way_back) {
        fleet_change_say_way_back(f, why, size);
        return HF_EINVAL;
    }
    if (f->leaving || hf_time_before(now, f->wish_until)) {
        snprintf(why, size, "try again in some seconds: the change of the fleet goes on");
        return HF_EBUSY;
    }
    fleet_change_turn_back(&f->record, w->gone, r);
    if (!fleet_later_is_sound(r)) {
        snprintf(
            why, size,
            "too many servers are gone to be told of the way back; start an empty server in the "
            "place of one of them");
        return HF_EINVAL;
    }
    return fleet_change_can_be_put(f, r, now, why, size);
}

/* --- a fleet that has forgotten its record ------------------------------------------------------ */

/* The agents found it again without a word. */
static bool fleet_change_comes_back(const struct fleet *f)
{
    for (int i = 0; i < f->n; i++)
        if (!f->node[i].there && !fleet_place(f, i)->gone)
            return false;
    return fleet_servers(f, (UINT32_C(1) << f->n) - 1) == f->n && fleet_is_latest(f, HF_TIME_NEVER);
}

static int fleet_change_confirm(struct fleet *f, hf_time until, char *why, size_t size)
{
    uint32_t bare = 0;
    int empty;

    for (int i = 0; f->known && i < f->n; i++)
        if (f->node[i].there && fleet_is_seated(f, i) && fleet_is_of_new_list(f, i) &&
            (fleet_is_bare(f, i) || (fleet_shows(f, i) && fleet_is_doubted(f, i))))
            bare |= UINT32_C(1) << i;
    empty = fleet_servers(f, bare);
    if (!f->known || f->leaving)
        snprintf(why, size,
                 "wait until the fleet is known: this host remembers no record that it could give "
                 "to the nodes (on another host: holdfast fleet)");
    else if (!fleet_none_has_it(f))
        snprintf(why, size,
                 "leave it to the agents: a node has the record, and they give it to the others");
    else if (fleet_later_is_seen(f))
        snprintf(why, size,
                 "a node has a later record of the fleet than version %" PRIu64
                 ", which this host remembers; do what the last line of holdfast fleet says",
                 f->record.version);
    else if (empty > 0 && fleet_change_comes_back(f))
        snprintf(why, size, "wait some seconds: every node answers, and is given the record");
    else if (empty < fleet_record_quorum(&f->record, f->settles.ns == HF_TIME_PAST.ns))
        snprintf(
            why, size,
            "let a majority of the nodes answer first: %d of %d answer and have no record that is "
            "in no doubt",
            empty, f->n);
    else {
        f->wish = f->record;
        f->confirmed_until = until;
        return HF_OK;
    }
    return HF_EINVAL;
}

int fleet_change_begin(struct fleet *f, const struct fleet_wish *w, hf_time now, hf_dur most,
                       char *why, size_t size)
{
    struct fleet_record next;
    int rc;

    if (w->kind == FLEET_WISH_CONFIRM)
        return fleet_change_confirm(f, hf_time_add(now, most), why, size);
    if (w->kind == FLEET_WISH_GONE)
        rc = fleet_change_mark_dead(f, w, now, &next, why, size);
    else if (w->kind == FLEET_WISH_ABORT)
        rc = fleet_change_turn(f, w, now, &next, why, size);
    else
        rc = fleet_change_change(f, w, now, &next, why, size);
    if (rc < 0)
        return rc;
    f->wish = next;
    f->wish_until = hf_time_add(now, most);
    return HF_OK;
}
