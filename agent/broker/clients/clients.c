/* The processes that are attached, or were to an earlier agent (ghosts). A client ends with its last
 * session.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/broker/broker_internal.h"
#include "shm/process.h"
#include "shm/status.h"

uint64_t cookie_hash(const uint8_t cookie[HF_COOKIE_LEN])
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (int i = 0; i < HF_COOKIE_LEN; i++)
        h = (h ^ cookie[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* --- what was released for it ----------------------------------------------------------------- */

int client_ended(struct client *c, struct resource *r, uint32_t slot, uint32_t generation)
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

struct ended *client_find_ended(struct client *c, uint32_t slot, uint32_t generation)
{
    struct ended *e;

    LIST_FOREACH (e, &c->ended, of_client)
        if (e->slot == slot && e->generation == generation)
            break;
    return e;
}

/* --- clients ---------------------------------------------------------------------------------- */

static void client_free(struct client *c)
{
    struct ended *e;

    groups_drop(c);
    while ((e = LIST_FIRST(&c->ended))) {
        if (e->resource)
            e->resource->work->ended = NULL;
        LIST_REMOVE(e, of_client);
        free(e);
    }
    LIST_REMOVE(c, all);
    free(c);
}

void client_settle(struct client *c)
{
    if (LIST_EMPTY(&c->sessions) && !c->ghost && LIST_EMPTY(&c->held) && !c->handoffs)
        client_free(c);
}

struct client *client_new(struct broker *b)
{
    struct client *c = calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    c->broker = b;
    c->id = ++b->next_client_id;
    c->ghost_pidfd = -1;
    LIST_INIT(&c->sessions);
    LIST_INIT(&c->held);
    LIST_INIT(&c->ended);
    LIST_INSERT_HEAD(&b->clients, c, all);
    return c;
}

/* --- ghosts ----------------------------------------------------------------------------------- */

void client_ghost_end(struct client *c)
{
    if (!c->ghost)
        return;
    c->ghost = false;
    if (c->ghost_pidfd < 0) {
        c->broker->unwatched--;
        return;
    }
    loop_fd_remove(c->broker->loop, &c->ghost_watch);
    close(c->ghost_pidfd);
    c->ghost_pidfd = -1;
}

static void ghost_died(struct client *c)
{
    client_ghost_end(c);
    if (LIST_EMPTY(&c->sessions))
        resources_client_gone(c);
    client_settle(c);
}

static void on_ghost(struct loop_fd *watch)
{
    ghost_died(HF_CONTAINER(watch, struct client, ghost_watch));
}

/* A pidfd of that very process. HF_ELOST: it is gone; HF_ESYS: that cannot be told now. */
static int open_process(uint32_t pid, uint64_t start_time, int *ret_pidfd)
{
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    uint64_t started;

    if (pidfd < 0) /* that nobody has the number can be told without a descriptor */
        return kill((pid_t)pid, 0) < 0 && errno == ESRCH ? HF_ELOST : HF_ESYS;
    /* Read with the pidfd in hand: if it fits, the pidfd is of that very process. */
    errno = 0;
    started = hf_process_start_time((pid_t)pid);
    if (started == start_time) {
        *ret_pidfd = pidfd;
        return HF_OK;
    }
    close(pidfd);
    return started || errno == ENOENT || errno == ESRCH ? HF_ELOST : HF_ESYS;
}

static int ghost_watch(struct client *c, int pidfd)
{
    int rc = loop_fd_add(c->broker->loop, &c->ghost_watch, pidfd, on_ghost);

    if (rc == HF_OK)
        c->ghost_pidfd = pidfd;
    else
        close(pidfd);
    return rc;
}

int client_ghost(struct broker *b, uint32_t pid, uint64_t start_time, uint32_t uid, uint64_t hash,
                 const char *comm, struct client **ret_client)
{
    struct client *c;
    int pidfd = -1, rc;

    LIST_FOREACH (c, &b->clients, all)
        if (c->pid == pid && c->start_time == start_time && c->cookie_hash == hash) {
            *ret_client = c;
            return HF_OK;
        }
    rc = open_process(pid, start_time, &pidfd);
    if (rc == HF_ELOST)
        return rc;
    c = client_new(b);
    if (!c || !(c->user = user_get(b, uid))) {
        if (pidfd >= 0)
            close(pidfd);
        if (c)
            client_settle(c); /* nobody has it */
        return HF_ENOMEM;
    }
    c->ghost = true;
    if (rc < 0 || ghost_watch(c, pidfd) < 0)
        b->unwatched++;
    c->pid = pid;
    c->uid = uid;
    c->start_time = start_time;
    c->cookie_hash = hash;
    snprintf(c->comm, sizeof(c->comm), "%s", comm);
    *ret_client = c;
    return HF_OK;
}

void clients_sweep(struct broker *b)
{
    struct client *c, *next;

    for (c = LIST_FIRST(&b->clients); c && b->unwatched; c = next) {
        int pidfd, rc;

        next = LIST_NEXT(c, all);
        if (!c->ghost || c->ghost_pidfd >= 0)
            continue;
        rc = open_process(c->pid, c->start_time, &pidfd);
        if (rc == HF_ELOST)
            ghost_died(c);
        else if (rc == HF_OK && ghost_watch(c, pidfd) == HF_OK)
            b->unwatched--;
        else
            return; /* no descriptors yet */
    }
}

void clients_create(struct broker *b)
{
    LIST_INIT(&b->clients);
    LIST_INIT(&b->users);
}

void clients_destroy(struct broker *b)
{
    struct client *c;

    while ((c = LIST_FIRST(&b->clients))) {
        client_ghost_end(c);
        client_free(c);
    }
    users_destroy(b);
}
