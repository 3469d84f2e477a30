#include "agent/record/fleet_start.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/base/clock.h"
#include "agent/config/config_fleet.h"
#include "agent/record/fleet_memory.h"
#include "shm/status.h"

void fleet_start(struct config *c, const char *dir, const uint8_t boot_id[16])
{
    struct fleet_memory *memory = malloc(sizeof(*memory));
    struct fleet_record *record = malloc(sizeof(*record));
    char path[600];

    if (!memory || !record || c->ephemeral || c->new_list)
        goto out;
    snprintf(path, sizeof(path), "%.590s/fleet", dir);
    fleet_memory_read(path, boot_id, memory);
    if (memory->length && fleet_record_read(memory->text, memory->length, record) == HF_OK &&
        config_is_of(c, record, memory->went_by))
        config_go_by(c, record,
                     hf_time_reached(clock_now(), fleet_record_settles(record, memory->from)),
                     memory->here);
out:
    free(record);
    free(memory);
}
