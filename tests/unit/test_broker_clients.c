/* The broker's clients, with real sockets and rings, and the test in place of loop, clock and whoever is above: what
 * goes up as sessions, clients and ghosts end, each once and in its order; and what one user may have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "agent/broker/locks/names.h"
#include "shm/process.h"
#include "shm/ring.h"
#include "tests/unit/broker_fixture.h"

static struct clients *clients;
static char dir[64];
static uint64_t last_request;
static bool end_within; /* the request ends its session */
static bool take_datagrams;
static struct client *last_over;

/* --- above ------------------------------------------------------------------------------------ */

static void on_request(void *arg, struct session *s, const struct hf_request_entry *q)
{
    assert_ptr_equal(arg, &clients);
    last_request = q->id;
    hear("request");
    answers_owe(&s->answers);
    if (end_within)
        session_end(s, NULL);
}

static bool on_datagram(HF_UNUSED void *arg, struct session *s)
{
    char text[64];

    if (!take_datagrams)
        return false;
    hear("datagram");
    return recv(s->socket.fd, text, sizeof(text), MSG_DONTWAIT) > 0;
}

static void on_session_gone(HF_UNUSED void *arg, struct session *s)
{
    assert_non_null(s->client);
    hear("session-gone");
}

static void on_client_gone(HF_UNUSED void *arg, struct client *c)
{
    assert_true(LIST_EMPTY(&c->sessions));
    assert_false(c->ghost);
    hear("client-gone");
}

static void on_client_over(HF_UNUSED void *arg, struct client *c)
{
    assert_true(LIST_EMPTY(&c->sessions));
    last_over = c;
    hear("client-over");
}

static void on_rebound(HF_UNUSED void *arg, HF_UNUSED struct session *s)
{
    hear("rebound");
}

/* --- the room --------------------------------------------------------------------------------- */

static int make(void **state)
{
    const struct clients_owner owner = {.request = on_request,
                                        .datagram = on_datagram,
                                        .session_gone = on_session_gone,
                                        .client_gone = on_client_gone,
                                        .client_over = on_client_over,
                                        .rebound = on_rebound,
                                        .arg = &clients};

    (void)state;
    make_agent();
    scratch_path(dir, sizeof(dir));
    assert_non_null(mkdtemp(dir));
    snprintf(agent.socket_path, sizeof(agent.socket_path), "%s/sock", dir);
    end_within = take_datagrams = false;
    last_request = 0;
    assert_int_equal(sessions_create(&agent, loop, &owner, &clients), HF_OK);
    assert_int_equal(sessions_listen(clients), HF_OK);
    sessions_start(clients);
    heard[0] = '\0';
    return 0;
}

static int unmake(void **state)
{
    (void)state;
    sessions_destroy(clients);
    clients_end(clients);
    clients_destroy(clients);
    unmake_agent();
    unlink(agent.socket_path); /* it stays, for the next agent */
    rmdir(dir);
    return 0;
}

/* --- processes that attach -------------------------------------------------------------------- */

struct peer {
    int sock;
    int fds[HF_WELCOME_FDS];
    struct hf_welcome welcome;
    struct hf_ring_client ring;
};

static int connect_it(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s/sock", dir);
    assert_int_equal(connect(sock, (struct sockaddr *)&address, sizeof(address)), 0);
    return sock;
}

/* When this process started, read once: a test looks at who reads it. */
static uint64_t own_start_time(void)
{
    static uint64_t started;

    if (!started)
        started = hf_process_start_time(getpid());
    return started;
}

/* Says hello, and takes what it is answered. */
static struct peer greet(enum hf_hello_role role, const uint8_t *cookie)
{
    struct peer p = {.sock = connect_it(), .fds = {-1, -1, -1}};
    struct hf_hello hello = {.magic = HF_WIRE_MAGIC,
                             .major = HF_WIRE_MAJOR,
                             .minor = HF_WIRE_MINOR,
                             .fingerprint = hf_wire_fingerprint(),
                             .start_time = own_start_time(),
                             .boottime_ns = its_time.ns,
                             .role = role,
                             .comm = "tester"};
    char control[CMSG_SPACE(sizeof(p.fds))];
    struct iovec part = {.iov_base = &p.welcome, .iov_len = sizeof(p.welcome)};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = control,
                       .msg_controllen = sizeof(control)};

    if (cookie)
        memcpy(hello.cookie, cookie, HF_COOKIE_LEN);
    assert_int_equal(send(p.sock, &hello, sizeof(hello), 0), sizeof(hello));
    turn(); /* let in */
    turn(); /* heard */
    assert_int_equal(recvmsg(p.sock, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC), sizeof(p.welcome));
    if (CMSG_FIRSTHDR(&m))
        memcpy(p.fds, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(p.fds));
    return p;
}

