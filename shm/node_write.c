/* The agent's side of the node rows. */
#include "shm/node_words.h"

void hf_node_publish(struct hf_table *table, uint32_t node, const struct hf_node_row *row)
{
    struct hf_node_row *to;

    if (node >= table->node_count)
        return;
    to = &table->nodes[node];
    hf_seq_enter(&to->seq);
    for (size_t i = 1; i < HF_NODE_WORDS; i++)
        __atomic_store_n((hf_node_word *)to + i, ((const hf_node_word *)row)[i], __ATOMIC_RELEASE);
    hf_seq_leave(&to->seq);
}
