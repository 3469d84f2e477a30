/* What a host's configuration says of its fleet: ids, ttl_max and key formats. */
#ifndef HOLDFAST_AGENT_CONFIG_CONFIG_FLEET_H
#define HOLDFAST_AGENT_CONFIG_CONFIG_FLEET_H

#include <stdbool.h>

#include "agent/config/config.h"
#include "agent/core/fleet_record.h"

/* The record that this host would found, without version, state and addresses. */
void config_fleet(const struct config *config, struct fleet_record *ret_record);

/* Whether an agent of that configuration goes by a record that it kept: a fleet that changed has its key formats, and one of its ids
 * now or before the latest version; or `went_by` is its list_hash, for a fleet may have changed until none of them is left. `went_by`:
 * file_hash of the configuration that went by that fleet before; "": none did. Of version 1, and of one that is founded
 * only, the configuration has its own list. */
bool config_is_of(const struct config *config, const struct fleet_record *record,
                  const char *went_by);
/* Of the configuration's nodes; -1: it has none of that id. */
int config_place_of(const struct config *config, const char *id);
/* Lays a record of such a fleet over the configuration: nodes, quorum, ttl_max, and what follows from them. A node that the
 * configuration names keeps its user, password, database and as=SEAT; the others have the user, password and database of the
 * first node. `here`: this host founded the fleet; else a node at a private seat keeps its configured address,
 * and one that is not configured is nowhere. */
void config_go_by(struct config *config, const struct fleet_record *record, bool settled,
                  bool here);

#endif
