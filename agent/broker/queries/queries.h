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
struct listing;
struct inquiry;
struct once_take;
struct fanout;

struct queries {
    struct agent *agent;
    const struct config *config;
    struct loop *loop;
    struct nodes *nodes;
    struct locks *locks;
    struct clients *clients;
    int n, q;
    bool going;
    const uint8_t *hash_key; /* of the locks; for `waiting` */
    LIST_HEAD(, fanout) fanouts;
    LIST_HEAD(, inquiry) inquiries;
    LIST_HEAD(once_take_list, once_take) once_takes[256]; /* by slot */
    unsigned fanout_count;
    struct query_list waiting[64]; /* by key */
    unsigned waiting_count, waiting_users;
    TAILQ_HEAD(, listing) listings_due[HF_NODES_MAX];
    struct listing *listing[HF_NODES_MAX]; /* one page of one listing at a time */
};

/* HF_ENOMEM. */
/* A reload. */
void queries_configure(struct queries *queries, const struct config *config) IN_BROKER_THREAD;
int queries_create(struct agent *agent, struct loop *loop, struct nodes *nodes,
                   struct clients *clients, struct locks *locks, struct queries **ret_queries);
/* HF_OP_QUERY, HF_OP_FORCE, HF_OP_LISTING, HF_OP_ONCE; each answers by itself. */
void query_ask(struct queries *queries, struct session *s,
               const struct hf_request_entry *q) IN_BROKER_THREAD;
void forces_ask(struct queries *queries, struct session *s,
                const struct hf_request_entry *q) IN_BROKER_THREAD;
void listings_ask(struct queries *queries, struct session *s,
                  const struct hf_request_entry *q) IN_BROKER_THREAD;
void onces_ask(struct queries *queries, struct session *s,
               const struct hf_request_entry *q) IN_BROKER_THREAD;
/* Drops that query: nobody waits for its answer any more. An id that is no query's is fine. */
void query_cancel(struct session *s, uint64_t id) IN_BROKER_THREAD;
/* A lease of this host is over: the queries that wait for its name ask now. */
void query_hear_ended(struct queries *queries, const void *name, size_t name_len) IN_BROKER_THREAD;
/* A key has changed on a node; NULL: any may have. */
void query_hear_noticed(struct queries *queries, const void *key, size_t key_len) IN_BROKER_THREAD;
/* A session ended: nothing is asked for it any more. */
void queries_drop_session(struct session *s) IN_BROKER_THREAD;
/* The agent ends: queries are answered HF_EGOING, and nothing more is asked. */
void queries_go_away(struct queries *queries) IN_BROKER_THREAD;
/* The links are about to end: no client is told anything any more. */
void queries_close(struct queries *queries);
void queries_destroy(struct queries *queries); /* after nodes_end(); NULL is fine */

#endif
