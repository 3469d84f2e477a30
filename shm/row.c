/* The reader's side of the node rows. */
#include "shm/row.h"

#include "shm/status.h"
#include "shm/table.h"

int hf_node_read(const struct hf_table *table, uint32_t node, struct hf_node_row *ret_row)
{
    struct hf_node_row row;

    if (node >= table->node_count)
        return HF_EINVAL;
    if (!hf_row_load(&row, &table->nodes[node], sizeof(row)))
        return HF_ETABLE;
    /* The text ends with NUL even if the row is damaged. */
    row.id[sizeof(row.id) - 1] = '\0';
    row.address[sizeof(row.address) - 1] = '\0';
    row.run_id[sizeof(row.run_id) - 1] = '\0';
    row.version[sizeof(row.version) - 1] = '\0';
    row.error[sizeof(row.error) - 1] = '\0';
    *ret_row = row;
    return 0;
}

/* --- the agent's side of the node rows -------------------------------------------------------- */

/* The agent's side of the node rows. */

void hf_node_publish(struct hf_table *table, uint32_t node, const struct hf_node_row *row)
{
    if (node < table->node_count)
        hf_row_store(&table->nodes[node], row, sizeof(*row));
}
