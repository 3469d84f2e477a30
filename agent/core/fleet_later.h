/* When a later record of the fleet counts. Pure. docs/SAFETY.md, "A fleet that changes", has the argument.
 *
 * (!) Rules, each with a test:
 *  - An agent goes by a later record only when a majority of the list by which it asks shows that record. One server, whatever is
 *    written there, moves nobody; and no password goes to an address that only such a server names.
 *  - What may follow what is judged when a record is read, as it was when it was written.
 *  - Records are compared whole: a digest of 32 bits can be made.
 */
#ifndef HOLDFAST_AGENT_CORE_FLEET_LATER_H
#define HOLDFAST_AGENT_CORE_FLEET_LATER_H

#include "agent/core/fleet.h"

/* Whether a change could have made it: enough members stay, and fewer than a majority are gone. */
bool fleet_later_is_sound(const struct fleet_record *record);
/* The node has that record, at its seat. */
bool fleet_later_has(const struct fleet *fleet, int node, const struct fleet_record *record);
/* The node has none, and another member of the list that the record leads to has shown the record since. */
bool fleet_later_is_told(const struct fleet *fleet, int node, const struct fleet_record *record);
/* A node of our list with a later record that a majority shows, the latest one; -1: none. */
int fleet_later_find(const struct fleet *fleet);
/* The same for an agent that goes by no record: a majority of the configured nodes shows it. */
int fleet_later_find_first(const struct fleet *fleet);
/* (!) Some server shows a later record of the fleet, or one that nobody could read: ours is given to no node from memory. */
bool fleet_later_is_seen(const struct fleet *fleet);
/* A node of our list with a later record that no majority shows; -1: none. */
int fleet_later_find_lone(const struct fleet *fleet);

#endif
