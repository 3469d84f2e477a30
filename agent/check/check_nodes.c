/* Judges what the nodes say of themselves as the broker would. */
#include <stdio.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/base/clock.h"
#include "agent/broker/nodes/node_texts.h"
#include "agent/broker/nodes/sentinels.h"
#include "agent/check/parts.h"
#include "agent/core/ballot.h"
#include "agent/redis/node_look.h"

#define PATIENCE hf_ms(2000)

static const char *refusal_of(const struct config *c, const struct node_look *look)
{
    struct node_trust trust;

    trust_init(&trust, timing_quarantine(hf_ms(c->ttl_max_ms)), false);
    (void)trust_on_facts(&trust, &look->facts, agent_allowed(c), clock_now());
    return trust.refused ? node_refusal_text(trust.refusal) : NULL;
}

/* The first node of the list that leads to the same server; -1: none. */
static int same_server(const struct node_look *looks, int node)
{
    for (int i = 0; i < node; i++)
        if (looks[i].outcome == NODE_LOOK_ANSWERED && looks[node].outcome == NODE_LOOK_ANSWERED &&
            strcmp(looks[i].facts.run_id, looks[node].facts.run_id) == 0)
            return i;
    return -1;
}

static bool same_fleet(const struct node_sentinel *a, const struct node_sentinel *b)
{
    return a->ttl_max_ms == b->ttl_max_ms && a->nodes == b->nodes &&
           strcmp(a->list_hash, b->list_hash) == 0;
}

/* The nodes of the bits, from the one behind the first: " (also b, c)"; "" when there is only one. */
static void list_others(const struct config *c, unsigned which, char *ret_text, size_t size)
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
static void judge_fleet(const struct config *c, const struct node_look *looks, unsigned which,
                        struct findings *f)
{
    const struct config_report *r = f->report;
    int first = __builtin_ctz(which);
    const struct node_sentinel *s = &looks[first].sentinel;
    int64_t longest = s->ttl_max_ms > c->ttl_max_ms ? s->ttl_max_ms : c->ttl_max_ms;
    int line = s->ttl_max_ms != c->ttl_max_ms ? r->line[CONFIG_ID_ttl_max] : r->node_line[first];
    char text[256], others[200];

    (void)sentinel_differs(s, c, first, text, sizeof(text));
    list_others(c, which, others, sizeof(others));
    if (c->new_list)
        find_warning(f, line, "%s%s: --new-list replaces that", text, others);
    else
        find_fault(f, line,
                   "%s%s; use what the fleet has, or stop all its agents for %.0f s and start this "
                   "one with --new-list",
                   text, others, (double)timing_quarantine(hf_ms(longest)).ns / HF_NS_PER_SEC + 1);
}

static void judge_sentinels(const struct config *c, const struct node_look *looks,
                            unsigned answered, struct findings *f)
{
    unsigned foreign = 0;
    char text[256];

    for (int i = 0; i < c->node_count; i++)
        if (answered >> i & 1 && sentinel_differs(&looks[i].sentinel, c, i, text, sizeof(text)))
            foreign |= 1u << i;
    while (foreign) {
        const struct node_sentinel *s = &looks[__builtin_ctz(foreign)].sentinel;
        unsigned alike = 0;

        for (int i = 0; i < c->node_count; i++)
            if (foreign >> i & 1 && same_fleet(&looks[i].sentinel, s))
                alike |= 1u << i;
        judge_fleet(c, looks, alike, f);
        foreign &= ~alike;
    }
}

/* Returns whether its sentinel can be judged: it answers, and nothing else is against it. */
static bool judge(const struct config *c, const struct node_look *looks, int i, struct findings *f)
{
    const struct node_look *look = &looks[i];
    const struct node_address *a = &c->nodes[i];
    int line = f->report->node_line[i], other = same_server(looks, i);
    const char *refusal;

    if (look->outcome == NODE_LOOK_AWAY) {
        find_warning(f, line, "node %s (%s) does not answer: %s", a->id, a->text, look->text);
    } else if (look->outcome == NODE_LOOK_REFUSED) {
        find_fault(f, line, "node %s (%s): %s", a->id, a->text, look->text);
    } else if ((refusal = refusal_of(c, look))) {
        find_fault(f, line, "node %s (%s): %s", a->id, a->text, refusal);
    } else if (other >= 0) {
        find_fault(f, line, "node %s (%s): it is the same server as node %s; list each server once",
                   a->id, a->text, c->nodes[other].id);
    } else {
        return true;
    }
    return false;
}

void check_nodes(const struct config *c, struct findings *f)
{
    int quorum = ballot_quorum(c->node_count), away = 0, before = f->faults;
    struct node_look looks[HF_NODES_MAX];
    unsigned answered = 0;

    nodes_look(c->nodes, c->node_count, PATIENCE, looks);
    for (int i = 0; i < c->node_count; i++) {
        away += looks[i].outcome == NODE_LOOK_AWAY;
        if (judge(c, looks, i, f))
            answered |= 1u << i;
    }
    judge_sentinels(c, looks, answered, f);
    if (c->node_count - away < quorum)
        find_warning(f, 0, "%d of %d nodes answer, and %d are needed for any lock",
                     c->node_count - away, c->node_count, quorum);
    else if (f->faults == before)
        find_fact("nodes: %d of %d answer as they should, %d are needed", c->node_count - away,
                  c->node_count, quorum);
}
