/* A query of one name, for as long as it is unanswered: agent/broker/queries/query.c, and agent/broker/queries/forces.c for the
 * order to end its hold. Belongs to the broker's thread. */
#ifndef HOLDFAST_AGENT_BROKER_QUERIES_QUERY_H
#define HOLDFAST_AGENT_BROKER_QUERIES_QUERY_H

#include "agent/base/thread_role.h"
#include "agent/broker/queries/fanout.h"

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

/* NULL: refused, and answered. */
struct query *query_new(struct queries *queries, struct session *s,
                        const struct hf_request_entry *q) IN_BROKER_THREAD;
/* Refuses a listing, too. */
void query_refuse(struct queries *queries, struct session *s, const struct hf_request_entry *q,
                  int status, const char *text) IN_BROKER_THREAD;
/* Answers with the fields filled in so far, and frees the query. `text` may be "". */
void query_end(struct query *query, int status, const char *text) IN_BROKER_THREAD;
/* Puts what the nodes say into the answer. */
void query_fill(struct query *query, const struct fanout *fanout) IN_BROKER_THREAD;
/* The lease of this host that has the name, in force or being released; NULL: none. */
struct resource *query_held_here(const struct query *query) IN_BROKER_THREAD;
/* After a reload that changed the rules: what waits and may not see its name any more is answered. */
void query_look_at_rules(struct session *s) IN_BROKER_THREAD;
void query_drop_session(struct session *s) IN_BROKER_THREAD;

#endif