static void ring_bell(const struct peer *p)
{
    const char bell = 0;

    assert_int_equal(send(p->sock, &bell, sizeof(bell), MSG_DONTWAIT), sizeof(bell));
    turn();
}

static struct peer attach(enum hf_hello_role role, const uint8_t *cookie)
{
    struct peer p = greet(role, cookie);

    assert_int_equal(p.welcome.status, HF_OK);
    assert_int_equal(hf_ring_client_map(dup(p.fds[HF_FD_REQUESTS]), dup(p.fds[HF_FD_COMPLETIONS]),
                                        NULL, &p.ring),
                     0);
    ring_bell(&p);
    return p;
}

static void leave(struct peer *p)
{
    close(p->sock);
    hf_ring_client_unmap(&p->ring);
    for (int i = 0; i < HF_WELCOME_FDS; i++)
        if (p->fds[i] >= 0)
            close(p->fds[i]);
    turn();
}

static struct client *client_of(const struct peer *p)
{
    struct client *c;

    LIST_FOREACH (c, &clients->all, all)
        if ((uint32_t)c->id == p->welcome.client_id)
            return c;
    return NULL;
}

static int count_clients(void)
{
    const struct client *c;
    int count = 0;

    LIST_FOREACH (c, &clients->all, all)
        count++;
    return count;
}

/* Who a process is to an agent of now; 0: this kernel does not tell. */
static uint64_t birth_of(pid_t pid)
{
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    uint64_t birth = hf_process_birth(pidfd);

    close(pidfd);
    return birth;
}

/* Another process, which only lives, and not for longer than this one. */
static pid_t bystander(void)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        pause();
        _exit(0);
    }
    return pid;
}

static void dies(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    turn();
}

static int ghost_of(pid_t pid, struct client **ret_client)
{
    return client_ghost(clients, (uint32_t)pid, hf_process_start_time(pid), (uint32_t)getuid(),
                        cookie_hash((const uint8_t[HF_COOKIE_LEN]){7}), "ghost", ret_client);
}

/* --- ends of sessions ------------------------------------------------------------------------- */

static void the_end_of_a_client_in_order(void **state)
{
    struct peer p;

    (void)state;
    p = attach(HF_ROLE_HOLDER, NULL);
    assert_heard("rebound");
    assert_int_equal(counter(HF_COUNTER_CLIENTS), 1);
    leave(&p);
    assert_heard("session-gone client-gone client-over");
    assert_int_equal(count_clients(), 0);
    assert_int_equal(counter(HF_COUNTER_CLIENTS), 0);
    pass(10000);
    turn();
    assert_heard("");
}

/* A stranger ends before anybody above has heard of it. */
static void without_a_hello_nothing_goes_up(void **state)
{
    int sock;

    (void)state;
    sock = connect_it();
    turn();
    assert_int_equal(clients->session_count, 1);
    pass(1000);
    assert_int_equal(clients->session_count, 0);
    assert_heard("");
    assert_int_equal(counter(HF_COUNTER_VIOLATIONS), 1);
    close(sock);
}

static void a_client_ends_with_its_last_session(void **state)
{
    struct peer holder, guardian;

    (void)state;
    holder = attach(HF_ROLE_HOLDER, NULL);
    guardian = attach(HF_ROLE_GUARDIAN, holder.welcome.cookie);
    assert_int_equal(guardian.welcome.client_id, holder.welcome.client_id);
    assert_true(client_of(&holder)->joined);
    assert_heard("rebound"); /* a guardian does not beat */
    leave(&holder);
    assert_heard("session-gone");
    leave(&guardian);
    assert_heard("session-gone client-gone client-over");
}

