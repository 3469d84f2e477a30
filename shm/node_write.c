/* The agent's side of the node rows. */
#include "shm/row.h"
#include "shm/table.h"

void hf_node_publish(struct hf_table *table, uint32_t node, const struct hf_node_row *row)
{
    if (node < table->node_count)
        hf_row_store(&table->nodes[node], row, sizeof(*row));
}
