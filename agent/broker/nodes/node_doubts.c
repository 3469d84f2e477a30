/* What a node shows of a lock and is not believed: fences (agent/core/fence.h), records of runs (agent/core/once.h). The table
 * names one for each node, the latest. */
#include <stdio.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/broker/nodes/nodes.h"

/* What a node shows of a lock and is not believed: fences (agent/core/fence.h), records of runs (agent/core/once.h). The table
 * names one for each node, the latest. */

static const char *const whats[] = {
    [DOUBT_FENCE] = HF_NODE_FENCE_AHEAD, [DOUBT_ONCE] = HF_NODE_ONCE_AHEAD};
static const char *const losses[] = {[DOUBT_FENCE] = "it gives no votes for that lock",
                                     [DOUBT_ONCE] = "it has no vote on when that job ran"};

static void doubts_text_of(enum node_doubt what, const void *key, size_t key_len, char *ret_text,
                           size_t size)
{
    snprintf(ret_text, size, "%s%.*s", whats[what], (int)key_len, (const char *)key);
}

void nodes_doubt(struct nodes *nodes, int node, enum node_doubt what, const void *key,
                 size_t key_len)
{
    struct hf_node_row *row = &nodes->node[node].row;
    char text[sizeof(row->error)];

    doubts_text_of(what, key, key_len, text, sizeof(text));
    if (strcmp(text, row->error) == 0)
        return;
    memcpy(row->error, text, sizeof(text));
    row->error_class = HF_NODE_ERR_NONE;
    if (log_allows(&nodes->doubts, LOG_LIMIT, loop_now(nodes->loop)))
        log_warn("node %s %s: %s; see holdfast doctor", nodes->config->nodes[node].id, text,
                 losses[what]);
}

void nodes_believe(struct nodes *nodes, int node, enum node_doubt what, const void *key,
                   size_t key_len)
{
    struct hf_node_row *row = &nodes->node[node].row;
    char text[sizeof(row->error)];

    if (strncmp(row->error, whats[what], strlen(whats[what])) != 0)
        return;
    doubts_text_of(what, key, key_len, text, sizeof(text));
    if (strcmp(text, row->error) == 0)
        row->error[0] = '\0';
}