/* (!) What it holds outlives its sessions; it is freed once, with the last that needs it. */
static void a_client_is_over_once(void **state)
{
    struct name r = {.slot = 1};
    struct client *c;
    struct peer p;

    (void)state;
    p = attach(HF_ROLE_HOLDER, NULL);
    c = client_of(&p);
    heard[0] = '\0';
    LIST_INSERT_HEAD(&c->held, &r, of_holder);
    c->held_count++;
    c->handoffs++;
    leave(&p);
    assert_heard("session-gone client-gone");
    client_settle(c);
    LIST_REMOVE(&r, of_holder);
    c->held_count--;
    client_settle(c);
    assert_heard("");
    c->handoffs--;
    last_over = NULL;
    client_settle(c);
    assert_heard("client-over");
    assert_ptr_equal(last_over, c);
    assert_int_equal(count_clients(), 0);
}

/* Leases stay when the agent goes, and so nobody hears that their holders were gone. */
static void at_the_agents_end_clients_are_over_and_not_gone(void **state)
{
    struct peer a, b;

    (void)state;
    a = attach(HF_ROLE_HOLDER, NULL);
    b = attach(HF_ROLE_HOLDER, NULL);
    heard[0] = '\0';
    sessions_destroy(clients);
    assert_heard("");
    clients_end(clients);
    assert_heard("client-over client-over");
    clients_end(clients);
    assert_heard("");
    close(a.sock);
    close(b.sock);
    for (int i = 0; i < HF_WELCOME_FDS; i++) {
        close(a.fds[i]);
        close(b.fds[i]);
    }
    clients->listener.fd = -1;
}

static void a_datagram_that_nobody_wants_ends_its_session(void **state)
{
    struct peer p;

    (void)state;
    p = attach(HF_ROLE_HOLDER, NULL);
    heard[0] = '\0';
    take_datagrams = true;
    assert_int_equal(send(p.sock, "xx", 2, 0), 2);
    turn();
    assert_heard("datagram");
    take_datagrams = false;
    assert_int_equal(send(p.sock, "xx", 2, 0), 2);
    turn();
    assert_heard("session-gone client-gone client-over");
    leave(&p);
}

/* --- requests --------------------------------------------------------------------------------- */

static void submit(struct peer *p, uint64_t id)
{
    bool wake;

    assert_int_equal(
        hf_ring_submit(&p->ring, &(struct hf_request_entry){.op = HF_OP_CANCEL, .id = id}, &wake),
        0);
    ring_bell(p);
}

static void a_request_goes_up(void **state)
{
    struct peer p;

    (void)state;
    p = attach(HF_ROLE_HOLDER, NULL);
    heard[0] = '\0';
    submit(&p, 77);
    (void)sessions_serve(clients);
    assert_heard("request");
    assert_int_equal(last_request, 77);
    leave(&p);
}

/* What is asked for may end who asks. */
static void a_request_may_end_its_session(void **state)
{
    struct peer p;

    (void)state;
    p = attach(HF_ROLE_HOLDER, NULL);
    heard[0] = '\0';
    end_within = true;
    submit(&p, 1);
    submit(&p, 2);
    (void)sessions_serve(clients);
    assert_heard("request session-gone client-gone client-over");
    assert_int_equal(last_request, 1);
    leave(&p);
}

/* --- ghosts ----------------------------------------------------------------------------------- */

static void a_ghost_ends_with_its_process(void **state)
{
    pid_t pid = bystander();
    struct client *c, *again;

    (void)state;
    assert_int_equal(ghost_of(pid, &c), HF_OK);
    assert_int_equal(ghost_of(pid, &again), HF_OK);
    assert_ptr_equal(c, again); /* of its second lease */
    turn();
    assert_heard("");
    dies(pid);
    assert_heard("client-gone client-over");
    assert_int_equal(count_clients(), 0);
}

static void a_process_that_is_gone_is_no_ghost(void **state)
{
    pid_t pid = bystander();
    uint64_t started = hf_process_start_time(pid);
    struct client *c = NULL;

    (void)state;
    /* Another process of that number. */
    assert_int_equal(client_ghost(clients, (uint32_t)pid, started + 1, 0, 7, "", &c), HF_ELOST);
    dies(pid);
    assert_int_equal(client_ghost(clients, (uint32_t)pid, started, 0, 7, "", &c), HF_ELOST);
    assert_null(c);
    assert_int_equal(count_clients(), 0);
    assert_heard("");
}

