/* A hash of the fleet's list of nodes, the same on every host; each node's sentinel has it.
 * Pure. */
#ifndef HOLDFAST_AGENT_CONFIG_LIST_HASH_H
#define HOLDFAST_AGENT_CONFIG_LIST_HASH_H

#include "agent/base/address.h"

/* SHA-1, in hex, of the ids in their order, each with its NUL. */
void list_hash(const struct node_address *nodes, int count, char ret_hex[41]);
/* The same over the ids and one more text. */
void list_hash_with(const struct node_address *nodes, int count, const char *text,
                    char ret_hex[41]);

#endif
