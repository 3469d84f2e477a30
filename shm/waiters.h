/* The requests of this host that wait for a lock, in the table.
 *
 * Who writes: the broker thread; main while it starts. Who reads: anybody who mapped the table. Ordering: a row is
 * written and copied under its own sequence count; rows are not consistent with each other, nor with the slots: a
 * request that was just granted may still stand here. The newest are absent when more wait than there are rows, and
 * tries never stand here. A table without the section: nothing is written, nothing is found.
 */
#ifndef HOLDFAST_SHM_WAITERS_H
#define HOLDFAST_SHM_WAITERS_H

#include <stdint.h>

#include "shm/table.h"

/* --- writer ----------------------------------------------------------------------------------- */

/* All rows are empty again. Main, before there are other threads. */
void hf_waiters_begin(struct hf_table *table);

/* `index` is less than table->waiter_rows; the count of `row` is ignored. */
void hf_waiter_publish(struct hf_table *table, uint32_t index, const struct hf_waiter_row *row);
void hf_waiter_clear(struct hf_table *table, uint32_t index);

/* --- reader ----------------------------------------------------------------------------------- */

/* How many rows there are; 0: who waits is not told by the agent that writes this table now. */
uint32_t hf_waiters_room(const struct hf_table *table);

/* HF_ENOTHELD: the row is empty. HF_EINVAL: there is no such row. HF_ETABLE: no consistent copy could be had. */
int hf_waiter_read(const struct hf_table *table, uint32_t index, struct hf_waiter_row *ret_row);

#endif
