/* From one list of nodes to the next: what place of it has the server that another place had. Journal and node records
 * are carried over by it.
 */
#ifndef HOLDFAST_AGENT_RECORD_LIST_CHANGE_H
#define HOLDFAST_AGENT_RECORD_LIST_CHANGE_H

#include <stdbool.h>

#include "agent/core/fleet_record.h"
#include "agent/record/boot_file.h"

struct list_change {
    int nodes_before, nodes;
    char hash_before[41], hash[41]; /* of the lists; the same where addresses alone differ */
    int from[HF_NODES_MAX];         /* the place that it had; -1: it was in none */
};

/* Fills in the places. A server is the same one by its id and its address. Returns whether the lists differ at all, be
 * it by their order. */
bool list_change_find(struct list_change *change, const struct fleet_seat *before, int before_count,
                      const struct fleet_seat *seats, int count);

/* Whether a file with this header is still of the list before. One of the next list was carried over already, unless
 * both have one hash: then it is carried over once more, which changes nothing that stays. */
bool list_change_is_due(const struct list_change *change, const struct boot_file_header *header);

#endif
