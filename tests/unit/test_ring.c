/* shm/ring.h: one client's pair of rings, with an honest other side and with a hostile one. */
#include "shm_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "shm/ring.h"
#include "tests/support/ring_post.h"

struct pair {
    struct hf_ring_agent agent;
    struct hf_ring_client client;
};

static void set_up(struct pair *p)
{
    int requests, completions;

    assert_int_equal(hf_ring_agent_create(&p->agent, &requests, &completions), 0);
    assert_int_equal(hf_ring_client_map(requests, completions, NULL, &p->client), 0);
    assert_int_equal(fcntl(requests, F_GETFD), -1); /* closed */
    assert_int_equal(fcntl(completions, F_GETFD), -1);
}

static void tear_down(struct pair *p)
{
    hf_ring_client_unmap(&p->client);
    hf_ring_agent_destroy(&p->agent);
}

static int submit(struct pair *p, uint64_t id, bool *ret_wake)
{
    struct hf_request_entry entry = {.op = HF_OP_PING, .id = id};

    memset(entry.name, (int)(id & 0xff), sizeof(entry.name));
    return hf_ring_submit(&p->client, &entry, ret_wake);
}

static int post(struct pair *p, uint64_t id)
{
    struct hf_completion_entry entry = {.op = HF_OP_PING, .id = id};

    memset(entry.text, (int)(id & 0x7f), sizeof(entry.text));
    return ring_post(&p->agent, &entry);
}

static void requests_come_in_order(void **state)
{
    struct pair p;
    struct hf_request_entry entry;
    bool wake = true;

    (void)state;
    set_up(&p);
    assert_int_equal(hf_ring_take(&p.agent, &entry), 0);
    for (uint64_t id = 1; id <= 3 * HF_RING_ENTRIES; id++) {
        assert_int_equal(submit(&p, id, &wake), 0);
        assert_false(wake);
        assert_int_equal(submit(&p, id + 1000, &wake), 0);
        assert_int_equal(hf_ring_take(&p.agent, &entry), 1);
        assert_int_equal(entry.id, id);
        assert_int_equal(entry.name[255], id & 0xff);
        assert_int_equal(hf_ring_take(&p.agent, &entry), 1);
        assert_int_equal(entry.id, id + 1000);
    }
    assert_int_equal(hf_ring_take(&p.agent, &entry), 0);
    tear_down(&p);
}

static void a_full_request_ring_says_so(void **state)
{
    struct pair p;
    struct hf_request_entry entry;
    bool wake;

    (void)state;
    set_up(&p);
    for (uint64_t id = 1; id <= HF_RING_ENTRIES; id++)
        assert_int_equal(submit(&p, id, &wake), 0);
    assert_int_equal(submit(&p, 99, &wake), HF_EFULL);
    assert_int_equal(hf_ring_take(&p.agent, &entry), 1);
    assert_int_equal(submit(&p, 99, &wake), 0);
    tear_down(&p);
}

static void completions_come_in_order_and_fill_up(void **state)
{
    struct pair p;
    struct hf_completion_entry entry;

    (void)state;
    set_up(&p);
    assert_int_equal(hf_ring_room(&p.agent), HF_RING_ENTRIES);
    assert_int_equal(hf_ring_reap(&p.client, &entry), 0);
    for (uint64_t id = 1; id <= HF_RING_ENTRIES; id++)
        assert_int_equal(post(&p, id), 0);
    assert_int_equal(hf_ring_room(&p.agent), 0);
    assert_int_equal(post(&p, 99), HF_EFULL);
    for (uint64_t id = 1; id <= HF_RING_ENTRIES; id++) {
        assert_int_equal(hf_ring_reap(&p.client, &entry), 1);
        assert_int_equal(entry.id, id);
        assert_int_equal(entry.text[183], id & 0x7f);
    }
    assert_int_equal(hf_ring_reap(&p.client, &entry), 0);
    assert_int_equal(hf_ring_room(&p.agent), HF_RING_ENTRIES);
    tear_down(&p);
}

