/* A number for the fleet's list of nodes, the same on every host: kept in each node's sentinel.
 * Pure. */
#ifndef HOLDFAST_AGENT_CONFIG_LIST_HASH_H
#define HOLDFAST_AGENT_CONFIG_LIST_HASH_H

#include "agent/base/address.h"

/* SHA-1, in hex, of the ids in their order, each with its NUL. Nothing here needs to resist an
 * attacker: whoever can write a sentinel can write anything. */
void list_hash(const struct node_address *nodes, int count, char ret_hex[41]);
/* The same of the ids and one text more. */
void list_hash_with(const struct node_address *nodes, int count, const char *text,
                    char ret_hex[41]);

#endif
