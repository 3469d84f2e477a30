/* The library against an agent that is broken or hostile: the welcome, the completions, the words of
 * its leases and the socket, in any order. One thread does both sides' steps: when the library waits for
 * the welcome, in poll(), the agent sends it (the linker's --wrap=poll). Where nothing comes the time has passed at
 * once (--wrap=clock_gettime, --wrap=nanosleep). */
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "libclient/internal.h"
#include "shm/index.h"
#include "shm/ring.h"
#include "shm/slot.h"
#include "tests/support/ring_post.h"

#define SLOTS    4
#define OPS      8
#define SLOT_OP  (OPS - 2)
#define SET_OP   (OPS - 1)
#define WHY_SIZE 512

static char dir[32], path[64], shm_name[HF_TABLE_NAME_MAX];
static struct hf_table table;
static int listener;

/* What the agent sends; then the socket it has. */
static struct {
    struct hf_welcome welcome;
    size_t size;
    int fds[HF_WELCOME_FDS];
    unsigned fd_count;
    int sock;
} plan;

static struct hf_ring_agent ring;
static hf_client *client;
static hf_op *ops[OPS];
static hf_lease *leases[OPS + 1]; /* the last op is of a set of two */
static bool over[OPS + 1];        /* that lease once said that it does not hold */

static void remove_files(void)
{
    unlink(path);
    rmdir(dir);
}

static void send_welcome(int sock)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int) * HF_WELCOME_FDS)];
    } control = {0};
    struct iovec part = {.iov_base = &plan.welcome, .iov_len = plan.size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    struct cmsghdr *c = &control.header;

    if (plan.fd_count) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * plan.fd_count);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * plan.fd_count);
        memcpy(CMSG_DATA(c), plan.fds, sizeof(int) * plan.fd_count);
    }
    (void)sendmsg(sock, &message, MSG_NOSIGNAL);
}

static void be_the_agent(void)
{
    struct hf_hello hello;

    plan.sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    FUZZ_CHECK(plan.sock >= 0);
    FUZZ_CHECK(recv(plan.sock, &hello, sizeof(hello), 0) == sizeof(hello));
    FUZZ_CHECK(hello.magic == HF_WIRE_MAGIC);
    if (plan.size)
        send_welcome(plan.sock);
    else
        shutdown(plan.sock, SHUT_RDWR);
}

/* Whoever was turned away comes again for some seconds. */
static void turn_others_away(void)
{
    int sock;

    while ((sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
        close(sock);
}

static int64_t slept_ns;

int __real_clock_gettime(clockid_t clock, struct timespec *ret_time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    int rc = __real_clock_gettime(clock, ret_time);

    if (rc == 0 && clock == CLOCK_BOOTTIME) {
        ret_time->tv_sec += slept_ns / HF_NS_PER_SEC;
        ret_time->tv_nsec += slept_ns % HF_NS_PER_SEC;
        if (ret_time->tv_nsec >= HF_NS_PER_SEC) {
            ret_time->tv_nsec -= HF_NS_PER_SEC;
            ret_time->tv_sec++;
        }
    }
    return rc;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *ret_left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *ret_left)
{
    (void)ret_left;
    slept_ns += time->tv_sec * HF_NS_PER_SEC + time->tv_nsec;
    return 0;
}

int __real_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
    int ready;

    if (timeout <= 0)
        return __real_poll(fds, count, timeout);
    if (plan.sock < 0)
        be_the_agent();
    turn_others_away();
    ready = __real_poll(fds, count, 0);
    if (ready == 0)
        slept_ns += timeout * HF_NS_PER_MS;
    return ready;
}

static void make_table(void)
{
    struct hf_table_spec spec = {.agent_name = "fuzz",
                                 .capacity = SLOTS,
                                 .nodes = 3,
                                 .quorum = 2,
                                 .ttl_ms = 30000,
                                 .ttl_max_ms = 60000,
                                 .mode = 0644,
                                 .group = (gid_t)-1,
                                 .version = "0.1.0"};
    char name[32], why[WHY_SIZE];
    bool warm;

    snprintf(name, sizeof(name), "fuzz-%d", (int)getpid());
    FUZZ_CHECK(hf_table_name(name, false, geteuid(), shm_name) == 0);
    FUZZ_CHECK(hf_table_create(shm_name, &spec, &table, &warm, why, sizeof(why)) == 0);
    hf_table_set_state(&table, HF_TABLE_ALIVE);
    FUZZ_CHECK(hf_table_readonly_fd(&table, &plan.fds[HF_FD_TABLE]) == 0);
    shm_unlink(shm_name);
}

static void begin(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(dir, sizeof(dir), "/dev/shm/holdfast-fuzz-%d", (int)getpid());
    snprintf(path, sizeof(path), "%s/sock", dir);
    FUZZ_CHECK(mkdir(dir, 0700) == 0);
    atexit(remove_files);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    FUZZ_CHECK(bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0);
    FUZZ_CHECK(listen(listener, 16) == 0);
    make_table();
}

/* Every slot carries generation 1, valid for long. */
static void fill_slots(void)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        const struct hf_slot_identity id = {.generation = 1, .name_len = 1, .ttl_ms = 30000};

        hf_slot_publish(&table.slots[i], &id, (hf_time){INT64_MAX / 2}, 3);
    }
}

