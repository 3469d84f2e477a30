/* What a host's configuration says of its fleet: ids, ttl_max and key formats. */
#ifndef HOLDFAST_AGENT_CONFIG_CONFIG_FLEET_H
#define HOLDFAST_AGENT_CONFIG_CONFIG_FLEET_H

#include "agent/config/config.h"
#include "agent/core/fleet_record.h"

/* The record that this host would found, without version, state and addresses. */
void config_fleet(const struct config *config, struct fleet_record *ret_record);

#endif
