#include "agent/broker/locks/ended.h"

#include <stdlib.h>

#include "agent/broker/clients/sessions.h"
#include "agent/broker/locks/resources.h"
#include "shm/status.h"

int ended_add(struct client *c, struct resource *r, uint32_t slot, uint32_t generation)
{
    struct ended *e = !r || resource_work(r) ? calloc(1, sizeof(*e)) : NULL;

    if (!e)
        return HF_ENOMEM;
    e->resource = r;
    e->slot = slot;
    e->generation = generation;
    if (r)
        r->work->ended = e;
    LIST_INSERT_HEAD(&c->ended, e, of_client);
    return HF_OK;
}

struct ended *ended_find(struct client *c, uint32_t slot, uint32_t generation)
{
    struct ended *e;

    LIST_FOREACH (e, &c->ended, of_client)
        if (e->slot == slot && e->generation == generation)
            break;
    return e;
}

void ended_drop_session(struct session *s)
{
    struct ended *e;

    LIST_FOREACH (e, &s->client->ended, of_client)
        if (e->session == s)
            e->session = NULL;
}

void ended_drop_client(struct client *c)
{
    struct ended *e;

    while ((e = LIST_FIRST(&c->ended))) {
        if (e->resource)
            e->resource->work->ended = NULL;
        LIST_REMOVE(e, of_client);
        free(e);
    }
}
