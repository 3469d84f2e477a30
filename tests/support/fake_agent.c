#include "tests/support/fake_agent.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "shm/index.h"
#include "shm/ring.h"
#include "shm/slot.h"
#include "shm/status.h"
#include "shm/table.h"
#include "shm/wire.h"

#define CLIENTS   16
#define LEASES    256
#define WAITERS   256
#define FOREIGN   8
#define POLLED    (1 + 2 * CLIENTS) /* pollfds: listener, and socket and doorbell of each client */
#define TURN_MS   10
#define FENCE_ONE (UINT64_C(1) << 16)

/* A test's rig that does not stand is no test result. */
#define MUST(x)                                                                                    \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            fprintf(stderr, "fake agent: %s:%d: %s: %s\n", __FILE__, __LINE__, #x,                 \
                    strerror(errno));                                                              \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

struct attached {
    bool used, welcomed;
    int sock, doorbell;
    struct hf_ring_agent ring;
    struct ucred peer;
    struct hf_hello hello;
    uint8_t cookie[HF_COOKIE_LEN];
};

struct held {
    bool used, run, frozen; /* frozen: LOSING, V stays */
    uint32_t generation, ttl_ms, text_off;
    uint64_t fence;
    int64_t deadline_ns;
    uint8_t cookie[HF_COOKIE_LEN];
    struct hf_request_entry request; /* its name */
};

struct waiting {
    bool used;
    int client;
    uint64_t number; /* first come, first served */
    struct hf_request_entry request;
};

struct fake_agent {
    pthread_mutex_t lock;
    pthread_t thread;
    bool running, frozen, renewing, saw_reaped;
    struct fake_agent_options options;
    char dir[64], name[32], path[108], shm_name[HF_TABLE_NAME_MAX];
    int listener;
    struct hf_table table;
    struct hf_text_pool *text;
    uint32_t generation[LEASES];
    uint64_t last_fence, last_number;
    struct attached clients[CLIENTS];
    struct held leases[LEASES];
    struct waiting waiters[WAITERS];
    char foreign[FOREIGN][64];
};

static int64_t now_ns(void)
{
    struct timespec t;

    MUST(clock_gettime(CLOCK_BOOTTIME, &t) == 0);
    return (int64_t)t.tv_sec * HF_NS_PER_SEC + t.tv_nsec;
}

static bool same_name(const struct hf_request_entry *request, const void *name, size_t len)
{
    return request->name_len == len && memcmp(request->name, name, len) == 0;
}

/* --- table ---------------------------------------------------------------------------------------
 */

static void make_table(struct fake_agent *a)
{
    struct hf_table_spec spec = {
        .agent_name = a->name,
        .capacity = LEASES,
        .nodes = 3,
        .quorum = 2,
        .ttl_ms = a->options.ttl_ms,
        .ttl_max_ms = 60000,
        .mode = 0644,
        .group = (gid_t)-1,
        .version = "fake",
    };
    char why[256] = "";
    bool warm;

    if (hf_table_create(a->shm_name, &spec, &a->table, &warm, why, sizeof(why)) < 0) {
        fprintf(stderr, "fake agent: %s\n", why);
        abort();
    }
    MUST(hf_text_pool_create(&a->table, &a->text) == 0);
    hf_table_set_state(&a->table, HF_TABLE_ALIVE);
}

static void drop_table(struct fake_agent *a)
{
    hf_text_pool_destroy(a->text);
    hf_table_close(&a->table);
    shm_unlink(a->shm_name);
}

/* --- answers -------------------------------------------------------------------------------------
 */