/* (!) Without a descriptor to watch it by it counts as alive, until a sweep finds it gone. */
static void an_unwatched_ghost_is_looked_for(void **state)
{
    pid_t pid = bystander();
    struct client *c;

    (void)state;
    assert_int_equal(ghost_of(pid, &c), HF_OK);
    loop_fd_remove(loop, &c->ghost_watch);
    close(c->ghost_pidfd);
    c->ghost_pidfd = -1;
    clients->unwatched++;
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    turn();
    assert_heard("");
    pass(100);
    assert_heard("client-gone client-over");
    assert_int_equal(clients->unwatched, 0);
}

/* The same cookie and the same process. */
static void a_ghost_that_comes_back_is_none(void **state)
{
    static const uint8_t cookie[HF_COOKIE_LEN] = {7};
    struct client *c;
    struct peer p;

    (void)state;
    assert_int_equal(ghost_of(getpid(), &c), HF_OK);
    p = attach(HF_ROLE_HOLDER, cookie);
    assert_ptr_equal(client_of(&p), c);
    assert_false(c->ghost);
    assert_heard("rebound");
    leave(&p);
    assert_heard("session-gone client-gone client-over");
}

/* Its own process has yet to come back. */
static void a_ghosts_guardian_leaves_it_alone(void **state)
{
    static const uint8_t cookie[HF_COOKIE_LEN] = {7};
    pid_t pid = bystander();
    struct client *c;
    struct peer p;

    (void)state;
    assert_int_equal(ghost_of(pid, &c), HF_OK);
    p = attach(HF_ROLE_GUARDIAN, cookie);
    assert_ptr_equal(client_of(&p), c);
    leave(&p);
    assert_heard("session-gone");
    dies(pid);
    assert_heard("client-gone client-over");
}

/* --- no file of a client ---------------------------------------------------------------------- */

/* Tells whether somebody opens a file of the process from here on. */
static int watch_files_of(pid_t pid)
{
    int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    char path[32];

    snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    assert_true(inotify_add_watch(watch, path, IN_OPEN) >= 0);
    return watch;
}

static bool was_opened(int watch)
{
    char events[4096];

    return read(watch, events, sizeof(events)) > 0;
}

/* (!) Its owner makes each read of such a file as slow as it likes. */
static void no_file_of_a_client_is_read(void **state)
{
    static const uint8_t cookie[HF_COOKIE_LEN] = {7};
    uint64_t own = birth_of(getpid());
    struct client *c, *again = NULL;
    struct peer p;
    int watch;

    (void)state;
    if (!own)
        skip(); /* before Linux 6.9 */
    (void)own_start_time();
    watch = watch_files_of(getpid());
    (void)hf_process_start_time(getpid());
    if (!was_opened(watch)) {
        close(watch);
        skip();
    }
    p = attach(HF_ROLE_HOLDER, NULL);
    assert_int_equal(client_of(&p)->birth, own);
    leave(&p);
    assert_int_equal(client_ghost(clients, (uint32_t)getpid(), own, (uint32_t)getuid(),
                                  cookie_hash(cookie), "ghost", &c),
                     HF_OK);
    p = attach(HF_ROLE_HOLDER, cookie);
    assert_ptr_equal(client_of(&p), c);
    assert_false(c->ghost);
    leave(&p);
    assert_int_equal(
        client_ghost(clients, (uint32_t)getpid(), own + 1, (uint32_t)getuid(), 8, "", &again),
        HF_ELOST);
    assert_null(again);
    assert_false(was_opened(watch));
    close(watch);
}

static void a_birth_is_one_processs(void **state)
{
    pid_t one = bystander(), other = bystander();

    (void)state;
    assert_int_equal(birth_of(one), birth_of(one));
    if (birth_of(one)) {
        assert_int_not_equal(birth_of(one), birth_of(other));
        assert_true(birth_of(one) & HF_BIRTH_OF_PIDFD);
    }
    assert_int_equal(hf_process_birth(0), 0); /* no pidfd */
    dies(one);
    dies(other);
}