static void make_welcome(struct fuzz_input *in)
{
    uint8_t how = fuzz_u8(in);
    int swap;

    plan.welcome = (struct hf_welcome){.magic = HF_WIRE_MAGIC,
                                       .major = HF_WIRE_MAJOR,
                                       .minor = HF_WIRE_MINOR,
                                       .client_id = 1,
                                       .epoch = table.header->epoch,
                                       .ring_entries = HF_RING_ENTRIES,
                                       .ttl_ms = 30000,
                                       .ttl_max_ms = 60000,
                                       .ttl_min_ms = 1000,
                                       .cookie = {1}};
    plan.sock = -1;
    plan.size = sizeof(plan.welcome);
    plan.fd_count = HF_WELCOME_FDS;
    FUZZ_CHECK(
        hf_ring_agent_create(&ring, &plan.fds[HF_FD_REQUESTS], &plan.fds[HF_FD_COMPLETIONS]) == 0);
    if (how < 0xc0)
        return;
    if (how & 1)
        plan.size = fuzz_u16(in) % (sizeof(plan.welcome) + 1);
    if (how & 2)
        plan.fd_count = fuzz_u8(in) % (HF_WELCOME_FDS + 1);
    if (how & 4) {
        uint8_t a = fuzz_u8(in) % HF_WELCOME_FDS, b = fuzz_u8(in) % HF_WELCOME_FDS;

        swap = plan.fds[a];
        plan.fds[a] = plan.fds[b];
        plan.fds[b] = swap;
    }
    if (how & 8) {
        size_t offset = fuzz_u8(in), most = sizeof(plan.welcome) - offset, some = fuzz_u8(in) & 15;

        fuzz_take(in, (char *)&plan.welcome + offset, some < most ? some : most);
    }
}

static bool attach(struct fuzz_input *in)
{
    struct hfc_place place = {.owner = geteuid(), .table_owner = geteuid()};
    int table_fd = plan.fds[HF_FD_TABLE], rc;

    make_welcome(in);
    snprintf(place.path, sizeof(place.path), "%s", path);
    rc = hfc_client_open(&place, 1, HF_ROLE_HOLDER, NULL, &client);
    FUZZ_CHECK(plan.sock >= 0);
    for (int i = 0; i < HF_WELCOME_FDS; i++)
        if (plan.fds[i] != table_fd)
            close(plan.fds[i]);
    plan.fds[HF_FD_TABLE] = table_fd;
    if (rc < 0)
        fuzz_check_sentence(hf_last_message(), 4096);
    return rc == HF_OK;
}

static void on_progress(const struct hf_progress *progress, void *arg)
{
    (void)arg;
    FUZZ_CHECK(memchr(progress->text, '\0', sizeof(progress->text)));
    FUZZ_CHECK(memchr(progress->holder.host, '\0', sizeof(progress->holder.host)));
    FUZZ_CHECK(memchr(progress->holder.note, '\0', sizeof(progress->holder.note)));
}

static void on_change(hf_lease *lease, int state, void *arg)
{
    (void)arg;
    FUZZ_CHECK(lease && state >= HF_STATE_HELD);
}

static void start(unsigned i, bool wait)
{
    struct hf_acquire_options options = {.size = sizeof(options),
                                         .name = "a",
                                         .name_len = 1,
                                         .wait_ms = wait ? -1 : 0,
                                         .progress = on_progress};

    const struct hf_name names[] = {hf_str("b"), hf_str("a")};

    if (ops[i] || leases[i])
        return;
    if (i == SET_OP) {
        options.name = NULL;
        (void)hf_acquire_all_start(client, &options, names, 2, &ops[i]);
    } else if (i == SLOT_OP) {
        (void)hf_acquire_slot_start(client, &options, 3, &ops[i]);
    } else {
        (void)hf_acquire_start(client, &options, &ops[i]);
    }
}

