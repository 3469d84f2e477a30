/* One event for each thing that happens to a node, though both threads see it, several replies show
 * it, and an absent sentinel is a changed one later. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/base/thread.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/state/events.h"

/* --- texts for people ------------------------------------------------------------------------- */

/* Sentences about nodes that do not vote: for the log, a waiter, the service manager. */

#define IDS_MOST 64 /* bytes of ids in one list; longer lists are left to `holdfast nodes` */

/* The gravest of these reasons. */
static const char *node_quarantine_text(uint32_t reasons)
{
    static const uint32_t gravest_first[] = {HF_QUARANTINE_CLOCK, HF_QUARANTINE_RUN_ID,
                                             HF_QUARANTINE_SENTINEL, HF_QUARANTINE_MEDIAN,
                                             HF_QUARANTINE_AGE};

    for (size_t i = 0; i < HF_LENGTH(gravest_first); i++)
        if (reasons & gravest_first[i])
            return hf_why_quarantined(gravest_first[i])->sentence;
    return HF_NODE_UNJUDGED;
}

/* Why a node does not vote. */
enum standing { VOTES, DOWN, REFUSED, QUARANTINED, UNRECORDED, UNWRITABLE };

static enum standing texts_standing_of(const struct nodes *nodes, int i,
                                       hf_time now) IN_BROKER_THREAD
{
    const struct node *node = &nodes->node[i];

    if (!node->up)
        return DOWN;
    if (node->trust.refused)
        return REFUSED;
    if (!trust_may_vote(&node->trust, now))
        return QUARANTINED;
    if (!nodes_takes_writes(nodes, i))
        return UNWRITABLE;
    return fleet_counts(&nodes->fleet_view, i) ? VOTES : UNRECORDED;
}

uint64_t nodes_situation(const struct nodes *nodes, hf_time now)
{
    uint64_t situation = 1;
    char waits[FLEET_WAITS_SIZE];

    fleet_waits(&nodes->fleet_view, now, waits, sizeof(waits));
    situation = situation << 1 | (waits[0] != '\0');
    for (int i = 0; i < nodes->n; i++)
        situation = situation << 3 | texts_standing_of(nodes, i, now);
    return situation;
}

/* How many nodes are in this state and, if there is room, " (n1, n2)". */
static int texts_count_standing(const struct nodes *nodes, enum standing standing, hf_time now,
                                char *ret_ids, size_t size) IN_BROKER_THREAD
{
    size_t used = 0;
    int count = 0;

    for (int i = 0; i < nodes->n; i++)
        if (texts_standing_of(nodes, i, now) == standing) {
            if (used < size)
                used += (size_t)snprintf(ret_ids + used, size - used, "%s%s", count ? ", " : " (",
                                         nodes->config->nodes[i].id);
            count++;
        }
    if (used + 1 < size)
        memcpy(ret_ids + used, ")", sizeof(")"));
    else
        ret_ids[0] = '\0';
    return count;
}

/* When enough quarantines are over for a quorum; HF_TIME_PAST: unknown. */
static hf_time texts_enough_at(const struct nodes *nodes, hf_time now) IN_BROKER_THREAD
{
    hf_time ends[HF_NODES_MAX];
    int known = 0, needed = nodes->q - nodes_granting(nodes, now);

    for (int i = 0; i < nodes->n; i++) {
        hf_time end = trust_until(&nodes->node[i].trust, now);
        int at = known;

        if (texts_standing_of(nodes, i, now) != QUARANTINED || !hf_time_before(now, end) ||
            end.ns >= HF_TIME_NEVER.ns)
            continue;
        for (; at > 0 && hf_time_before(end, ends[at - 1]); at--)
            ends[at] = ends[at - 1];
        ends[at] = end;
        known++;
    }
    return needed >= 1 && needed <= known ? ends[needed - 1] : HF_TIME_PAST;
}

