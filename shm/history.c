#include "shm/history.h"

#include <string.h>

#include "shm/assert.h"
#include "shm/index.h"
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

/* --- the agent's side ------------------------------------------------------------------------- */

static uint64_t history_write_highest_number(const struct hf_table *table, enum hf_event_ring ring)
{
    uint64_t highest = 0;

    for (uint64_t i = hf_events_oldest(table, ring); i < hf_events_written(table, ring); i++) {
        struct hf_event event;

        if (hf_event_read(table, ring, i, &event) == 0 && event.number > highest)
            highest = event.number;
    }
    return highest;
}

static uint32_t history_write_highest_renewal(const struct hf_table *table, uint32_t node)
{
    uint32_t highest = 0;

    for (uint32_t i = 0; i < table->renewals_kept; i++) {
        struct hf_renewal renewal;

        if (hf_row_load(&renewal, &table->renewals[node * table->renewals_kept + i],
                        sizeof(renewal)) &&
            renewal.index > highest)
            highest = renewal.index;
    }
    return highest;
}

uint64_t hf_history_begin(struct hf_table *table)
{
    uint64_t highest = 0;

    for (int ring = 0; ring < HF_EVENT_RINGS; ring++) {
        uint64_t number = history_write_highest_number(table, (enum hf_event_ring)ring);

        table->events_written[ring] = hf_events_written(table, (enum hf_event_ring)ring);
        if (number > highest)
            highest = number;
    }
    for (uint32_t node = 0; node < HF_NODES_MAX; node++)
        table->renewals_written[node] = history_write_highest_renewal(table, node);
    return highest;
}

void hf_event_put(struct hf_table *table, enum hf_event_ring ring, const struct hf_event *event)
{
    uint32_t count = table->event_count[ring];
    uint64_t index = table->events_written[ring];
    struct hf_event entry = *event;

    hf_assert((count & (count - 1)) == 0, "ring %d of %u", (int)ring, (unsigned)count);
    hf_assert(event->kind != HF_EVENT_NONE, "ring %d, index %llu", (int)ring,
              (unsigned long long)index);
    entry.index = index;
    hf_row_store(&table->events[ring][index & (count - 1)], &entry, sizeof(entry));
    table->events_written[ring] = index + 1;
    atomic_store_explicit(&table->header->events_written[ring], index + 1, memory_order_release);
}

void hf_renewal_put(struct hf_table *table, uint32_t node, const struct hf_renewal *renewal)
{
    struct hf_renewal entry = *renewal;

    if (node >= HF_NODES_MAX)
        return;
    if (++table->renewals_written[node] == 0)
        table->renewals_written[node] = 1;
    hf_assert(table->renewals_written[node] != 0, "node %u", (unsigned)node);
    entry.index = table->renewals_written[node];
    hf_row_store(&table->renewals[node * table->renewals_kept + entry.index % table->renewals_kept],
                 &entry, sizeof(entry));
}

void hf_event_name(const struct hf_table *table, struct hf_event *event, const void *name,
                   size_t name_len)
{
    event->name_hash = hf_name_hash(table->header->index_key, name, name_len);
    hf_assert(name_len <= HF_NAME_MAX, "name_len %zu", name_len);
    event->text_len = (uint8_t)name_len;
    memcpy(event->text, name, hf_event_text_kept(event));
}
