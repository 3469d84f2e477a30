/* Fence records that are not believed (agent/core/fence.h). The table tells of one for each node, the latest. */
#include <stdio.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/broker/nodes/nodes.h"

static void text_of(const void *key, size_t key_len, char *ret_text, size_t size)
{
    snprintf(ret_text, size, "%s%.*s", HF_NODE_FENCE_AHEAD, (int)key_len, (const char *)key);
}

void nodes_doubt_fence(struct nodes *nodes, int node, const void *key, size_t key_len)
{
    struct hf_node_row *row = &nodes->node[node].row;
    char text[sizeof(row->error)];

    text_of(key, key_len, text, sizeof(text));
    if (strcmp(text, row->error) == 0)
        return;
    memcpy(row->error, text, sizeof(text));
    row->error_class = HF_NODE_ERR_NONE;
    if (log_allows(&nodes->fences, LOG_LIMIT, loop_now(nodes->loop)))
        log_warn("node %s %s: it gives no votes for that lock; see holdfast doctor",
                 nodes->config->nodes[node].id, text);
}

void nodes_accept_fence(struct nodes *nodes, int node, const void *key, size_t key_len)
{
    struct hf_node_row *row = &nodes->node[node].row;
    char text[sizeof(row->error)];

    if (strncmp(row->error, HF_NODE_FENCE_AHEAD, strlen(HF_NODE_FENCE_AHEAD)) != 0)
        return;
    text_of(key, key_len, text, sizeof(text));
    if (strcmp(text, row->error) == 0)
        row->error[0] = '\0';
}
