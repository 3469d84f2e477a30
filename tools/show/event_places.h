/* Events name a node by its place in the list of nodes. Where the fleet has changed, the agent leaves one event for each place
 * that was another node's before (HF_EVENT_NODE_PLACE). One thread. */
#ifndef HOLDFAST_TOOLS_SHOW_EVENT_PLACES_H
#define HOLDFAST_TOOLS_SHOW_EVENT_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/table.h"

/* Of all such events that are kept. */
void event_places_learn(const struct hf_table *table);

enum event_place { PLACE_AS_NOW, PLACE_AS_THEN, PLACE_UNKNOWN };
/* Who was at that place when the event of that number was written. PLACE_AS_THEN: in `ret_id`, a string. PLACE_UNKNOWN: what
 * told it has been overwritten. */
enum event_place event_places_id(uint64_t number, unsigned place, char *ret_id, size_t size);

/* Whether a node of that id was at some place. */
bool event_places_has(const char *id);

#endif
