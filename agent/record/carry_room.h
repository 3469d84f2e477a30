/* Room for what carries journal and node records over to another list of nodes (agent/record/list_change.h): it is taken
 * before the record with that list is kept, so that the start by that record needs none.
 */
#ifndef HOLDFAST_AGENT_RECORD_CARRY_ROOM_H
#define HOLDFAST_AGENT_RECORD_CARRY_ROOM_H

#include <stddef.h>

/* For a list of that many nodes. HF_ESYS with `why`: there is none, and none is taken. What was taken stays until it is
 * used or given back. */
int carry_room_take(const char *dir, int nodes, char *why, size_t why_size);
void carry_room_give(const char *dir);

#endif