static void nudge(struct attached *c)
{
    (void)send(c->sock, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void post(struct attached *c, const struct hf_completion_entry *entry)
{
    MUST(hf_ring_post(&c->ring, entry) == 0);
    nudge(c);
}

static void answer(struct attached *c, const struct hf_request_entry *request, int status)
{
    struct hf_completion_entry entry = {.id = request->id, .op = request->op, .status = status};

    post(c, &entry);
}

static void tell_holder(struct fake_agent *a, const uint8_t *cookie)
{
    for (int i = 0; i < CLIENTS; i++) {
        struct attached *c = &a->clients[i];

        if (c->welcomed && memcmp(c->cookie, cookie, HF_COOKIE_LEN) == 0) {
            hf_ring_signal(&c->ring);
            nudge(c);
        }
    }
}

/* --- locks ---------------------------------------------------------------------------------------
 */

static struct held *find_lease(struct fake_agent *a, const void *name, size_t len)
{
    for (int i = 0; i < LEASES; i++)
        if (a->leases[i].used && same_name(&a->leases[i].request, name, len))
            return &a->leases[i];
    return NULL;
}

static bool is_foreign(const struct fake_agent *a, const struct hf_request_entry *request)
{
    for (int i = 0; i < FOREIGN; i++)
        if (*a->foreign[i] && same_name(request, a->foreign[i], strlen(a->foreign[i])))
            return true;
    return false;
}

static uint32_t slot_number(const struct fake_agent *a, const struct held *lease)
{
    return (uint32_t)(lease - a->leases);
}

static int64_t next_deadline(const struct held *lease)
{
    return now_ns() + (int64_t)lease->ttl_ms * 990 * HF_NS_PER_US - 2 * HF_NS_PER_MS;
}

static void publish(struct fake_agent *a, struct held *lease, const struct attached *c)
{
    const struct hf_request_entry *r = &lease->request;
    uint32_t slot = slot_number(a, lease);
    struct hf_slot_identity id = {
        .generation = lease->generation,
        .pid = (uint32_t)c->peer.pid,
        .uid = c->peer.uid,
        .ttl_ms = lease->ttl_ms,
        .flags = lease->run ? HF_SLOT_F_RUN : 0,
        .name_len = r->name_len,
        .note_len = r->note_len,
        .comm_len = (uint8_t)strnlen(c->hello.comm, HF_COMM_MAX),
        .fence = lease->fence,
        .since = {now_ns()},
    };

    MUST(hf_text_put(a->text, r->name, r->name_len, r->note, r->note_len, c->hello.comm,
                     id.comm_len, &id.text_off) == 0);
    hf_slot_publish(&a->table.slots[slot], &id, (hf_time){lease->deadline_ns}, 3);
    if (atomic_load(&a->table.header->slots_used) <= slot)
        atomic_store(&a->table.header->slots_used, slot + 1);
    MUST(hf_index_add(&a->table, r->name, r->name_len, slot) == 0);
}

static void grant(struct fake_agent *a, struct attached *c, const struct hf_request_entry *request)
{
    struct hf_completion_entry entry = {.id = request->id, .op = HF_OP_ACQUIRE};
    struct held *lease = a->leases;

    while (lease < a->leases + LEASES && lease->used)
        lease++;
    if (lease == a->leases + LEASES) {
        answer(c, request, HF_EFULL);
        return;
    }
    *lease = (struct held){
        .used = true,
        .run = request->flags & HF_REQ_RUN,
        .generation = ++a->generation[lease - a->leases],
        .ttl_ms = request->ttl_ms ? request->ttl_ms : a->options.ttl_ms,
        .fence = a->last_fence += FENCE_ONE,
        .request = *request,
    };
    lease->deadline_ns = next_deadline(lease);
    memcpy(lease->cookie, c->cookie, sizeof(lease->cookie));
    publish(a, lease, c);
    entry.slot = slot_number(a, lease);
    entry.generation = lease->generation;
    entry.fence = lease->fence;
    entry.deadline_ns = lease->deadline_ns;
    post(c, &entry);
}

static void fill_holder(struct fake_agent *a, const struct hf_request_entry *request,
                        struct hf_wire_holder *holder)
{
    const struct held *lease = find_lease(a, request->name, request->name_len);

    holder->pttl_ms = -2;
    if (lease) {
        holder->fence = lease->fence;
        holder->pid = (uint32_t)getpid();
        strcpy(holder->host, "here");
        strcpy(holder->comm, "holder");
        memcpy(holder->note, lease->request.note, lease->request.note_len);
    } else {
        holder->pid = 4711;
        strcpy(holder->host, "elsewhere");
    }
}

static bool is_free(struct fake_agent *a, const struct hf_request_entry *request)
{
    return !find_lease(a, request->name, request->name_len) && !is_foreign(a, request);
}

static void acquire(struct fake_agent *a, int client, const struct hf_request_entry *request)
{
    struct hf_completion_entry busy = {.id = request->id, .op = HF_OP_ACQUIRE, .status = HF_EBUSY};
    struct attached *c = &a->clients[client];
    struct waiting *w = a->waiters;

    if (request->name_len == 0 || memcmp(request->name, "holdfast:", 9) == 0) {
        answer(c, request, HF_ENAME);
        return;
    }
    if (is_free(a, request)) {
        grant(a, c, request);
        return;
    }
    fill_holder(a, request, &busy.holder);
    if (request->deadline_ns == 0) {
        post(c, &busy);
        return;
    }
    while (w < a->waiters + WAITERS && w->used)
        w++;
    if (w == a->waiters + WAITERS) {
        answer(c, request, HF_ELIMIT);
        return;
    }
    *w = (struct waiting){
        .used = true,
        .client = client,
        .number = ++a->last_number,
        .request = *request,
    };
    busy.op = HF_OP_PROGRESS;
    post(c, &busy);
}

static bool is_due(struct fake_agent *a, const struct waiting *w)
{
    return w->used && hf_ring_room(&a->clients[w->client].ring) > 0 &&
           (is_free(a, &w->request) || w->request.deadline_ns <= now_ns());
}

static void serve_waiters(struct fake_agent *a)
{
    for (;;) {
        struct waiting *first = NULL;

        for (int i = 0; i < WAITERS; i++)
            if (is_due(a, &a->waiters[i]) && (!first || a->waiters[i].number < first->number))
                first = &a->waiters[i];
        if (!first)
            return;
        first->used = false;
        if (is_free(a, &first->request))
            grant(a, &a->clients[first->client], &first->request);
        else
            answer(&a->clients[first->client], &first->request, HF_ETIMEDOUT);
    }
}

static void end_lease(struct fake_agent *a, struct held *lease, enum hf_slot_state state,
                      enum hf_loss_reason reason)
{
    struct hf_slot *slot = &a->table.slots[slot_number(a, lease)];

    hf_slot_withdraw(slot);
    hf_slot_end(slot, state, reason);
    hf_index_remove(&a->table, lease->request.name, lease->request.name_len, slot_number(a, lease));
    lease->used = false;
    tell_holder(a, lease->cookie);
}

/* Slot and generation are checked against the session's own leases. */
static struct held *own_lease(struct fake_agent *a, const struct attached *c,
                              const struct hf_request_entry *request)
{
    struct held *lease = request->slot < LEASES ? &a->leases[request->slot] : NULL;

    if (!lease || !lease->used || lease->generation != request->generation ||
        memcmp(lease->cookie, c->cookie, HF_COOKIE_LEN) != 0)
        return NULL;
    return lease;
}

static void release(struct fake_agent *a, struct attached *c,
                    const struct hf_request_entry *request)
{
    struct held *lease = own_lease(a, c, request);

    if (request->flags & HF_REQ_REAPED)
        a->saw_reaped = true;
    if (lease)
        end_lease(a, lease, HF_SLOT_ENDED, HF_LOSS_NONE);
    answer(c, request, lease ? HF_OK : HF_ENOTHELD);
}

static void set_losing(struct fake_agent *a, struct held *lease, enum hf_loss_reason reason)
{
    lease->frozen = true;
    hf_slot_mark(&a->table.slots[slot_number(a, lease)], HF_SLOT_LOSING, 0, reason);
    tell_holder(a, lease->cookie);
}

static void handle(struct fake_agent *a, int client, const struct hf_request_entry *request)
{
    struct attached *c = &a->clients[client];
    struct held *lease;

    switch (request->op) {
    case HF_OP_ACQUIRE:
        acquire(a, client, request);
        break;
    case HF_OP_RELEASE:
        release(a, c, request);
        break;
    case HF_OP_CANCEL:
        for (int i = 0; i < WAITERS; i++) {
            struct waiting *w = &a->waiters[i];

            if (w->used && w->client == client && w->request.id == request->target) {
                w->used = false;
                answer(c, &w->request, HF_ECANCELED);
            }
        }
        break;
    case HF_OP_LOSING:
        lease = own_lease(a, c, request);
        if (lease)
            set_losing(a, lease, HF_LOSS_GUARDIAN);
        break;
    case HF_OP_ASK:
        lease = find_lease(a, request->name, request->name_len);
        if (lease)
            set_losing(a, lease, HF_LOSS_ASKED);
        answer(c, request, lease ? HF_OK : HF_ENOTHELD);
        break;
    default:
        answer(c, request, HF_OK);
    }
}

/* --- clients -------------------------------------------------------------------------------------
 */

static void close_client(struct attached *c)
{
    close(c->sock);
    if (c->welcomed) {
        close(c->doorbell);
        hf_ring_agent_destroy(&c->ring);
    }
    *c = (struct attached){0};
}

/* The last session of a cookie takes its leases with it, except those of a run. */
static void client_gone(struct fake_agent *a, int client)
{
    uint8_t cookie[HF_COOKIE_LEN];

    memcpy(cookie, a->clients[client].cookie, sizeof(cookie));
    for (int i = 0; i < WAITERS; i++)
        if (a->waiters[i].used && a->waiters[i].client == client)
            a->waiters[i].used = false;
    close_client(&a->clients[client]);
    for (int i = 0; i < CLIENTS; i++)
        if (a->clients[i].welcomed && memcmp(a->clients[i].cookie, cookie, sizeof(cookie)) == 0)
            return;
    for (int i = 0; i < LEASES; i++) {
        struct held *lease = &a->leases[i];

        if (lease->used && !lease->run && memcmp(lease->cookie, cookie, sizeof(cookie)) == 0)
            end_lease(a, lease, HF_SLOT_ENDED, HF_LOSS_NONE);
    }
}

static void send_welcome(struct attached *c, struct hf_welcome *welcome, const int *fds, int count)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int) * HF_WELCOME_FDS)];
    } control = {0};
    struct iovec iov = {.iov_base = welcome, .iov_len = sizeof(*welcome)};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

    if (count) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof(control.bytes);
        control.header = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof(int) * HF_WELCOME_FDS),
            .cmsg_level = SOL_SOCKET,
            .cmsg_type = SCM_RIGHTS,
        };
        memcpy(CMSG_DATA(&control.header), fds, sizeof(int) * HF_WELCOME_FDS);
    }
    (void)sendmsg(c->sock, &message, MSG_NOSIGNAL);
}