static size_t texts_add_standing(const struct nodes *nodes, enum standing standing,
                                 const char *what, hf_time now, char *text, size_t size,
                                 size_t used) IN_BROKER_THREAD
{
    char ids[IDS_MOST] = "";
    int count = texts_count_standing(nodes, standing, now, ids, sizeof(ids));

    if (count && used < size)
        used += (size_t)snprintf(text + used, size - used, "; %d %s%s", count, what, ids);
    return used;
}

/* "b, c": the nodes of the bits; cut where there is no room. */
static void texts_list_ids(const struct nodes *nodes, uint32_t which, char *ret_ids, size_t size)
{
    size_t used = 0;

    ret_ids[0] = '\0';
    for (int i = 0; i < nodes->n && used < size; i++)
        if (which >> i & 1)
            used += (size_t)snprintf(ret_ids + used, size - used, "%s%s", used ? ", " : "",
                                     nodes->config->nodes[i].id);
}

/* The nodes of the bits that refuse writes for the same reason as the first of them. */
static uint32_t texts_refuse_alike(const struct nodes *nodes, uint32_t which,
                                   int *ret_first) IN_BROKER_THREAD
{
    enum hf_node_error error = HF_NODE_ERR_NONE;
    uint32_t alike = 0;

    for (int i = 0; i < nodes->n && error == HF_NODE_ERR_NONE; i++)
        if (which >> i & 1 && !nodes_takes_writes(nodes, i)) {
            error = writes_refused(&nodes->node[i].writes);
            *ret_first = i;
        }
    for (int i = 0; i < nodes->n && error != HF_NODE_ERR_NONE; i++)
        if (which >> i & 1 && writes_refused(&nodes->node[i].writes) == error)
            alike |= 1u << i;
    return alike;
}

/* "; b, c refuse writes (oom): OOM command not allowed ..."; the first reason stands for all. */
static size_t texts_say_unwritable(const struct nodes *nodes, hf_time now, char *text,
                                   size_t size) IN_BROKER_THREAD
{
    uint32_t which = 0, alike;
    char ids[IDS_MOST];
    int first = 0, written;

    for (int i = 0; i < nodes->n; i++)
        if (texts_standing_of(nodes, i, now) == UNWRITABLE)
            which |= 1u << i;
    alike = texts_refuse_alike(nodes, which, &first);
    if (!alike)
        return 0;
    texts_list_ids(nodes, alike, ids, sizeof(ids));
    written =
        snprintf(text, size, "; %s refuse%s writes (%s): %s", ids, alike & (alike - 1) ? "" : "s",
                 link_error_name(writes_refused(&nodes->node[first].writes)),
                 nodes->node[first].writes.text);
    return (size_t)written;
}

void nodes_explain_round(const struct nodes *nodes, uint32_t errors, char *ret_text, size_t size)
{
    char ids[IDS_MOST];
    int first = 0;
    uint32_t alike = texts_refuse_alike(nodes, errors, &first);

    texts_list_ids(nodes, alike ? alike : errors, ids, sizeof(ids));
    if (alike)
        snprintf(ret_text, size, "too few nodes: %s refuse%s writes (%s): %s", ids,
                 alike & (alike - 1) ? "" : "s",
                 link_error_name(writes_refused(&nodes->node[first].writes)),
                 nodes->node[first].writes.text);
    else
        snprintf(ret_text, size, "too few nodes: %s: %s", ids,
                 nodes->node[__builtin_ctz(errors)].row.error);
}

