/* What `drain` and `undrain` say of a host: the leases that are still held, and the drain itself. */
#ifndef HOLDFAST_TOOLS_CONTROL_CONTROL_INTERNAL_H
#define HOLDFAST_TOOLS_CONTROL_CONTROL_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "libclient/holdfast_admin.h"
#include "shm/nstime.h"
#include "shm/slot.h"
#include "tools/common/text.h"
#include "tools/reader/fleet_told.h"
#include "tools/reader/places.h"
#include "tools/reader/reader_args.h"

#define DRAIN_KEPT 10 /* leases of which more is told than that they are there */

/* The leases in force, at one look. */
struct drain_held {
    uint32_t count;
    uint32_t kept; /* the first of them */
    struct hf_slot_view view[DRAIN_KEPT];
};

/* "3 locks are still held" */
#define DRAIN_COUNT_SIZE 64
/* "a, b, c and 7 more" */
#define DRAIN_NAMES_SIZE (DRAIN_KEPT * (TEXT_NAME_SIZE + 2) + 32)
/* " since 2026-03-01T12:00:00Z (3m12s) by user root (pid 4121)"; "" if it is not known. `now_wall_ms`: Unix time. */
#define DRAIN_BY_SIZE 512

/* Follows a change of the fleet that has been asked for, by what the agent tells of its fleet's record, until the new version is
 * complete and has settled. The agent starts again by itself meanwhile: it is away for a moment. One thread. */

enum fleet_verb {
    FLEET_MOVE,
    FLEET_ADD,
    FLEET_REMOVE,
    FLEET_TTL_MAX,
    FLEET_MARK_DEAD,
    FLEET_ABORT,
    FLEET_CONFIRM,
};

struct fleet_follow {
    enum fleet_verb verb;
    char id[HF_NODE_TEXT_MAX + 1], seat[HF_NODE_TEXT_MAX + 1]; /* "": none */
    uint64_t ttl_max_ms;
    uint64_t version; /* that comes, or in which a server is marked, or that is confirmed */
    int back_count;   /* FLEET_ABORT: the members that the fleet gets back */
    struct fleet_told_seat back[HF_NODES_MAX];
    bool no_wait;
    int64_t timeout_ms; /* -1: none */
};

/* Prints what is waited for. An exit code, after a message if it is not EXIT_OK. */
int fleet_follow(const struct fleet_follow *follow, const struct place *place);

/* What stands behind `holdfast fleet move` and its like: an id, an address or a time, judged before the agent is asked. */

/* Of the fleet's ttl_max, as agents take it. */
#define FLEET_TTL_LEAST_MS 500
#define FLEET_TTL_MOST_MS  86400000

/* Forcing out a hold in two steps: show the hold and the command to type; then end exactly that hold. */

#endif