static void welcome_client(struct fake_agent *a, int client)
{
    static const uint8_t none[HF_COOKIE_LEN];
    struct attached *c = &a->clients[client];
    struct hf_welcome welcome = {
        .magic = HF_WIRE_MAGIC,
        .status = a->options.refuse,
        .major = HF_WIRE_MAJOR,
        .epoch = a->table.header->epoch,
        .ring_entries = HF_RING_ENTRIES,
        .ttl_ms = a->options.ttl_ms,
        .ttl_max_ms = 60000,
        .ttl_min_ms = 750,
        .version = "fake",
    };
    int fds[HF_WELCOME_FDS];

    if (a->options.silent)
        return;
    if (welcome.status < 0) {
        if (a->options.refuse_text)
            strcpy(welcome.text, a->options.refuse_text);
        send_welcome(c, &welcome, NULL, 0);
        close_client(c);
        return;
    }
    if (memcmp(c->hello.cookie, none, sizeof(none)) != 0)
        memcpy(c->cookie, c->hello.cookie, sizeof(c->cookie));
    else
        MUST(getrandom(c->cookie, sizeof(c->cookie), 0) == sizeof(c->cookie));
    memcpy(welcome.cookie, c->cookie, sizeof(c->cookie));
    MUST(hf_table_readonly_fd(&a->table, a->shm_name, &fds[HF_FD_TABLE]) == 0);
    MUST(hf_ring_agent_create(&c->ring, &fds[HF_FD_REQUESTS], &fds[HF_FD_COMPLETIONS]) == 0);
    c->doorbell = fds[HF_FD_DOORBELL] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    MUST(c->doorbell >= 0);
    c->welcomed = true;
    send_welcome(c, &welcome, fds, HF_WELCOME_FDS);
    close(fds[HF_FD_TABLE]);
    close(fds[HF_FD_REQUESTS]);
    close(fds[HF_FD_COMPLETIONS]);
}

