#include "agent/record/list_change.h"

#include <string.h>

static int list_change_place_of(const struct fleet_seat *list, int count,
                                const struct fleet_seat *seat)
{
    for (int i = 0; i < count; i++)
        if (strcmp(list[i].id, seat->id) == 0 && strcmp(list[i].address, seat->address) == 0)
            return i;
    return -1;
}

bool list_change_find(struct list_change *change, const struct fleet_seat *before, int before_count,
                      const struct fleet_seat *seats, int count)
{
    bool differs = before_count != count;

    change->nodes_before = before_count;
    change->nodes = count;
    for (int i = 0; i < HF_NODES_MAX; i++) {
        change->from[i] = i < count ? list_change_place_of(before, before_count, &seats[i]) : -1;
        differs |= i < count && change->from[i] != i;
    }
    return differs;
}

bool list_change_is_due(const struct list_change *change, const struct boot_file_header *header)
{
    return (int)header->nodes == change->nodes_before &&
           strcmp(header->list_hash, change->hash_before) == 0;
}
