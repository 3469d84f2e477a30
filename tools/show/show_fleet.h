/* The fleet's record for people and as JSON. */
#ifndef HOLDFAST_TOOLS_SHOW_SHOW_FLEET_H
#define HOLDFAST_TOOLS_SHOW_SHOW_FLEET_H

#include "tools/output/json.h"
#include "tools/reader/fleet_told.h"

/* The record, a line per node, and what is not as it should be. */
void show_fleet(const struct fleet_told *told);

/* The members of `fleet --json`. */
void show_fleet_json(struct json_out *out, const struct fleet_told *told);

#endif
