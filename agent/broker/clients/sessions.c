/* Sessions: the connections of attached processes, with their rings.
 *
 * A session ends when its socket ends, when its process ends (pidfd), or at the first violation of
 * the protocol; a client ends with its last session. The agent never blocks on, indexes by, or
 * re-reads what a client can write. (!) No open file of the agent's is a client's, too: whoever watches one makes its last close,
 * and so the end of the agent, wait for as long as they like. Each end of a socket is a file of its own.
 */
#include "agent/broker/clients/sessions.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/base/thread.h"
#include "agent/broker/clients/answers.h"
#include "agent/broker/clients/clients.h"
#include "agent/broker/clients/users.h"
#include "shm/assert.h"
#include "shm/status.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/* In the attach socket's queue. (!) It is one for all users, and whoever comes in a storm of connections waits behind so many:
 * 20 ms; with SOMAXCONN 150. */
#define QUEUED_MOST 512
/* Requests of one session in a turn, so that its flood delays the others by so many at most. */
#define REQUESTS_PER_TURN 16
/* So that a flood of the attach socket neither keeps its queue full nor the loop from its work. */
#define ACCEPTS_PER_TURN 16
/* (!) In place of one that is let in. Many at once make room for all that wait for a place in the queue; of few, the processes
 * that run take all. */
#define TURNED_AWAY_FOR_ONE 8
/* (!) Each close of a user who has thousands of processes signalled for it (O_ASYNC) takes 10 ms: once a turn has taken so long,
 * what else there is to close waits for the next one. */
#define CLOSES_WITHIN (2 * HF_NS_PER_MS)
/* Answers that wait for room: beyond these no more requests are taken, of one session; and, of all that one user has, of those
 * sessions that have more than a few. */
#define UNREAD_MOST    4096
#define UNREAD_OF_USER 8192
#define UNREAD_FEW     16
#define HELLO_WITHIN   HF_NS_PER_SEC
/* Connections beyond clients_max that may stay until their hello, to be told why they are refused. */
#define STRANGERS_MOST 64
#define SWEEP_EVERY    (100 * HF_NS_PER_MS)

static void sessions_on_listener(struct loop_fd *watch);
static void sessions_on_socket(struct loop_fd *watch);

/* Its client is to be woken, at the end of this turn: a process that is woken may take the processor at
 * once, and this turn may have more for it. */
static void sessions_wake_later(struct session *s)
{
    if (!s->admitted)
        return; /* session_admitted() does */
    if (!s->wakes)
        TAILQ_INSERT_TAIL(&s->clients->woken, s, woken);
    s->wakes = true;
}

static void session_wakes_over(struct session *s)
{
    if (s->wakes)
        TAILQ_REMOVE(s->is_tolled ? &s->clients->tolled : &s->clients->woken, s, woken);
    s->wakes = s->is_tolled = false;
}

