/* What a round has shown, node by node: why it was not won, for its waiters, when it is decided or later. */
#ifndef HOLDFAST_AGENT_BROKER_LOCKS_ROUND_WORDS_H
#define HOLDFAST_AGENT_BROKER_LOCKS_ROUND_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/thread.h"
#include "shm/layout.h"

struct link_reply;
struct nodes;
struct round;

enum round_why {
    WHY_UNKNOWN = 0, /* no round was decided */
    WHY_VOTED,
    WHY_UNASKED, /* it may not vote */
    WHY_SILENT,
    WHY_STALE,
    WHY_RECORD, /* its sentinel or its record differs */
    WHY_GONE,
    WHY_TAKEN,
    WHY_FENCE, /* beyond belief */
    WHY_ERROR,
    WHY_BROKEN,
    WHY_TRUST, /* it may not vote any more */
};

/* What became of each node's vote. */
struct round_whys {
    uint8_t node[HF_NODES_MAX]; /* enum round_why */
    bool late;                  /* enough voted, but too late */
};

/* As it stands now. */
struct round_whys round_whys(const struct round *round);
/* "too few nodes agreed in time: ...". False: no round was decided, and nothing is written. */
bool round_explain(const struct nodes *nodes, const struct round_whys *whys, char *ret_text,
                   size_t size) IN_BROKER_THREAD;
/* Tells of a fence that is not believed, and when it is gone. */
void round_note_fence(const struct round *round, int node,
                      const struct link_reply *reply) IN_BROKER_THREAD;

#endif