static void cursors_wrap_around(void **state)
{
    const uint32_t start = UINT32_MAX - 5;
    struct pair p;
    struct hf_request_entry request;
    struct hf_completion_entry completion;
    bool wake;

    (void)state;
    set_up(&p);
    p.agent.request_head = p.client.request_tail = start;
    p.agent.completion_tail = p.client.completion_head = start;
    atomic_store(&p.client.out->tail, start);
    atomic_store(&p.client.out->completion_head, start);
    atomic_store(&p.agent.out->tail, start);
    atomic_store(&p.agent.out->request_head, start);
    for (uint64_t id = 1; id <= HF_RING_ENTRIES; id++) {
        assert_int_equal(submit(&p, id, &wake), 0);
        assert_int_equal(post(&p, id), 0);
    }
    assert_int_equal(submit(&p, 99, &wake), HF_EFULL);
    assert_int_equal(post(&p, 99), HF_EFULL);
    for (uint64_t id = 1; id <= HF_RING_ENTRIES; id++) {
        assert_int_equal(hf_ring_take(&p.agent, &request), 1);
        assert_int_equal(request.id, id);
        assert_int_equal(hf_ring_reap(&p.client, &completion), 1);
        assert_int_equal(completion.id, id);
    }
    tear_down(&p);
}

/* --- sleeping --------------------------------------------------------------------------------- */

static void a_sleeping_agent_asks_for_the_bell(void **state)
{
    struct pair p;
    bool wake = false;

    (void)state;
    set_up(&p);
    assert_true(hf_ring_arm(&p.agent));
    assert_int_equal(submit(&p, 1, &wake), 0);
    assert_true(wake);
    assert_false(hf_ring_arm(&p.agent)); /* there is one to take */
    hf_ring_disarm(&p.agent);
    assert_int_equal(submit(&p, 2, &wake), 0);
    assert_false(wake);
    tear_down(&p);
}

#define SLEEPERS 40

struct sleepers {
    struct pair *pair;
    uint32_t seen;
    _Atomic unsigned asleep, awake;
};

static void *sleep_once(void *arg)
{
    struct sleepers *s = arg;

    atomic_fetch_add(&s->asleep, 1);
    (void)hf_ring_wait(&s->pair->client, s->seen, hf_ms(60 * 1000));
    atomic_fetch_add(&s->awake, 1);
    return NULL;
}

static void pause_ms(long ms)
{
    const struct timespec pause = {.tv_nsec = ms * 1000000};

    nanosleep(&pause, NULL);
}

/* (!) The agent's thread pays for each that it wakes, and a client may have thousands. */
static void a_signal_wakes_few_and_those_can_wake_the_others(void **state)
{
    struct pair p;
    struct sleepers s = {.pair = &p};
    pthread_t thread[SLEEPERS];

    (void)state;
    set_up(&p);
    s.seen = hf_ring_wake_value(&p.client);
    for (int i = 0; i < SLEEPERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, sleep_once, &s), 0);
    while (s.asleep < SLEEPERS)
        pause_ms(1);
    pause_ms(500); /* they sleep by now */
    hf_ring_signal(&p.agent);
    for (int i = 0; i < 5000 && s.awake == 0; i++)
        pause_ms(1);
    pause_ms(200);
    assert_in_range(s.awake, 1, SLEEPERS - 1);
    hf_ring_wake_others(&p.client);
    for (int i = 0; i < SLEEPERS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    tear_down(&p);
}

static void every_completion_and_signal_moves_the_wake_word(void **state)
{
    struct pair p;
    uint32_t seen;

    (void)state;
    set_up(&p);
    seen = hf_ring_wake_value(&p.client);
    assert_int_equal(post(&p, 1), 0);
    assert_int_equal(hf_ring_wake_value(&p.client), seen + 1);
    hf_ring_signal(&p.agent);
    assert_int_equal(hf_ring_wake_value(&p.client), seen + 2);
    /* Moved already: no sleep, however long the timeout. */
    hf_ring_wait(&p.client, seen, hf_ms(3600 * 1000));
    hf_ring_wait(&p.client, seen + 2, hf_ms(-1));
    hf_ring_wait(&p.client, seen + 2, hf_ms(1));
    tear_down(&p);
}

struct echo {
    struct pair p;
    _Atomic bool stop;
    _Atomic bool bell; /* stands for the datagram */
};