/* --- guardians -------------------------------------------------------------------------------- */

/* A job's two guardians have one place, whichever comes first; what comes beyond takes its own. */
static void a_clients_guardian_shares_its_place(void **state)
{
    struct peer holder, guardian, other, more;
    const uint8_t *cookie;

    (void)state;
    config.clients_max = 2;
    holder = attach(HF_ROLE_HOLDER, NULL);
    cookie = holder.welcome.cookie;
    other = attach(HF_ROLE_HOLDER, NULL);
    guardian = attach(HF_ROLE_GUARDIAN, cookie);
    assert_int_equal(clients->shared_count, 1);
    more = greet(HF_ROLE_GUARDIAN, cookie);
    assert_int_equal(more.welcome.status, HF_EFULL);
    leave(&more);
    leave(&guardian);
    assert_int_equal(clients->shared_count, 0);
    guardian = attach(HF_ROLE_GUARDIAN, cookie);
    /* The other way round, as after a restart. */
    leave(&holder);
    more = greet(HF_ROLE_HOLDER, NULL);
    assert_int_equal(more.welcome.status, HF_EFULL);
    leave(&more);
    holder = attach(HF_ROLE_HOLDER, guardian.welcome.cookie);
    assert_ptr_equal(client_of(&holder), client_of(&guardian));
    leave(&holder);
    leave(&guardian);
    leave(&other);
    assert_int_equal(clients->shared_count, 0);
    assert_int_equal(user_get(clients, (uint32_t)getuid())->shared, 0);
}

/* A session beside the one that its client has is one more of its user. */
static void who_comes_again_has_no_more_than_its_share(void **state)
{
    struct peer p[6], more;

    (void)state;
    config.clients_max = config.clients_per_uid = 8;
    config.subuids = (struct subuids){.count = 1, .range = {{(uint32_t)getuid(), 1, 4711}}};
    for (int i = 0; i < 6; i++)
        p[i] = attach(HF_ROLE_HOLDER, i ? p[0].welcome.cookie : NULL);
    for (enum hf_hello_role role = HF_ROLE_HOLDER; role <= HF_ROLE_GUARDIAN; role++) {
        more = greet(role, p[0].welcome.cookie);
        assert_int_equal(more.welcome.status, HF_EFULL);
        assert_non_null(strstr(more.welcome.text, "its share"));
        leave(&more);
    }
    for (int i = 0; i < 6; i++)
        leave(&p[i]);
    config.subuids.count = 0;
}

/* (!) Else a guardian that comes and goes would have any number of places. */
static void what_a_guardian_leaves_is_shared_once(void **state)
{
    struct peer holder, guardian, next;
    struct user *u;

    (void)state;
    if (!clients->tells_kept)
        skip();
    config.subuids = (struct subuids){.count = 1, .range = {{(uint32_t)getuid(), 1, 4711}}};
    u = user_get(clients, (uint32_t)getuid());
    holder = attach(HF_ROLE_HOLDER, NULL);
    guardian = attach(HF_ROLE_GUARDIAN, holder.welcome.cookie);
    assert_int_equal(u->shared, 0); /* too few descriptors */
    leave(&guardian);
    pass(100);
    assert_int_equal(u->kept, 0);
    config.guardians_fit = true;
    guardian = attach(HF_ROLE_GUARDIAN, holder.welcome.cookie);
    assert_int_equal(u->shared, 1);
    shutdown(guardian.sock, SHUT_RDWR);
    turn();
    assert_int_equal(u->kept, 1);
    assert_int_equal(u->shared, 1);
    next = attach(HF_ROLE_GUARDIAN, holder.welcome.cookie);
    assert_int_equal(u->shared, 1);
    leave(&guardian);
    pass(100);
    assert_int_equal(u->kept, 0);
    assert_int_equal(u->shared, 0);
    assert_int_equal(u->sessions, 2);
    leave(&next);
    leave(&holder);
    config.subuids.count = 0;
    config.guardians_fit = false;
}

/* --- users ------------------------------------------------------------------------------------ */

