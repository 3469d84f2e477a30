/* The hello: which process may attach, and what it is given. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/base/thread.h"
#include "agent/broker/clients/clients.h"
#include "agent/broker/clients/sessions.h"
#include "agent/broker/clients/users.h"
#include "shm/assert.h"
#include "shm/process.h"
#include "shm/ring.h"
#include "shm/status.h"
#include "shm/version.h"

/* --- memory that a session shares with its client --------------------------------------------- */

/* The memory that ended sessions shared, and that their clients may still have. */

/* In one look: two system calls of a microsecond each. */
#define LOOKS 32

struct kept {
    TAILQ_ENTRY(kept) link;
    struct user *user;
    int own[2];
    bool shared; /* it took no place of its own, and takes none now */
};

/* Whether the kernel knows of an open file that there is, and notices its end. */
static bool kept_can_tell(void)
{
    struct hf_ring_agent ring;
    int clients[2], own[2];
    bool before = false, after = true;

    if (hf_ring_agent_create(&ring, &clients[0], &clients[1]) < 0)
        return false;
    if (hf_ring_witness(clients, own) == 0) {
        before = hf_ring_is_shared(own);
        close(clients[0]);
        before = before && hf_ring_is_shared(own);
        close(clients[1]);
        hf_ring_agent_destroy(&ring);
        after = hf_ring_is_shared(own);
        close(own[0]);
        close(own[1]);
        return before && !after;
    }
    close(clients[0]);
    close(clients[1]);
    hf_ring_agent_destroy(&ring);
    return false;
}

void kept_create(struct clients *clients)
{
    TAILQ_INIT(&clients->kept);
    clients->tells_kept = kept_can_tell();
    if (!clients->tells_kept && clients->config->system)
        log_warn("the kernel does not tell when clients close their memory (fs.leases-enable): a "
                 "user can make the kernel keep some of the agent's memory without bound");
}

void kept_drop(struct kept *kept)
{
    if (!kept)
        return;
    for (int i = 0; i < 2; i++)
        close(kept->own[i]);
    free(kept);
}

void kept_destroy(struct clients *clients)
{
    struct kept *kept;

    while ((kept = TAILQ_FIRST(&clients->kept))) {
        TAILQ_REMOVE(&clients->kept, kept, link);
        kept_drop(kept);
    }
}

/* Watches the memory whose descriptors the client is about to get. HF_ESYS with errno, HF_ENOMEM. */
static int kept_watch(struct user *user, const int fds[2], struct kept **ret_kept)
{
    struct kept *kept;

    kept = calloc(1, sizeof(*kept));
    if (!kept)
        return HF_ENOMEM;
    if (hf_ring_witness(fds, kept->own) < 0) {
        int error = errno;

        free(kept);
        errno = error;
        return HF_ESYS;
    }
    kept->user = user;
    *ret_kept = kept;
    return HF_OK;
}

/* Nothing can be seen of others' memory, or it is to be had for as long as they like. */
static bool kept_is_free(const struct clients *clients, const struct kept *kept)
{
    return !clients->tells_kept || user_is_trusted(kept->user);
}

/* hf_ring_admit(). Then *kept is dropped, and NULL, if its client may keep the memory. */
static int kept_admit(const struct clients *clients, struct hf_ring_agent *ring, struct kept **kept)
{
    int rc = hf_ring_admit(ring, (*kept)->own);

    if (rc == HF_OK && kept_is_free(clients, *kept)) {
        kept_drop(*kept);
        *kept = NULL;
    }
    return rc;
}

void kept_after_session(struct clients *clients, struct user *user, struct kept *kept, bool shared)
{
    if (!kept || kept_is_free(clients, kept) || !hf_ring_is_shared(kept->own)) {
        if (shared)
            user_shares_no_more(clients, user);
        kept_drop(kept);
        return;
    }
    kept->shared = shared;
    TAILQ_INSERT_HEAD(&clients->kept, kept, link);
    kept->user->kept++;
    clients->kept_count++;
}

unsigned kept_probe(struct clients *clients)
{
    unsigned given_up = 0;

    for (unsigned i = 0, all = clients->kept_count; i < LOOKS && i < all; i++) {
        struct kept *kept = TAILQ_FIRST(&clients->kept);

        TAILQ_REMOVE(&clients->kept, kept, link);
        if (hf_ring_is_shared(kept->own)) {
            TAILQ_INSERT_TAIL(&clients->kept, kept, link);
            continue;
        }
        hf_assert(kept->user->kept > 0 && clients->kept_count > 0, "kept %u, of its user %u",
                  clients->kept_count, kept->user->kept);
        kept->user->kept--;
        clients->kept_count--;
        if (kept->shared)
            user_shares_no_more(clients, kept->user);
        kept_drop(kept);
        given_up++;
    }
    return given_up;
}