/* An agent that sleeps whenever it may and wakes only by the bell. */
static void *answer(void *arg)
{
    struct echo *e = arg;
    struct hf_request_entry entry;

    while (!atomic_load(&e->stop)) {
        while (hf_ring_take(&e->p.agent, &entry) == 1)
            if (post(&e->p, entry.id) != 0)
                return "the completion ring is full";
        if (!hf_ring_arm(&e->p.agent))
            continue;
        while (!atomic_exchange(&e->bell, false))
            if (atomic_load(&e->stop))
                return NULL;
            else
                usleep(10);
        hf_ring_disarm(&e->p.agent);
    }
    return NULL;
}

/* A wake-up that is lost would leave both asleep. */
static void no_wake_up_is_lost(void **state)
{
    enum { ROUNDS = 3000 };
    struct echo e = {.stop = false};
    pthread_t agent;
    void *said;
    time_t end = time(NULL) + 60;

    (void)state;
    set_up(&e.p);
    assert_int_equal(pthread_create(&agent, NULL, answer, &e), 0);
    for (uint64_t id = 1; id <= ROUNDS; id++) {
        struct hf_completion_entry completion;
        bool wake;

        assert_int_equal(submit(&e.p, id, &wake), 0);
        if (wake)
            atomic_store(&e.bell, true);
        for (;;) {
            uint32_t seen = hf_ring_wake_value(&e.p.client);
            int got = hf_ring_reap(&e.p.client, &completion);

            assert_true(got >= 0);
            if (got == 1)
                break;
            if (time(NULL) > end)
                fail_msg("round %u never ended", (unsigned)id);
            hf_ring_wait(&e.p.client, seen, hf_ms(1000));
        }
        assert_int_equal(completion.id, id);
    }
    atomic_store(&e.stop, true);
    pthread_join(agent, &said);
    assert_null(said);
    tear_down(&e.p);
}

/* A request and a sleep that cross: one of the two must see the other. Each round both sides do it
 * at the same moment, or as nearly as the machine lets them. */
struct crossing {
    struct pair p;
    _Atomic uint32_t go, done; /* rounds begun, and ended by the agent */
    _Atomic bool asleep;
};

/* A side that has run ahead waits here, and lets the other have its processor. */
static void wait_for(_Atomic uint32_t *word, uint32_t round)
{
    for (unsigned spins = 1; atomic_load(word) != round; spins++)
        if (spins % 1024 == 0)
            sched_yield();
}

/* The two sides reach the point where they cross after a different time in every round. */
static void dawdle(unsigned turns)
{
    for (volatile unsigned n = turns; n > 0; n--)
        ;
}

static void *fall_asleep(void *arg)
{
    struct crossing *c = arg;

    for (uint32_t round = 1;; round++) {
        wait_for(&c->go, round);
        if (atomic_load(&c->asleep))
            return NULL; /* the end */
        dawdle(round % 211);
        atomic_store(&c->asleep, hf_ring_arm(&c->p.agent));
        atomic_store(&c->done, round);
    }
}

static void a_request_and_a_sleep_that_cross_see_each_other(void **state)
{
    struct crossing c = {.go = 0};
    struct hf_request_entry entry;
    struct timespec began, now;
    pthread_t agent;
    uint32_t round = 0;

    (void)state;
    set_up(&c.p);
    assert_int_equal(pthread_create(&agent, NULL, fall_asleep, &c), 0);
    clock_gettime(CLOCK_MONOTONIC, &began);
    do {
        bool wake;

        atomic_store(&c.asleep, false);
        atomic_store(&c.go, ++round);
        dawdle(round % 53);
        assert_int_equal(submit(&c.p, round, &wake), 0);
        wait_for(&c.done, round);
        if (atomic_load(&c.asleep) && !wake)
            fail_msg("race: round %u: the agent sleeps, and the client rings no bell",
                     (unsigned)round);
        assert_int_equal(hf_ring_take(&c.p.agent, &entry), 1);
        hf_ring_disarm(&c.p.agent);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - began.tv_sec < 2 && round < 500000);
    atomic_store(&c.asleep, true);
    atomic_store(&c.go, ++round);
    pthread_join(agent, NULL);
    tear_down(&c.p);
}

/* --- hostile sides ---------------------------------------------------------------------------- */

