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
#include "agent/base/thread.h"
#include "agent/broker/clients/sessions.h"
#include "agent/redis/link.h"
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
    unsigned fanout_count; /* those of users (agent/broker/queries/fanout.h) */
    unsigned overdue
        [HF_NODES_MAX]; /* their commands that a node has not answered by the deadline, nor since */
    struct query_list waiting[64]; /* by key */
    unsigned waiting_count, waiting_users;
    TAILQ_HEAD(, listing) listings_due[HF_NODES_MAX];
    struct listing *listing[HF_NODES_MAX]; /* one page of one listing at a time */
    uint64_t page_count;                   /* ever */
};

/* HF_ENOMEM. */
int queries_create(struct agent *agent, struct loop *loop, struct nodes *nodes,
                   struct clients *clients, struct locks *locks, struct queries **ret_queries);
/* A reload. */
void queries_configure(struct queries *queries, const struct config *config) IN_BROKER_THREAD;
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
/* The agent ends: queries are answered HF_ESHUTDOWN, and nothing more is asked. */
void queries_go_away(struct queries *queries) IN_BROKER_THREAD;
/* The links are about to end: no client is told anything any more. */
void queries_close(struct queries *queries);
void queries_destroy(struct queries *queries); /* after nodes_end(); NULL is fine */

/* Listings, page by page. */

struct session;

/* The session ended: ends its listings. */
void listings_drop_session(struct session *s);

/* A job that is to run once in a period: its holder asks whether it has run, and writes that it is about to
 * (agent/core/once.h). Belongs to the broker's thread. */

/* A session ended: nobody hears the answer. What was begun is carried out. */
void onces_drop_session(struct session *s) IN_BROKER_THREAD;
/* The agent ends: HF_ESHUTDOWN. */
void onces_go_away(struct queries *queries) IN_BROKER_THREAD;
void onces_destroy(struct queries *queries); /* after the links */

/* A query of one name, for as long as it is unanswered: agent/broker/queries/query.c, and agent/broker/queries/query.c for the
 * order to end its hold. Belongs to the broker's thread. */

struct query {
    LIST_ENTRY(query) of_session;
    LIST_ENTRY(query) waiting;
    struct queries *queries;
    struct session *session;
    struct fanout *fanout; /* NULL: none is under way */
    struct loop_timer deadline, next;
    bool waits;
    bool noticed;                 /* a notice came while the nodes were asked */
    hf_time asked_at;             /* when they were asked last */
    uint64_t fence;               /* to force out: the fence of the hold that is meant, 0 any */
    char wanted[LINK_ID_LEN + 1]; /* the same hold by its id, "" any */
    uint64_t told;                /* of a query that waits: the fence told last */
    struct hf_completion_entry answer;
    uint8_t name[HF_NAME_MAX], key[CONFIG_KEY_MAX];
    size_t name_len, key_len;
};

/* Refuses a listing, too. */
void query_refuse(struct queries *queries, struct session *s, const struct hf_request_entry *q,
                  int status, const char *text) IN_BROKER_THREAD;
/* Answers with the fields filled in so far, and frees the query. `text` may be "". */
void query_end(struct query *query, int status, const char *text) IN_BROKER_THREAD;
/* After a reload that changed the rules: what waits and may not see its name any more is answered. */
void query_look_at_rules(struct session *s) IN_BROKER_THREAD;
void query_drop_session(struct session *s) IN_BROKER_THREAD;

#endif
