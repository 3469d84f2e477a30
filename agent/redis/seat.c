#include "agent/redis/seat.h"

#include <string.h>

void seat_configure(struct seat *seat, const struct node_address *configured)
{
    struct node_address named;

    seat->configured = configured;
    seat->by_record = seat->by_record && !configured->as[0] &&
                      node_address_from_seat(seat->named.text, configured, &named);
    if (seat->by_record)
        seat->named = named;
}

const struct node_address *seat_address(const struct seat *seat)
{
    return seat->by_record ? &seat->named : seat->configured;
}

bool seat_aim(struct seat *seat, const char *place, const char *peer, bool here)
{
    struct node_address named;

    if (seat->configured->as[0] || strcmp(peer, place) == 0 ||
        (seat->by_record && strcmp(seat->named.text, place) == 0) ||
        !node_address_from_seat(place, seat->configured, &named) ||
        node_address_same(&named, seat->configured) ||
        (node_address_seat_is_private(place) && !here))
        return false;
    seat->named = named;
    seat->by_record = true;
    return true;
}
