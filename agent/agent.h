/* The agent as a whole: what its threads share. Main makes it before the threads start.
 * Threads only read it, except for parts that have their own rules. agent/main.c shows
 * start and end in order. */
#ifndef HOLDFAST_AGENT_AGENT_H
#define HOLDFAST_AGENT_AGENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/config/config.h"
#include "agent/state/fleet_shown.h"
#include "agent/state/journal.h"
#include "agent/state/lease.h"
#include "agent/state/mailbox.h"
#include "agent/state/node_records.h"
#include "shm/table_notes.h"
#include "agent/core/share.h"
#include "shm/table.h"

struct broker;
struct renewal;

/* Who asked the holder of that lease to stop. */
struct asked {
    uint32_t slot, generation;
    struct asker by;
};

struct agent {
    /* As at the start, for what a reload cannot change; any thread. The rooms of the broker and the renewal
     * thread have pointers of their own to the one in force (agent/state/mailbox.h). */
    const struct config *config;
    struct hf_table table; /* each slot and row has one writing thread at a time */
    char shm_name[HF_TABLE_NAME_MAX];
    char socket_path[600];
    _Atomic uint64_t event_number; /* of the last event */
    struct asked asked[64];        /* the renewal thread's: the last ones, from asked_next on */
    unsigned asked_next;
    /* Of the history (agent/state/events.c): of nodes, the broker's; of losses, the renewal thread's. */
    struct shares node_shares, loss_shares;
    struct journal *journal;
    struct node_records *node_records;
    /* Per node: identifies the nonce of the broker's trace after a clock step. The renewal thread, whose
     * connection may show that nonce first, takes it for no change. */
    _Atomic uint64_t trace[HF_NODES_MAX];
    struct lease_table *leases;
    struct hf_drained drained;  /* the broker's, once it runs; others look into the table */
    char drain_path[600];       /* its record; "": none is kept */
    char fleet_path[600];       /* of the record by which it goes; "": none is kept */
    struct fleet_record *fleet; /* by which an earlier agent went; NULL: none */
    hf_time fleet_settles; /* when it has settled, HF_TIME_PAST: it has (fleet_record_settles()) */
    char fleet_by[96];     /* who put it; "" not known */
    bool fleet_here;       /* this host founded it */
    hf_time started;       /* the process: it may start again by another record of the fleet */
    hf_time fleet_from;    /* since when this host goes by it */
    /* node_known_shown() of the run before, or as the broker leaves this one; HF_TIME_PAST: not known. */
    hf_time fleet_shown;
    _Atomic bool again; /* the agent is to start again, by the record in DIR/fleet */
    _Atomic bool stays; /* main, before MSG_GO_AWAY: this process does start again */
    int listener; /* the attach socket, from one start to the next: who connects meanwhile waits; 0: none */
    bool warm;      /* table and journal are from an earlier agent of this boot */
    bool readopted; /* the journal's leases are readopted or being released */
    struct boot_clock clock;
    uint64_t timens_inode, pidns_inode;
    char host[64];
    struct broker *broker;
    struct renewal *renewal;
    struct mailbox to_broker, to_renewal;
    struct fleet_board fleet_board; /* for people: what the broker knows of the fleet's record */
};

/* enum trust_allowed bits. */
static inline unsigned agent_allowed(const struct config *config)
{
    return (config->allow_eviction ? TRUST_ALLOW_EVICTION : 0) |
           (config->allow_replicas ? TRUST_ALLOW_REPLICAS : 0);
}

/* The part of a nonce that tells it from others; never 0. */
static inline uint64_t agent_trace_word(const char *nonce)
{
    char half[17] = "";

    memcpy(half, nonce, strnlen(nonce, sizeof(half) - 1));
    return strtoull(half, NULL, 16) | 1;
}

#endif