static void accept_client(struct fake_agent *a)
{
    int sock = accept4(a->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    socklen_t len = sizeof(struct ucred);
    struct attached *c = a->clients;

    if (sock < 0)
        return;
    while (c < a->clients + CLIENTS && c->used)
        c++;
    MUST(c < a->clients + CLIENTS);
    c->used = true;
    c->sock = sock;
    MUST(getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &c->peer, &len) == 0);
}

static void hear_client(struct fake_agent *a, int client)
{
    struct attached *c = &a->clients[client];
    ssize_t len = recv(c->sock, &c->hello, sizeof(c->hello), MSG_DONTWAIT);

    if (len < 0 && errno == EAGAIN)
        return;
    if (len <= 0) {
        client_gone(a, client);
        return;
    }
    MUST(!c->welcomed && len == sizeof(c->hello) && c->hello.magic == HF_WIRE_MAGIC &&
         c->hello.fingerprint == hf_wire_fingerprint());
    welcome_client(a, client);
}

/* --- the thread ----------------------------------------------------------------------------------
 */

static bool serve_rings(struct fake_agent *a)
{
    struct hf_request_entry request;
    bool any = false;

    for (int i = 0; i < CLIENTS; i++) {
        struct attached *c = &a->clients[i];

        if (!c->welcomed)
            continue;
        hf_ring_disarm(&c->ring);
        /* Room for the answer first, as the real agent does. */
        while (hf_ring_room(&c->ring) > 1 && hf_ring_take(&c->ring, &request) == 1) {
            handle(a, i, &request);
            any = true;
        }
        (void)hf_ring_arm(&c->ring);
    }
    return any;
}

