/* How a fleet changes while locks are held: a member moves, members join or leave, ttl_max is another one. Pure.
 * docs/SAFETY.md, "A fleet that changes", has the argument; tests/model/moves.c searches it.
 *
 * (!) Rules, each with a test:
 *  - One change at a time: the next one begins only from a complete record that has settled.
 *  - It begins on the first member of the version before that is not gone, by compare-and-set.
 *  - It is over when all members of the version before that are not gone had the changing record at one instant: each
 *    is asked once more after the last of them was seen with it.
 *  - Those that stay are a majority of both lists.
 */
#ifndef HOLDFAST_AGENT_CORE_FLEET_CHANGE_H
#define HOLDFAST_AGENT_CORE_FLEET_CHANGE_H

#include "agent/core/fleet.h"

enum fleet_wish_kind {
    FLEET_WISH_MOVE,    /* `id` to `seat` */
    FLEET_WISH_ADD,     /* `id` at `seat`, as the last one */
    FLEET_WISH_REMOVE,  /* `id` */
    FLEET_WISH_TTL_MAX, /* ttl_max_ms */
    FLEET_WISH_GONE, /* the server that leaves as `id`, in a change under way, is stopped for good */
};

struct fleet_wish {
    enum fleet_wish_kind kind;
    char id[HF_NODE_TEXT_MAX + 1], seat[HF_NODE_TEXT_MAX + 1];
    bool gone; /* by the operator's word the server that leaves is stopped for good */
    int64_t ttl_max_ms;
};

/* What is put is in fleet->wish, until that is taken, another record is gone by, or `most` has passed. Else HF_EBUSY: not now, or
 * HF_EINVAL: not so; `why` says the remedy. */
int fleet_change_begin(struct fleet *fleet, const struct fleet_wish *wish, hf_time now, hf_dur most,
                       char *why, size_t size);
/* Whether the changing record that is gone by may become complete. */
bool fleet_change_is_over(const struct fleet *fleet);
/* Makes it the complete one: the same bytes, whoever does it. */
void fleet_change_complete(struct fleet_record *record);
/* As fleet_awaits(). */
uint32_t fleet_change_awaits(const struct fleet *fleet);
/* What the change waits for, with the remedy; "" nothing. */
void fleet_change_waits(const struct fleet *fleet, hf_time now, char *ret_text, size_t size);

#endif
