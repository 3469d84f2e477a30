/* The processes that are attached, or were to an earlier agent (ghosts), and the account of each
 * user. A client ends with its last session.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/broker_internal.h"
#include "shm/process.h"
#include "shm/status.h"

struct user *user_get(struct broker *b, uint32_t uid)
{
    struct user *u;

    LIST_FOREACH (u, &b->users, all)
        if (u->uid == uid)
            return u;
    u = calloc(1, sizeof(*u));
    if (!u)
        return NULL;
    u->uid = uid;
    LIST_INSERT_HEAD(&b->users, u, all);
    return u;
}

uint64_t cookie_hash(const uint8_t cookie[HF_COOKIE_LEN])
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (int i = 0; i < HF_COOKIE_LEN; i++)
        h = (h ^ cookie[i]) * UINT64_C(0x100000001b3);
    return h;
}

void client_settle(struct client *c)
{
    if (!LIST_EMPTY(&c->sessions) || c->ghost_pidfd >= 0 || !LIST_EMPTY(&c->held))
        return;
    LIST_REMOVE(c, all);
    free(c);
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
    LIST_INSERT_HEAD(&b->clients, c, all);
    return c;
}

void client_ghost_end(struct client *c)
{
    if (c->ghost_pidfd < 0)
        return;
    loop_fd_remove(c->broker->loop, &c->ghost_watch);
    close(c->ghost_pidfd);
    c->ghost_pidfd = -1;
}

static void on_ghost(struct loop_fd *watch)
{
    struct client *c = HF_CONTAINER(watch, struct client, ghost_watch);

    client_ghost_end(c);
    if (LIST_EMPTY(&c->sessions))
        resources_client_gone(c);
    client_settle(c);
}

int client_ghost(struct broker *b, uint32_t pid, uint64_t start_time, uint32_t uid, uint64_t hash,
                 const char *comm, struct client **ret_client)
{
    struct client *c;
    int pidfd;

    LIST_FOREACH (c, &b->clients, all)
        if (c->pid == pid && c->start_time == start_time && c->cookie_hash == hash) {
            *ret_client = c;
            return HF_OK;
        }
    pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    /* The start time is read with the pidfd in hand: if it fits, the pidfd is of that very process.
     */
    if (pidfd < 0 || hf_process_start_time((pid_t)pid) != start_time) {
        if (pidfd >= 0)
            close(pidfd);
        return HF_ELOST;
    }
    c = client_new(b);
    if (!c || !(c->user = user_get(b, uid)) ||
        loop_fd_add(b->loop, &c->ghost_watch, pidfd, on_ghost) < 0) {
        close(pidfd);
        return HF_ENOMEM;
    }
    c->ghost_pidfd = pidfd;
    c->pid = pid;
    c->uid = uid;
    c->start_time = start_time;
    c->cookie_hash = hash;
    snprintf(c->comm, sizeof(c->comm), "%s", comm);
    *ret_client = c;
    return HF_OK;
}

void clients_create(struct broker *b)
{
    LIST_INIT(&b->clients);
    LIST_INIT(&b->users);
}

void clients_destroy(struct broker *b)
{
    struct client *c;
    struct user *u;

    while ((c = LIST_FIRST(&b->clients))) {
        client_ghost_end(c);
        LIST_REMOVE(c, all);
        free(c);
    }
    while ((u = LIST_FIRST(&b->users))) {
        LIST_REMOVE(u, all);
        free(u);
    }
}
