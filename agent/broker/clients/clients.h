/* The processes that are attached, or were attached to an earlier agent. Rooms above link their own things to a client
 * (its leases, its job's group) and to a session (its waiters, queries and listings). Belongs to the broker's thread. */
#ifndef HOLDFAST_AGENT_BROKER_CLIENTS_CLIENTS_H
#define HOLDFAST_AGENT_BROKER_CLIENTS_CLIENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "agent/agent.h"
#include "agent/base/log.h"
#include "agent/base/loop.h"
#include "agent/base/thread.h"
#include "agent/core/rules.h"
#include "shm/wire.h"

struct pending_release;
struct group;
struct kept;
struct name;
struct session;
struct user;

/* One process that was welcomed. It may have a second session: the other guardian of a run. */
struct client {
    LIST_ENTRY(client) all;
    uint64_t id;
    uint64_t cookie_hash;
    uint32_t pid, uid;
    uint64_t birth; /* as in struct holder */
    char comm[HF_COMM_MAX + 1];
    bool shares;       /* one of its sessions is a guardian's, and two have one place */
    bool joined;       /* a guardian came: there may be a job */
    bool over;         /* it ended before a guardian came: none may come any more */
    bool ghost;        /* read from the journal, not attached yet */
    unsigned handoffs; /* hand-offs of a lease to it that are under way */
    int ghost_pidfd;   /* watches a ghost's process; -1: none, each sweep looks for it */
    struct loop_fd ghost_watch;
    struct user *user;
    struct group *group;    /* its job's; NULL */
    LIST_HEAD(, name) held; /* leases, until MSG_ENDED */
    unsigned held_count;
    /* Leases that an earlier agent was releasing for it. */
    LIST_HEAD(, pending_release) pending_releases;
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
    struct loop_fd listener;
    bool deaf;  /* no descriptors were left for the last that wanted to attach */
    bool going; /* no client is welcomed any more */
    struct log_limit cut_offs, no_fds, denials;
    struct loop_timer sweep;
    LIST_HEAD(, client) all;
    LIST_HEAD(, session) sessions;
    LIST_HEAD(, user) users;
    TAILQ_HEAD(session_queue, session) active, woken;
    struct session_queue tolled; /* to be woken once their users' share allows it */
    unsigned session_count, active_count;
    unsigned stranger_count; /* of the sessions: no hello yet */
    TAILQ_HEAD(, kept) kept; /* memory of ended sessions that their clients keep */
    unsigned kept_count;
    unsigned shared_count; /* of sessions, and of the kept: they take no place of their own */
    bool tells_kept;       /* the kernel tells when a client closes it */
    bool in_vain;          /* this turn only looked for requests, and found none */
    unsigned unwatched;    /* ghosts without a watch */
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
int client_ghost(struct clients *clients, uint32_t pid, uint64_t birth, uint32_t uid,
                 uint64_t cookie_hash, const char *comm,
                 struct client **ret_client) IN_BROKER_THREAD;
void client_ghost_end(struct client *c) IN_BROKER_THREAD;
/* Whether client_ghost() would take the process for alive. Any thread. */
bool client_lives(uint32_t pid, uint64_t birth);
/* Looks whether ghosts without a watch can be watched now, or are gone. */
void clients_sweep(struct clients *clients) IN_BROKER_THREAD;
/* Frees the client if it has no session and no lease, and is no ghost. */
void client_settle(struct client *c) IN_BROKER_THREAD;
uint64_t cookie_hash(const uint8_t cookie[HF_COOKIE_LEN]);

/* The memory that a session shares with its client. Its pages are the client's, by whom they were allocated. The kernel charges the
 * files themselves, their inodes and other objects of a few KiB, to the agent, and frees them when both have closed them: so an ended
 * session's place stays taken for as long as its client keeps the memory. */

struct hf_ring_agent;
struct kept;

/* Looks whether this kernel tells who has a memfd open; without that nothing is watched, and the log says so. */
void kept_create(struct clients *clients);
void kept_destroy(struct clients *clients);
/* The session is over, and the agent's own mappings are gone. NULL is fine. */
void kept_after_session(struct clients *clients, struct user *user, struct kept *kept,
                        bool shared) IN_BROKER_THREAD;
void kept_drop(struct kept *kept); /* NULL is fine */
/* Gives up places whose memory is closed by now: looks at a bounded number, those that ended last first. How many were given up. */
unsigned kept_probe(struct clients *clients) IN_BROKER_THREAD;

/* Who a session's process is, and what it may do with a name by the rules in force (agent/core/rules.h). Belongs to the broker's
 * thread.
 *
 * (!) Who asks is what the kernel said of the process that connected: nothing that a client writes, into its hello, its requests
 * or any memory, has a say. It stays so for as long as the session lives, whatever becomes of that process's user, and
 * whoever else got its descriptors from it. */

struct session;

/* Whose connection it is, but for supplementary groups: it is in none yet. */
void rights_know_caller(const struct ucred *cred, struct caller *ret_caller);
/* Its supplementary groups that rules name, when it is welcomed and after a reload. Without memory it is in none: it may less. */
void rights_know_groups(struct session *s) IN_BROKER_THREAD;
void rights_forget_caller(struct caller *caller);

/* Whether it may; nothing is counted or told. */
bool rights_has(struct session *s, enum right right, const void *name,
                size_t name_len) IN_BROKER_THREAD;
/* The same for a request: if not, why not and what to do, in `text`; counted, logged, and an event. */
bool rights_allow(struct session *s, enum right right, const void *name, size_t name_len,
                  char *text, size_t size) IN_BROKER_THREAD;

#endif
