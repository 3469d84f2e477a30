#include "agent/broker/locks/shown_waiters.h"

#include <stdio.h>
#include <string.h>

#include "agent/broker/clients/clients.h"
#include "agent/broker/clients/sessions.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/waiters.h"
#include "shm/waiters.h"

void shown_waiters_create(struct locks *locks)
{
    struct shown_waiters *shown = &locks->shown_waiters;
    uint32_t rows = locks->agent->table.waiter_rows;

    TAILQ_INIT(&shown->without_a_row);
    /* A later version's table may have more. */
    for (uint32_t i = rows < HF_WAITERS_SHOWN ? rows : HF_WAITERS_SHOWN; i > 0; i--)
        shown->free[shown->free_count++] = i - 1;
}

static void shown_waiters_give_row(struct shown_waiters *shown, struct waiter *w)
{
    const struct client *c = w->session->client;
    struct hf_waiter_row row = {.flags = HF_WAITER_F_USED | (w->who.run ? HF_WAITER_F_RUN : 0),
                                .pid = c->pid,
                                .uid = c->uid,
                                .since_ns = w->since.ns,
                                .asked_ns = w->asked.ns,
                                .deadline_ns =
                                    w->deadline.ns < HF_TIME_NEVER.ns ? w->deadline.ns : INT64_MAX,
                                .number = w->number,
                                .ttl_ms = (uint32_t)hf_dur_ms(w->timing.ttl),
                                .name_len = (uint8_t)w->resource->name_len};

    snprintf(row.comm, sizeof(row.comm), "%s", c->comm);
    memcpy(row.name, w->resource->name, w->resource->name_len);
    w->row = shown->free[--shown->free_count];
    hf_waiter_publish(&resource_locks(w->resource)->agent->table, w->row, &row);
}

void shown_waiters_add(struct waiter *w)
{
    struct shown_waiters *shown = &resource_locks(w->resource)->shown_waiters;

    w->number = ++shown->number;
    w->row = SHOWN_WAITERS_NONE;
    if (shown->free_count)
        shown_waiters_give_row(shown, w);
    else
        TAILQ_INSERT_TAIL(&shown->without_a_row, w, without_a_row);
}

void shown_waiters_remove(struct waiter *w)
{
    struct locks *locks = resource_locks(w->resource);
    struct shown_waiters *shown = &locks->shown_waiters;
    struct waiter *next = TAILQ_FIRST(&shown->without_a_row);

    if (w->row == SHOWN_WAITERS_NONE) {
        TAILQ_REMOVE(&shown->without_a_row, w, without_a_row);
        return;
    }
    shown->free[shown->free_count++] = w->row;
    if (!next) {
        hf_waiter_clear(&locks->agent->table, w->row);
        return;
    }
    TAILQ_REMOVE(&shown->without_a_row, next, without_a_row);
    shown_waiters_give_row(shown, next);
}
