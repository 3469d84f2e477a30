#include "shm/history.h"

#include "shm/row.h"
#include "shm/status.h"

uint64_t hf_events_written(const struct hf_table *table, enum hf_event_ring ring)
{
    return atomic_load_explicit(&table->header->events_written[ring], memory_order_acquire);
}

uint64_t hf_events_oldest(const struct hf_table *table, enum hf_event_ring ring)
{
    uint64_t written = hf_events_written(table, ring);

    return written > table->event_count[ring] ? written - table->event_count[ring] : 0;
}

int hf_event_read(const struct hf_table *table, enum hf_event_ring ring, uint64_t index,
                  struct hf_event *ret_event)
{
    uint32_t count = table->event_count[ring];
    struct hf_event event;

    if (index >= hf_events_written(table, ring))
        return HF_EINVAL;
    if (!hf_row_load(&event, &table->events[ring][index & (count - 1)], sizeof(event)))
        /* A writer killed inside was overwriting it. */
        return index <= hf_events_oldest(table, ring) ? HF_ELOST : HF_ETABLE;
    if (event.index != index)
        return HF_ELOST;
    *ret_event = event;
    return 0;
}

size_t hf_renewals_read(const struct hf_table *table, uint32_t node,
                        struct hf_renewal *ret_renewals, size_t room)
{
    const struct hf_renewal *ring = &table->renewals[node * (size_t)table->renewals_kept];
    size_t found = 0;

    if (node >= HF_NODES_MAX)
        return 0;
    for (uint32_t i = 0; i < table->renewals_kept; i++) {
        struct hf_renewal renewal;
        size_t at = found;

        if (!hf_row_load(&renewal, &ring[i], sizeof(renewal)) || renewal.index == 0)
            continue;
        while (at > 0 && ret_renewals[at - 1].index < renewal.index)
            at--;
        if (at == room)
            continue;
        if (found < room)
            found++;
        for (size_t k = found - 1; k > at; k--)
            ret_renewals[k] = ret_renewals[k - 1];
        ret_renewals[at] = renewal;
    }
    return found;
}