/* Now, or at a later sweep where its user has had its share of the kernel's work. */
static void session_ring(struct session *s)
{
    struct user *user = s->user;
    struct toll toll;

    session_wakes_over(s);
    if (user_is_tolled(user, loop_now(s->clients->loop))) {
        s->wakes = s->is_tolled = true;
        TAILQ_INSERT_TAIL(&s->clients->tolled, s, woken);
        return;
    }
    toll = user_toll_begin(user);
    hf_ring_signal(&s->ring);
    /* A full socket is fine: the client has something to read already. */
    if (s->nudge == HF_NUDGE_ALWAYS || (s->nudge == HF_NUDGE_WHO_POLLS && hf_ring_polled(&s->ring)))
        (void)send(s->socket.fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    user_toll_end(user, toll);
}

void sessions_wake(struct clients *clients)
{
    struct session *s;

    /* With few cores, a node or the client itself may need this one. Not in a turn that did something:
     * what answers it is often there by the next look. */
    if (clients->in_vain && TAILQ_EMPTY(&clients->woken))
        (void)sched_yield();
    while ((s = TAILQ_FIRST(&clients->woken)))
        session_ring(s);
}

static void sessions_wake_tolled(struct clients *clients)
{
    struct session *s, *last = TAILQ_LAST(&clients->tolled, session_queue);

    while ((s = TAILQ_FIRST(&clients->tolled))) {
        session_ring(s);
        if (s == last)
            return;
    }
}

void client_signal(struct client *c, const struct session *but)
{
    struct session *s;

    LIST_FOREACH (s, &c->sessions, of_client) {
        if (s != but)
            sessions_wake_later(s);
    }
}

/* --- sessions --------------------------------------------------------------------------------- */

static void session_activate(struct session *s)
{
    if (s->is_active || !s->admitted)
        return;
    s->is_active = true;
    s->clients->active_count++;
    hf_ring_disarm(&s->ring);
    TAILQ_INSERT_TAIL(&s->clients->active, s, active);
}

static void session_deactivate(struct session *s)
{
    if (!s->is_active)
        return;
    hf_assert(s->clients->active_count > 0 && s->admitted, "active %u, admitted %d",
              (unsigned)s->clients->active_count, s->admitted);
    s->is_active = false;
    s->clients->active_count--;
    TAILQ_REMOVE(&s->clients->active, s, active);
}

/* Its program is at work, and its next request or the nodes' answers are near: a wake-up for each takes
 * longer than to keep looking. */
static void session_enliven(struct session *s, hf_time now)
{
    uint32_t us = s->clients->config->busy_poll_us;

    if (us == 0)
        return;
    s->lively_until = hf_time_add(now, hf_ns(us * INT64_C(1000)));
    session_activate(s);
}

/* Whoever watches it is woken. */
static void session_close_socket(struct session *s)
{
    struct toll toll = user_toll_begin(s->user);

    close(s->socket.fd);
    user_toll_end(s->user, toll);
}

void session_end(struct session *s, const char *why)
{
    struct clients *clients = s->clients;
    struct client *c = s->client;
    bool shared = false;

    if (s->closing)
        return;
    hf_assert(!c || c->clients == clients, "process %u", (unsigned)s->pid);
    s->closing = true;
    if (why) {
        hf_counter_add(&clients->agent->table, HF_COUNTER_VIOLATIONS, 1);
        if (log_allows(&clients->cut_offs, LOG_LIMIT, clock_now()))
            log_warn("client of process %" PRIu32 " (user %" PRIu32 ") is cut off: %s", s->pid,
                     s->uid, why);
    }
    session_deactivate(s);
    if (s->wakes)
        session_ring(s);
    session_wakes_over(s);
    loop_timer_cancel(clients->loop, &s->hello_timer);
    loop_fd_remove(clients->loop, &s->socket);
    session_close_socket(s);
    if (s->process.priv) {
        loop_fd_remove(clients->loop, &s->process);
        close(s->process.fd);
    }
    hf_assert(clients->session_count > 0 && s->user->sessions > 0, "sessions %u, of its user %u",
              (unsigned)clients->session_count, s->user->sessions);
    LIST_REMOVE(s, all);
    clients->session_count--;
    s->user->sessions--;
    if (!c)
        user_stranger_goes(clients, s->user);
    hf_counter_set(&clients->agent->table, HF_COUNTER_CLIENTS, clients->session_count);
    if (c) {
        shared = attach_part(s);
        clients->owner.session_gone(clients->owner.arg, s);
        /* A ghost's own process lives and may still come back: only its guardian left. */
        if (LIST_EMPTY(&c->sessions) && !c->ghost)
            clients->owner.client_gone(clients->owner.arg, c);
        hf_ring_agent_destroy(&s->ring);
        beats_drop(s->beats);
        answers_free(&s->answers);
        client_settle(c);
    }
    kept_after_session(clients, s->user, s->kept, shared);
    rights_forget_caller(&s->caller);
    free(s);
}

static bool sessions_reads_too_little(const struct session *s)
{
    return s->answers.waiting_count >= UNREAD_MOST ||
           (s->answers.waiting_count >= UNREAD_FEW && s->user->unread >= UNREAD_OF_USER);
}

static void sessions_wake_if_posted(struct session *s)
{
    if (s->answers.posted)
        sessions_wake_later(s);
    s->answers.posted = false;
}

/* Posts what waits for room. */
static void session_flush(struct session *s)
{
    answers_flush(&s->answers);
    sessions_wake_if_posted(s);
}

int session_item(struct session *s, const struct hf_completion_entry *entry)
{
    int rc;

    if (s->closing)
        return HF_OK;
    rc = answers_put_item(&s->answers, entry);
    sessions_wake_if_posted(s);
    return rc;
}

void session_answer(struct session *s, const struct hf_completion_entry *entry)
{
    if (s->closing)
        return;
    answers_put(&s->answers, entry);
    sessions_wake_if_posted(s);
    session_enliven(s, loop_now(s->clients->loop));
}

bool session_takes_progress(const struct session *s)
{
    return !s->closing && answers_take_hint(&s->answers);
}

bool session_progress(struct session *s, struct hf_completion_entry *entry)
{
    bool posted;

    if (s->closing)
        return false;
    posted = answers_put_hint(&s->answers, entry);
    sessions_wake_if_posted(s);
    return posted;
}

enum served {
    SERVED_ALL, /* no request is left, or no room for answers, or the session ended */
    SERVED_SOME,
    SERVED_LATER, /* its user asked for too much, or memory is out: at the sweep */
};

/* At most REQUESTS_PER_TURN. */
static enum served session_serve(struct session *s, hf_time now) IN_BROKER_THREAD
{
    struct clients *clients = s->clients;
    struct hf_request_entry q;

    if (hf_ring_room(&s->ring) < 0) {
        session_end(s, "its completion cursor is out of range");
        return SERVED_ALL;
    }
    session_flush(s);
    for (int taken = 0; taken < REQUESTS_PER_TURN; taken++) {
        int rc;

        if (sessions_reads_too_little(s))
            return SERVED_ALL;
        if (!user_may_ask(clients, s->user, now) || answers_reserve(&s->answers) < 0)
            return SERVED_LATER;
        rc = hf_ring_take(&s->ring, &q);
        if (rc < 0) {
            session_end(s, "its request cursor is out of range");
            return SERVED_ALL;
        }
        if (rc == 0)
            return SERVED_ALL;
        clients->in_vain = false;
        user_asked(clients, s->user, now);
        session_enliven(s, now);
        /* The request may have freed `s`: then it is not the first any more. */
        clients->owner.request(clients->owner.arg, s, &q);
        if (TAILQ_FIRST(&clients->active) != s)
            return SERVED_ALL;
    }
    return SERVED_SOME;
}

static bool sessions_is_lively(const struct session *s, hf_time now)
{
    return hf_time_before(now, s->lively_until) && !sessions_reads_too_little(s);
}

bool sessions_serve(struct clients *clients)
{
    struct session *s;
    hf_time now = loop_now(clients->loop);
    unsigned before = clients->active_count,
             turns = before; /* each once: nodes and timers want their turn */
    bool again = false, lively = false;

    clients->in_vain = true;
    while (turns-- && (s = TAILQ_FIRST(&clients->active))) {
        enum served served = session_serve(s, now);

        if (TAILQ_FIRST(&clients->active) != s)
            continue; /* it ended */
        if (served == SERVED_ALL && sessions_is_lively(s, now)) {
            lively = true;
        } else if (served == SERVED_ALL &&
                   (hf_ring_arm(&s->ring) || sessions_reads_too_little(s))) {
            /* With too many answers unread it goes on at the sweep. */
            session_deactivate(s);
            continue;
        } else {
            again |= served != SERVED_LATER;
        }
        TAILQ_REMOVE(&clients->active, s, active);
        TAILQ_INSERT_TAIL(&clients->active, s, active);
    }
    again |= clients->active_count > before;
    clients->in_vain &= lively && !again;
    return again || lively;
}

/* The first look that finds its memory allocated lets it in. */
static void session_look(struct session *s) IN_BROKER_THREAD
{
    int rc = s->admitted || !s->client ? HF_OK : attach_admit(s);

    if (rc == HF_EPENDING)
        return;
    if (rc < 0) {
        session_end(s, "memory of its rings is missing, which it has to allocate");
        return;
    }
    if (s->client && !s->admitted) {
        s->admitted = true;
        sessions_wake_later(s); /* its leases may have changed meanwhile */
    }
    session_activate(s);
}

/* The descriptors ran out when a process wanted to attach: the listener, which stays readable, is
 * left alone until the next sweep. */
static void sessions_listener_pause(struct clients *clients)
{
    if (!clients->deaf)
        log_error(
            "no descriptors are left for clients; raise LimitNOFILE= in the unit, or ulimit -n");
    clients->deaf = true;
    loop_fd_remove(clients->loop, &clients->listener);
}

static void sessions_listener_resume(struct clients *clients)
{
    if (clients->listener.fd >= 0 && !clients->listener.priv &&
        loop_fd_add(clients->loop, &clients->listener, clients->listener.fd, sessions_on_listener) <
            0)
        log_error("out of memory: nobody can attach for now");
}

static void session_hear_again(struct session *s, hf_time now) IN_BROKER_THREAD
{
    s->unheard = user_is_tolled(s->user, now) ||
                 loop_fd_add(s->clients->loop, &s->socket, s->socket.fd, sessions_on_socket) < 0;
}

/* Bells are lost only by a client's own fault; still no request waits for longer than this. */
static void sessions_on_sweep(struct loop_timer *timer, hf_time now)
{
    struct clients *clients = HF_CONTAINER(timer, struct clients, sweep);
    struct session *s, *next;

    ASSERT_BROKER_THREAD();
    for (s = LIST_FIRST(&clients->sessions); s; s = next) {
        next = LIST_NEXT(s, all);
        if (s->unheard)
            session_hear_again(s, now);
        session_look(s);
    }
    if (clients->unwatched)
        clients_sweep(clients);
    (void)kept_probe(clients);
    sessions_wake_tolled(clients);
    sessions_listener_resume(clients);
    loop_timer_set(clients->loop, timer, hf_time_add(now, hf_ns(SWEEP_EVERY)));
}

static void sessions_on_process(struct loop_fd *watch)
{
    ASSERT_BROKER_THREAD();
    session_end(HF_CONTAINER(watch, struct session, process), NULL);
}

/* Never before this turn has closed anything: timers come first in it, and one is accepted in any case. */
static bool sessions_turn_is_long(const struct clients *clients)
{
    return hf_time_since(clock_now(), loop_now(clients->loop)).ns > CLOSES_WITHIN;
}

static void sessions_on_hello_timer(struct loop_timer *timer, hf_time now)
{
    struct session *s = HF_CONTAINER(timer, struct session, hello_timer);

    ASSERT_BROKER_THREAD();
    if (sessions_turn_is_long(s->clients))
        loop_timer_set(s->clients->loop, timer, hf_time_add(now, hf_ns(CLOSES_WITHIN)));
    else
        session_end(s, "no hello within a second");
}

static void sessions_on_socket(struct loop_fd *watch)
{
    struct session *s = HF_CONTAINER(watch, struct session, socket);
    struct hf_hello hello;
    struct toll toll;
    ssize_t n;

    ASSERT_BROKER_THREAD();
    if (s->client && user_is_tolled(s->user, clock_now())) {
        /* (!) Whoever watches the other end is woken by each read. The sweep looks at its ring, and hears it again. */
        s->unheard = true;
        loop_fd_remove(s->clients->loop, &s->socket);
        session_look(s);
        return;
    }
    if (s->client && s->clients->owner.datagram(s->clients->owner.arg, s))
        return;
    toll = user_toll_begin(s->user);
    /* Without a control buffer the kernel drops descriptors that come along all the same. */
    n = recv(watch->fd, &hello, sizeof(hello), MSG_DONTWAIT | MSG_TRUNC);
    user_toll_end(s->user, toll);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n == HF_BELL_BYTES && s->client)
        session_look(s);
    else if (n > 0 && s->client)
        session_end(s, "a datagram after the hello");
    else if (n <= 0 || !attach_hello(s, &hello, (size_t)n))
        session_end(s, NULL);
}

