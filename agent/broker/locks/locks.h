/* The locks of this host: names, their waiters, rounds on the nodes, and leases before they are adopted and after
 * their end. Belongs to the broker's thread, but for locks_create() and locks_destroy(). */
#ifndef HOLDFAST_AGENT_BROKER_LOCKS_LOCKS_H
#define HOLDFAST_AGENT_BROKER_LOCKS_LOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/agent.h"
#include "agent/base/log.h"
#include "agent/base/loop.h"
#include "agent/base/thread.h"
#include "agent/base/token.h"
#include "agent/core/containers.h"
#include "agent/core/share.h"
#include "agent/redis/key_deleter.h"
#include "shm/layout.h"

struct client;
struct clients;
struct later;
struct nodes;
struct old_text;
struct name;
struct name_state;
struct round;
struct session;
struct short_hold;
struct waiter;
struct wakeups;

/* Which waiters stand in the table for people to see (shm/waiters.h): the oldest, as many as it has rows for. */

#define SHOWN_WAITERS_NONE UINT32_MAX /* no row */

struct shown_waiters {
    uint32_t free[HF_WAITERS_SHOWN], free_count;
    uint64_t number;                    /* of the last one */
    TAILQ_HEAD(, waiter) without_a_row; /* the oldest first */
};

/* Tells rooms above what happens to leases. Called in the broker's thread. */
struct locks_owner {
    /* The state of a lease of this client changed. */
    void (*lease_changed)(void *arg, struct client *c);
    /* A lease of this client is over. */
    void (*lease_over)(void *arg, struct client *c);
    /* A lease of this host is over, and its name may be free. */
    void (*name_over)(void *arg, const void *name, size_t name_len);
    void *arg;
};

TAILQ_HEAD(name_queue, name);

/* Treat as private to this room. */
struct locks {
    struct agent *agent;
    const struct config *config;
    struct loop *loop;
    struct key_deleter *key_deleter;
    struct nodes *nodes;
    struct clients *clients;
    struct locks_owner owner;
    hf_time started;
    int n, q;
    bool going, closing;
    bool again; /* going, to start again: clients are not told */
    struct token_pool tokens;

    /* names */
    struct chains names;  /* slots by the hash of their name */
    uint8_t hash_key[16]; /* of `names` */
    struct log_limit index_full;
    struct name **by_slot;
    struct name_state *no_state; /* of all names for which nothing goes on; never written */
    uint32_t *generations;
    uint32_t slots_used; /* slots below it were ever used */
    uint32_t next_slot;  /* slots below it are in use, at rest, or retired */
    bool no_memory;      /* for the slot that was asked for last */
    struct name_queue idle, stalled;
    TAILQ_HEAD(, name_state) touched; /* by agent/broker/locks/locks_internal.h */
    void (*on_retry)(struct loop_timer *timer, hf_time now); /* of each name's state */
    struct hf_text_pool *text;
    struct old_text *old_texts; /* per slot, within readopt() */
    unsigned waiter_count, handoff_count;
    TAILQ_HEAD(waiters_by_age, waiter) waiters_by_age; /* the oldest first */
    struct shown_waiters shown_waiters;
    struct loop_timer stalled_timer;

    LIST_HEAD(, round) rounds;
    unsigned round_count;
    LIST_HEAD(, later) laters;
    struct wakeups *wakeups;
    struct turns turns; /* of users, for queries and rounds by time */
    TAILQ_HEAD(short_hold_list, short_hold) short_holds; /* by grant */
    struct short_hold_list short_holds_free;             /* to be used again */
    struct loop_timer short_holds_timer;
};

/* Without any lease: readopt() finds those of an earlier agent. `hash_key` is secret: with names that hash alike a
 * client could slow the agent down. HF_ENOMEM. */
int locks_create(struct agent *agent, struct loop *loop, struct nodes *nodes,
                 struct clients *clients, const uint8_t hash_key[16],
                 const struct locks_owner *owner, struct locks **ret_locks);
/* A reload, after clients_configure(): requests from now on go by it, and those that wait by its rules. */
void locks_configure(struct locks *locks, const struct config *config) IN_BROKER_THREAD;
/* The agent ends: waiters are answered and rounds undone; an ephemeral agent ends its leases, too. When it starts `again`,
 * waiters are not answered: their clients ask again, as after a kill. */
void locks_go_away(struct locks *locks, bool again) IN_BROKER_THREAD;
/* Whether rounds or hand-offs are under way. */
bool locks_busy(const struct locks *locks) IN_BROKER_THREAD;
/* The links are about to end: nothing new begins. */
void locks_close(struct locks *locks);
void locks_destroy(struct locks *locks); /* after nodes_end(); NULL is fine */

#endif
