/* Follows a change of the fleet that has been asked for, by what the agent tells of its fleet's record, until the new version is
 * complete and has settled. The agent starts again by itself meanwhile: it is away for a moment. One thread. */
#ifndef HOLDFAST_TOOLS_ASK_FLEET_FOLLOW_H
#define HOLDFAST_TOOLS_ASK_FLEET_FOLLOW_H

#include "shm/nstime.h"
#include "tools/reader/fleet_told.h"
#include "tools/reader/places.h"

enum fleet_verb {
    FLEET_MOVE,
    FLEET_ADD,
    FLEET_REMOVE,
    FLEET_TTL_MAX,
    FLEET_RESUME,
    FLEET_ABORT,
    FLEET_CONFIRM,
};

struct fleet_follow {
    enum fleet_verb verb;
    char id[HF_NODE_TEXT_MAX + 1], seat[HF_NODE_TEXT_MAX + 1]; /* "": none */
    uint64_t ttl_max_ms;
    uint64_t version; /* that comes, or that is resumed or confirmed */
    int back_count;   /* FLEET_ABORT: the members that the fleet gets back */
    struct fleet_told_seat back[HF_NODES_MAX];
    bool no_wait;
    int64_t timeout_ms; /* -1: none */
};

/* Prints what is waited for. An exit code, after a message if it is not EXIT_OK. */
int fleet_follow(const struct fleet_follow *follow, const struct place *place);

#endif