/* --- the attach socket ------------------------------------------------------------------------ */

static int sessions_peer_pidfd(int fd, uint32_t pid, bool *ret_certain)
{
    int pidfd = -1;
    socklen_t len = sizeof(pidfd);

    *ret_certain = getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) == 0;
    if (*ret_certain)
        return pidfd;
    /* Before Linux 6.5: the hello's start time is compared with the process's. */
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* It has waited the longest, so its hello is the least likely to come. */
static void sessions_end_stranger(struct clients *clients, const struct user *of) IN_BROKER_THREAD
{
    struct session *s, *oldest = NULL;

    LIST_FOREACH (s, &clients->sessions, all)
        if (s->user == of && !s->client)
            oldest = s;
    if (oldest)
        session_end(oldest, NULL);
}

enum let_in { NOBODY, TURNED_AWAY, LET_IN };

/* NOBODY: no other connection waits to be accepted, or none can be now. */
static enum let_in sessions_let_in(struct clients *clients) IN_BROKER_THREAD
{
    struct session *s;
    struct user *user, *makes_room;
    struct ucred cred;
    socklen_t len = sizeof(cred);
    int fd = accept4(clients->listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    int pidfd;

    if (fd < 0) {
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
            sessions_listener_pause(clients);
        return NOBODY;
    }
    /* (!) Nothing is made for one that is turned away: it costs least. */
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 ||
        !(user = user_get(clients, cred.uid)) ||
        !user_may_connect(clients, user, STRANGERS_MOST, loop_now(clients->loop), &makes_room)) {
        close(fd);
        return TURNED_AWAY;
    }
    if (makes_room)
        sessions_end_stranger(clients, makes_room);
    s = calloc(1, sizeof(*s));
    if (!s) {
        close(fd);
        return NOBODY;
    }
    s->user = user;
    pidfd = sessions_peer_pidfd(fd, (uint32_t)cred.pid, &s->process_certain);
    if (pidfd < 0 && (errno == EMFILE || errno == ENFILE))
        sessions_listener_pause(clients);
    if (pidfd < 0 || loop_fd_add(clients->loop, &s->socket, fd, sessions_on_socket) < 0) {
        if (pidfd >= 0)
            close(pidfd);
        close(fd);
        free(s);
        return NOBODY;
    }
    if (loop_fd_add(clients->loop, &s->process, pidfd, sessions_on_process) < 0) {
        loop_fd_remove(clients->loop, &s->socket);
        close(pidfd);
        close(fd);
        free(s);
        return NOBODY;
    }
    s->clients = clients;
    s->pid = (uint32_t)cred.pid;
    s->uid = cred.uid;
    rights_know_caller(&cred, &s->caller);
    s->hello_timer.fn = sessions_on_hello_timer;
    LIST_INIT(&s->waiters);
    LIST_INIT(&s->queries);
    LIST_INIT(&s->listings);
    answers_init(&s->answers, &s->ring, &s->user->unread);
    LIST_INSERT_HEAD(&clients->sessions, s, all);
    clients->session_count++;
    s->user->sessions++;
    user_stranger_comes(clients, s->user);
    hf_counter_set(&clients->agent->table, HF_COUNTER_CLIENTS, clients->session_count);
    clients->deaf = false;
    loop_timer_set(clients->loop, &s->hello_timer, hf_time_add(clock_now(), hf_ns(HELLO_WITHIN)));
    return LET_IN;
}

