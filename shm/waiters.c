#include "shm/waiters.h"

#include <stddef.h>

#include "shm/assert.h"
#include "shm/row.h"
#include "shm/status.h"

/* --- writer ----------------------------------------------------------------------------------- */

void hf_waiters_begin(struct hf_table *table)
{
    for (uint32_t i = 0; i < table->waiter_rows; i++)
        hf_waiter_clear(table, i);
}

void hf_waiter_publish(struct hf_table *table, uint32_t index, const struct hf_waiter_row *row)
{
    hf_assert(index < table->waiter_rows, "row %u of %u", (unsigned)index,
              (unsigned)table->waiter_rows);
    hf_assert(row->flags & HF_WAITER_F_USED, "flags %x", (unsigned)row->flags);
    hf_row_store(&table->waiters[index], row, sizeof(*row));
}

void hf_waiter_clear(struct hf_table *table, uint32_t index)
{
    struct hf_waiter_row *row = &table->waiters[index];

    hf_assert(index < table->waiter_rows, "row %u of %u", (unsigned)index,
              (unsigned)table->waiter_rows);
    hf_seq_enter(&row->seq);
    __atomic_store_n(&row->flags, 0, __ATOMIC_RELEASE);
    hf_seq_leave(&row->seq);
}

/* --- reader ----------------------------------------------------------------------------------- */

uint32_t hf_waiters_room(const struct hf_table *table)
{
    return table->waiter_rows;
}

int hf_waiter_read(const struct hf_table *table, uint32_t index, struct hf_waiter_row *ret_row)
{
    struct hf_waiter_row row;

    if (index >= hf_waiters_room(table))
        return HF_EINVAL;
    if (!(__atomic_load_n(&table->waiters[index].flags, __ATOMIC_RELAXED) & HF_WAITER_F_USED))
        return HF_ENOTHELD;
    if (!hf_row_load(&row, &table->waiters[index], sizeof(row)))
        return HF_ETABLE;
    if (!(row.flags & HF_WAITER_F_USED))
        return HF_ENOTHELD;
    /* The text ends with NUL even if the row is damaged. */
    row.comm[sizeof(row.comm) - 1] = '\0';
    *ret_row = row;
    return HF_OK;
}