void nodes_explain(const struct nodes *nodes, hf_time now, char *ret_text, size_t size)
{
    hf_time enough = texts_enough_at(nodes, now);
    uint32_t reasons = 0;
    size_t used, before;
    char waits[FLEET_WAITS_SIZE];

    fleet_waits(&nodes->fleet_view, now, waits, sizeof(waits));
    if (waits[0]) {
        snprintf(ret_text, size, "%s (%d of %d nodes may vote, %d are needed)", waits,
                 nodes_granting(nodes, now), nodes->n, nodes->q);
        return;
    }
    for (int i = 0; i < nodes->n; i++)
        if (texts_standing_of(nodes, i, now) == QUARANTINED)
            reasons |= nodes->node[i].trust.reasons;
    used = (size_t)snprintf(ret_text, size, "%d of %d nodes may vote, %d are needed",
                            nodes_granting(nodes, now), nodes->n, nodes->q);
    used = texts_add_standing(nodes, DOWN, "down", now, ret_text, size, used);
    used = texts_add_standing(nodes, REFUSED, "refused", now, ret_text, size, used);
    if (used < size)
        used += texts_say_unwritable(nodes, now, ret_text + used, size - used);
    before = used;
    used = texts_add_standing(nodes, QUARANTINED, "in quarantine", now, ret_text, size, used);
    if (used > before && used < size)
        used +=
            (size_t)snprintf(ret_text + used, size - used, ": %s", node_quarantine_text(reasons));
    used = texts_add_standing(nodes, UNRECORDED, "that do not count by the fleet's record", now,
                              ret_text, size, used);
    if (nodes->twins && used < size) {
        char ids[IDS_MOST];

        texts_list_ids(nodes, nodes->twins, ids, sizeof(ids));
        used += (size_t)snprintf(ret_text + used, size - used,
                                 "; %s say that they are the same server as another node", ids);
    }
    if (hf_time_before(now, enough) && used < size)
        snprintf(ret_text + used, size - used, "; enough of them vote in %" PRId64 " s",
                 hf_time_since(enough, now).ns / HF_NS_PER_SEC + 1);
}

const struct hf_why *node_facts_refusal(const struct config *c, const struct node_facts *facts)
{
    struct node_trust trust;

    trust_init(&trust, timing_quarantine(hf_ms(c->ttl_longest_ms)), false);
    (void)trust_on_facts(&trust, facts, agent_allowed(c), clock_now());
    return trust.refused ? hf_why_refused(trust.refusal) : NULL;
}

/* --- events ----------------------------------------------------------------------------------- */

#define TOLD_BEFORE (UINT32_C(1) << 31) /* a bit beside the quarantine's reasons */

static int64_t events_middle_us(const struct node_trust *t)
{
    return t->low_us + (t->high_us - t->low_us) / 2;
}

static uint32_t events_quarantine_of(const struct node_trust *t, hf_time now)
{
    return hf_time_before(now, t->until) ? t->reasons : 0;
}

void node_events_begin(struct nodes *nodes, int i)
{
    struct node *node = &nodes->node[i];
    const struct node_trust *t = &node->trust;

    node->told = (struct node_told){
        .refusal = t->refused ? t->refusal : HF_REFUSED_NOT,
        /* Its beginning may be untold, and its end may have come while no agent ran to tell it. */
        .reasons = event_quarantine_stands(nodes->agent, i) ? t->reasons | TOLD_BEFORE : 0,
        .mark = t->mark,
        .own_steps = t->steps,
        .absent = t->nonce_seen && !t->nonce[0],
        .middle_us = events_middle_us(t),
    };
}

void node_events_up(struct nodes *nodes, int i, const char *version)
{
    nodes->node[i].told.up = nodes->node[i].told.tried = true;
    event_node_up(nodes->agent, i, version);
}

/* While a node stays away only the first reason is told: each attempt may fail in another way. */
void node_events_down(struct nodes *nodes, int i, enum hf_node_error error, const char *text)
{
    struct node_told *told = &nodes->node[i].told;

    if (told->up || !told->tried)
        event_node_down(nodes->agent, i, error, text);
    told->up = false;
    told->tried = true;
}

/* Both threads see each step, sooner or later: the number of steps is the larger of their counts.
 */
