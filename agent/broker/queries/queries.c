#include "agent/broker/queries/queries.h"

#include <stdlib.h>

#include "agent/base/thread.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/broker/queries/fanout.h"
#include "agent/config/config.h"
#include "shm/status.h"

int queries_create(struct agent *agent, struct loop *loop, struct nodes *nodes,
                   struct clients *clients, struct locks *locks, struct queries **ret_queries)
{
    struct queries *queries = calloc(1, sizeof(*queries));

    if (!queries)
        return HF_ENOMEM;
    queries->agent = agent;
    queries->config = agent->config;
    queries->loop = loop;
    queries->nodes = nodes;
    queries->clients = clients;
    queries->locks = locks;
    queries->n = nodes->n;
    queries->q = nodes->q;
    LIST_INIT(&queries->fanouts);
    LIST_INIT(&queries->inquiries);
    for (size_t i = 0; i < HF_LENGTH(queries->waiting); i++)
        LIST_INIT(&queries->waiting[i]);
    for (int i = 0; i < HF_NODES_MAX; i++)
        TAILQ_INIT(&queries->listings_due[i]);
    queries->hash_key = locks->hash_key;
    *ret_queries = queries;
    return HF_OK;
}

void queries_configure(struct queries *queries, const struct config *config)
{
    struct session *s;
    bool other_rules = config_allow_differs(&queries->config->rules, &config->rules);

    queries->config = config;
    LIST_FOREACH (s, &queries->clients->sessions, all)
        if (other_rules)
            query_look_at_rules(s);
}

void queries_drop_session(struct session *s)
{
    query_drop_session(s);
    listings_drop_session(s);
    onces_drop_session(s);
}

void queries_go_away(struct queries *queries)
{
    struct session *s;

    queries->going = true;
    LIST_FOREACH (s, &queries->clients->sessions, all)
        while (!LIST_EMPTY(&s->queries))
            query_end(LIST_FIRST(&s->queries), HF_ESHUTDOWN, "");
    onces_go_away(queries);
}

void queries_close(struct queries *queries) BEFORE_OR_AFTER_THREADS
{
    struct session *s;

    LIST_FOREACH (s, &queries->clients->sessions, all)
        queries_drop_session(s);
}

void queries_destroy(struct queries *queries)
{
    if (!queries)
        return;
    fanouts_destroy(queries);
    onces_destroy(queries);
    free(queries);
}