/* --- attaching -------------------------------------------------------------------------------- */

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

static void attach_welcome_init(const struct clients *clients, struct hf_welcome *w)
{
    const struct hf_table_header *h = clients->agent->table.header;

    *w = (struct hf_welcome){.magic = HF_WIRE_MAGIC,
                             .major = HF_WIRE_MAJOR,
                             .minor = HF_WIRE_MINOR,
                             .epoch = h->epoch,
                             .incarnation =
                                 atomic_load_explicit(&h->incarnation, memory_order_relaxed),
                             .ring_entries = HF_RING_ENTRIES,
                             .ttl_ms = clients->config->ttl_ms,
                             .ttl_max_ms = clients->config->ttl_max_ms,
                             .ttl_min_ms = (uint32_t)hf_dur_ms(timing_ttl_min())};
    snprintf(w->version, sizeof(w->version), "%s", HOLDFAST_VERSION);
}

static bool attach_turn_away(struct session *s, struct hf_welcome *w, int status) IN_BROKER_THREAD
{
    w->status = status;
    hf_counter_add(&s->clients->agent->table, HF_COUNTER_REFUSED, 1);
    (void)send(s->socket.fd, w, sizeof(*w), MSG_DONTWAIT | MSG_NOSIGNAL);
    return false;
}

/* The client that a cookie belongs to, if this caller may use it. */
static struct client *attach_client_resume(const struct session *s, const struct hf_hello *h)
{
    static const uint8_t none[HF_COOKIE_LEN];
    uint64_t hash = cookie_hash(h->cookie);
    struct client *c;

    if (memcmp(h->cookie, none, sizeof(none)) == 0)
        return NULL;
    LIST_FOREACH (c, &s->clients->all, all) {
        if (c->cookie_hash != hash || c->uid != s->uid)
            continue;
        /* A guardian may be another process of the same user; a holder must be the same process. An earlier agent may have known it
         * by its start time. */
        if ((h->role == HF_ROLE_GUARDIAN && !c->over) ||
            (c->pid == s->pid && (c->birth == s->birth || c->birth == h->start_time)))
            return c;
    }
    return NULL;
}

/* Whether a session of a guardian and another one of its client would be there. */
static bool attach_is_pair(const struct client *c, bool guardian)
{
    const struct session *s;
    bool other = false;

    LIST_FOREACH (s, &c->sessions, of_client) {
        guardian |= s->guardian;
        other = true;
    }
    return guardian && other;
}

/* (!) A job's second guardian shares the place of its first: were it refused, a lock would have been granted for a job that
 * cannot start, time and again while others wait. One of a client does, whichever came first; further ones are counted. */
static bool attach_shares(const struct client *c, const struct user *user, bool guardian)
{
    return !c->shares && user_may_share(c->clients, user) && attach_is_pair(c, guardian);
}

static void attach_join(struct session *s, struct client *c) IN_BROKER_THREAD
{
    if (attach_shares(c, s->user, s->guardian)) {
        c->shares = true;
        user_shares(c->clients, s->user);
    }
    s->client = c;
    LIST_INSERT_HEAD(&c->sessions, s, of_client);
}

bool attach_part(struct session *s)
{
    struct client *c = s->client;
    struct session *first;
    bool shared;

    LIST_REMOVE(s, of_client);
    first = LIST_FIRST(&c->sessions);
    shared = c->shares && !(first && LIST_NEXT(first, of_client) && attach_is_pair(c, false));
    c->shares &= !shared;
    return shared;
}

static int attach_judge_place(const struct session *s, const struct client *known,
                              const struct hf_hello *h, struct hf_welcome *w)
{
    if (known && attach_shares(known, s->user, h->role == HF_ROLE_GUARDIAN))
        return HF_OK;
    return user_judge_attach(s->clients, s->user, known && LIST_EMPTY(&known->sessions), w->text,
                             sizeof(w->text));
}

/* Who it is. What it tells of itself counts where the kernel does not tell: a false start time only loses its own leases at a restart. */
static uint64_t attach_birth(const struct session *s, const struct hf_hello *h)
{
    uint64_t birth = hf_process_birth(s->process.fd);

    return birth ? birth : h->start_time;
}

