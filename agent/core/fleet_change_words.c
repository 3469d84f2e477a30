/* What an operator reads of a change of the fleet: what it waits for, on whom it begins, and why it may not. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/ballot.h"
#include "agent/core/fleet_change.h"
#include "agent/core/fleet.h"

#define LONG_S     600                 /* nodes may well be restarted in that time */
#define CONNECTING (2 * HF_NS_PER_SEC) /* before a node that is not connected is away */

/* --- what is looked at -------------------------------------------------------------------------- */

static bool fleet_change_words_is_told_of(const struct fleet_record *wish,
                                          const struct fleet_seat *seat)
{
    for (int i = 0; i < wish->before_count; i++)
        if (strcmp(wish->before[i].id, seat->id) == 0 &&
            strcmp(wish->before[i].address, seat->address) == 0)
            return !wish->before[i].gone;
    return false;
}

int fleet_change_first(const struct fleet *f, const struct fleet_record *wish)
{
    int first = 0;

    while (first < f->n - 1 && !fleet_change_words_is_told_of(wish, fleet_place(f, first)))
        first++;
    return first;
}

static bool fleet_change_words_leaves(const struct fleet *f, int i)
{
    return !fleet_record_stays(&f->record, &f->record.before[i]);
}

static bool fleet_change_words_is_met(const struct fleet *f, int i)
{
    return f->node[i].peer[0] && fleet_is_seated(f, i);
}

/* Links are made anew at each start. */
bool fleet_change_is_away(const struct fleet *f, int i, hf_time now)
{
    return !fleet_change_words_is_met(f, i) &&
           hf_time_reached(now, hf_time_add(f->started, hf_ns(CONNECTING)));
}

/* At least one: when it has settled the agent starts again. */
static int64_t fleet_change_words_seconds_left(const struct fleet *f, hf_time now)
{
    return hf_time_before(now, f->settles) ? hf_time_since(f->settles, now).ns / HF_NS_PER_SEC + 1
                                           : 1;
}

/* --- what a change waits for --------------------------------------------------------------------- */

/* By an operator's word that the server is gone the change would go on. */
static bool fleet_change_words_could_be_gone(const struct fleet *f, int i)
{
    struct fleet_record r = f->record;

    r.before[i].gone = true;
    return fleet_record_gone_count(&r) < ballot_quorum(r.before_count) &&
           fleet_change_words_is_met(f, fleet_change_first(f, &r));
}

/* A node that was not told of the change. (!) Of a server that answers nobody should say that it is gone. */
static bool fleet_change_words_say_waited_for(const struct fleet *f, int i, hf_time now,
                                              char *ret_text, size_t size)
{
    const struct fleet_seat *seat = &f->record.before[i];

    if (fleet_change_words_is_met(f, i) && !f->node[i].there)
        snprintf(ret_text, size,
                 "correct what holdfast nodes says of node %s: it answers, and is not told of the "
                 "change of the fleet",
                 seat->id);
    else if (fleet_change_words_is_met(f, i) && f->node[i].refuses)
        snprintf(ret_text, size,
                 "node %s answers at %s and refuses the record of the change; see holdfast nodes "
                 "and mend it, or stop that server for good, and then: holdfast fleet "
                 "mark-dead %s",
                 seat->id, seat->address, seat->id);
    else if (!fleet_change_is_away(f, i, now))
        return false;
    else if (!fleet_change_words_could_be_gone(f, i))
        snprintf(ret_text, size,
                 "let node %s answer, or start an empty server at %s: the change of the fleet goes "
                 "on in no other way, since other nodes are away, too",
                 seat->id, seat->address);
    else if (fleet_change_words_leaves(f, i))
        snprintf(ret_text, size,
                 "let node %s answer at %s, which leaves the fleet; or, if that server is stopped "
                 "for good: holdfast fleet mark-dead %s",
                 seat->id, seat->address, seat->id);
    else
        snprintf(ret_text, size,
                 "let node %s answer, or start an empty server at %s: the change of the fleet "
                 "waits for it; or, if that server is stopped for good: holdfast fleet "
                 "mark-dead %s",
                 seat->id, seat->address, seat->id);
    return true;
}

void fleet_change_waits(const struct fleet *f, hf_time now, char *ret_text, size_t size)
{
    ret_text[0] = '\0';
    if (!f->known || f->record.version == 1)
        return;
    if (f->record.state == FLEET_COMPLETE) {
        if (f->settles.ns != HF_TIME_PAST.ns)
            snprintf(ret_text, size,
                     "version %" PRIu64 " of the fleet settles in %" PRId64
                     " s; until then only the nodes that stayed count",
                     f->record.version, fleet_change_words_seconds_left(f, now));
        return;
    }
    for (int i = 0; i < f->n; i++)
        if (!f->record.before[i].gone && f->node[i].sighted.ns == HF_TIME_NEVER.ns &&
            fleet_change_words_say_waited_for(f, i, now, ret_text, size))
            return;
}

/* --- why it may not begin ------------------------------------------------------------------------ */

/* What changes it back: with what it was before. */
static void fleet_change_words_say_way_back(const struct fleet_record *r, char *ret_text,
                                            size_t size)
{
    if (r->ttl_max_before_ms != r->ttl_max_ms)
        snprintf(ret_text, size, "holdfast fleet ttl-max %" PRId64 "ms", r->ttl_max_before_ms);
    else
        snprintf(ret_text, size, "holdfast fleet %s",
                 r->count > r->before_count   ? "remove"
                 : r->count < r->before_count ? "add"
                                              : "move");
}

