#include "agent/record/fleet_start.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/config/config_fleet.h"
#include "agent/record/fleet_memory.h"
#include "shm/status.h"

bool fleet_start_find(const struct config *c, const char *dir, const struct boot_clock *clock,
                      struct fleet_memory *ret_memory, struct fleet_record *ret_record)
{
    char path[600];

    memset(ret_memory, 0, sizeof(*ret_memory));
    if (c->ephemeral || c->reset_fleet)
        return false;
    snprintf(path, sizeof(path), "%.590s/fleet", dir);
    fleet_memory_read(path, clock, ret_memory);
    return ret_memory->length &&
           fleet_record_read(ret_memory->text, ret_memory->length, ret_record) == HF_OK &&
           config_is_of(c, ret_record, ret_memory->went_by);
}

void fleet_start(struct config *c, const char *dir, const struct boot_clock *clock)
{
    struct fleet_memory *memory = malloc(sizeof(*memory));
    struct fleet_record *record = malloc(sizeof(*record));

    if (memory && record && fleet_start_find(c, dir, clock, memory, record))
        config_go_by(c, record,
                     hf_time_reached(clock_now(), fleet_record_settles(record, memory->from)),
                     memory->here);
    free(record);
    free(memory);
}
