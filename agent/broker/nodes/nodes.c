/* What is known of the nodes, and what follows for a round that is to begin. It calls nobody in this room. */
#include "agent/broker/nodes/nodes.h"

#include <stdio.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/broker/nodes/node_fleet.h"
#include "agent/state/stores.h"
#include "shm/assert.h"
#include "shm/status.h"
#include "shm/text.h"

/* How long after the agent's start missing nodes are "not there yet" rather than "away". */
#define SETTLING (HF_NS_PER_SEC)

_Static_assert(WRITES_TEXT == sizeof(((struct hf_node_row *)0)->error), "as it is shown");

void nodes_show_error(struct hf_node_row *row, enum hf_node_error error, const char *text)
{
    row->error_class = (uint32_t)error;
    snprintf(row->error, sizeof(row->error), "%s", text);
    hf_text_cut(row->error, sizeof(row->error));
}

void nodes_tell_renewal(struct nodes *nodes, int i, unsigned events)
{
    struct message *m = message_new(MSG_TRUST);

    hf_assert(i >= 0 && i < nodes->n, "node %d of %d", i, nodes->n);
    m->node_number = i;
    m->events = events;
    memcpy(m->nonce, nodes->node[i].trust.sentinel.nonce, sizeof(m->nonce));
    memcpy(m->run_id, nodes->servers.node[i].run_id, sizeof(m->run_id));
    mailbox_post(&nodes->agent->to_renewal, m);
}

void nodes_on_write(struct nodes *nodes, int i, const struct link_reply *reply, bool written)
{
    struct node_writes *writes = &nodes->node[i].writes;
    enum hf_node_error before = writes_refused(writes);

    if (written)
        writes_on_lock(writes, HF_NODE_ERR_NONE, "", reply->received);
    else if (reply->outcome == LINK_ERROR)
        writes_on_lock(writes, reply->error, reply->error_text, reply->received);
    if (writes_refused(writes) != before)
        loop_timer_set(nodes->loop, &nodes->review, reply->received);
}

/* --- questions -------------------------------------------------------------------------------- */

bool nodes_may_vote(const struct nodes *nodes, int i, hf_time now)
{
    return !nodes->fleet_view.leaving && nodes->node[i].up && link_is_up(nodes->node[i].link) &&
           trust_may_vote(&nodes->node[i].trust, now) && fleet_counts(&nodes->fleet_view, i);
}

bool nodes_has_our_record(const struct nodes *nodes, int i)
{
    return fleet_counts(&nodes->fleet_view, i);
}

int nodes_voting(const struct nodes *nodes, hf_time now)
{
    uint32_t voting = 0;

    for (int i = 0; i < nodes->n; i++)
        if (nodes_may_vote(nodes, i, now))
            voting |= UINT32_C(1) << i;
    return servers_count(&nodes->servers, voting);
}

bool nodes_takes_writes(const struct nodes *nodes, int i)
{
    return writes_refused(&nodes->node[i].writes) == HF_NODE_ERR_NONE;
}

int nodes_granting(const struct nodes *nodes, hf_time now)
{
    uint32_t granting = 0;

    for (int i = 0; i < nodes->n; i++)
        if (nodes_may_vote(nodes, i, now) && nodes_takes_writes(nodes, i))
            granting |= UINT32_C(1) << i;
    return servers_count(&nodes->servers, granting);
}

int nodes_up(const struct nodes *nodes)
{
    int count = 0;

    for (int i = 0; i < nodes->n; i++)
        count += nodes->node[i].up;
    return count;
}

/* By a record of a fleet that changes: it is up, and is told of it just now. */
static bool nodes_is_being_told(const struct nodes *nodes, int i)
{
    const struct config *c = nodes->config;

    return c->by_record && c->counting >> i & 1 && !fleet_counts(&nodes->fleet_view, i);
}

bool nodes_settling(const struct nodes *nodes, hf_time now)
{
    if (nodes->fleet_view.leaving)
        return true;
    if (hf_time_reached(now, hf_time_add(nodes->started, hf_ns(SETTLING))))
        return false;
    for (int i = 0; i < nodes->n; i++)
        if (!nodes->node[i].up || !nodes->node[i].trust.judged || nodes_is_being_told(nodes, i))
            return true;
    return false;
}

int nodes_median(const struct nodes *nodes, bool up, hf_time now,
                 const struct node_trust **ret_nodes, int64_t *ret_median_us)
{
    for (int i = 0; i < nodes->n; i++)
        ret_nodes[i] = up && !nodes->node[i].up ? NULL : &nodes->node[i].trust;
    return trust_median(ret_nodes, nodes->n, clock_wall(), now, ret_median_us);
}

bool nodes_time(const struct nodes *nodes, hf_time now, hf_nodetime *ret_time)
{
    const struct node_trust *known[HF_NODES_MAX];
    int64_t median;

    if (nodes_median(nodes, false, now, known, &median) == 0)
        return false;
    *ret_time = (hf_nodetime){median + now.ns / HF_NS_PER_US};
    return true;
}

uint32_t nodes_agree(const struct nodes *nodes, hf_dur most, hf_time now, hf_nodetime *ret_time,
                     int *ret_farthest, int64_t *ret_ahead_us)
{
    const struct node_trust *up[HF_NODES_MAX];
    int64_t median;

    if (nodes_median(nodes, true, now, up, &median) == 0)
        return 0;
    *ret_time = (hf_nodetime){median + now.ns / HF_NS_PER_US};
    return trust_near(up, nodes->n, median, most, ret_farthest, ret_ahead_us);
}

const char *nodes_fleet_text(const struct nodes *nodes)
{
    return nodes->fleet;
}

/* --- their links ------------------------------------------------------------------------------ */

hf_dur nodes_probe_gap(const struct nodes *nodes, int i)
{
    const struct node *node = &nodes->node[i];

    return sampling_gap(nodes->config->timing.ttl,
                        hf_ns(trust_width(&node->trust).ns + sampling_trip(&node->sampling).ns), i);
}

struct link_options nodes_link_options(struct nodes *nodes, int i, hf_dur probe)
{
    const struct config *c = nodes->config;

    return (struct link_options){
        .loop = nodes->loop,
        .address = seat_address(&nodes->node[i].seat),
        .node = i,
        .connect_timeout = hf_dur_max(c->timing.attempt, hf_ms(200)),
        .silence = timing_silence(c->timing.ttl),
        .probe_writes = true,
        .probe = probe,
        .events = nodes->link_events,
        .arg = nodes,
    };
}

void nodes_show_address(struct nodes *nodes, int i)
{
    char *address = nodes->node[i].row.address;

    snprintf(address, sizeof(nodes->node[i].row.address), "%s",
             seat_address(&nodes->node[i].seat)->text);
}

void nodes_reconnect(struct nodes *nodes, int i)
{
    const struct link_options options = nodes_link_options(nodes, i, nodes_probe_gap(nodes, i));

    link_configure(nodes->node[i].link, &options);
    nodes_show_address(nodes, i);
}

void nodes_send(struct nodes *nodes)
{
    key_deleter_flush(nodes->key_deleter);
    for (int i = 0; i < nodes->n; i++)
        if (nodes->unsent >> i & 1)
            link_flush(nodes->links[i]);
    nodes->unsent = 0;
}
