/* agent/broker/clients/sessions.c and agent/broker/clients/attach.c for the simulator: the life of a session, without sockets and rings. What the
 * requests ask for is the shipped agent/broker/broker.c's. */
#include <stdlib.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/broker/clients/sessions.h"
#include "agent/broker/clients/users.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/names.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/broker/rooms.h"
#include "shm/status.h"
#include "shm/wire.h"
#include "tests/sim/drains.h"
#include "tests/sim/forces.h"
#include "tests/sim/host.h"
#include "tests/sim/procs.h"

struct sim_session {
    struct session session;
    struct sim_proc *proc; /* NULL: an operator's */
    struct forcer *forcer;
};

static struct sim_proc *proc_of(const struct session *s)
{
    return HF_CONTAINER(s, struct sim_session, session)->proc;
}

static struct forcer *forcer_of(const struct session *s)
{
    return HF_CONTAINER(s, struct sim_session, session)->forcer;
}

/* Nobody is behind it any more. */
static void let_go(struct session *s)
{
    if (!proc_of(s))
        forcer_detached(forcer_of(s));
    else if (proc_of(s)->session == s)
        proc_detached(proc_of(s));
}

void client_signal(struct client *c, const struct session *but)
{
    struct session *s;

    LIST_FOREACH (s, &c->sessions, of_client)
        if (s != but && proc_of(s) && proc_of(s)->pid == s->pid)
            proc_signal(proc_of(s));
}

void session_end(struct session *s, const char *why)
{
    struct clients *clients = s->clients;
    struct client *c = s->client;

    (void)why;
    if (s->closing)
        return;
    s->closing = true;
    loop_fd_remove(clients->loop, &s->process);
    LIST_REMOVE(s, all);
    clients->session_count--;
    s->user->sessions--;
    LIST_REMOVE(s, of_client);
    clients->owner.session_gone(clients->owner.arg, s);
    if (LIST_EMPTY(&c->sessions) && !c->ghost)
        clients->owner.client_gone(clients->owner.arg, c);
    client_settle(c);
    let_go(s);
    free(HF_CONTAINER(s, struct sim_session, session));
}

/* Its name is "rN". */
static int resource_of(const struct session *s, uint32_t slot)
{
    return s->clients->agent->broker->locks->by_slot[slot]->bytes[1] - '0';
}

void session_answer(struct session *s, const struct hf_completion_entry *entry)
{
    struct sim_proc *proc = proc_of(s);

    if (s->closing)
        return;
    s->answers.owed--;
    if (!proc) {
        forcer_answer(forcer_of(s), entry);
        return;
    }
    if (proc->pid != s->pid || !proc->alive)
        return; /* it has ended, and this agent has yet to see that */
    if (entry->op == HF_OP_ACQUIRE && entry->status == HF_OK) {
        const struct hf_slot *slot = &s->clients->agent->table.slots[entry->slot];

        /* A cancelled request is answered with a lease that is given back. */
        if (proc->requested && proc->request.id == entry->id)
            drains_check(proc->host, resource_of(s, entry->slot), slot->since_ns,
                         slot->marks & HF_SLOT_F_READOPTED);
        (void)checks_granted(proc, resource_of(s, entry->slot), entry->slot, entry->generation,
                             entry->fence);
    }
    proc_answer(proc, entry);
}

int session_item(struct session *s, const struct hf_completion_entry *entry)
{
    (void)s;
    (void)entry;
    return HF_OK;
}

bool session_takes_progress(const struct session *s)
{
    (void)s;
    return true;
}

bool session_progress(struct session *s, struct hf_completion_entry *entry)
{
    (void)s;
    (void)entry;
    return true;
}

static void on_process(struct loop_fd *watch)
{
    session_end(HF_CONTAINER(watch, struct session, process), NULL);
}

static struct client *client_of(struct clients *clients, const struct sim_proc *proc)
{
    struct client *c;

    LIST_FOREACH (c, &clients->all, all)
        if (proc->cookie && c->cookie_hash == proc->cookie && c->pid == proc->pid &&
            c->birth == proc->start_time)
            return c;
    return NULL;
}

static struct session *session_new(struct clients *clients, uint32_t pid, uint32_t uid)
{
    struct sim_session *made = calloc(1, sizeof(*made));
    struct session *s = &made->session;

