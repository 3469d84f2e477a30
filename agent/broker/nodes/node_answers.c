/* Trust by what answers show: of this thread's links, and as the renewal thread tells it. */
#include "agent/broker/nodes/nodes.h"

#include <stdio.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/broker/nodes/node_fleet.h"
#include "agent/state/stores.h"
#include "shm/assert.h"

/* Trust by what answers show: of this thread's links, and as the renewal thread tells it. */

void nodes_note(struct nodes *nodes, int i, unsigned events, hf_time now)
{
    hf_assert(i >= 0 && i < nodes->n, "node %d of %d", i, nodes->n);
    if (!events)
        return;
    if (node_known_is_it(nodes, i))
        node_events_found(nodes, i, events);
    if (events & (TRUST_RESTARTED | TRUST_FORGOT | TRUST_STEPPED))
        nodes_tell_renewal(nodes, i, events & (TRUST_RESTARTED | TRUST_FORGOT | TRUST_STEPPED));
    node_known_keep(nodes, i);
    loop_timer_set(nodes->loop, &nodes->review, now);
}

unsigned nodes_on_reply(struct nodes *nodes, int i, const struct link_reply *reply)
{
    struct node *node = &nodes->node[i];
    unsigned seen = 0;

    hf_assert(i >= 0 && i < nodes->n, "node %d of %d", i, nodes->n);
    hf_assert(hf_time_reached(reply->received, reply->sent), "node %d, sent %lld, received %lld", i,
              (long long)reply->sent.ns, (long long)reply->received.ns);
    switch (reply->outcome) {
    case LINK_ANSWERED:
        node->row.replies++;
        node->row.rtt_ns = hf_time_since(reply->received, reply->sent).ns;
        node->row.last_reply_ns = reply->received.ns;
        seen = trust_on_time(&node->trust, reply->node_time, reply->sent, reply->received);
        seen |= trust_on_nonce(&node->trust, reply->nonce, reply->received);
        node_fleet_reply(nodes, i, reply);
        nodes_note(nodes, i, seen, reply->received);
        break;
    case LINK_ERROR:
        node->row.errors++;
        node->row.last_reply_ns = reply->received.ns;
        nodes_show_error(&node->row, reply->error, reply->error_text);
        break;
    case LINK_TIMEOUT:
        node->row.timeouts++;
        break;
    case LINK_BROKEN:
    case LINK_NOT_SENT:
        break;
    }
    return seen;
}

void nodes_on_release_refused(struct nodes *nodes, int i, enum hf_node_error error,
                              const char *text)
{
    struct hf_node_row *row = &nodes->node[i].row;
    bool said = strncmp(row->error, HF_NODE_RELEASE_REFUSED, strlen(HF_NODE_RELEASE_REFUSED)) == 0;
    char shown[sizeof(row->error)];

    hf_assert(i >= 0 && i < nodes->n, "node %d of %d", i, nodes->n);
    if (error != HF_NODE_ERR_NONE) {
        row->errors++;
        snprintf(shown, sizeof(shown), HF_NODE_RELEASE_REFUSED "%s", text);
        nodes_show_error(row, error, shown);
        if (!said && log_allows(&nodes->doubts, LOG_LIMIT, loop_now(nodes->loop)))
            log_warn("node %s %s; see holdfast doctor", nodes->config->nodes[i].id, shown);
    } else if (said) {
        nodes_show_error(row, HF_NODE_ERR_NONE, "");
    }
}

void nodes_on_told(struct nodes *nodes, const struct message *m)
{
    hf_time now = clock_now();

    trust_on_told(&nodes->node[m->node_number].trust, m->events, now);
    if (m->events & TRUST_STEPPED)
        trust_owe_trace(&nodes->node[m->node_number].trust, m->nonce);
    node_events_heard(nodes, m->node_number, m->events);
    if (m->events & TRUST_FORGOT)
        nodes->node[m->node_number].reread = true;
    node_records_put(nodes->agent->node_records, m->node_number,
                     &nodes->node[m->node_number].trust);
    loop_timer_set(nodes->loop, &nodes->review, now);
}
