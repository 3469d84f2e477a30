/* Which nodes' records may be earlier ones than the fleet's, and what proves that ours is the latest. */
#include "agent/core/fleet.h"

#include <stdio.h>
#include <string.h>

#include "agent/core/ballot.h"
#include "agent/core/timing.h"

static uint32_t fleet_doubt_bit(int i)
{
    return UINT32_C(1) << i;
}

/* --- how late ours was shown ------------------------------------------------------------------ */

hf_time fleet_shown(const struct fleet *f)
{
    const int q = ballot_quorum(f->n);

    for (int i = 0; i < f->n; i++) {
        uint32_t as_late = 0, later = 0;

        for (int k = 0; k < f->n; k++) {
            if (hf_time_reached(f->node[k].shown, f->node[i].shown))
                as_late |= fleet_doubt_bit(k);
            if (hf_time_before(f->node[i].shown, f->node[k].shown))
                later |= fleet_doubt_bit(k);
        }
        if (fleet_servers(f, as_late) >= q && fleet_servers(f, later) < q)
            return f->node[i].shown;
    }
    return HF_TIME_PAST;
}

/* (!) What is gone shows nothing any more, and what is in doubt proves nothing. */
static hf_time fleet_doubt_empty_since(const struct fleet *f, int i)
{
    return fleet_place(f, i)->gone ? HF_TIME_PAST
                                   : hf_time_min(f->node[i].empty_since, f->node[i].doubted);
}

/* Since when a majority of the nodes is seen to have no record, or one in doubt; HF_TIME_NEVER: it is not. */
static hf_time fleet_doubt_emptied(const struct fleet *f)
{
    hf_time since = HF_TIME_NEVER;

    for (int i = 0; i < f->n; i++) {
        uint32_t empty = 0;

        for (int k = 0; k < f->n; k++)
            if (hf_time_reached(fleet_doubt_empty_since(f, i), fleet_doubt_empty_since(f, k)))
                empty |= fleet_doubt_bit(k);
        if (fleet_servers(f, empty) >= ballot_quorum(f->n))
            since = hf_time_min(since, fleet_doubt_empty_since(f, i));
    }
    return since;
}

/* (!) Less 2 %, by which two hosts' clocks may differ. */
static hf_dur fleet_doubt_within(const struct fleet *f)
{
    int64_t ms = fleet_record_ttl_longest_ms(&f->record, f->settles.ns == HF_TIME_PAST.ns);

    return hf_dur_scale(timing_quarantine(hf_ms(ms)), 98, 100);
}

bool fleet_is_latest(const struct fleet *f, hf_time by)
{
    hf_time shown = hf_time_max(f->shown, fleet_shown(f));

    return f->known && hf_time_reached(hf_time_add(shown, fleet_doubt_within(f)),
                                       hf_time_min(fleet_doubt_emptied(f), by));
}

/* --- doubts ----------------------------------------------------------------------------------- */

void fleet_on_remembered(struct fleet *f, int i, const char *sure, hf_time shown)
{
    snprintf(f->node[i].sure, sizeof(f->node[i].sure), "%s", sure);
    f->node[i].shown = hf_time_max(f->node[i].shown, shown);
}

/* (!) Another process than the one that was sure: its data may be of before the last change. */
void fleet_on_server(struct fleet *f, int i, const char *run_id, hf_time now)
{
    struct fleet_node *node = &f->node[i];
    bool same = strcmp(node->run_id, run_id) == 0;

    snprintf(node->run_id, sizeof(node->run_id), "%s", run_id);
    node->marked &= same;
    if (strcmp(node->sure, run_id) == 0)
        node->doubted = HF_TIME_NEVER;
    else if (!same || node->doubted.ns == HF_TIME_NEVER.ns)
        node->doubted = now;
}

static void fleet_doubt_end(struct fleet *f, int i)
{
    struct fleet_node *node = &f->node[i];

    memcpy(node->sure, node->run_id, sizeof(node->sure));
    node->doubted = HF_TIME_NEVER;
    node->young = false;
    if (fleet_shows(f, i))
        node->shown = hf_time_max(node->shown, node->asked);
}

/* The server was sure to have the latest record, and has had ours since. */
static bool fleet_doubt_is_marked(const struct fleet *f, int i)
{
    return f->node[i].marked && fleet_shows(f, i);
}

bool fleet_is_unmarked(const struct fleet *f, int i)
{
    const struct fleet_node *node = &f->node[i];

    return node->run_id[0] && !node->marked && !fleet_is_doubted(f, i) && fleet_shows(f, i);
}

void fleet_on_sure(struct fleet *f, int i, const char *sure)
{
    struct fleet_node *node = &f->node[i];

    node->marked = *sure && strcmp(sure, node->run_id) == 0;
}

void fleet_on_young(struct fleet *f, int i)
{
    f->node[i].young |= fleet_is_doubted(f, i);
}

bool fleet_proves(const struct fleet *f, int i)
{
    bool doubts = false;

    for (int k = 0; k < f->n; k++)
        doubts |= fleet_is_doubted(f, k);
    return doubts && fleet_shows(f, i) && !fleet_is_doubted(f, i);
}

bool fleet_is_shown(const struct fleet *f, int but, hf_time since)
{
    for (int i = 0; i < f->n; i++)
        if (i != but && fleet_shows(f, i) && !fleet_is_doubted(f, i) &&
            fleet_is_of_new_list(f, i) && hf_time_before(since, f->node[i].asked))
            return true;
    return false;
}

/* Nothing ever counted here, so nothing is known here of what the fleet was before. */
bool fleet_doubt_is_newcomer(const struct fleet *f)
{
    for (int i = 0; i < f->n; i++)
        if (f->node[i].sure[0])
            return f->trusting;
    return true;
}

/* Who may show a later record has had the time to. */
static bool fleet_doubt_all_heard(const struct fleet *f, hf_time now)
{
    bool all = true;

    for (int i = 0; i < f->n; i++)
        all &= fleet_place(f, i)->gone || f->node[i].said != FLEET_SAID_NOTHING;
    return all || hf_time_reached(now, hf_time_add(f->started, FLEET_PATIENCE));
}

void fleet_settle_doubts(struct fleet *f, hf_time now)
{
    bool later = fleet_later_is_seen(f), latest, newcomer;

    if (!f->known)
        return;
    latest =
        hf_time_before(now, f->confirmed_until) || (!later && fleet_is_latest(f, HF_TIME_NEVER));
    newcomer = fleet_doubt_is_newcomer(f);
    later |= !fleet_doubt_all_heard(f, now);
    for (int i = 0; i < f->n; i++) {
        struct fleet_node *node = &f->node[i];

        if (!fleet_is_doubted(f, i) || !node->there || !fleet_is_seated(f, i) ||
            !(latest || fleet_doubt_is_marked(f, i) || fleet_is_shown(f, i, node->doubted) ||
              (newcomer && node->proven && fleet_shows(f, i) && !(node->young && later))))
            continue;
        fleet_doubt_end(f, i);
    }
}