static void a_request_tail_out_of_range_is_a_violation(void **state)
{
    const uint32_t bad[] = {HF_RING_ENTRIES + 1, UINT32_MAX, UINT32_MAX / 2, 0x80000000};
    struct pair p;
    struct hf_request_entry entry;

    (void)state;
    set_up(&p);
    for (size_t i = 0; i < HF_LENGTH(bad); i++) {
        atomic_store(&p.client.out->tail, bad[i]);
        assert_int_equal(hf_ring_take(&p.agent, &entry), HF_EPROTO);
        assert_int_equal(p.agent.request_head, 0);
    }
    atomic_store(&p.client.out->tail, HF_RING_ENTRIES);
    assert_int_equal(hf_ring_take(&p.agent, &entry), 1);
    tear_down(&p);
}

static void a_tail_that_goes_back_is_a_violation(void **state)
{
    struct pair p;
    struct hf_request_entry entry;
    bool wake;

    (void)state;
    set_up(&p);
    assert_int_equal(submit(&p, 1, &wake), 0);
    assert_int_equal(hf_ring_take(&p.agent, &entry), 1);
    atomic_store(&p.client.out->tail, 0);
    assert_int_equal(hf_ring_take(&p.agent, &entry), HF_EPROTO);
    tear_down(&p);
}

static void the_agent_knows_who_polls(void **state)
{
    struct pair p;

    (void)state;
    set_up(&p);
    assert_false(hf_ring_polled(&p.agent));
    hf_ring_poll(&p.client);
    assert_true(hf_ring_polled(&p.agent));
    tear_down(&p);
}

static void a_completion_head_out_of_range_is_a_violation(void **state)
{
    struct pair p;

    (void)state;
    set_up(&p);
    assert_int_equal(post(&p, 1), 0);
    atomic_store(&p.client.out->completion_head, 2); /* more than were posted */
    assert_int_equal(hf_ring_room(&p.agent), HF_EPROTO);
    assert_int_equal(post(&p, 2), HF_EPROTO);
    atomic_store(&p.client.out->completion_head, 1 - HF_RING_ENTRIES - 1);
    assert_int_equal(hf_ring_room(&p.agent), HF_EPROTO);
    tear_down(&p);
}

static void the_client_checks_the_agent_too(void **state)
{
    struct pair p;
    struct hf_completion_entry completion;
    bool wake;

    (void)state;
    set_up(&p);
    atomic_store(&p.agent.out->tail, HF_RING_ENTRIES + 1);
    assert_int_equal(hf_ring_reap(&p.client, &completion), HF_EPROTO);
    atomic_store(&p.agent.out->request_head, 1);
    assert_int_equal(submit(&p, 1, &wake), HF_EPROTO);
    tear_down(&p);
}

static void *scribble(void *arg)
{
    struct echo *e = arg;
    uint64_t x = 88172645463325252u;

    while (!atomic_load(&e->stop)) {
        uint64_t *page = (uint64_t *)e->p.client.out;

        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        /* Anywhere, and the cursors every second time. */
        __atomic_store_n(page + (x & 1 ? x % (HF_RING_BYTES / 8) : (x >> 8) % 2 * 8), x >> 32 & 63,
                         __ATOMIC_RELAXED);
    }
    return NULL;
}

/* Whatever stands there, every call comes back with 1, 0, or a violation. */
static void a_client_that_scribbles_hurts_nobody(void **state)
{
    struct echo e = {.stop = false};
    pthread_t client;
    unsigned violations = 0;

    (void)state;
    set_up(&e.p);
    assert_int_equal(pthread_create(&client, NULL, scribble, &e), 0);
    for (int i = 0; i < 200000; i++) {
        struct hf_request_entry entry;
        int got = hf_ring_take(&e.p.agent, &entry);
        int room = hf_ring_room(&e.p.agent);

        assert_true(got == 0 || got == 1 || got == HF_EPROTO);
        assert_true(room == HF_EPROTO || (room >= 0 && room <= HF_RING_ENTRIES));
        violations += got == HF_EPROTO;
        if (i % 16 == 0)
            (void)post(&e.p, 1);
        if (i % 1000 == 0)
            usleep(100);
    }
    atomic_store(&e.stop, true);
    pthread_join(client, NULL);
    assert_true(violations > 0);
    tear_down(&e.p);
}

/* --- what a client may do with the descriptors ------------------------------------------------ */

