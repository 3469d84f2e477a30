/* By which record of the fleet an agent starts: what DIR/fleet has, laid over the configuration. Main, before the threads
 * start. */
#ifndef HOLDFAST_AGENT_RECORD_FLEET_START_H
#define HOLDFAST_AGENT_RECORD_FLEET_START_H

#include <stdint.h>

#include "agent/base/clock.h"
#include "agent/config/config.h"
#include "agent/core/fleet_record.h"
#include "agent/record/fleet_memory.h"

/* The configuration is left as it is where nothing is kept, what is kept is of version 1 or of another fleet, the agent is
 * ephemeral, or --reset-fleet is given. */
void fleet_start(struct config *config, const char *dir, const struct boot_clock *clock);
/* Whether such a record is kept, and it. */
bool fleet_start_find(const struct config *config, const char *dir, const struct boot_clock *clock,
                      struct fleet_memory *ret_memory, struct fleet_record *ret_record);

#endif
