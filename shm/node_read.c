/* The reader's side of the node rows. */
#include "shm/node_words.h"

#include "shm/status.h"

#define NODE_TRIES 64

int hf_node_read(const struct hf_table *table, uint32_t node, struct hf_node_row *ret_row)
{
    const struct hf_node_row *from;
    struct hf_node_row row;

    if (node >= table->node_count)
        return HF_EINVAL;
    from = &table->nodes[node];
    for (unsigned try = 0; try < NODE_TRIES; try++) {
        uint32_t seen;

        if (!hf_seq_begin(&from->seq, try, NODE_TRIES, &seen))
            continue;
        for (size_t i = 1; i < HF_NODE_WORDS; i++)
            ((hf_node_word *)&row)[i] =
                __atomic_load_n((const hf_node_word *)from + i, __ATOMIC_ACQUIRE);
        if (!hf_seq_same(&from->seq, seen))
            continue;
        row.seq = seen;
        /* Text is text whoever wrote it. */
        row.id[sizeof(row.id) - 1] = '\0';
        row.address[sizeof(row.address) - 1] = '\0';
        row.run_id[sizeof(row.run_id) - 1] = '\0';
        row.version[sizeof(row.version) - 1] = '\0';
        row.error[sizeof(row.error) - 1] = '\0';
        *ret_row = row;
        return 0;
    }
    return HF_ETABLE;
}
