/* What clients ask of the nodes besides locks: who holds a name anywhere, listings, and the order to end a hold.
 * Belongs to the broker's thread. */
#ifndef HOLDFAST_AGENT_BROKER_QUERIES_QUERIES_H
#define HOLDFAST_AGENT_BROKER_QUERIES_QUERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/agent.h"
#include "agent/base/loop.h"
#include "agent/base/thread_role.h"
#include "agent/broker/clients/sessions.h"
#include "shm/wire.h"

struct clients;
struct locks;
struct nodes;
struct scan;
struct survey;

struct queries {
    struct agent *agent;
    const struct config *config;
    struct loop *loop;
    struct nodes *nodes;
    struct locks *locks;
    struct clients *clients;
    int n, q;
    bool draining;
    const uint8_t *hash_key; /* of the locks; for `waiting_looks` */
    LIST_HEAD(, survey) surveys;
    unsigned survey_count;
    struct look_list waiting_looks[64]; /* by key */
    unsigned waiting_look_count;
    TAILQ_HEAD(, scan) scans_due[HF_NODES_MAX];
    struct scan *scanning[HF_NODES_MAX]; /* one page of one scan at a time */
};

/* HF_ENOMEM. */
int queries_create(struct agent *agent, struct loop *loop, struct nodes *nodes,
                   struct clients *clients, struct locks *locks, struct queries **ret_queries);
/* HF_OP_LOOK, HF_OP_FORCE, HF_OP_SCAN; each answers by itself. */
void looks_ask(struct queries *queries, struct session *s,
               const struct hf_request_entry *q) IN_BROKER_THREAD;
void forces_ask(struct queries *queries, struct session *s,
                const struct hf_request_entry *q) IN_BROKER_THREAD;
void scans_ask(struct queries *queries, struct session *s,
               const struct hf_request_entry *q) IN_BROKER_THREAD;
/* Drops that look: nobody waits for its answer any more. An id that is no look's is fine. */
void looks_cancel(struct session *s, uint64_t id) IN_BROKER_THREAD;
/* A lease of this host is over: the looks that wait for its name ask now. */
void looks_hear_ended(struct queries *queries, const void *name, size_t name_len) IN_BROKER_THREAD;
/* A key has changed on a node; NULL: any may have. */
void looks_hear_noticed(struct queries *queries, const void *key, size_t key_len) IN_BROKER_THREAD;
/* A session ended: nothing is asked for it any more. */
void queries_drop_session(struct session *s) IN_BROKER_THREAD;
/* The agent ends: looks are answered HF_EGOING, and nothing more is asked. */
void queries_drain(struct queries *queries) IN_BROKER_THREAD;
/* The links are about to end: no client is told anything any more. */
void queries_close(struct queries *queries);
void queries_destroy(struct queries *queries); /* after nodes_end(); NULL is fine */

#endif