static void sessions_on_listener(struct loop_fd *watch)
{
    struct clients *clients = HF_CONTAINER(watch, struct clients, listener);

    ASSERT_BROKER_THREAD();
    for (int left = ACCEPTS_PER_TURN * TURNED_AWAY_FOR_ONE; left > 0;) {
        enum let_in what = sessions_let_in(clients);

        if (what == NOBODY || sessions_turn_is_long(clients))
            return;
        left -= what == LET_IN ? TURNED_AWAY_FOR_ONE : 1;
    }
}

int sessions_create(struct agent *agent, struct loop *loop, const struct clients_owner *owner,
                    struct clients **ret_clients)
{
    struct clients *clients;
    int rc = clients_create(agent, loop, owner, &clients);

    if (rc < 0)
        return rc;
    LIST_INIT(&clients->sessions);
    TAILQ_INIT(&clients->active);
    TAILQ_INIT(&clients->woken);
    TAILQ_INIT(&clients->tolled);
    hf_counter_set(&agent->table, HF_COUNTER_CLIENTS_MAX, clients->config->clients_max);
    clients->sweep.fn = sessions_on_sweep;
    kept_create(clients);
    clients->listener.fd = -1;
    *ret_clients = clients;
    return HF_OK;
}

void sessions_start(struct clients *clients)
{
    loop_timer_set(clients->loop, &clients->sweep, clock_now());
}

