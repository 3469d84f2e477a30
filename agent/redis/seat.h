/* Where a link goes: to the configuration's address until the fleet's record is known, and to the record's seat from then
 * on. A link that the configuration leads to the seat, by a name say, stays where it is for as long as it is up. Belongs to the
 * thread of its link. */
#ifndef HOLDFAST_AGENT_REDIS_SEAT_H
#define HOLDFAST_AGENT_REDIS_SEAT_H

#include <stdbool.h>

#include "agent/base/address.h"

struct seat {
    const struct node_address *configured;
    bool by_record;
    struct node_address named; /* by_record: the seat, with the configuration's user and password */
};

/* At the start and at a reload. */
void seat_configure(struct seat *seat, const struct node_address *configured);
const struct node_address *seat_address(const struct seat *seat);
/* The record names this place, and the link is at `peer` now ("": nowhere). Returns whether the link has to be
 * configured anew, for seat_address() is another one. A configuration with `as` is never overruled.
 * (!) A private place is another server on each host: no link goes there unless the fleet was founded `here`. */
bool seat_aim(struct seat *seat, const char *place, const char *peer, bool here);

#endif
