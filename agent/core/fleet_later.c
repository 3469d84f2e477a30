#include "agent/core/fleet_later.h"

#include <string.h>

#include "agent/core/ballot.h"

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
