#include "agent/broker/nodes/nodes.h"

#include <string.h>

#include "agent/state/stores.h"

/* Also of a server that is left for the node's. */
static void node_known_restore_view(struct nodes *nodes, int i, const struct node_trust *before,
                                    hf_time now)
{
    struct node_trust *t = &nodes->node[i].trust;

    if (hf_time_before(now, before->shown))
        return; /* of another clock */
    memcpy(t->sure, before->sure, sizeof(t->sure));
    t->sure[TRUST_RUN_ID_LEN] = '\0';
    t->shown = before->shown;
    fleet_on_remembered(&nodes->fleet_view, i, t->sure, t->shown);
}

void node_known_meet(struct nodes *nodes, int i, hf_time now)
{
    const struct config *c = nodes->config;
    struct node *node = &nodes->node[i];
    struct node_trust before;
    bool kept = stores_known_node(nodes->agent, i, &before);
    /* Before the fleet was known the server that is left may have been taken for the node's. */
    bool known = kept && strcmp(before.facts.run_id, node->trust.facts.run_id) != 0;

    trust_init(&node->trust, timing_quarantine(hf_ms(c->ttl_longest_ms)),
               c->assume_fresh || c->ephemeral);
    /* (!) The word is about the start: since then the node may have forgotten. */
    if (hf_time_before(nodes->started, now))
        node->trust.word_stands = false;
    if (known)
        trust_restore(&node->trust, &before, nodes->agent->fleet_shown, now);
    if (kept)
        node_known_restore_view(nodes, i, &before, now);
    servers_meet(&nodes->servers, i, node->trust.facts.run_id);
    node_events_begin(nodes, i);
}

bool node_known_is_it(const struct nodes *nodes, int i)
{
    struct node_trust kept;

    return fleet_is_seated(&nodes->fleet_view, i) ||
           (stores_known_node(nodes->agent, i, &kept) &&
            strcmp(kept.facts.run_id, nodes->node[i].trust.facts.run_id) == 0);
}

void node_known_keep(struct nodes *nodes, int i)
{
    const struct fleet_node *seen = &nodes->fleet_view.node[i];

    if (!node_known_is_it(nodes, i))
        return;
    memcpy(nodes->node[i].trust.sure, seen->sure, sizeof(seen->sure));
    nodes->node[i].trust.shown = seen->shown;
    node_records_put(nodes->agent->node_records, i, &nodes->node[i].trust);
    nodes->node[i].kept = true;
}

hf_time node_known_shown(const struct nodes *nodes)
{
    for (int i = 0; i < nodes->n; i++)
        if (!nodes->node[i].kept)
            return nodes->agent->fleet_shown;
    return fleet_shown(&nodes->fleet_view);
}
