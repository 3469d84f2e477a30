#include "agent/broker/nodes/node_fleet.h"

#include <stdio.h>
#include <string.h>

#include "agent/broker/nodes/node_author.h"
#include "agent/broker/nodes/node_fleet_shown.h"
#include "agent/config/config_fleet.h"

void node_fleet_begin(struct nodes *nodes)
{
    const struct config *c = nodes->config;
    struct fleet_record own;

    config_fleet(c, &own);
    fleet_init(&nodes->fleet_view, &own, c->reset_fleet, nodes->started);
    if (nodes->agent->fleet)
        fleet_restore(&nodes->fleet_view, nodes->agent->fleet, nodes->agent->fleet_settles);
    fleet_restore_shown(&nodes->fleet_view, nodes->agent->fleet_shown);
    nodes->fleet_here = nodes->agent->fleet_here;
    memcpy(nodes->fleet_by, nodes->agent->fleet_by, sizeof(nodes->fleet_by));
    fleet_on_way_back(&nodes->fleet_view, node_author_read(nodes->fleet_by).way_back);
    for (int i = 0; i < nodes->n; i++) {
        char named[HF_NODE_TEXT_MAX + 1];

        seat_configure(&nodes->node[i].seat, &c->nodes[i]);
        node_address_seat_named(&c->nodes[i], named);
        fleet_on_configured(&nodes->fleet_view, i, named);
        fleet_on_written(&nodes->fleet_view, i, c->file, c->nodes[i].line);
        nodes->node[i].put_again = HF_TIME_PAST;
    }
    nodes->fleet_asked = HF_TIME_PAST;
    node_fleet_show(nodes, nodes->started);
}

void node_fleet_configure(struct nodes *nodes)
{
    for (int i = 0; i < nodes->n; i++) {
        const struct node_address *a = &nodes->config->nodes[i];
        char named[HF_NODE_TEXT_MAX + 1];

        seat_configure(&nodes->node[i].seat, a);
        node_address_seat_named(a, named);
        fleet_on_reload(&nodes->fleet_view, i, named);
        fleet_on_written(&nodes->fleet_view, i, nodes->config->file, a->line);
    }
}

void node_fleet_up(struct nodes *nodes, int i)
{
    char peer[HF_NODE_TEXT_MAX + 1];

    nodes->node[i].failed = false;
    link_peer(nodes->node[i].link, peer);
    fleet_on_up(&nodes->fleet_view, i, peer);
}

void node_fleet_down(struct nodes *nodes, int i)
{
    nodes->node[i].putting = false;
    nodes->node[i].failed = true;
    fleet_on_down(&nodes->fleet_view, i);
}

/* --- reading ---------------------------------------------------------------------------------- */

void node_fleet_reply(struct nodes *nodes, int i, const struct link_reply *reply)
{
    struct fleet *f = &nodes->fleet_view;
    bool counted = fleet_counts(f, i), changing = f->known && f->record.state == FLEET_CHANGING;

    if (fleet_on_answer(f, i, reply->nonce, reply->digest, reply->sent, reply->received) ||
        fleet_counts(f, i) != counted || changing)
        loop_timer_set(nodes->loop, &nodes->review, reply->received);
}

void node_fleet_read(struct nodes *nodes, int i, const struct link_reply *reply)
{
    struct fleet *f = &nodes->fleet_view;

    if (!reply->record)
        return;
    fleet_on_record(f, i, reply->digest, reply->record, reply->record_len);
    fleet_note_told(f, i);
    snprintf(nodes->node[i].record_by, sizeof(nodes->node[i].record_by), "%s", reply->record_by);
    if (fleet_shows(f, i))
        memcpy(nodes->fleet_by, nodes->node[i].record_by, sizeof(nodes->fleet_by));
    fleet_on_since(f, i, node_author_read(reply->record_by).wall_ms,
                   node_author_read(nodes->fleet_by).wall_ms);
    fleet_on_way_back(f, node_author_read(nodes->fleet_by).way_back);
}

void node_fleet_look(struct nodes *nodes, int i)
{
    link_probe_soon(nodes->node[i].link);
}