static void collect(unsigned i)
{
    int rc;

    if (!ops[i])
        return;
    rc = hf_op_result(ops[i], &leases[i]);
    if (rc == HF_EPENDING)
        return;
    ops[i] = NULL;
    FUZZ_CHECK((rc == HF_OK) == (leases[i] != NULL));
    over[i] = false;
    if (i == SET_OP) {
        FUZZ_CHECK((rc == HF_OK) == (leases[i + 1] != NULL));
        over[i + 1] = false;
    }
    if (rc == HF_OK)
        (void)hf_on_change(leases[i], on_change, NULL);
    else
        FUZZ_CHECK(rc < 0 && strlen(hf_last_message()) < 1024);
}

/* What once said "not held" says so for ever. */
static void look(unsigned i)
{
    bool held;

    if (!leases[i])
        return;
    held = hf_held(leases[i]);
    FUZZ_CHECK(!(over[i] && held));
    over[i] |= !held;
    (void)hf_remaining_ms(leases[i]);
    FUZZ_CHECK(hf_reason(leases[i]) && hf_state(leases[i]) > 0);
}

static void give_up(unsigned i)
{
    hf_op_cancel(ops[i]);
    ops[i] = NULL;
    for (unsigned k = i; k <= i + (i == SET_OP); k++) {
        if (leases[k])
            hf_lease_free(leases[k]);
        leases[k] = NULL;
    }
}

static void complete(struct fuzz_input *in)
{
    struct hf_completion_entry entry = {.id = 1 + fuzz_u8(in) % (2 * OPS),
                                        .op = fuzz_u8(in) % 16,
                                        .status = -(int32_t)(fuzz_u16(in) % 600),
                                        .slot = fuzz_u8(in) % (SLOTS + 1),
                                        .generation = fuzz_u8(in) % 3};

    if (entry.op > 8) { /* most are grants */
        entry.op = HF_OP_ACQUIRE;
        entry.status = HF_OK;
        entry.generation = 1;
    } else {
        fuzz_take(in, &entry.holder, fuzz_u8(in));
        fuzz_take(in, entry.text, fuzz_u8(in) % (sizeof(entry.text) + 1));
    }
    (void)ring_post(&ring, &entry);
}

static void change_slot(struct fuzz_input *in)
{
    struct hf_slot *slot = &table.slots[fuzz_u8(in) % SLOTS];

    switch (fuzz_u8(in) % 5) {
    case 0:
        hf_slot_withdraw(slot);
        hf_slot_end(slot, HF_SLOT_LOST, (enum hf_loss_reason)(fuzz_u8(in) % (HF_LOSS_AWAY + 1)));
        break;
    case 1:
        hf_slot_mark(slot, HF_SLOT_LOSING, 0, HF_LOSS_ASKED);
        break;
    case 2:
        atomic_store(&slot->check, fuzz_u64(in));
        break;
    case 3:
        atomic_store(&slot->marks, fuzz_u32(in));
        atomic_store(&slot->lengths, fuzz_u32(in));
        break;
    case 4:
        atomic_store(&slot->generation, fuzz_u8(in) % 4u);
        break;
    }
}

static void step(struct fuzz_input *in)
{
    uint8_t what = fuzz_u8(in);
    unsigned i = what / 16 % OPS;

    switch (what % 12) {
    case 0:
        start(i, true);
        break;
    case 1:
        start(i, false);
        break;
    case 2:
        complete(in);
        break;
    case 3:
        complete(in);
        (void)hf_dispatch(client);
        collect(i);
        break;
    case 4: /* anywhere in what only the agent writes */
        fuzz_take(in, (char *)ring.out + fuzz_u16(in) % (HF_RING_BYTES - 64), i * 8);
        break;
    case 5:
        atomic_store(&ring.out->tail, fuzz_near(in, ring.completion_tail));
        break;
    case 6:
        (void)hf_dispatch(client);
        break;
    case 7:
        collect(i);
        break;
    case 8:
        give_up(i);
        break;
    case 9:
        change_slot(in);
        break;
    case 10:
        (void)send(plan.sock, "nudge", 1 + i % 5, MSG_NOSIGNAL | MSG_DONTWAIT);
        break;
    case 11:
        if (i == 0)
            shutdown(plan.sock, SHUT_RDWR);
        else
            (void)hf_fd(client);
        break;
    }
    for (unsigned k = 0; k < OPS + 1; k++)
        look(k);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};

    if (!path[0])
        begin();
    fill_slots();
    if (attach(&in)) {
        while (in.left > 0)
            step(&in);
        for (unsigned i = 0; i < OPS; i++)
            give_up(i);
        /* Or it would wait for an agent, for the sake of a lease that is valid. */
        for (uint32_t i = 0; i < SLOTS; i++)
            hf_slot_withdraw(&table.slots[i]);
        hf_disconnect(client);
    }
    close(plan.sock);
    turn_others_away(); /* that it made when it lost the first */
    hf_ring_agent_destroy(&ring);
    return 0;
}