static void events_tell_steps(struct nodes *nodes, int i)
{
    struct node *node = &nodes->node[i];
    uint32_t own = node->trust.steps - node->told.own_steps;
    uint32_t most = own > node->told.renewal_steps ? own : node->told.renewal_steps;
    int64_t middle = events_middle_us(&node->trust);

    if (most > node->told.steps)
        event_node_stepped(nodes->agent, i, own == most ? middle - node->told.middle_us : 0);
    node->told.steps = most;
}

/* That our own new sentinel replaces none is no event. */
static void events_tell_forgot(struct nodes *nodes, int i)
{
    struct node *node = &nodes->node[i];

    if (node->trust.mark != node->told.mark && !node->told.absent)
        event_node_forgot(nodes->agent, i);
    node->told.mark = node->trust.mark;
    node->told.absent = node->trust.nonce[0] == '\0';
}

void node_events_found(struct nodes *nodes, int i, unsigned events)
{
    if (events & TRUST_RESTARTED)
        event_node_restarted(nodes->agent, i, nodes->node[i].trust.facts.run_id);
    if (events & TRUST_FORGOT)
        events_tell_forgot(nodes, i);
    if (events & TRUST_STEPPED)
        events_tell_steps(nodes, i);
}

/* This thread will still see a restart and a changed sentinel by itself; a clock that stepped twice it may
 * never see. */
void node_events_heard(struct nodes *nodes, int i, unsigned events)
{
    if (events & TRUST_STEPPED) {
        nodes->node[i].told.renewal_steps++;
        events_tell_steps(nodes, i);
    }
}

static void events_tell_refusal(struct nodes *nodes, int i, enum hf_node_refusal refusal)
{
    bool by_fleet = refusal == HF_REFUSED_FLEET || refusal == HF_REFUSED_MISPLACED;
    const char *fleet = by_fleet ? nodes->node[i].fleet_text : "";
    const struct hf_why *why = hf_why_refused(refusal);

    if (*fleet)
        log_warn("node %s is refused: %s", nodes->config->nodes[i].id, fleet);
    else if (refusal != HF_REFUSED_NOT)
        log_warn("node %s is refused: %s; %s", nodes->config->nodes[i].id, why->sentence,
                 why->remedy);
    event_node_refused(nodes->agent, i, refusal, fleet);
}

/* Nothing is known of that while the node is away. */
static void events_tell_writes(struct nodes *nodes, int i, enum hf_node_error error)
{
    const char *id = nodes->config->nodes[i].id, *text = nodes->node[i].writes.text;

    if (log_allows(&nodes->writes, LOG_LIMIT, loop_now(nodes->loop))) {
        if (error != HF_NODE_ERR_NONE)
            log_warn("node %s refuses writes, so no lock can be had there: %s: %s", id,
                     link_error_name(error), text);
        else
            log_info("node %s takes writes again", id);
    }
    event_node_writes(nodes->agent, i, error, text);
}

void node_events_review(struct nodes *nodes, int i, hf_time now)
{
    struct node *node = &nodes->node[i];
    struct node_told *told = &node->told;
    enum hf_node_refusal refusal = node->trust.refused ? node->trust.refusal : HF_REFUSED_NOT;
    uint32_t reasons = events_quarantine_of(&node->trust, now);
    enum hf_node_error writes = node->up ? writes_refused(&node->writes) : told->writes;

    if (refusal != told->refusal)
        events_tell_refusal(nodes, i, refusal);
    if (reasons & ~told->reasons) {
        log_warn("node %s gives no votes: %s", nodes->config->nodes[i].id,
                 node_quarantine_text(reasons));
        event_quarantine(nodes->agent, i, reasons, node->trust.until);
    } else if (told->reasons && !reasons) {
        event_quarantine_over(nodes->agent, i);
    }
    if (writes != told->writes)
        events_tell_writes(nodes, i, writes);
    told->refusal = refusal;
    told->writes = writes;
    told->reasons = reasons;
    told->middle_us = events_middle_us(&node->trust);
}
