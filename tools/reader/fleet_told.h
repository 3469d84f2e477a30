/* What an agent tells of its fleet's record: asked for over its control socket, and read from the form of
 * agent/process/fleet_wishes.h. Texts are as on the nodes, unescaped. */
#ifndef HOLDFAST_TOOLS_READER_FLEET_TOLD_H
#define HOLDFAST_TOOLS_READER_FLEET_TOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/layout.h"
#include "tools/reader/places.h"

#define TOLD_WORD_SIZE    16
#define TOLD_NAME_SHOWN   8 /* of a fleet's name, for people */
#define TOLD_TEXT_SIZE    512
#define TOLD_ANSWER_BYTES 65536 /* more than nine nodes and two lists of members need */

struct fleet_told_seat {
    char id[HF_NODE_TEXT_MAX + 1], address[HF_NODE_TEXT_MAX + 1];
    bool gone; /* of `before`: by the operator's word its server is stopped for good */
};

struct fleet_told_node {
    char id[HF_NODE_TEXT_MAX + 1];
    char says[TOLD_WORD_SIZE];
    bool counts;          /* its answers count */
    bool mute;            /* it gives no votes yet */
    uint64_t votes_in_ms; /* of one that is mute; 0: nobody knows */
    bool elsewhere;       /* this host's configuration has another address than its seat */
    char seat[HF_NODE_TEXT_MAX + 1], configured[HF_NODE_TEXT_MAX + 1],
        connected[HF_NODE_TEXT_MAX + 1]; /* "": none */
    char link[HF_NODE_TEXT_MAX +
              1]; /* of a node with fleet_address=SEAT: by which this host reaches it; "" */
};

struct fleet_told {
    bool known; /* the agent goes by a record; otherwise all up to `by_host` is empty */
    char name[41], digest[TOLD_WORD_SIZE], state[TOLD_WORD_SIZE];
    uint64_t version, ttl_max_ms;
    uint64_t file_ttl_max_ms; /* by this host's configuration file; 0: an earlier agent's answer */
    uint64_t
        told_version; /* a later one, which servers tell that are no seats of this one; 0: none */
    uint64_t settles_ms; /* 0: it has settled, or is not complete */
    int seat_count, before_count;
    struct fleet_told_seat seat[HF_NODES_MAX], before[HF_NODES_MAX];
    uint64_t since_wall_ms; /* 0: since when and by whom is not known */
    uint64_t by_uid;
    char by_host[64];
    int count;
    struct fleet_told_node node[HF_NODES_MAX];
    int misplaced_count; /* what is wrong with addresses in this host's configuration file */
    char misplaced[HF_NODES_MAX][TOLD_TEXT_SIZE];
    char waits[TOLD_TEXT_SIZE], differs[TOLD_TEXT_SIZE]; /* "": nothing */
};

/* Reads an answer, which is spoilt. HF_OK; HF_EVERSION: a later form; HF_EINVAL: no such answer, or not all of it. */
int fleet_told_read(char *answer, struct fleet_told *ret_told);

/* Asks the agent; see control_ask(). A sentence in `why` for whatever is not EXIT_OK; EXIT_UNAVAILABLE also for an agent
 * of an earlier or later version. */
int fleet_told_ask(const char *agent, struct place *ret_place, struct fleet_told *ret_told,
                   char *why, size_t why_size);
int fleet_told_ask_at(const struct place *place, struct fleet_told *ret_told, char *why,
                      size_t why_size);

/* The agent goes by a complete record, may take locks, and has each node at its place. */
bool fleet_told_well(const struct fleet_told *told);

/* It changes, or has not settled: only members of both lists count. */
bool fleet_told_narrow(const struct fleet_told *told);
/* Whether the list has a member of that id and address. */
bool fleet_told_has(const struct fleet_told_seat *seats, int count,
                    const struct fleet_told_seat *seat);
/* How many nodes are needed. */
int fleet_told_quorum(const struct fleet_told *told);

/* Whether this host's configuration has a node of that id. */
bool fleet_told_lists(const struct fleet_told *told, const char *id);

/* "b is at 10.0.0.7:6379 for this fleet, this host's configuration says 10.0.0.9:6379", escaped. Returns `out`. */
const char *fleet_told_elsewhere(char *out, size_t size, const struct fleet_told_node *node);

#endif
