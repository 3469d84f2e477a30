/* What stands behind `holdfast fleet move` and its like: an id, an address or a time, judged before the agent is asked. */
#ifndef HOLDFAST_TOOLS_ASK_FLEET_OPERAND_H
#define HOLDFAST_TOOLS_ASK_FLEET_OPERAND_H

#include "tools/ask/fleet_follow.h"

/* Of the fleet's ttl_max, as agents take it. */
#define FLEET_TTL_LEAST_MS 500
#define FLEET_TTL_MOST_MS  86400000

/* By `follow->verb`, which `word` names. EXIT_OK with id, seat or ttl_max_ms in `follow`, or
 * EXIT_USAGE after a message. */
int fleet_operand_take(const char *word, const char *operand, struct fleet_follow *follow);

/* What getopt would take for an option and is a time below zero, as in `ttl-max -1`; NULL: nothing. */
const char *fleet_operand_negative(int argc, char **argv);

#endif
