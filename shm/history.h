/* History in the table: what happened to leases and nodes, and each node's recent renewals.
 *
 * Who writes: the agent, each ring from one thread. Who reads: anybody who mapped the table. A ring
 * keeps the newest entries; the oldest is overwritten. Ordering: the entry is written under its own
 * sequence count, then the ring's count of written ones is raised (release). A reader loads the
 * count (acquire), copies an entry, and accepts it only if it still carries the requested number:
 * else it was overwritten meanwhile. Writing is a bounded number of stores and never waits. Rings
 * outlive the agent with the table; a new table begins with empty ones.
 */
#ifndef HOLDFAST_SHM_HISTORY_H
#define HOLDFAST_SHM_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#include "shm/table.h"

/* --- writer ----------------------------------------------------------------------------------- */

/* Once after hf_table_create(), before anything is written: the rings continue where they stand.
 * Returns the highest event number in them, 0 if there is none. */
uint64_t hf_history_begin(struct hf_table *table);

/* Appends; `index` and `seq` of `event` are ignored. */
void hf_event_put(struct hf_table *table, enum hf_event_ring ring, const struct hf_event *event);
void hf_renewal_put(struct hf_table *table, uint32_t node, const struct hf_renewal *renewal);

/* Name and its hash, cut to fit. */
void hf_event_name(const struct hf_table *table, struct hf_event *event, const void *name,
                   size_t name_len);

/* --- reader ----------------------------------------------------------------------------------- */

/* The number of entries ever written: the next index. */
uint64_t hf_events_written(const struct hf_table *table, enum hf_event_ring ring);
/* The oldest index that is not overwritten. */
uint64_t hf_events_oldest(const struct hf_table *table, enum hf_event_ring ring);
/* HF_ELOST: overwritten. HF_EINVAL: not yet written. HF_ETABLE: cannot be read. */
int hf_event_read(const struct hf_table *table, enum hf_event_ring ring, uint64_t index,
                  struct hf_event *ret_event);
/* The bytes of its text that were kept. */
static inline size_t hf_event_text_kept(const struct hf_event *event)
{
    return event->text_len < HF_EVENT_TEXT ? event->text_len : HF_EVENT_TEXT;
}

/* Copies the newest renewals of `node`, the newest first, at most `room`. Returns how many. */
size_t hf_renewals_read(const struct hf_table *table, uint32_t node,
                        struct hf_renewal *ret_renewals, size_t room);

#endif
