/* The fake agent's clients, its thread, and its deaths. */
#include "tests/support/fake_agent_internal.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "shm/status.h"
#include "tests/support/scratch.h"

#define POLLED  (1 + CLIENTS) /* listener, and socket of each client */
#define TURN_MS 10

/* --- clients ---------------------------------------------------------------------------------- */

static void close_client(struct attached *c)
{
    close(c->sock);
    if (c->welcomed)
        hf_ring_agent_destroy(&c->ring);
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

        if (lease->used && !lease->is_job && memcmp(lease->cookie, cookie, sizeof(cookie)) == 0)
            fake_end_lease(a, lease, HF_SLOT_ENDED, HF_LOSS_NONE);
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
        .minor = HF_WIRE_MINOR,
        .magic = HF_WIRE_MAGIC,
        .status = a->options.refuse,
        .major = HF_WIRE_MAJOR,
        .epoch = a->table.header->epoch,
        .incarnation = atomic_load(&a->table.header->incarnation),
        .ring_entries = HF_RING_ENTRIES,
        .ttl_ms = a->options.ttl_ms,
        .ttl_max_ms = 60000,
        .ttl_min_ms = 750,
        .version = "fake",
    };
    int fds[HF_WELCOME_FDS];

    if (a->options.silent)
        return;
    if (a->options.hang_ups) {
        a->options.hang_ups--;
        close_client(c);
        return;
    }
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
    MUST(hf_table_readonly_fd(&a->table, &fds[HF_FD_TABLE]) == 0);
    MUST(hf_ring_agent_create(&c->ring, &fds[HF_FD_REQUESTS], &fds[HF_FD_COMPLETIONS]) == 0);
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
    struct hf_hello hello;
    ssize_t len = recv(c->sock, &hello, sizeof(hello), MSG_DONTWAIT);

    if (len < 0 && errno == EAGAIN)
        return;
    if (len <= 0) {
        client_gone(a, client);
        return;
    }
    if (c->welcomed &&
        (len == HF_BELL_BYTES || len == sizeof(struct hf_group))) /* a guardian's job */
        return;
    MUST(!c->welcomed && len == sizeof(hello) && hello.magic == HF_WIRE_MAGIC &&
         hello.fingerprint == hf_wire_fingerprint());
    c->hello = hello;
    welcome_client(a, client);
}

/* --- the thread ------------------------------------------------------------------------------- */

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
            fake_handle(a, i, &request);
            any = true;
        }
        (void)hf_ring_arm(&c->ring);
    }
    return any;
}

static void turn(struct fake_agent *a, struct pollfd *fds)
{
    if (fds[0].revents)
        accept_client(a);
    for (int i = 0; i < CLIENTS; i++) {
        if (a->clients[i].used)
            hear_client(a, i);
    }
    while (serve_rings(a))
        ;
    fake_renew(a);
    fake_serve_waiters(a);
}

static void beat(struct fake_agent *a)
{
    struct timespec t;
    int64_t now;

    clock_gettime(CLOCK_BOOTTIME, &t);
    now = (int64_t)t.tv_sec * HF_NS_PER_SEC + t.tv_nsec;
    atomic_store(&a->table.header->broker_beat_ns, now + a->options.ahead_ns);
    atomic_store(&a->table.header->renewal_beat_ns, now);
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

            fds[1 + i] = (struct pollfd){.fd = c->used ? c->sock : -1, .events = POLLIN};
        }
        pthread_mutex_unlock(&a->lock);
        (void)poll(fds, POLLED, TURN_MS);
        pthread_mutex_lock(&a->lock);
        if (a->running && !a->frozen && !a->options.silent)
            beat(a);
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

/* --- nothing is left behind, not even by a test that failed ----------------------------------- */

static struct fake_agent *living;

static void remove_names(const struct fake_agent *a)
{
    char sub[96];

    shm_unlink(a->shm_name);
    unlink(a->path);
    (void)snprintf(sub, sizeof(sub), "%s/%s", a->dir, a->name);
    rmdir(sub);
    rmdir(a->dir);
}

static void remove_all(void)
{
    for (struct fake_agent *a = living; a; a = a->next)
        remove_names(a);
}

static void remember(struct fake_agent *a)
{
    static bool is_registered;

    if (!is_registered)
        is_registered = atexit(remove_all) == 0;
    a->next = living;
    living = a;
}

static void forget(struct fake_agent *a)
{
    struct fake_agent **at = &living;

    while (*at != a)
        at = &(*at)->next;
    *at = a->next;
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
    scratch_path(a->dir, sizeof(a->dir));
    MUST(mkdtemp(a->dir));
    scratch_name(a->name, sizeof(a->name), "fake");
    (void)snprintf(a->name + strlen(a->name), sizeof(a->name) - strlen(a->name), "-%u",
                   atomic_fetch_add(&starts, 1));
    (void)snprintf(sub, sizeof(sub), "%s/%s", a->dir, a->name);
    MUST(mkdir(sub, 0700) == 0);
    (void)snprintf(a->path, sizeof(a->path), "%s/sock", sub);
    MUST(hf_table_name(a->name, false, geteuid(), a->shm_name) == 0);
    remember(a);
    fake_table_make(a);
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
                fake_end_lease(a, &a->leases[i], HF_SLOT_LOST, HF_LOSS_RESTART);
        hf_table_set_state(&a->table, HF_TABLE_RETIRED);
        fake_table_drop(a);
        memset(a->generation, 0, sizeof(a->generation));
        fake_table_make(a);
    } else {
        atomic_fetch_add(&a->table.header->incarnation, 1);
    }
    go(a);
}

void fake_agent_free(struct fake_agent *a)
{
    if (a->listener >= 0)
        fake_agent_kill(a);
    forget(a);
    fake_table_drop(a);
    remove_names(a);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

/* --- for tests -------------------------------------------------------------------------------- */

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

void fake_agent_ttl_max(struct fake_agent *a, uint32_t ttl_max_ms)
{
    atomic_store(&a->table.header->ttl_max_ms, ttl_max_ms);
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

uint64_t fake_agent_once(struct fake_agent *a, int status)
{
    uint64_t asker;

    pthread_mutex_lock(&a->lock);
    a->once_status = status;
    asker = a->once_asker;
    pthread_mutex_unlock(&a->lock);
    return asker;
}

unsigned fake_agent_once_until(struct fake_agent *a, int64_t until_ns)
{
    unsigned asked;

    pthread_mutex_lock(&a->lock);
    a->once_until_ns = until_ns;
    asked = a->once_asked;
    pthread_mutex_unlock(&a->lock);
    return asked;
}

bool fake_agent_saw_reaped(struct fake_agent *a)
{
    bool saw;

    pthread_mutex_lock(&a->lock);
    saw = a->saw_reaped;
    pthread_mutex_unlock(&a->lock);
    return saw;
}
