/* What people may know of the fleet's record and of what each node says of it.
 *
 * Who writes: the broker thread, after each change. Who reads: any thread, for `holdfast fleet`, a copy under
 * the mutex, which is held for the copy only.
 */
#ifndef HOLDFAST_AGENT_STATE_FLEET_SHOWN_H
#define HOLDFAST_AGENT_STATE_FLEET_SHOWN_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/thread.h"
#include "agent/core/fleet_record.h"

enum fleet_word {
    FLEET_WORD_UNKNOWN,  /* it has not answered */
    FLEET_WORD_NONE,     /* it has no record */
    FLEET_WORD_OURS,     /* the record by which this agent goes */
    FLEET_WORD_FOUNDING, /* the record of a fleet that is being founded */
    FLEET_WORD_EARLIER,  /* of this fleet, what it went by before */
    /* Of this fleet, a change by which this agent does not go yet, or not any more. */
    FLEET_WORD_CHANGING,
    FLEET_WORD_LATER,      /* of this fleet, a complete one by which this agent does not go yet */
    FLEET_WORD_FOREIGN,    /* the record of another fleet */
    FLEET_WORD_UNREADABLE, /* a record of a later format, or no record at all */
};

struct fleet_shown_node {
    char id[HF_NODE_TEXT_MAX + 1];
    char seat[HF_NODE_TEXT_MAX + 1]; /* by the record; "": none is known */
    /* By this host's configuration: its fleet_address=SEAT, or its address. */
    char configured[HF_NODE_TEXT_MAX + 1];
    /* By which this host reaches it where fleet_address=SEAT is configured; else "". */
    char link[HF_NODE_TEXT_MAX + 1];
    char peer[HF_NODE_TEXT_MAX + 1]; /* where this agent is connected; "": nowhere */
    char misplaced[512]; /* its address is wrong in this host's configuration, and how; "" */
    enum fleet_word word;
    bool counts;   /* its answers count: it is at its seat, and has our record */
    bool mute;     /* it gives no votes yet */
    hf_time votes; /* of one that is mute: since when it does; HF_TIME_NEVER: not known */
};

struct fleet_shown {
    bool known; /* there is a record by which this agent goes */
    struct fleet_record record;
    hf_time settles; /* when a complete one settles, or has; HF_TIME_PAST: it has */
    char digest[FLEET_DIGEST_LEN + 1];
    /* for people, as the node says that was read; "" and 0: not known */
    char by_host[64];
    uint32_t by_uid;
    int64_t since_wall_ms;
    int count; /* of this host's configuration */
    struct fleet_shown_node node[HF_NODES_MAX];
    uint64_t told_version;   /* a later one, told by servers that are no seats of ours; 0: none */
    int64_t file_ttl_max_ms; /* by this host's configuration file */
    char waits[FLEET_WAITS_SIZE]; /* what is waited for, and the remedy; "" nothing */
    char differs[256];            /* why this host may not take locks; "" */
};

struct fleet_board {
    struct mutex mutex;
    /* Under mutex; clang 14 takes no GUARDED_BY on a sibling member in C. */
    struct fleet_shown shown;
};

/* Whether the configuration has surely another address than the seat: of a name only the port is known. */
bool fleet_shown_elsewhere(const struct fleet_shown_node *node);

void fleet_board_init(struct fleet_board *board);
void fleet_board_fini(struct fleet_board *board);
void fleet_board_show(struct fleet_board *board, const struct fleet_shown *shown);
void fleet_board_look(struct fleet_board *board, struct fleet_shown *ret_shown);

#endif
