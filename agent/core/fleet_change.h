/* How a fleet changes while locks are held: a member moves, members join or leave, ttl_max is another one. Pure.
 * docs/SAFETY.md, "A fleet that changes", has the argument; tests/model/moves.c searches it.
 *
 * (!) Rules, each with a test:
 *  - One change at a time: the next one begins only from a complete record that has settled. The way back from one that is under
 *    way is a change, too: its stayers are the same, and count the same.
 *  - It begins on the first member of the version before that is not gone, by compare-and-set; the way back on the first
 *    one that stays, which must still have the change on its way. The way back itself is not given up: that would be the change again.
 *  - It is over when all members of the version before that are not gone had the changing record at one instant: each
 *    is asked once more after the last of them was seen with it.
 *  - Those that stay are a majority of both lists.
 *  - Fewer than a majority of the members before are said to be gone: each majority of them has one that was told.
 */
#ifndef HOLDFAST_AGENT_CORE_FLEET_CHANGE_H
#define HOLDFAST_AGENT_CORE_FLEET_CHANGE_H

#include "agent/core/fleet.h"

enum fleet_wish_kind {
    FLEET_WISH_MOVE,    /* `id` to `seat` */
    FLEET_WISH_ADD,     /* `id` at `seat`, as the last one */
    FLEET_WISH_REMOVE,  /* `id` */
    FLEET_WISH_TTL_MAX, /* ttl_max_ms */
    FLEET_WISH_GONE,  /* the server of `id` before a change that is under way is stopped for good */
    FLEET_WISH_ABORT, /* back to the members and the ttl_max before a change that is under way */
    /* Every node has forgotten the record: those that answer are the fleet's, and no host goes by a later record. */
    FLEET_WISH_CONFIRM,
};

struct fleet_wish {
    enum fleet_wish_kind kind;
    char id[HF_NODE_TEXT_MAX + 1], seat[HF_NODE_TEXT_MAX + 1];
    /* By the operator's word the server that leaves is stopped for good; FLEET_WISH_ABORT: the one that came. */
    bool gone;
    int64_t ttl_max_ms;
    uint32_t uid; /* who asks, for people */
};

/* What is put is in fleet->wish, until that is taken, another record is gone by, or `most` has passed. Else HF_EBUSY: not now, or
 * HF_EINVAL: not so; `why` says the remedy. */
int fleet_change_begin(struct fleet *fleet, const struct fleet_wish *wish, hf_time now, hf_dur most,
                       char *why, size_t size);
/* Whether the changing record that is gone by may become complete. */
bool fleet_change_is_over(const struct fleet *fleet);
/* As fleet_awaits(). */
uint32_t fleet_change_awaits(const struct fleet *fleet);
/* What the change waits for, with the remedy; "" nothing. */
void fleet_change_waits(const struct fleet *fleet, hf_time now, char *ret_text, size_t size);

/* --- for its files (agent/core/fleet_change_words.c) -------------------------------------------- */

/* The node that has to take such a record before any other does. */
int fleet_change_first(const struct fleet *fleet, const struct fleet_record *wish);
/* It is not connected to its seat, and this agent had the time to. */
bool fleet_change_is_away(const struct fleet *fleet, int node, hf_time now);
/* It cannot be given up any more. */
void fleet_change_say_complete(const struct fleet *fleet, hf_time now, char *why, size_t size);
/* The way back is under way already. */
void fleet_change_say_way_back(const struct fleet *fleet, char *why, size_t size);
/* The next change has to wait. */
void fleet_change_say_unsettled(const struct fleet *fleet, hf_time now, char *why, size_t size);
/* (!) A node that does not count now is no server to be stopped, while another operator's change begins or a link is made. */
bool fleet_change_is_early(const struct fleet *f, int i, hf_time now, char *why, size_t size);
/* Of a node that leaves, answers, and cannot be told so. */
void fleet_change_say_untold(const struct fleet *fleet, int node, char *why, size_t size);
/* Of a member that is to be left out as gone. */
void fleet_change_say_answers(const struct fleet_seat *seat, char *why, size_t size);
/* Of a node that does not answer, for the change `record`. */
void fleet_change_say_down(const struct fleet *fleet, const struct fleet_record *record, int node,
                           char *why, size_t size);
/* Whether this host has the key formats of the fleet; else `why` it may not ask. */
bool fleet_change_has_keys(const struct fleet *fleet, char *why, size_t size);

#endif
