#include "agent/record/fleet_shown.h"

#include <string.h>

void fleet_board_init(struct fleet_board *board)
{
    mutex_init(&board->mutex);
    memset(&board->shown, 0, sizeof(board->shown));
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
