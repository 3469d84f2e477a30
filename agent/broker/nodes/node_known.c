#include "agent/broker/nodes/node_known.h"

#include <string.h>

#include "agent/broker/nodes/node_events.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/record/stores.h"

void node_known_meet(struct nodes *nodes, int i, hf_time now)
{
    const struct config *c = nodes->config;
    struct node *node = &nodes->node[i];
    struct node_trust before;
    /* Before the fleet was known the server that is left may have been taken for the node's. */
    bool known = stores_known_node(nodes->agent, i, &before) &&
                 strcmp(before.facts.run_id, node->trust.facts.run_id) != 0;

    trust_init(&node->trust, timing_quarantine(hf_ms(c->ttl_longest_ms)),
               c->assume_fresh || c->ephemeral);
    if (known)
        trust_restore(&node->trust, &before, nodes->agent->fleet_shown, now);
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
    if (!node_known_is_it(nodes, i))
        return;
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