    s->clients = clients;
    s->pid = pid;
    s->uid = uid;
    s->caller = (struct caller){.uid = uid, .gid = uid, .trusted = uid == geteuid()};
    s->user = user_get(clients, uid);
    LIST_INIT(&s->waiters);
    LIST_INIT(&s->queries);
    LIST_INIT(&s->listings);
    answers_init(&s->answers, NULL, &s->user->unread);
    (void)loop_fd_add(clients->loop, &s->process, proc_pidfd(pid), on_process);
    LIST_INSERT_HEAD(&clients->sessions, s, all);
    clients->session_count++;
    s->user->sessions++;
    return s;
}

static struct client *client_make(struct session *s, uint64_t start_time)
{
    struct client *c = client_new(s->clients);

    c->pid = s->pid;
    c->uid = s->uid;
    c->user = s->user;
    c->birth = start_time;
    return c;
}

static void session_join(struct session *s, struct client *c)
{
    s->client = c;
    LIST_INSERT_HEAD(&c->sessions, s, of_client);
    client_ghost_end(c);
}

static void attach(struct clients *clients, struct sim_proc *proc)
{
    struct session *s;
    struct client *c;

    if (clients->going)
        return;
    s = session_new(clients, proc->pid, 1000);
    HF_CONTAINER(s, struct sim_session, session)->proc = proc;
    c = client_of(clients, proc);
    if (!c) {
        c = client_make(s, proc->start_time);
        if (!proc->cookie)
            proc->cookie = rng_next(&sim.product_rng) | 1;
        c->cookie_hash = proc->cookie;
        snprintf(c->comm, sizeof(c->comm), "p%d", proc->number);
    }
    session_join(s, c);
    proc_attached(proc, s);
}

static struct session *attach_forcer(struct clients *clients, struct forcer *forcer)
{
    struct session *s = session_new(clients, FORCER_PID, (uint32_t)geteuid());

    HF_CONTAINER(s, struct sim_session, session)->forcer = forcer;
    session_join(s, client_make(s, 1));
    return s;
}

static void serve_forcers(struct clients *clients, const struct sim_host *host)
{
    struct hf_request_entry q;

    for (struct forcer *o = forcers_first(); o; o = forcer_next(o)) {
        if (!forcer_wants(o, host, &q))
            continue;
        if (!forcer_session(o) && !clients->going)
            forcer_attached(o, attach_forcer(clients, o));
        if (forcer_session(o))
            clients->owner.request(clients->owner.arg, forcer_session(o), &q);
    }
}

static void no_sweep(struct loop_timer *timer, hf_time now)
{
    (void)timer;
    (void)now;
}

int sessions_create(struct agent *agent, struct loop *loop, const struct clients_owner *owner,
                    struct clients **ret_clients)
{
    int rc = clients_create(agent, loop, owner, ret_clients);

    if (rc < 0)
        return rc;
    (*ret_clients)->sweep.fn = no_sweep;
    LIST_INIT(&(*ret_clients)->sessions);
    TAILQ_INIT(&(*ret_clients)->active);
    return HF_OK;
}

int sessions_listen(struct clients *clients)
{
    host_listens(sim.frame->host, clients->agent->broker);
    return HF_OK;
}

void sessions_start(struct clients *clients)
{
    loop_timer_set(clients->loop, &clients->sweep, clock_now());
}

void sessions_destroy(struct clients *clients)
{
    struct session *s;

    while ((s = LIST_FIRST(&clients->sessions))) {
        LIST_REMOVE(s, all);
        LIST_REMOVE(s, of_client);
        loop_fd_remove(clients->loop, &s->process);
        let_go(s);
        free(HF_CONTAINER(s, struct sim_session, session));
    }
}

void sessions_wake(struct clients *clients)
{
    (void)clients;
}

/* At the end of each of the broker's turns. */
bool sessions_serve(struct clients *clients)
{
    const struct nodes *nodes = clients->agent->broker->nodes;
    struct sim_host *host = sim.frame->host;

    for (int i = 0; i < nodes->n; i++)
        if (nodes->node[i].trust.reasons)
            sim.seen[SEEN_QUARANTINE] = true;
    for (int i = 0; i < proc_count; i++) {
        struct sim_proc *proc = procs[i];

        if (proc->host != host || !proc->alive)
            continue;
        if (proc->attaching && !proc->session) {
            proc->attaching = false;
            attach(clients, proc);
        }
        while (proc->session && proc->queued > 0) {
            struct hf_request_entry q = proc->queue[0];

            for (int k = 1; k < proc->queued; k++)
                proc->queue[k - 1] = proc->queue[k];
            proc->queued--;
            clients->owner.request(clients->owner.arg, proc->session, &q);
        }
    }
    serve_forcers(clients, host);
    return false;
}
