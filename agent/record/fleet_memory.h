/* The fleet record by which this agent goes, for the next agent of this boot: DIR/fleet, 0600
 * (agent/record/boot_file.h). Main reads it at the start, the broker thread writes it from then on. It is good for one
 * boot; without it the next agent adopts what most of its nodes have. An ephemeral agent keeps
 * none.
 * With it stands the list of nodes that journal and node records are of: a record of another list is kept before they
 * are carried over, so that an agent that is killed in between is known by it (agent/record/stores.c).
 */
#ifndef HOLDFAST_AGENT_RECORD_FLEET_MEMORY_H
#define HOLDFAST_AGENT_RECORD_FLEET_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/clock.h"
#include "agent/core/fleet_record.h"
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

#endif