static void a_user_has_so_many_sessions(void **state)
{
    struct peer a, b, c;

    (void)state;
    config.clients_per_uid = 2;
    a = attach(HF_ROLE_HOLDER, NULL);
    b = attach(HF_ROLE_HOLDER, NULL);
    heard[0] = '\0';
    c = greet(HF_ROLE_HOLDER, NULL);
    assert_int_equal(c.welcome.status, HF_ELIMIT);
    assert_non_null(strstr(c.welcome.text, "clients_per_uid"));
    assert_heard("");
    leave(&c);
    leave(&a);
    c = attach(HF_ROLE_HOLDER, NULL);
    leave(&b);
    leave(&c);
    assert_int_equal(user_get(clients, (uint32_t)getuid())->sessions, 0);
}

static void all_have_so_many_sessions(void **state)
{
    struct peer a, b;

    (void)state;
    config.clients_max = 1;
    a = attach(HF_ROLE_HOLDER, NULL);
    b = greet(HF_ROLE_HOLDER, NULL);
    assert_int_equal(b.welcome.status, HF_EFULL);
    leave(&a);
    leave(&b);
}

static void a_user_holds_and_waits_for_so_many(void **state)
{
    struct user *u = user_get(clients, 1234);
    char text[184] = "";

    (void)state;
    assert_ptr_equal(user_get(clients, 1234), u);
    config.leases_per_uid = 3;
    config.waiters_per_uid = 2;
    assert_int_equal(user_judge_acquire(clients, u, 1, text, sizeof(text)), HF_OK);
    u->waiters = 2;
    assert_int_equal(user_judge_acquire(clients, u, 1, text, sizeof(text)), HF_ELIMIT);
    assert_non_null(strstr(text, "waiters_per_uid"));
    /* Of both together no more than the larger limit: each takes a place in the table. */
    u->waiters = 1;
    u->leases = 1;
    assert_int_equal(user_judge_acquire(clients, u, 1, text, sizeof(text)), HF_OK);
    u->leases = 2;
    assert_int_equal(user_judge_acquire(clients, u, 1, text, sizeof(text)), HF_ELIMIT);
    u->waiters = 0;
    assert_int_equal(user_judge_acquire(clients, u, 1, text, sizeof(text)), HF_OK);
    u->leases = 3;
    assert_false(user_may_hold(clients, u));
    assert_int_equal(user_judge_acquire(clients, u, 1, text, sizeof(text)), HF_ELIMIT);
    assert_non_null(strstr(text, "leases_per_uid"));
    config.leases_per_uid = 0;
    assert_int_equal(user_judge_acquire(clients, u, 1, text, sizeof(text)), HF_OK);
}

static void a_users_texts_have_their_share(void **state)
{
    struct user *u = user_get(clients, 1234);
    uint64_t most;
    char text[184] = "";

    (void)state;
    config.leases_per_uid = CAPACITY / 4;
    config.waiters_per_uid = CAPACITY / 4;
    most = agent.table.text_units / 4;
    u->text_units = most - 1;
    assert_int_equal(user_judge_acquire(clients, u, 1, text, sizeof(text)), HF_OK);
    assert_int_equal(user_judge_acquire(clients, u, 2, text, sizeof(text)), HF_ELIMIT);
    assert_non_null(strstr(text, "its share"));
}

/* In the long run the rate, and a quarter of a second's at once. */
static void a_user_asks_so_much_a_second(void **state)
{
    struct user *u = user_get(clients, 1234);
    int taken = 0;

    (void)state;
    config.requests_per_uid = 100;
    while (user_may_ask(clients, u, its_time)) {
        user_asked(clients, u, its_time);
        taken++;
    }
    assert_in_range(taken, 25, 27);
    for (int i = 0; i < 100; i++) {
        pass(100);
        for (; user_may_ask(clients, u, its_time); taken++)
            user_asked(clients, u, its_time);
    }
    assert_in_range(taken, 1025, 1027);
    /* What was not asked for is not saved up. */
    pass(60000);
    for (taken = 0; user_may_ask(clients, u, its_time); taken++)
        user_asked(clients, u, its_time);
    assert_in_range(taken, 25, 27);
}

