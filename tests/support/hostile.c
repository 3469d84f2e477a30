/* Clients that mean ill, many at a time, each a process of its own that is killed if it stays.
 *
 *   hostile SOCKET FIRST COUNT PARALLEL UID
 *
 * Client number N does what its number says (the list of attacks at the end, N modulo their number), with N as its seed.
 * UID: whose processes they are; 0: one's own. Prints "done COUNT" and how many the agent let in. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "shm/index.h"
#include "tests/support/raw_client.h"

#define LIFE_MS      400 /* then it is killed */
#define PARALLEL_MAX 256

static const char *path;
static uint64_t state;
static struct raw_client raw;

/* splitmix64 */
static uint64_t any(void)
{
    uint64_t z = (state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint32_t below(uint32_t n)
{
    return (uint32_t)(any() % n);
}

static void any_bytes(void *to, size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((uint8_t *)to)[i] = (uint8_t)any();
}

static void pause_ms(unsigned ms)
{
    usleep(ms * 1000);
}

static void leave(int code)
{
    _exit(code);
}

static void attach(void)
{
    if (raw_attach(&raw, path, HF_ROLE_HOLDER, NULL) < 0)
        leave(1);
}

static void acquire_name(uint64_t id, const char *name, size_t len, int64_t deadline_ns)
{
    struct hf_request_entry entry = raw_acquire(id, name, len);

    entry.deadline_ns = deadline_ns;
    for (int i = 0; i < 50 && !raw_submit(&raw, &entry); i++)
        usleep(500);
}

/* Reads what is there. */
static unsigned reap(void)
{
    struct hf_completion_entry answer;
    unsigned count = 0;

    while (hf_ring_reap(&raw.ring, &answer) > 0)
        count++;
    return count;
}

/* Random, but often of the right kind, so that it gets past the first check. */
static struct hf_request_entry any_request(void)
{
    struct hf_request_entry entry;

    any_bytes(&entry, sizeof(entry));
    if (below(8))
        entry.op = 1 + below(HF_OP_ITEM);
    if (below(8))
        entry.id = 1 + below(40);
    if (below(8))
        entry.note_len = (uint8_t)below(HF_NOTE_MAX + 1);
    if (below(2))
        entry.target = 1 + below(40);
    if (below(2))
        entry.slot = below(64);
    if (below(2))
        entry.generation = 1 + below(64);
    if (below(2))
        entry.ttl_ms = 0;
    if (below(2))
        entry.deadline_ns = 0;
    if (below(4)) {
        entry.name_len =
            (uint8_t)snprintf((char *)entry.name, sizeof(entry.name), "hostile-%u", below(50));
    }
    return entry;
}

/* --- the attach socket ------------------------------------------------------------------------ */

static int connected(void)
{
    int sock = raw_connect(path);

    if (sock < 0)
        leave(1);
    return sock;
}

static struct hf_hello good_hello(void)
{
    struct stat st;
    struct timespec now;
    struct hf_hello hello = {.magic = HF_WIRE_MAGIC,
                             .major = HF_WIRE_MAJOR,
                             .minor = HF_WIRE_MINOR,
                             .fingerprint = hf_wire_fingerprint(),
                             .nudge = 1};

    clock_gettime(CLOCK_BOOTTIME, &now);
    hello.boottime_ns = now.tv_sec * HF_NS_PER_SEC + now.tv_nsec;
    hello.timens_inode = stat("/proc/self/ns/time", &st) == 0 ? st.st_ino : 0;
    return hello;
}

static void garbage_hello(void)
{
    uint8_t bytes[400];
    int sock = connected();

    any_bytes(bytes, sizeof(bytes));
    for (int i = 0; i < 4; i++)
        (void)send(sock, bytes, below(sizeof(bytes)), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void wrong_hello(void)
{
    struct hf_hello hello = good_hello();
    int sock = connected();

    any_bytes((char *)&hello + below(sizeof(hello) - 8), 1 + below(8));
    (void)send(sock, &hello, below(4) ? sizeof(hello) : below(sizeof(hello)), MSG_NOSIGNAL);
    pause_ms(below(20));
}

static void never_a_hello(void)
{
    for (int i = 0; i < 40; i++)
        (void)connected();
    pause_ms(2 * LIFE_MS);
}

static void datagrams_after(void)
{
    uint8_t bytes[1000];

    attach();
    any_bytes(bytes, sizeof(bytes));
    for (int i = 0; i < 100; i++)
        (void)send(raw.sock, bytes, 1 + below(sizeof(bytes) - 1), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Descriptors sent along: they must not come to stay in the agent. */
static void descriptors_along(void)
{
    enum { MANY = 200 };
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int) * MANY)];
    } control = {0};
    struct hf_hello hello = good_hello();
    struct iovec part = {.iov_base = &hello, .iov_len = sizeof(hello)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    int sock = connected(), null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * MANY);
    for (int i = 0; i < MANY; i++)
        memcpy(CMSG_DATA(c) + (size_t)i * sizeof(int), &null, sizeof(null));
    if (below(2))
        hello.magic++;
    for (int i = 0; i < 5; i++)
        (void)sendmsg(sock, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    pause_ms(below(20));
}

static void attach_storm(void)
{
    for (int i = 0; i < 60; i++)
        if (raw_attach(&raw, path, HF_ROLE_HOLDER, NULL) < 0)
            break;
    pause_ms(below(30));
}

static void guessed_cookie(void)
{
    uint8_t cookie[HF_COOKIE_LEN];

    for (int i = 0; i < 10; i++) {
        any_bytes(cookie, sizeof(cookie));
        if (raw_attach(&raw, path, below(2) ? HF_ROLE_GUARDIAN : HF_ROLE_HOLDER, cookie) == 0 &&
            raw.welcome.readopted)
            leave(3); /* somebody else's leases */
    }
    (void)raw_attach(&raw, path, below(100000), NULL);
}

/* --- the rings -------------------------------------------------------------------------------- */

static void cursors(void)
{
    attach();
    for (int i = 0; i < 20; i++) {
        if (below(2))
            atomic_store(&raw.ring.out->tail,
                         below(3) ? raw.ring.out->tail + below(70) - 35 : (uint32_t)any());
        else
            atomic_store(&raw.ring.out->completion_head, below(3) ? below(80) : (uint32_t)any());
        raw_ring_bell(&raw);
        usleep(below(300));
    }
}

static void garbage_entries(void)
{
    attach();
    for (int i = 0; i < 64; i++) {
        any_bytes((char *)raw.ring.out + HF_RING_HEADER, HF_RING_BYTES - HF_RING_HEADER);
        atomic_fetch_add(&raw.ring.out->tail, 1 + below(4));
        raw_ring_bell(&raw);
        usleep(below(500));
    }
}

static void any_fields(void)
{
    attach();
    for (int i = 0; i < 200; i++) {
        struct hf_request_entry entry = any_request();

        if (!raw_submit(&raw, &entry))
            usleep(500);
        reap();
    }
}

/* Changes what is in the ring while the agent takes it. */
static void rewritten_entries(void)
{
    char *entries;

    attach();
    entries = (char *)raw.ring.out + HF_RING_HEADER;
    for (int i = 0; i < 100; i++) {
        struct hf_request_entry entry = any_request();

        (void)raw_submit(&raw, &entry);
        for (int k = 0; k < 200; k++)
            any_bytes(entries + below(HF_RING_ENTRIES * HF_ENTRY_SIZE - 8), 8);
        reap();
    }
}

static void never_reads(void)
{
    attach();
    for (uint64_t id = 1; id < 1000; id++) {
        struct hf_request_entry entry = {.op = HF_OP_PING, .id = id};

        if (!raw_submit(&raw, &entry))
            usleep(100);
    }
    pause_ms(below(100));
}

/* It rings until the socket is full, and reads no answer. */
static void bells_without_end(void)
{
    attach();
    for (int i = 0; i < 5000; i++)
        raw_ring_bell(&raw);
    for (int i = 0; i < 100; i++) {
        struct hf_request_entry entry = {.op = HF_OP_PING, .id = 1 + (uint64_t)i};

        (void)hf_ring_submit(&raw.ring, &entry, &(bool){false});
        raw_ring_bell(&raw);
        reap();
    }
}

static void killed_while_writing(void)
{
    struct itimerspec when = {.it_value.tv_nsec = 1 + below(30000000)};
    struct sigevent how = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    timer_t timer;

    attach();
    timer_create(CLOCK_MONOTONIC, &how, &timer);
    timer_settime(timer, 0, &when, NULL);
    for (;;) {
        struct hf_request_entry entry = any_request();

        (void)raw_submit(&raw, &entry);
        reap();
    }
}

static void stopped(void)
{
    attach();
    for (int i = 0; i < HF_RING_ENTRIES; i++) {
        struct hf_request_entry entry = any_request();

        (void)raw_submit(&raw, &entry);
    }
    raise(SIGSTOP);
}

static void two_of_one_session(void)
{
    attach();
    (void)fork(); /* both write the same ring */
    for (int i = 0; i < 100; i++) {
        struct hf_request_entry entry = any_request();

        (void)raw_submit(&raw, &entry);
        reap();
    }
}

/* --- what is shared read-only ----------------------------------------------------------------- */

static void write_anyway(int fd)
{
    char link[40];
    void *map;
    int again;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    (void)!ftruncate(fd, 0);
    (void)!ftruncate(fd, 1 << 20);
    (void)fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE);
    (void)fchmod(fd, 0666);
    (void)flock(fd, LOCK_EX | LOCK_NB);
    again = open(link, O_RDWR | O_CLOEXEC);
    (void)!ftruncate(again, 0);
    (void)fallocate(again, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096);
    map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map != MAP_FAILED)
        memset(map, 0xff, 4096);
    map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    if (map != MAP_FAILED && mprotect(map, 4096, PROT_READ | PROT_WRITE) == 0)
        memset(map, 0xff, 4096);
}

static void write_what_is_shared(void)
{
    attach();
    write_anyway(raw.fds[HF_FD_TABLE]);
    write_anyway(raw.fds[HF_FD_COMPLETIONS]);
    write_anyway(raw.fds[HF_FD_REQUESTS]); /* ours to write, not to shrink */
    pause_ms(below(20));
}

static struct hf_table the_table(void)
{
    struct hf_table table;
    char why[300];

    if (hf_table_open_fd(dup(raw.fds[HF_FD_TABLE]), &table, why, sizeof(why)) < 0)
        leave(1);
    return table;
}

/* The slots of others are in the table for all to see: they are no capability. */
static void others_leases(void)
{
    struct hf_slot_view view;
    struct hf_table table;

    attach();
    table = the_table();
    for (uint32_t slot = 0; slot < atomic_load(&table.header->slots_used); slot++) {
        static const uint32_t ops[] = {HF_OP_RELEASE, HF_OP_LOSING, HF_OP_STOP_HOLDER,
                                       HF_OP_CANCEL};

        if (hf_slot_read(&table, slot, &view) != 0)
            continue;
        for (size_t i = 0; i < HF_LENGTH(ops); i++) {
            struct hf_request_entry entry = raw_acquire(1 + any() % 1000, view.name, view.name_len);

            entry.op = ops[i];
            entry.slot = slot;
            entry.generation = view.generation;
            entry.flags = HF_REQ_REAPED;
            entry.target = 1 + below(20);
            (void)raw_submit(&raw, &entry);
            reap();
        }
        usleep(200);
    }
}

static void futexes(void)
{
    struct hf_table table;

    attach();
    table = the_table();
    for (int i = 0; i < 100; i++) {
        void *word = (char *)table.header + 4 * below(1000);

        (void)syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
        (void)syscall(SYS_futex, word, FUTEX_REQUEUE, 0, (void *)INT32_MAX, &raw.ring.in->wake, 0);
        (void)syscall(SYS_futex, &raw.ring.in->wake, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    }
}

/* --- more than one's share -------------------------------------------------------------------- */

static void flood(void)
{
    char name[32];

    attach();
    for (uint64_t id = 1; id < 3000; id++) {
        int len = snprintf(name, sizeof(name), "hostile-%u", below(30));
        struct hf_request_entry cancel = {.op = HF_OP_CANCEL, .id = id, .target = id};

        acquire_name(id, name, (size_t)len, below(2) ? 0 : INT64_MAX);
        (void)raw_submit(&raw, &cancel);
        reap();
    }
}

static void thousands_of_waiters(void)
{
    char name[32];

    attach();
    for (uint64_t id = 1; id < 5000; id++) {
        int len = snprintf(name, sizeof(name), "hostile-w%u", below(2) ? 0 : below(5000));

        acquire_name(id, name, (size_t)len, INT64_MAX);
        reap();
    }
}

/* Queries, listings and orders to force, many of them without reading the answers. */
static void questions(void)
{
    attach();
    for (uint64_t id = 1; id < 2000; id++) {
        struct hf_request_entry entry = any_request();

        entry.op = HF_OP_QUERY + below(HF_OP_FORCE - HF_OP_QUERY + 1);
        entry.id = id;
        entry.note_len = 0;
        if (below(2)) {
            entry.flags = HF_REQ_WAIT;
            entry.deadline_ns = INT64_MAX;
        }
        if (entry.op == HF_OP_LISTING) {
            entry.slot = below(4);
            entry.name_len = (uint8_t)below(2);
            entry.target = below(2) ? 0 : any();
        }
        if (!raw_submit(&raw, &entry))
            usleep(200);
        if (below(4) == 0)
            reap();
    }
}

static void long_names(void)
{
    char name[HF_NAME_MAX];

    attach();
    memset(name, 'x', sizeof(name));
    for (uint64_t id = 1; id < 400; id++) {
        struct hf_request_entry entry;

        any_bytes(name, 8);
        entry = raw_acquire(id, name, sizeof(name));
        entry.note_len = HF_NOTE_MAX;
        any_bytes(entry.note, sizeof(entry.note));
        for (int i = 0; i < 20 && !raw_submit(&raw, &entry); i++)
            usleep(500);
        reap();
    }
}

/* Names that fall on one place of the index, whose key is in the table for all to see. */
static void colliding_names(void)
{
    struct hf_table table;
    char name[32];
    uint64_t id = 1;

    attach();
    table = the_table();
    for (unsigned i = 0; id < 100; i++) {
        int len = snprintf(name, sizeof(name), "hostile-c%u", i);
        uint32_t hash = hf_name_hash(table.header->index_key, name, (size_t)len);

        if (hf_index_place(hash, 0, atomic_load(&table.header->index_size)) == 0)
            acquire_name(id++, name, (size_t)len, 0);
        reap();
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} attacks[] = {
    {"garbage_hello", garbage_hello},
    {"wrong_hello", wrong_hello},
    {"never_a_hello", never_a_hello},
    {"datagrams_after", datagrams_after},
    {"descriptors_along", descriptors_along},
    {"attach_storm", attach_storm},
    {"guessed_cookie", guessed_cookie},
    {"cursors", cursors},
    {"garbage_entries", garbage_entries},
    {"any_fields", any_fields},
    {"rewritten_entries", rewritten_entries},
    {"never_reads", never_reads},
    {"bells_without_end", bells_without_end},
    {"killed_while_writing", killed_while_writing},
    {"stopped", stopped},
    {"two_of_one_session", two_of_one_session},
    {"write_what_is_shared", write_what_is_shared},
    {"others_leases", others_leases},
    {"futexes", futexes},
    {"flood", flood},
    {"thousands_of_waiters", thousands_of_waiters},
    {"questions", questions},
    {"long_names", long_names},
    {"colliding_names", colliding_names},
};

/* --- the crowd -------------------------------------------------------------------------------- */

static struct {
    pid_t pid;
    uint64_t number;
    struct timespec since;
} crowd[PARALLEL_MAX];

static long age_ms(const struct timespec *since)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - since->tv_sec) * 1000 + (now.tv_nsec - since->tv_nsec) / 1000000;
}

static pid_t begin(uint64_t number, uid_t uid)
{
    pid_t child = fork();

    if (child != 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (setpgid(0, 0) < 0 ||
        (uid && (setgroups(0, NULL) < 0 || setgid(uid) < 0 || setuid(uid) < 0)))
        _exit(2);
    state = number * 7919;
    attacks[number % HF_LENGTH(attacks)].run();
    if (below(2))
        pause_ms(below(30));
    _exit(0);
}

/* Ends who is over time; waits for who has ended. Returns how many were let in, -1 if one got what is another's. */
static int collect(unsigned parallel, unsigned *let_in)
{
    int wrong = 0;

    for (unsigned i = 0; i < parallel; i++) {
        int status;

        if (!crowd[i].pid)
            continue;
        if (age_ms(&crowd[i].since) > LIFE_MS)
            kill(-crowd[i].pid, SIGKILL);
        if (waitpid(crowd[i].pid, &status, WNOHANG) != crowd[i].pid)
            continue;
        kill(-crowd[i].pid, SIGKILL); /* its own children */
        if (WIFEXITED(status) && WEXITSTATUS(status) > 1) {
            printf("wrong: client %" PRIu64 " (%s) ended with %d\n", crowd[i].number,
                   attacks[crowd[i].number % HF_LENGTH(attacks)].name, WEXITSTATUS(status));
            wrong = -1;
        }
        *let_in += !(WIFEXITED(status) && WEXITSTATUS(status) == 1);
        crowd[i].pid = 0;
    }
    return wrong;
}

int main(int argc, char **argv)
{
    uint64_t first, count, next;
    unsigned parallel, busy, let_in = 0;
    uid_t uid;
    int wrong = 0;

    if (argc != 6)
        return 2;
    path = argv[1];
    first = next = strtoull(argv[2], NULL, 10);
    count = strtoull(argv[3], NULL, 10);
    parallel = (unsigned)strtoul(argv[4], NULL, 10);
    uid = (uid_t)strtoul(argv[5], NULL, 10);
    if (parallel < 1 || parallel > PARALLEL_MAX)
        return 2;
    do {
        busy = 0;
        for (unsigned i = 0; i < parallel; i++) {
            if (!crowd[i].pid && next < first + count) {
                crowd[i].number = next;
                clock_gettime(CLOCK_MONOTONIC, &crowd[i].since);
                crowd[i].pid = begin(next++, uid);
                if (crowd[i].pid < 0)
                    return 2;
            }
            busy += crowd[i].pid != 0;
        }
        usleep(2000);
        wrong |= collect(parallel, &let_in);
    } while (busy);
    printf("done %" PRIu64 " clients, %u of them let in\n", count, let_in);
    return wrong ? 1 : 0;
}
