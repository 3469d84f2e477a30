/* The processes that are attached, or were attached to an earlier agent. Rooms above link their own things to a client
 * (its leases, its job's group) and to a session (its waiters, queries and listings). Belongs to the broker's thread. */
#ifndef HOLDFAST_AGENT_BROKER_CLIENTS_CLIENTS_H
#define HOLDFAST_AGENT_BROKER_CLIENTS_CLIENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/agent.h"
#include "agent/base/log_limit.h"
#include "agent/base/loop.h"
#include "agent/base/thread_role.h"
#include "shm/wire.h"

struct ended;
struct group;
struct kept;
struct resource;
struct session;
struct user;

/* One process that was welcomed. It may have a second session: the other guardian of a run. */
struct client {
    LIST_ENTRY(client) all;
    uint64_t id;
    uint64_t cookie_hash;
    uint32_t pid, uid;
    uint64_t start_time;
    char comm[HF_COMM_MAX + 1];
    bool joined;       /* a guardian came: there may be a job */
    bool over;         /* it ended before a guardian came: none may come any more */
    bool ghost;        /* read from the journal, not attached yet */
    unsigned handoffs; /* hand-offs of a lease to it that are under way */
    int ghost_pidfd;   /* watches a ghost's process; -1: none, each sweep looks for it */
    struct loop_fd ghost_watch;
    struct user *user;
    struct group *group;        /* its job's; NULL */
    LIST_HEAD(, resource) held; /* leases, until MSG_ENDED */
    unsigned held_count;
    LIST_HEAD(, ended) ended; /* leases that an earlier agent was releasing for it */
    LIST_HEAD(, session) sessions;
    struct clients *clients;
};

/* How rooms above deal with what clients send. Called in the broker's thread. */
struct clients_owner {
    /* A request, copied out of the ring, with a place for its answer reserved. The request may free the
     * session. */
    void (*request)(void *arg, struct session *s, const struct hf_request_entry *q);
    /* A datagram after the hello: true if it is an allowed one, which has been dealt with. */
    bool (*datagram)(void *arg, struct session *s);
    /* A session of a client ends. */
    void (*session_gone)(void *arg, struct session *s);
    /* A client's last session ended, or a ghost's process did. */
    void (*client_gone)(void *arg, struct client *c);
    /* A client that nobody needs any more is about to be freed. */
    void (*client_over)(void *arg, struct client *c);
    /* A holder came back with this session: its beats come in this session's page now. */
    void (*rebound)(void *arg, struct session *s);
    void *arg;
};

struct clients {
    struct agent *agent;
    const struct config *config;
    struct loop *loop;
    struct clients_owner owner;
    struct loop_fd listener, doorbells;
    int doorbell_epoll;
    bool deaf;  /* no descriptors were left for the last that wanted to attach */
    bool going; /* no client is welcomed any more */
    struct log_limit cut_offs, no_fds, denials;
    struct loop_timer sweep;
    LIST_HEAD(, client) all;
    LIST_HEAD(, session) sessions;
    LIST_HEAD(, user) users;
    TAILQ_HEAD(, session) active, woken;
    unsigned session_count, active_count;
    TAILQ_HEAD(, kept) kept; /* memory of ended sessions that their clients keep */
    unsigned kept_count;
    bool tells_kept;    /* the kernel tells when a client closes it */
    bool in_vain;       /* this turn only looked for requests, and found none */
    unsigned unwatched; /* ghosts without a watch */
    uint64_t next_client_id;
    unsigned rules_read; /* how often */
};

/* Without sessions: sessions_create() makes both. HF_ENOMEM. */
int clients_create(struct agent *agent, struct loop *loop, const struct clients_owner *owner,
                   struct clients **ret_clients);
/* A reload: who is attached already stays. */
void clients_configure(struct clients *clients, const struct config *config) IN_BROKER_THREAD;
/* After sessions_destroy(): frees every client. */
void clients_end(struct clients *clients);
void clients_destroy(struct clients *clients); /* NULL is fine */
struct client *client_new(struct clients *clients) IN_BROKER_THREAD;
/* For a client read from the journal; HF_ELOST when that process is gone. (!) A process that cannot
 * be looked at (no descriptors) counts as alive: its lease is valid, and only its holder or its V
 * may end it. Every sweep looks at it again. */
int client_ghost(struct clients *clients, uint32_t pid, uint64_t start_time, uint32_t uid,
                 uint64_t cookie_hash, const char *comm,
                 struct client **ret_client) IN_BROKER_THREAD;
void client_ghost_end(struct client *c) IN_BROKER_THREAD;
/* Whether client_ghost() would take the process for alive. Any thread. */
bool client_lives(uint32_t pid, uint64_t start_time);
/* Looks whether ghosts without a watch can be watched now, or are gone. */
void clients_sweep(struct clients *clients) IN_BROKER_THREAD;
/* Frees the client if it has no session and no lease, and is no ghost. */
void client_settle(struct client *c) IN_BROKER_THREAD;
uint64_t cookie_hash(const uint8_t cookie[HF_COOKIE_LEN]);

#endif