static void renew(struct fake_agent *a)
{
    for (int i = 0; i < LEASES; i++) {
        struct held *lease = &a->leases[i];
        int64_t left = lease->deadline_ns - now_ns();

        if (!lease->used)
            continue;
        if (left <= 0) {
            end_lease(a, lease, HF_SLOT_LOST, HF_LOSS_QUORUM);
        } else if (a->renewing && !lease->frozen &&
                   left < (int64_t)lease->ttl_ms * HF_NS_PER_MS * 2 / 3) {
            lease->deadline_ns = next_deadline(lease);
            hf_slot_extend(&a->table.slots[i], (hf_time){lease->deadline_ns}, 3);
        }
    }
    atomic_store(&a->table.header->main_beat_ns, now_ns());
}

static void turn(struct fake_agent *a, struct pollfd *fds)
{
    uint64_t rings;

    if (fds[0].revents)
        accept_client(a);
    for (int i = 0; i < CLIENTS; i++) {
        struct attached *c = &a->clients[i];

        if (c->welcomed)
            (void)!read(c->doorbell, &rings, sizeof(rings));
        if (c->used)
            hear_client(a, i);
    }
    while (serve_rings(a))
        ;
    renew(a);
    serve_waiters(a);
}

static void *run(void *arg)
{
    struct fake_agent *a = arg;
    struct pollfd fds[POLLED];

    pthread_mutex_lock(&a->lock);
    while (a->running) {
        fds[0] = (struct pollfd){.fd = a->listener, .events = POLLIN};
        for (int i = 0; i < CLIENTS; i++) {
            struct attached *c = &a->clients[i];

            fds[1 + 2 * i] = (struct pollfd){.fd = c->used ? c->sock : -1, .events = POLLIN};
            fds[2 + 2 * i] =
                (struct pollfd){.fd = c->welcomed ? c->doorbell : -1, .events = POLLIN};
        }
        pthread_mutex_unlock(&a->lock);
        (void)poll(fds, POLLED, TURN_MS);
        pthread_mutex_lock(&a->lock);
        if (a->running && !a->frozen)
            turn(a, fds);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

static void go(struct fake_agent *a)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    strcpy(address.sun_path, a->path);
    unlink(a->path);
    a->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    MUST(a->listener >= 0);
    MUST(bind(a->listener, (struct sockaddr *)&address, sizeof(address)) == 0);
    MUST(listen(a->listener, 16) == 0);
    a->running = true;
    a->frozen = false;
    MUST(pthread_create(&a->thread, NULL, run, a) == 0);
}

struct fake_agent *fake_agent_start(const struct fake_agent_options *options)
{
    static atomic_uint starts;
    struct fake_agent *a = calloc(1, sizeof(*a));
    char sub[96];

    MUST(a);
    if (options)
        a->options = *options;
    if (!a->options.ttl_ms)
        a->options.ttl_ms = 30000;
    a->renewing = true;
    pthread_mutex_init(&a->lock, NULL);
    strcpy(a->dir, "/tmp/holdfast-fake-XXXXXX");
    MUST(mkdtemp(a->dir));
    (void)snprintf(a->name, sizeof(a->name), "fake-%d-%u", (int)getpid(),
                   atomic_fetch_add(&starts, 1));
    (void)snprintf(sub, sizeof(sub), "%s/%s", a->dir, a->name);
    MUST(mkdir(sub, 0700) == 0);
    (void)snprintf(a->path, sizeof(a->path), "%s/sock", sub);
    MUST(hf_table_name(a->name, false, geteuid(), a->shm_name) == 0);
    make_table(a);
    go(a);
    return a;
}

void fake_agent_kill(struct fake_agent *a)
{
    pthread_mutex_lock(&a->lock);
    a->running = false;
    pthread_mutex_unlock(&a->lock);
    pthread_join(a->thread, NULL);
    close(a->listener);
    a->listener = -1;
    for (int i = 0; i < CLIENTS; i++)
        if (a->clients[i].used)
            close_client(&a->clients[i]);
    memset(a->waiters, 0, sizeof(a->waiters));
}

void fake_agent_revive(struct fake_agent *a, bool cold)
{
    if (cold) {
        for (int i = 0; i < LEASES; i++)
            if (a->leases[i].used)
                end_lease(a, &a->leases[i], HF_SLOT_LOST, HF_LOSS_RESTART);
        hf_table_set_state(&a->table, HF_TABLE_RETIRED);
        drop_table(a);
        memset(a->generation, 0, sizeof(a->generation));
        make_table(a);
    }
    go(a);
}

void fake_agent_free(struct fake_agent *a)
{
    char sub[96];

    if (a->listener >= 0)
        fake_agent_kill(a);
    drop_table(a);
    unlink(a->path);
    (void)snprintf(sub, sizeof(sub), "%s/%s", a->dir, a->name);
    rmdir(sub);
    rmdir(a->dir);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

/* --- for tests -----------------------------------------------------------------------------------
 */

const char *fake_agent_path(const struct fake_agent *a)
{
    return a->path;
}

const char *fake_agent_name(const struct fake_agent *a)
{
    return a->name;
}

const char *fake_agent_dir(const struct fake_agent *a)
{
    return a->dir;
}

void fake_agent_freeze(struct fake_agent *a, bool frozen)
{
    pthread_mutex_lock(&a->lock);
    a->frozen = frozen;
    pthread_mutex_unlock(&a->lock);
}

void fake_agent_renew(struct fake_agent *a, bool on)
{
    pthread_mutex_lock(&a->lock);
    a->renewing = on;
    pthread_mutex_unlock(&a->lock);
}

void fake_agent_foreign(struct fake_agent *a, const char *name, bool held)
{
    int i = 0;

    pthread_mutex_lock(&a->lock);
    while (i < FOREIGN && strcmp(a->foreign[i], held ? "" : name) != 0)
        i++;
    MUST(i < FOREIGN);
    (void)snprintf(a->foreign[i], sizeof(a->foreign[i]), "%s", held ? name : "");
    pthread_mutex_unlock(&a->lock);
}

void fake_agent_change(struct fake_agent *a, const char *name, enum hf_slot_state state,
                       enum hf_loss_reason reason)
{
    struct held *lease;

    pthread_mutex_lock(&a->lock);
    lease = find_lease(a, name, strlen(name));
    MUST(lease);
    if (state == HF_SLOT_LOST) {
        end_lease(a, lease, state, reason);
    } else if (state == HF_SLOT_LOSING) {
        set_losing(a, lease, reason);
    } else {
        hf_slot_mark(&a->table.slots[slot_number(a, lease)], state, 0, reason);
        tell_holder(a, lease->cookie);
    }
    pthread_mutex_unlock(&a->lock);
}

bool fake_agent_holds(struct fake_agent *a, const char *name)
{
    bool holds;

    pthread_mutex_lock(&a->lock);
    holds = find_lease(a, name, strlen(name)) != NULL;
    pthread_mutex_unlock(&a->lock);
    return holds;
}

unsigned fake_agent_leases(struct fake_agent *a)
{
    unsigned n = 0;

    pthread_mutex_lock(&a->lock);
    for (int i = 0; i < LEASES; i++)
        n += a->leases[i].used;
    pthread_mutex_unlock(&a->lock);
    return n;
}

unsigned fake_agent_waiters(struct fake_agent *a)
{
    unsigned n = 0;

    pthread_mutex_lock(&a->lock);
    for (int i = 0; i < WAITERS; i++)
        n += a->waiters[i].used;
    pthread_mutex_unlock(&a->lock);
    return n;
}

unsigned fake_agent_clients(struct fake_agent *a)
{
    unsigned n = 0;

    pthread_mutex_lock(&a->lock);
    for (int i = 0; i < CLIENTS; i++)
        n += a->clients[i].welcomed;
    pthread_mutex_unlock(&a->lock);
    return n;
}

bool fake_agent_saw_reaped(struct fake_agent *a)
{
    bool saw;

    pthread_mutex_lock(&a->lock);
    saw = a->saw_reaped;
    pthread_mutex_unlock(&a->lock);
    return saw;
}
