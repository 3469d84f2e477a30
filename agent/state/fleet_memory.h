/* The fleet record by which this agent goes, for the next agent of this boot: DIR/fleet, 0600
 * (agent/state/state_file.h). Main reads it at the start, the broker thread writes it from then on. It is good for one
 * boot; without it the next agent adopts what most of its nodes have. An ephemeral agent keeps
 * none.
 * With it stands the list of nodes that journal and node records are of: a record of another list is kept before they
 * are carried over, so that an agent that is killed in between is known by it (agent/state/stores.c).
 */
#ifndef HOLDFAST_AGENT_STATE_FLEET_MEMORY_H
#define HOLDFAST_AGENT_STATE_FLEET_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/clock.h"
#include "agent/config/config.h"
#include "agent/core/fleet_record.h"
#include "agent/state/state_file.h"
#include "shm/nstime.h"

/* 27 KiB; the file has it behind its header. */
struct fleet_memory {
    char text[FLEET_TEXT_SIZE]; /* of the record, with a final NUL */
    size_t length;              /* of the text; 0: there is no memory */
    char went_by[41];           /* file_hash of the configuration */
    char by[96];                /* who put it, as nodes tell; "" not known */
    bool here;                  /* this host founded the fleet: its private seats are this host's */
    hf_time from;               /* when this host first kept that record; HF_TIME_PAST: not known */
    int list_count;             /* 0: not known; then the list is the record's */
    struct fleet_seat list[HF_NODES_MAX]; /* of the journal: ids and addresses */
};

/* What an earlier agent left. It changes nothing. `path`: of the file, "" where none is kept. */
void fleet_memory_read(const char *path, const struct boot_clock *clock,
                       struct fleet_memory *ret_memory);
/* Writes or, without `memory`, removes the file; then the next agent will know what this one does. HF_ESYS
 * with `why`: nothing is changed. */
int fleet_memory_keep(const char *path, const struct boot_clock *clock,
                      const struct fleet_memory *memory, char *why, size_t why_size);

/* By which record of the fleet an agent starts: what DIR/fleet has, laid over the configuration. Main, before the threads
 * start. */

/* The configuration is left as it is where nothing is kept, what is kept is of version 1 or of another fleet, the agent is
 * ephemeral, or --reset-fleet is given. */
void fleet_start(struct config *config, const char *dir, const struct boot_clock *clock);
/* Whether such a record is kept, and it. */
bool fleet_start_find(const struct config *config, const char *dir, const struct boot_clock *clock,
                      struct fleet_memory *ret_memory, struct fleet_record *ret_record);

/* From one list of nodes to the next: what place of it has the server that another place had. Journal and node records
 * are carried over by it.
 */

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
bool list_change_is_due(const struct list_change *change, const struct state_file_header *header);

#endif