static int sessions_listen_anew(struct clients *clients, int *ret_fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = clients->agent->socket_path;
    mode_t mode = config_socket_mode(clients->config);
    int fd;

    if (strlen(path) >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return HF_ESYS;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return HF_ESYS;
    (void)unlink(path); /* nobody else has the agent's lock, and bind() takes the inode */
    /* Before anybody connects. A descriptor that comes may be a file whose last close blocks, and it would be here. */
    attach_pass_descriptors(fd, false);
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || chmod(path, mode) < 0 ||
        (clients->config->group != (gid_t)-1 &&
         chown(path, (uid_t)-1, clients->config->group) < 0) ||
        listen(fd, QUEUED_MOST) < 0) {
        int saved = errno;

        close(fd);
        errno = saved;
        return HF_ESYS;
    }
    *ret_fd = fd;
    return HF_OK;
}

int sessions_listen(struct clients *clients)
{
    int fd = clients->agent->listener, rc = HF_OK;

    clients->agent->listener = 0;
    if (!fd)
        rc = sessions_listen_anew(clients, &fd);
    return rc == HF_OK ? loop_fd_add(clients->loop, &clients->listener, fd, sessions_on_listener)
                       : rc;
}

static void sessions_stop_listening(struct clients *clients) BEFORE_OR_AFTER_THREADS
{
    loop_fd_remove(clients->loop, &clients->listener);
    if (atomic_load_explicit(&clients->agent->stays, memory_order_acquire)) {
        clients->agent->listener = clients->listener.fd;
        return;
    }
    close(clients->listener.fd); /* singleton_release() removes its file, or keeps it */
}

void sessions_destroy(struct clients *clients) BEFORE_OR_AFTER_THREADS
{
    struct session *s;

    if (clients->listener.fd >= 0)
        sessions_stop_listening(clients);
    sessions_wake(clients);
    /* Leases stay: their holders live on, and the next agent readopts them. */
    while ((s = LIST_FIRST(&clients->sessions))) {
        LIST_REMOVE(s, all);
        loop_timer_cancel(clients->loop, &s->hello_timer);
        loop_fd_remove(clients->loop, &s->socket);
        close(s->socket.fd);
        loop_fd_remove(clients->loop, &s->process);
        close(s->process.fd);
        if (s->client) {
            LIST_REMOVE(s, of_client);
            hf_ring_agent_destroy(&s->ring);
        }
        beats_drop(s->beats);
        kept_drop(s->kept);
        answers_free(&s->answers);
        rights_forget_caller(&s->caller);
        free(s);
    }
    kept_destroy(clients);
}