/* Who has many leases looked through in vain asks for less. */
static void a_search_counts_as_many_requests(void **state)
{
    struct user *u = user_get(clients, 1234);

    (void)state;
    config.requests_per_uid = 10000;
    user_searched(clients, u, 60, its_time);
    user_searched(clients, u, 80000, its_time);
    assert_true(user_may_ask(clients, u, its_time));
    user_searched(clients, u, 80000, its_time); /* 2500 requests so far, and a few to spare */
    user_searched(clients, u, 80000, its_time);
    assert_false(user_may_ask(clients, u, its_time));
    assert_true(user_may_ask(clients, user_get(clients, 1235), its_time));
    pass(250);
    assert_true(user_may_ask(clients, u, its_time));
}

/* A session more of a client with thousands of leases has them all looked through. */
static void an_attach_counts_as_a_search(void **state)
{
    struct peer p, more[3];
    struct client *c;

    (void)state;
    config.requests_per_uid = 10000;
    p = attach(HF_ROLE_HOLDER, NULL);
    c = client_of(&p);
    c->held_count = 160000; /* 2500 requests */
    heard[0] = '\0';
    for (int i = 0; i < 3; i++)
        more[i] = attach(HF_ROLE_HOLDER, p.welcome.cookie);
    assert_heard("rebound rebound");
    pass(100);
    assert_heard("");
    pass(500);
    assert_heard("rebound");
    c->held_count = 0;
    for (int i = 0; i < 3; i++)
        leave(&more[i]);
    leave(&p);
    config.requests_per_uid = 0;
}

static int connections_of(struct user *u)
{
    struct user *room;
    int taken = 0;

    while (taken < 100000 && user_may_connect(clients, u, 0, its_time, &room))
        taken++;
    return taken;
}

static void connects(struct user *u, unsigned times)
{
    u->sessions += times;
    u->strangers += times;
    clients->session_count += times;
    clients->stranger_count += times;
}

/* (!) Connections without a hello take no place that another user, or root, would have. */
static void who_says_nothing_takes_no_places(void **state)
{
    struct user *silent = user_get(clients, 1234), *other = user_get(clients, 1235),
                *own = user_get(clients, (uint32_t)geteuid()), *room = own;
    char text[184] = "";

    (void)state;
    config.clients_max = 100;
    config.clients_per_uid = 200;
    connects(silent, 111);
    assert_true(user_may_connect(clients, other, 16, its_time, &room));
    assert_null(room);
    connects(other, 1);
    assert_int_equal(user_judge_attach(clients, other, false, text, sizeof(text)), HF_OK);
    assert_int_equal(user_judge_attach(clients, silent, false, text, sizeof(text)), HF_EFULL);
    /* All places are taken: the oldest of who has the most ends. */
    assert_true(user_may_connect(clients, other, 16, its_time, &room));
    assert_ptr_equal(room, silent);
    assert_false(user_may_connect(clients, silent, 16, its_time, &room));
    connects(silent, 4);
    assert_true(user_may_connect(clients, own, 16, its_time, &room));
    assert_ptr_equal(room, silent);
    /* Two who say nothing share. */
    connects(other, 114);
    assert_true(user_may_connect(clients, user_get(clients, 1236), 16, its_time, &room));
    assert_true(room == silent || room == other);
    assert_false(user_may_connect(clients, other, 16, its_time, &room));
    clients->session_count = clients->stranger_count = 0;
}

/* In the long run the rate; at once as many, and one for each of its places. Its storm costs no other user a connection. */
/* Each close may take long: whoever watches the connection is told. */
static void in_a_long_turn_no_more_connections_are_closed(void **state)
{
    int socks[2];

    (void)state;
    for (int i = 0; i < 2; i++)
        socks[i] = connect_it();
    turn();
    assert_int_equal(clients->session_count, 2);
    turn_has_taken = hf_ms(3);
    pass(1100);
    assert_int_equal(clients->session_count, 2);
    turn_has_taken = hf_ms(0);
    pass(10);
    assert_int_equal(clients->session_count, 0);
    for (int i = 0; i < 2; i++)
        close(socks[i]);
}