void fleet_change_say_way_back(const struct fleet *f, char *why, size_t size)
{
    snprintf(why, size,
             "version %" PRIu64
             " of the fleet is the way back already; wait for it (holdfast fleet), or, if a "
             "server that it waits for is stopped for good: holdfast fleet mark-dead ID",
             f->record.version);
}

/* Quarantines are as long as the wait. */
static const char *fleet_change_words_meanwhile(int64_t seconds)
{
    return seconds > LONG_S ? "; until then keep the nodes up: one that restarts without its data "
                              "gives no votes for about as long"
                            : "";
}

void fleet_change_say_complete(const struct fleet *f, hf_time now, char *why, size_t size)
{
    int64_t left = fleet_change_words_seconds_left(f, now);
    char back[96];

    fleet_change_words_say_way_back(&f->record, back, sizeof(back));
    if (f->settles.ns == HF_TIME_PAST.ns)
        snprintf(why, size,
                 "change the fleet back instead (%s): version %" PRIu64 " is complete and settled",
                 back, f->record.version);
    else
        snprintf(why, size,
                 "change the fleet back instead (%s) in %" PRId64
                 " s, when it has settled: version "
                 "%" PRIu64 " is complete%s",
                 back, left, f->record.version, fleet_change_words_meanwhile(left));
}

void fleet_change_say_unsettled(const struct fleet *f, hf_time now, char *why, size_t size)
{
    int64_t left = fleet_change_words_seconds_left(f, now);

    snprintf(why, size,
             "wait %" PRId64 " s: version %" PRIu64
             " of the fleet has to settle before the next one%s",
             left, f->record.version, fleet_change_words_meanwhile(left));
}

/* It is connected, and nothing is known against it: it was not read yet, or not judged. */
static bool fleet_change_words_is_new(const struct fleet *f, int i)
{
    const struct fleet_node *node = &f->node[i];

    return node->peer[0] &&
           (node->said == FLEET_SAID_NOTHING || (node->there && fleet_shows(f, i)));
}

bool fleet_change_is_early(const struct fleet *f, int i, hf_time now, char *why, size_t size)
{
    if (fleet_later_is_seen(f))
        snprintf(why, size,
                 "another change of the fleet has begun; ask again when that is complete (holdfast "
                 "fleet)");
    else if (fleet_change_words_is_new(f, i) &&
             hf_time_before(now, hf_time_add(f->started, hf_ns(CONNECTING))))
        snprintf(why, size, "node %s is being connected to; try again in some seconds",
                 fleet_place(f, i)->id);
    else
        return false;
    return true;
}

/* It answers, and does not count. (!) Only what counts can be told that it leaves, and only what is stopped is gone. */
void fleet_change_say_untold(const struct fleet *f, int i, char *why, size_t size)
{
    const struct fleet_seat *seat = fleet_place(f, i);
    const struct fleet_node *node = &f->node[i];
    bool foreign =
        node->said == FLEET_SAID_RECORD && strcmp(node->record.fleet, f->record.fleet) != 0;

    if (node->there && node->said == FLEET_SAID_NONE)
        snprintf(why, size,
                 "wait until node %s has the fleet's record again (holdfast fleet): it has to be "
                 "told that it leaves",
                 seat->id);
    else
        snprintf(why, size,
                 "mend node %s first (%s), or stop the server at %s for good and say "
                 "--old-server-dead %s: it "
                 "answers, and cannot be told that it leaves",
                 seat->id,
                 foreign ? "it has the record of another fleet"
                         : "holdfast nodes says what is against it",
                 seat->address, seat->id);
}

void fleet_change_say_answers(const struct fleet_seat *seat, char *why, size_t size)
{
    snprintf(why, size,
             "node %s still answers at %s; stop that server for good, and then: holdfast fleet "
             "mark-dead %s",
             seat->id, seat->address, seat->id);
}

/* It does not answer. (!) Where others are down, too, no change gets along without it: a server comes to where it was. */
void fleet_change_say_down(const struct fleet *f, const struct fleet_record *r, int i, char *why,
                           size_t size)
{
    const struct fleet_seat *seat = &r->before[i];
    int down = 0;

    for (int k = 0; k < f->n; k++)
        down += !f->node[k].there;
    if (!fleet_record_stays(r, seat))
        snprintf(why, size,
                 "let node %s answer first; or, if that server is stopped for good, say "
                 "--old-server-dead %s",
                 seat->id, seat->id);
    else if (down > 1)
        snprintf(why, size,
                 "let node %s answer first, or start an empty server at %s, if the one there is "
                 "lost: with %d nodes down no change can replace one of them",
                 seat->id, seat->address, down);
    else
        snprintf(why, size,
                 "let node %s answer first; or, if its server is stopped for good, start an empty "
                 "one at %s, or another one and holdfast fleet move %s=ADDRESS --old-server-dead",
                 seat->id, seat->address, seat->id);
}

/* No node counts for a host with other key formats than the fleet's. */
bool fleet_change_has_keys(const struct fleet *f, char *why, size_t size)
{
    if (strcmp(f->record.keys, f->own.keys) == 0)
        return true;
    snprintf(
        why, size,
        "ask on a host whose agent has the fleet's key_format, key_format_for and database; or "
        "put those into this host's configuration file and restart its agent first: it has "
        "other ones than version %" PRIu64 " of the fleet",
        f->record.version);
    return false;
}