/* (!) Only where the kernel does not give the pidfd of the process that connected (before Linux 6.5). The user may make this read as
 * slow as it likes: it pays for that. */
static int attach_judge_process(const struct session *s, const struct hf_hello *h,
                                struct hf_welcome *w)
{
    struct toll toll;
    uint64_t started;

    if (s->process_certain)
        return HF_OK;
    toll = user_toll_begin(s->user);
    started = hf_process_start_time((pid_t)s->pid);
    user_toll_end(s->user, toll);
    if (started == h->start_time)
        return HF_OK;
    if (started == 0)
        snprintf(w->text, sizeof(w->text),
                 "the agent does not see process %" PRIu32
                 ": its /proc is mounted with hidepid; mount it with gid=%" PRIu32 ", too",
                 s->pid, (uint32_t)getegid());
    else
        snprintf(w->text, sizeof(w->text), "process %" PRIu32 " is not the one that said hello",
                 s->pid);
    return HF_EPERM;
}

static int attach_judge(struct session *s, const struct hf_hello *h, size_t length,
                        struct hf_welcome *w) IN_BROKER_THREAD
{
    const struct clients *clients = s->clients;
    const struct client *known;
    int64_t apart;
    int rc;

    if (length != sizeof(*h) || h->magic != HF_WIRE_MAGIC || h->major != HF_WIRE_MAJOR ||
        h->fingerprint != hf_wire_fingerprint()) {
        snprintf(w->text, sizeof(w->text),
                 "update the program's library or this agent to the other's version: the agent is "
                 "Holdfast %s (wire %d.%d)",
                 HOLDFAST_VERSION, HF_WIRE_MAJOR, HF_WIRE_MINOR);
        return HF_EVERSION;
    }
    apart = h->boottime_ns - clock_now().ns;
    if (h->timens_inode != clients->agent->timens_inode || apart > HF_NS_PER_SEC ||
        apart < -10 * HF_NS_PER_SEC) {
        snprintf(
            w->text, sizeof(w->text),
            "run an agent in the program's time namespace: its clock differs from this agent's");
        return HF_ETIMENS;
    }
    if (s->pid == 0) {
        snprintf(w->text, sizeof(w->text),
                 "run the agent on the host, or share its PID namespace with this program: it "
                 "does not see its process");
        return HF_EPERM;
    }
    if (h->start_time == 0 || h->start_time & HF_BIRTH_OF_PIDFD) {
        snprintf(w->text, sizeof(w->text), "process %" PRIu32 " does not tell when it started",
                 s->pid);
        return HF_EPERM;
    }
    s->birth = attach_birth(s, h);
    if (clients->going)
        return HF_ESHUTDOWN;
    known = attach_client_resume(s, h);
    rc = attach_judge_place(s, known, h, w);
    if (rc < 0 && kept_probe(s->clients))
        rc = attach_judge_place(s, known, h, w);
    if (rc < 0)
        return rc;
    rc = user_judge_rate(clients, s->user, clock_now(), w->text, sizeof(w->text));
    w->again = rc < 0;
    return rc < 0 ? rc : attach_judge_process(s, h, w);
}

static struct client *attach_client_first(struct session *s, const struct hf_hello *h,
                                          uint8_t ret_cookie[HF_COOKIE_LEN]) IN_BROKER_THREAD
{
    struct clients *clients = s->clients;
    struct client *c = client_new(clients);
    static const uint8_t none[HF_COOKIE_LEN];

    if (!c)
        return NULL;
    /* A cookie that is not known any more (its leases are over) is kept: the client goes on
     * under it. */
    if (memcmp(h->cookie, none, sizeof(none)) != 0 && h->role == HF_ROLE_HOLDER)
        memcpy(ret_cookie, h->cookie, HF_COOKIE_LEN);
    else if (getrandom(ret_cookie, HF_COOKIE_LEN, 0) != HF_COOKIE_LEN) {
        client_settle(c);
        return NULL;
    }
    c->pid = s->pid;
    c->uid = s->uid;
    c->user = s->user;
    c->birth = s->birth;
    c->cookie_hash = cookie_hash(ret_cookie);
    snprintf(c->comm, sizeof(c->comm), "%.*s", HF_COMM_MAX, h->comm);
    return c;
}

