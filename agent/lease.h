/* One lease as the agent keeps it, and the table of all of them.
 *
 * Who writes: the broker makes it and fills it; after MSG_GRANTED the renewal thread owns `fsm` and
 * what is below it; after MSG_ENDED the broker owns all again, takes it out of the table and frees
 * it after a grace period. One that is handed over to another process is over for its old holder: a
 * new struct lease with the same token and the next generation takes its place (agent/handoff.h). Who reads: any registered liburcu thread may find or walk leases inside
 * a read section and look at the part that never changes and at the atomics. The slot in shared
 * memory and the journal record have the same owner as `fsm`.
 */
#ifndef HOLDFAST_AGENT_LEASE_H
#define HOLDFAST_AGENT_LEASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define URCU_API_MAP
#include <urcu/urcu-memb.h>
#include <urcu/rculfhash.h>

#include "agent/core/backoff.h"
#include "agent/core/heap.h"
#include "agent/core/heartbeat.h"
#include "agent/core/lease_fsm.h"
#include "shm/layout.h"

#define TOKEN_LEN 40 /* hex characters */

struct beats;

struct lease_node {       /* the renewal thread's view of one node's vote */
    struct heap_item due; /* next renewal or heal of this node */
    bool in_flight;       /* a renew or heal is unanswered: no second one in parallel */
    bool heal;            /* what is due is a heal */
    bool told;            /* the node told of a change since the last command was sent */
    bool hurried;         /* because of that the last command was sent */
    struct backoff retry;
};

struct lease {
    /* never changes once it is in the table */
    struct cds_lfht_node table_node;
    struct rcu_head rcu;
    struct lease *removed; /* out of the table: the one removed before it */
    uint32_t slot, generation;
    uint32_t ttl_ms, pid, uid;
    uint64_t client_id;
    uint64_t request_id; /* the client's number of the acquire */
    uint64_t fence;      /* whole; 48-bit part << 16 | how often its token was handed over */
    hf_time since;
    hf_time won;       /* when its token was: `since` of the first holder */
    hf_time token_end; /* max_hold of the token; HF_TIME_NEVER */
    hf_wall since_wall;
    bool run, guarded; /* guarded: a run that has no job before a guardian has joined */
    uint32_t heartbeat_ms, beat_word; /* 0: none; the word of its holder's page */
    uint8_t note_len, comm_len;
    uint32_t text_off;
    char token[TOKEN_LEN + 1];
    char note[HF_NOTE_MAX + 1];
    char comm[HF_COMM_MAX + 1];
    size_t name_len, key_len;
    uint8_t *name, *key; /* in the same allocation; key: as formatted for the nodes */

    /* shared: written by the owner, read by anyone */
    _Atomic int64_t valid_ns;
    _Atomic uint32_t state; /* enum hf_slot_state */

    /* owned by the renewal thread between MSG_GRANTED and MSG_ENDED */
    struct lease_fsm fsm;
    struct heap_item timer; /* lease_fsm_next() */
    struct lease_node node[HF_NODES_MAX];
    void *release;        /* the release under way */
    uint32_t undescribed; /* bit per node: its record names an earlier holder of the token */
    int blamed;           /* the node whose voided vote made it LOSING or LOST; -1 none */
    bool job_stopped, job_killed; /* a guardian said so */
    struct heartbeat beat;
    struct beats *beats; /* where its holder beats, a reference; NULL: not known (yet) */

    /* owned by the broker */
    void *resource;
    bool ending;         /* a release or abandon was already posted */
    uint32_t unanswered; /* bit per node: its acquire had no answer yet */
};

struct lease *lease_new(const void *name, size_t name_len, const void *key, size_t key_len);
void lease_free(struct lease *lease); /* at once: only for one that never was in a table */

/* --- the table, name -> lease: liburcu's lock-free hash ------------------------------------------
 * Callers are registered with liburcu (rcu_register_thread). */
struct lease_table;
int lease_table_create(uint32_t capacity, struct lease_table **ret_table);
/* Frees every lease in it; no reader may be left. */
void lease_table_destroy(struct lease_table *table);

/* Broker only. A name is in the table once. */
void lease_table_add(struct lease_table *table, struct lease *lease);
/* Takes it out; it is freed after a grace period, which begins with the next lease_table_tidy() or
 * when some have gathered: each beginning may wake a thread. */
void lease_table_remove(struct lease_table *table, struct lease *lease);
void lease_table_tidy(struct lease_table *table);

/* Inside a read section (lease_read_begin/end), which must be short and must not block. */
void lease_read_begin(void);
void lease_read_end(void);
struct lease *lease_table_find(struct lease_table *table, const void *name, size_t name_len);
/* Calls fn for every lease, in read sections of bounded length; fn must not
 * block. Returns how many. */
size_t lease_table_walk(struct lease_table *table, void (*fn)(const struct lease *lease, void *arg),
                        void *arg);

#endif
