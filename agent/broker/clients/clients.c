/* The processes that are attached, or were attached to an earlier agent (ghosts). A client ends with its last
 * session.
 */
#include "agent/broker/clients/clients.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "agent/base/thread.h"
#include "agent/broker/clients/users.h"
#include "shm/assert.h"
#include "shm/process.h"
#include "shm/status.h"

uint64_t cookie_hash(const uint8_t cookie[HF_COOKIE_LEN])
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (int i = 0; i < HF_COOKIE_LEN; i++)
        h = (h ^ cookie[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* --- clients ---------------------------------------------------------------------------------- */

static void client_free(struct client *c)
{
    struct clients *clients = c->clients;

    hf_assert(!c->ghost, "process %u", (unsigned)c->pid);
    clients->owner.client_over(clients->owner.arg, c);
    LIST_REMOVE(c, all);
    free(c);
}

void client_settle(struct client *c)
{
    hf_assert(LIST_EMPTY(&c->held) == (c->held_count == 0), "process %u, held_count %u",
              (unsigned)c->pid, (unsigned)c->held_count);
    if (LIST_EMPTY(&c->sessions) && !c->ghost && LIST_EMPTY(&c->held) && !c->handoffs)
        client_free(c);
}

struct client *client_new(struct clients *clients)
{
    struct client *c = calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    c->clients = clients;
    c->id = ++clients->next_client_id;
    c->ghost_pidfd = -1;
    LIST_INIT(&c->sessions);
    LIST_INIT(&c->held);
    LIST_INIT(&c->pending_releases);
    LIST_INSERT_HEAD(&clients->all, c, all);
    return c;
}

/* --- ghosts ----------------------------------------------------------------------------------- */

void client_ghost_end(struct client *c)
{
    if (!c->ghost)
        return;
    c->ghost = false;
    if (c->ghost_pidfd < 0) {
        hf_assert(c->clients->unwatched > 0, "process %u", (unsigned)c->pid);
        c->clients->unwatched--;
        return;
    }
    loop_fd_remove(c->clients->loop, &c->ghost_watch);
    close(c->ghost_pidfd);
    c->ghost_pidfd = -1;
}

static void clients_ghost_died(struct client *c) IN_BROKER_THREAD
{
    client_ghost_end(c);
    if (LIST_EMPTY(&c->sessions))
        c->clients->owner.client_gone(c->clients->owner.arg, c);
    client_settle(c);
}

static void clients_on_ghost(struct loop_fd *watch)
{
    ASSERT_BROKER_THREAD();
    clients_ghost_died(HF_CONTAINER(watch, struct client, ghost_watch));
}

static bool clients_exists(uint32_t pid)
{
    return kill((pid_t)pid, 0) == 0 || errno != ESRCH;
}

/* There is such a process, but /proc does not show it (hidepid): `error` came instead of its file. */
static bool clients_is_hidden(uint32_t pid, int error)
{
    return (error == ENOENT || error == EPERM || error == EACCES) && clients_exists(pid);
}

/* Whether a pidfd is of that very process, where the kernel cannot tell. (!) Read while the pidfd is open. Where /proc hides a process that
 * there is (hidepid), it counts as that one: only its holder or its V may end a lease. */
static int clients_judge_start_time(uint32_t pid, uint64_t start_time)
{
    uint64_t started;

    errno = 0;
    started = hf_process_start_time((pid_t)pid);
    if (started == start_time || (started == 0 && clients_is_hidden(pid, errno)))
        return HF_OK;
    return started || errno == ENOENT || errno == ESRCH ? HF_ELOST : HF_ESYS;
}

/* A pidfd of that very process. HF_ELOST: it is gone; HF_ESYS: not known for now. */
static int clients_open_process(uint32_t pid, uint64_t birth, int *ret_pidfd)
{
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0), rc;

    if (pidfd < 0) /* a pid that no process has shows without a descriptor */
        return clients_exists(pid) ? HF_ESYS : HF_ELOST;
    if (birth & HF_BIRTH_OF_PIDFD)
        rc = hf_process_birth(pidfd) == birth ? HF_OK : HF_ELOST;
    else
        rc = clients_judge_start_time(pid, birth);
    if (rc == HF_OK)
        *ret_pidfd = pidfd;
    else
        close(pidfd);
    return rc;
}

bool client_lives(uint32_t pid, uint64_t birth)
{
    int pidfd, rc = clients_open_process(pid, birth, &pidfd);

    if (rc == HF_OK)
        close(pidfd);
    return rc != HF_ELOST;
}

static int clients_ghost_watch(struct client *c, int pidfd)
{
    int rc = loop_fd_add(c->clients->loop, &c->ghost_watch, pidfd, clients_on_ghost);

    if (rc == HF_OK)
        c->ghost_pidfd = pidfd;
    else
        close(pidfd);
    return rc;
}

int client_ghost(struct clients *clients, uint32_t pid, uint64_t birth, uint32_t uid, uint64_t hash,
                 const char *comm, struct client **ret_client)
{
    struct client *c;
    int pidfd = -1, rc;

    LIST_FOREACH (c, &clients->all, all)
        if (c->pid == pid && c->birth == birth && c->cookie_hash == hash) {
            *ret_client = c;
            return HF_OK;
        }
    rc = clients_open_process(pid, birth, &pidfd);
    if (rc == HF_ELOST)
        return rc;
    c = client_new(clients);
    if (!c || !(c->user = user_get(clients, uid))) {
        if (pidfd >= 0)
            close(pidfd);
        if (c)
            client_settle(c); /* no process has that pid */
        return HF_ENOMEM;
    }
    c->ghost = true;
    if (rc < 0 || clients_ghost_watch(c, pidfd) < 0)
        clients->unwatched++;
    c->pid = pid;
    c->uid = uid;
    c->birth = birth;
    c->cookie_hash = hash;
    snprintf(c->comm, sizeof(c->comm), "%s", comm);
    *ret_client = c;
    return HF_OK;
}

void clients_sweep(struct clients *clients)
{
    struct client *c, *next;

    for (c = LIST_FIRST(&clients->all); c && clients->unwatched; c = next) {
        int pidfd, rc;

        next = LIST_NEXT(c, all);
        if (!c->ghost || c->ghost_pidfd >= 0)
            continue;
        rc = clients_open_process(c->pid, c->birth, &pidfd);
        if (rc == HF_ELOST)
            clients_ghost_died(c);
        else if (rc == HF_OK && clients_ghost_watch(c, pidfd) == HF_OK)
            clients->unwatched--;
        else
            return; /* no descriptors yet */
    }
}

/* Process 1 is always there. In an older kernel's /proc with hidepid the agent cannot tell who connects. */
static void clients_look_at_proc(const struct config *config)
{
    if (config->system && hf_process_start_time(1) == 0 && !hf_process_peers_known())
        log_warn("/proc hides other users' processes (hidepid) and this kernel is older than Linux "
                 "6.5: their programs are refused; mount /proc with gid=%" PRIu32 ", too",
                 (uint32_t)getegid());
}

int clients_create(struct agent *agent, struct loop *loop, const struct clients_owner *owner,
                   struct clients **ret_clients)
{
    struct clients *clients = calloc(1, sizeof(*clients));

    if (!clients)
        return HF_ENOMEM;
    clients->agent = agent;
    clients->config = agent->config;
    clients->loop = loop;
    clients->owner = *owner;
    clients_look_at_proc(clients->config);
    LIST_INIT(&clients->all);
    LIST_INIT(&clients->users);
    *ret_clients = clients;
    return HF_OK;
}

void clients_configure(struct clients *clients, const struct config *config)
{
    clients->config = config;
    clients->rules_read++;
    hf_counter_set(&clients->agent->table, HF_COUNTER_CLIENTS_MAX, config->clients_max);
}

void clients_end(struct clients *clients) BEFORE_OR_AFTER_THREADS
{
    struct client *c;

    while ((c = LIST_FIRST(&clients->all))) {
        client_ghost_end(c);
        client_free(c);
    }
    loop_timer_cancel(clients->loop, &clients->sweep);
}

void clients_destroy(struct clients *clients)
{
    if (!clients)
        return;
    users_destroy(clients);
    free(clients);
}