static bool attach_send_welcome(struct session *s, struct hf_welcome *w,
                                const int fds[HF_WELCOME_FDS])
{
    char control[CMSG_SPACE(sizeof(int) * HF_WELCOME_FDS)] = {0};
    struct iovec part = {.iov_base = w, .iov_len = sizeof(*w)};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = control,
                       .msg_controllen = sizeof(control)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    struct toll toll;
    bool sent;

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * HF_WELCOME_FDS);
    memcpy(CMSG_DATA(c), fds, sizeof(int) * HF_WELCOME_FDS);
    toll = user_toll_begin(s->user);
    sent = sendmsg(s->socket.fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(*w);
    user_toll_end(s->user, toll);
    return sent;
}

/* Its own limit, or the whole system's. */
static void attach_say_no_descriptors(char *text, size_t size, int error)
{
    struct rlimit limit;

    if (error == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0)
        snprintf(text, size,
                 "the agent has no descriptors left, its limit is %llu; raise LimitNOFILE= in its "
                 "unit, or ulimit -n, and restart it",
                 (unsigned long long)limit.rlim_cur);
    else
        snprintf(text, size, "the agent has no room for a client: %s", strerror(error));
}

void attach_pass_descriptors(int fd, bool on)
{
    int value = on;

    /* Before Linux 6.16 it cannot be forbidden: broker_rouse(). */
    (void)setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &value, sizeof(value));
}

bool attach_hello(struct session *s, const struct hf_hello *h, size_t length)
{
    struct clients *clients = s->clients;
    struct hf_welcome w;
    struct client *c;
    int fds[HF_WELCOME_FDS] = {-1, -1, -1};
    bool welcome = false;
    int rc;

    attach_welcome_init(clients, &w);
    rc = attach_judge(s, h, length, &w);
    if (rc < 0)
        return attach_turn_away(s, &w, rc);
    c = attach_client_resume(s, h);
    if (!c && h->role == HF_ROLE_GUARDIAN) {
        snprintf(w.text, sizeof(w.text), "the lease that this guardian belongs to is over");
        return attach_turn_away(s, &w, HF_ELOST);
    }
    if (hf_table_readonly_fd(&clients->agent->table, &fds[HF_FD_TABLE]) < 0 ||
        hf_ring_agent_create(&s->ring, &fds[HF_FD_REQUESTS], &fds[HF_FD_COMPLETIONS]) < 0 ||
        kept_watch(s->user, &fds[HF_FD_REQUESTS], &s->kept) < 0) {
        hf_ring_agent_destroy(&s->ring);
        if (log_allows(&clients->no_fds, LOG_LIMIT, clock_now()))
            log_error("a client is turned away, for want of descriptors: %s", strerror(errno));
        attach_say_no_descriptors(w.text, sizeof(w.text), errno);
        (void)attach_turn_away(s, &w, HF_EFULL);
        goto close_fds;
    }
    if (c)
        memcpy(w.cookie, h->cookie, sizeof(w.cookie));
    else
        c = attach_client_first(s, h, w.cookie);
    if (!c) {
        hf_ring_agent_destroy(&s->ring);
        (void)attach_turn_away(s, &w, HF_ENOMEM);
        goto close_fds;
    }
    w.client_id = (uint32_t)c->id;
    w.readopted = c->held_count;

    s->guardian = h->role == HF_ROLE_GUARDIAN;
    attach_join(s, c);
    user_stranger_goes(clients, s->user);
    s->nudge = h->nudge;
    /* Before the welcome, which the guardian answers with its job's group. */
    if (s->guardian && session_is_own(s))
        attach_pass_descriptors(s->socket.fd, true);
    rights_know_groups(s);
    loop_timer_cancel(clients->loop, &s->hello_timer);
    if (!attach_send_welcome(s, &w, fds))
        goto close_fds;
    /* This session watches the process from here on, and not before it was welcomed. */
    if (h->role == HF_ROLE_HOLDER)
        client_ghost_end(c);
    else
        c->joined = true;
    welcome = true;

close_fds:
    for (int i = 0; i < HF_WELCOME_FDS; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return welcome;
}

int attach_admit(struct session *s)
{
    struct clients *clients = s->clients;
    hf_time now = loop_now(clients->loop);
    int rc;

    /* (!) All leases of its client are looked through, for it and at its end. */
    if (!user_may_have_searched(clients, s->user, s->client->held_count, now))
        return HF_EPENDING;
    rc = kept_admit(clients, &s->ring, &s->kept);
    if (rc != HF_OK)
        return rc;
    s->beats = beats_new(hf_ring_take_beats(&s->ring)); /* without memory no beat is seen */
    user_searched(clients, s->user, s->client->held_count, now);
    if (!s->guardian)
        clients->owner.rebound(clients->owner.arg, s);
    return HF_OK;
}