static void a_user_connects_so_often_a_second(void **state)
{
    struct user *u = user_get(clients, 1234);

    (void)state;
    config.clients_max = 500;
    config.clients_per_uid = 200;
    assert_int_equal(connections_of(u), 1200);
    pass(100);
    assert_int_equal(connections_of(u), 100);
    assert_int_equal(connections_of(user_get(clients, 1235)), 1200);
    assert_int_equal(connections_of(user_get(clients, (uint32_t)geteuid())), 100000);
    config.clients_per_uid = 0;
    pass(60000);
    assert_int_equal(connections_of(u), 1500);
}

static hf_dur thread_time(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return hf_ns(t.tv_sec * HF_NS_PER_SEC + t.tv_nsec);
}

/* What takes `ms` of the clock, and so much of the processor or none. */
static void wake_for(struct user *u, int ms, bool of_processor)
{
    struct toll toll = user_toll_begin(u);
    hf_dur begun = thread_time();

    while (of_processor && thread_time().ns - begun.ns < ms * HF_NS_PER_MS)
        ;
    pass(ms);
    user_toll_end(u, toll);
}

/* (!) The kernel walks all who wait for one wake-up, and that may be a million. */
static void a_user_whose_wake_ups_take_long_is_woken_later(void **state)
{
    struct user *u = user_get(clients, 1234), *room;

    (void)state;
    config.clients_max = 500;
    wake_for(u, 15, true);
    assert_false(user_is_tolled(u, its_time)); /* it may have waited for the processor */
    wake_for(u, 15, true);
    assert_true(user_is_tolled(u, its_time));
    assert_false(user_may_connect(clients, u, 16, its_time, &room));
    assert_true(user_may_connect(clients, user_get(clients, 1235), 16, its_time, &room));
    pass(200);
    assert_true(user_is_tolled(u, its_time));
    pass(2000); /* 15 ms are a fiftieth of 0.75 s */
    assert_false(user_is_tolled(u, its_time));
    assert_true(user_may_connect(clients, u, 16, its_time, &room));
}

static void a_wake_up_that_waited_for_the_processor_costs_nothing(void **state)
{
    struct user *u = user_get(clients, 1234);

    (void)state;
    for (int i = 0; i < 100; i++) {
        wake_for(u, 50, false);
        assert_false(user_is_tolled(u, its_time));
    }
    /* Whom the host could not keep from anything. */
    u = user_get(clients, (uint32_t)geteuid());
    for (int i = 0; i < 3; i++)
        wake_for(u, 15, true);
    assert_false(user_is_tolled(u, its_time));
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, make, unmake)
    const struct CMUnitTest tests[] = {
        ROW(the_end_of_a_client_in_order),
        ROW(without_a_hello_nothing_goes_up),
        ROW(a_client_ends_with_its_last_session),
        ROW(a_client_is_over_once),
        ROW(at_the_agents_end_clients_are_over_and_not_gone),
        ROW(a_datagram_that_nobody_wants_ends_its_session),
        ROW(a_request_goes_up),
        ROW(a_request_may_end_its_session),
        ROW(a_ghost_ends_with_its_process),
        ROW(a_process_that_is_gone_is_no_ghost),
        ROW(an_unwatched_ghost_is_looked_for),
        ROW(a_ghost_that_comes_back_is_none),
        ROW(a_ghosts_guardian_leaves_it_alone),
        ROW(no_file_of_a_client_is_read),
        ROW(a_birth_is_one_processs),
        ROW(a_clients_guardian_shares_its_place),
        ROW(who_comes_again_has_no_more_than_its_share),
        ROW(what_a_guardian_leaves_is_shared_once),
        ROW(a_user_has_so_many_sessions),
        ROW(all_have_so_many_sessions),
        ROW(a_user_holds_and_waits_for_so_many),
        ROW(a_users_texts_have_their_share),
        ROW(a_user_asks_so_much_a_second),
        ROW(a_search_counts_as_many_requests),
        ROW(an_attach_counts_as_a_search),
        ROW(in_a_long_turn_no_more_connections_are_closed),
        ROW(a_user_connects_so_often_a_second),
        ROW(who_says_nothing_takes_no_places),
        ROW(a_user_whose_wake_ups_take_long_is_woken_later),
        ROW(a_wake_up_that_waited_for_the_processor_costs_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
