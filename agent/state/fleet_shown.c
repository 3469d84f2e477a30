#include "agent/state/fleet_shown.h"

#include <stdio.h>
#include <string.h>

#include "agent/base/address.h"
#include "shm/status.h"

void fleet_board_init(struct fleet_board *board)
{
    mutex_init(&board->mutex);
    mutex_lock(&board->mutex);
    memset(&board->shown, 0, sizeof(board->shown));
    mutex_unlock(&board->mutex);
}

void fleet_board_fini(struct fleet_board *board)
{
    mutex_fini(&board->mutex);
}

void fleet_board_show(struct fleet_board *board, const struct fleet_shown *shown)
{
    mutex_lock(&board->mutex);
    board->shown = *shown;
    mutex_unlock(&board->mutex);
}

void fleet_board_look(struct fleet_board *board, struct fleet_shown *ret_shown)
{
    mutex_lock(&board->mutex);
    *ret_shown = board->shown;
    mutex_unlock(&board->mutex);
}

/* Of a number or a path: the seat that it is. */
static bool fleet_shown_seat_of(const struct node_address *address,
                                char ret_seat[HF_NODE_TEXT_MAX + 1])
{
    char text[HF_NODE_TEXT_MAX + 16];

    if (address->unix_socket)
        return node_address_seat_read(address->host, ret_seat);
    snprintf(text, sizeof(text), strchr(address->host, ':') ? "[%s]:%u" : "%s:%u", address->host,
             address->port);
    return node_address_seat_read(text, ret_seat);
}

bool fleet_shown_elsewhere(const struct fleet_shown_node *node)
{
    struct node_address seat, own;
    char why[256], own_seat[HF_NODE_TEXT_MAX + 1];

    if (!*node->seat || !*node->configured ||
        node_address_parse(node->configured, &own, why, sizeof(why)) < 0)
        return false;
    if (own.unix_socket || own.numeric)
        return fleet_shown_seat_of(&own, own_seat) && strcmp(own_seat, node->seat) != 0;
    return node_address_parse(node->seat, &seat, why, sizeof(why)) == HF_OK &&
           (seat.unix_socket || seat.port != own.port);
}