static int reopen(int fd, int flags)
{
    char path[32];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, flags | O_CLOEXEC);
}

static void the_client_can_neither_write_completions_nor_resize(void **state)
{
    struct hf_ring_agent agent;
    struct stat st;
    int requests, completions, again;

    (void)state;
    assert_int_equal(hf_ring_agent_create(&agent, &requests, &completions), 0);
    assert_int_equal(fstat(requests, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(fstat(completions, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_true(fcntl(requests, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(completions, F_GETFD) & FD_CLOEXEC);

    assert_int_equal(fcntl(completions, F_GETFL) & O_ACCMODE, O_RDONLY);
    assert_ptr_equal(mmap(NULL, HF_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, completions, 0),
                     MAP_FAILED);
    assert_int_equal(ftruncate(requests, 0), -1);
    assert_int_equal(ftruncate(requests, 1 << 20), -1);
    assert_int_equal(fcntl(requests, F_ADD_SEALS, F_SEAL_WRITE), -1);

    /* Its owner may open it again for writing, and still cannot write. */
    again = reopen(completions, O_RDWR);
    if (again >= 0) {
        assert_ptr_equal(mmap(NULL, HF_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0),
                         MAP_FAILED);
        assert_int_equal(pwrite(again, "x", 1, 0), -1);
        assert_int_equal(ftruncate(again, 0), -1);
        close(again);
    }
    close(requests);
    close(completions);
    hf_ring_agent_destroy(&agent);
}

static void another_user_cannot_open_them_again(void **state)
{
    struct hf_ring_agent agent;
    int requests, completions;
    pid_t child;

    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(hf_ring_agent_create(&agent, &requests, &completions), 0);
    child = fork();
    if (child == 0) {
        CHILD_CHECK(setgid(65534) == 0 && setuid(65534) == 0);
        CHILD_CHECK(reopen(completions, O_RDWR) < 0);
        CHILD_CHECK(reopen(requests, O_RDWR) < 0);
        _exit(0);
    }
    assert_int_equal(fixture_wait(child), 0);
    close(requests);
    close(completions);
    hf_ring_agent_destroy(&agent);
}

/* Puts `fd` into a socket's queue, where it has no other place. */
static void send_away(int sock, int fd)
{
    char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 'x';
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof(int));
    assert_int_equal(sendmsg(sock, &message, 0), 1);
    close(fd);
}

/* One memfd is kept in one way, the other one is closed. */
static void the_agent_sees_who_keeps_the_memory(void **state)
{
    enum { AS_A_DESCRIPTOR, AS_A_MAPPING, IN_A_MESSAGE, WAYS };

    (void)state;
    for (int way = 0; way < WAYS; way++) {
        for (int kept = 0; kept < 2; kept++) {
            struct hf_ring_agent agent;
            int clients[2], own[2], pair[2];
            void *map = NULL;

            assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
            assert_int_equal(hf_ring_agent_create(&agent, &clients[0], &clients[1]), 0);
            assert_int_equal(hf_ring_witness(clients, own), 0);
            hf_ring_agent_destroy(&agent);
            assert_true(hf_ring_is_shared(own));
            close(clients[!kept]);
            if (way == AS_A_MAPPING) {
                map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, clients[kept], 0);
                assert_ptr_not_equal(map, MAP_FAILED);
                close(clients[kept]);
            } else if (way == IN_A_MESSAGE) {
                send_away(pair[0], clients[kept]);
            }
            assert_true(hf_ring_is_shared(own));
            if (way == AS_A_DESCRIPTOR)
                close(clients[kept]);
            if (map)
                munmap(map, 4096);
            close(pair[0]);
            close(pair[1]);
            assert_false(hf_ring_is_shared(own));
            close(own[0]);
            close(own[1]);
        }
    }
}

static int64_t bytes_of(int fd)
{
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    return st.st_blocks * 512;
}

static void look_at_all(const void *map, size_t size)
{
    for (size_t at = 0; at < size; at += 4096)
        (void)*((const volatile char *)map + at);
}

static void the_agent_lets_in_who_has_allocated(void **state)
{
    struct hf_ring_agent agent;
    struct hf_ring_client client;
    int fds[2], own[2];

    (void)state;
    assert_int_equal(hf_ring_agent_create(&agent, &fds[0], &fds[1]), 0);
    assert_int_equal(hf_ring_witness(fds, own), 0);
    assert_int_equal(bytes_of(own[0]) + bytes_of(own[1]), 0);
    assert_int_equal(hf_ring_admit(&agent, own), HF_EPENDING);
    assert_int_equal(posix_fallocate(fds[0], 0, HF_REQUESTS_BYTES), 0);
    assert_int_equal(hf_ring_admit(&agent, own), HF_EPENDING); /* it could make holes again */
    assert_int_equal(bytes_of(own[1]), 0);
    assert_int_equal(hf_ring_client_map(dup(fds[0]), dup(fds[1]), NULL, &client), 0);
    assert_int_equal(bytes_of(own[0]), HF_REQUESTS_BYTES);
    assert_int_equal(bytes_of(own[1]), HF_RING_BYTES);
    assert_int_equal(hf_ring_admit(&agent, own), 0);

    assert_int_equal(fallocate(fds[0], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
    assert_int_equal(madvise(client.out, 4096, MADV_REMOVE), -1);
    assert_int_equal(fcntl(fds[0], F_ADD_SEALS, F_SEAL_WRITE), -1);
    assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0), MAP_FAILED);
    hf_ring_client_unmap(&client);
    hf_ring_agent_destroy(&agent);
    for (int i = 0; i < 2; i++) {
        close(fds[i]);
        close(own[i]);
    }
}

/* One page is missing, of one or of the other. */
static void the_agent_refuses_rings_with_a_hole(void **state)
{
    (void)state;
    for (int hole = 0; hole < 11; hole++) {
        struct hf_ring_agent agent;
        int fds[2], own[2];

        assert_int_equal(hf_ring_agent_create(&agent, &fds[0], &fds[1]), 0);
        assert_int_equal(hf_ring_witness(fds, own), 0);
        for (int page = 0; page < 11; page++)
            if (page != hole)
                look_at_all(page < 6 ? (const char *)agent.in + page * 4096
                                     : (const char *)agent.out + (page - 6) * 4096,
                            1);
        assert_int_equal(fcntl(fds[0], F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
        assert_int_equal(hf_ring_admit(&agent, own), HF_EPROTO);
        assert_int_equal(bytes_of(own[0]) + bytes_of(own[1]), 10 * 4096);
        hf_ring_agent_destroy(&agent);
        for (int i = 0; i < 2; i++) {
            close(fds[i]);
            close(own[i]);
        }
    }
}

/* Pages that were only read are clean: the kernel frees them at will. `admit`: whether the agent lets it in before. What is left. */
static int64_t left_of_clean(bool admit)
{
    struct hf_ring_agent agent;
    int fds[2], own[2];
    int64_t left;

    assert_int_equal(hf_ring_agent_create(&agent, &fds[0], &fds[1]), 0);
    assert_int_equal(hf_ring_witness(fds, own), 0);
    look_at_all(agent.in, HF_REQUESTS_BYTES);
    look_at_all(agent.out, HF_RING_BYTES);
    assert_int_equal(fcntl(fds[0], F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
    if (admit)
        assert_int_equal(hf_ring_admit(&agent, own), 0);
    (void)madvise((void *)agent.in, HF_REQUESTS_BYTES, MADV_PAGEOUT);
    (void)madvise(agent.out, HF_RING_BYTES, MADV_PAGEOUT);
    left = bytes_of(own[0]) + bytes_of(own[1]);
    hf_ring_agent_destroy(&agent);
    for (int i = 0; i < 2; i++) {
        close(fds[i]);
        close(own[i]);
    }
    return left;
}

static void no_page_is_freed_once_it_is_let_in(void **state)
{
    const int64_t all = HF_REQUESTS_BYTES + HF_RING_BYTES;

    (void)state;
    if (left_of_clean(false) == all)
        skip(); /* this kernel does not free them for the asking */
    assert_int_equal(left_of_clean(true), all);
}

static int unsealed(off_t size)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, size), 0);
    return fd;
}

static void heartbeats_move_on_to_the_next_session(void **state)
{
    struct hf_ring_agent agent[2];
    struct hf_ring_client client[2];
    int requests[2], completions[2];
    const _Atomic uint32_t *beats;
    uint32_t *page =
        mmap(NULL, HF_BEATS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    assert_true((void *)page != MAP_FAILED);
    page[7] = 1; /* nobody's yet */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(hf_ring_agent_create(&agent[i], &requests[i], &completions[i]), 0);
        assert_int_equal(hf_ring_client_map(requests[i], completions[i], page, &client[i]), 0);
        assert_int_equal(page[7], 0);
        page[7] = 100 + (uint32_t)i;
        assert_int_equal(atomic_load(&agent[i].beats[7]), 100 + i);
        assert_int_equal(atomic_load(&agent[i].in->tail), 0);
    }
    assert_int_equal(atomic_load(&agent[0].beats[7]), 100); /* the words of before */
    /* They outlive the ring. */
    beats = hf_ring_take_beats(&agent[1]);
    hf_ring_agent_destroy(&agent[0]);
    hf_ring_agent_destroy(&agent[1]);
    page[HF_BEATS - 1] = 5;
    assert_int_equal(atomic_load(&beats[HF_BEATS - 1]), 5);
    hf_beats_unmap(beats);
    page[0] = 6; /* also when the agent has let go of them */
    hf_ring_client_unmap(&client[0]);
    hf_ring_client_unmap(&client[1]);
    munmap(page, HF_BEATS_BYTES);
}

static void the_client_refuses_what_could_shrink_under_it(void **state)
{
    struct hf_ring_agent agent;
    struct hf_ring_client client;
    int requests, completions, fd;

    (void)state;
    assert_int_equal(hf_ring_agent_create(&agent, &requests, &completions), 0);
    fd = unsealed(HF_RING_BYTES);
    assert_int_equal(hf_ring_client_map(dup(requests), fd, NULL, &client), HF_EPROTO);
    assert_int_equal(fcntl(fd, F_GETFD), -1); /* closed all the same */
    assert_int_equal(
        hf_ring_client_map(unsealed(HF_REQUESTS_BYTES), dup(completions), NULL, &client),
        HF_EPROTO);

    fd = unsealed(100);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    assert_int_equal(hf_ring_client_map(fd, dup(completions), NULL, &client), HF_EPROTO);
    assert_int_equal(hf_ring_client_map(open("/dev/null", O_RDWR), dup(completions), NULL, &client),
                     HF_EPROTO);
    assert_int_equal(hf_ring_client_map(requests, completions, NULL, &client), 0);
    hf_ring_client_unmap(&client);
    hf_ring_client_unmap(&client); /* once more is fine */
    hf_ring_agent_destroy(&agent);
    hf_ring_agent_destroy(&agent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_come_in_order),
        cmocka_unit_test(a_full_request_ring_says_so),
        cmocka_unit_test(completions_come_in_order_and_fill_up),
        cmocka_unit_test(cursors_wrap_around),
        cmocka_unit_test(a_sleeping_agent_asks_for_the_bell),
        cmocka_unit_test(a_signal_wakes_few_and_those_can_wake_the_others),
        cmocka_unit_test(every_completion_and_signal_moves_the_wake_word),
        cmocka_unit_test(no_wake_up_is_lost),
        cmocka_unit_test(a_request_and_a_sleep_that_cross_see_each_other),
        cmocka_unit_test(a_request_tail_out_of_range_is_a_violation),
        cmocka_unit_test(a_tail_that_goes_back_is_a_violation),
        cmocka_unit_test(the_agent_knows_who_polls),
        cmocka_unit_test(a_completion_head_out_of_range_is_a_violation),
        cmocka_unit_test(the_client_checks_the_agent_too),
        cmocka_unit_test(a_client_that_scribbles_hurts_nobody),
        cmocka_unit_test(the_client_can_neither_write_completions_nor_resize),
        cmocka_unit_test(another_user_cannot_open_them_again),
        cmocka_unit_test(the_agent_sees_who_keeps_the_memory),
        cmocka_unit_test(the_agent_lets_in_who_has_allocated),
        cmocka_unit_test(the_agent_refuses_rings_with_a_hole),
        cmocka_unit_test(no_page_is_freed_once_it_is_let_in),
        cmocka_unit_test(heartbeats_move_on_to_the_next_session),
        cmocka_unit_test(the_client_refuses_what_could_shrink_under_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
