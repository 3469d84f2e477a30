/* The agent as a job's killer, with the test in place of the control group and of the locks: when it kills, and when
 * it says for the guardians that the job is over. What passes for a group: test_agent_job_group. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "agent/broker/jobs/groups.h"
#include "agent/broker/locks/locks_internal.h"
#include "agent/broker/locks/names.h"
#include "tests/unit/broker_fixture.h"

#define LEASES 3

static struct groups *groups;
static struct user user;
static struct client client;
static struct session session;
static int sockets[2]; /* the session's, the guardian's */
static struct name names[LEASES];
static struct lease *leases[LEASES];
static struct clients the_clients;

/* --- the group, and what is below ------------------------------------------------------------- */

static bool empty; /* nobody is inside */
static int kills, opened, asked_path;
static int releases[LEASES], told_killed[LEASES];

bool job_group_hierarchy(dev_t *ret_device)
{
    *ret_device = 1;
    return true;
}

int job_group_open(HF_UNUSED dev_t hierarchy, HF_UNUSED int directory, int kill_fd, int freeze_fd,
                   struct job_group *ret_group, HF_UNUSED const char **ret_why)
{
    opened++;
    *ret_group = (struct job_group){
        .kill_fd = kill_fd, .freeze_fd = freeze_fd, .events_fd = eventfd(0, EFD_CLOEXEC)};
    return HF_OK;
}

void job_group_path(HF_UNUSED const struct job_group *group, char path[JOB_GROUP_PATH_MAX])
{
    asked_path++;
    memcpy(path, "/g", sizeof("/g"));
}

void job_group_close(struct job_group *group)
{
    opened--;
    close(group->kill_fd);
    close(group->freeze_fd);
    close(group->events_fd);
}

void job_group_kill(HF_UNUSED const struct job_group *group)
{
    kills++;
}

bool job_group_is_empty(HF_UNUSED struct job_group *group)
{
    return empty;
}

struct lease *name_lease(const struct name *name)
{
    return leases[name->slot];
}

void release_begin(struct name *name, enum release_cause cause)
{
    assert_int_equal(cause, RELEASE_TREE_DEAD);
    releases[name->slot]++;
}

void tell_renewal_guardian_stopping(struct name *name, bool killing)
{
    assert_true(killing);
    told_killed[name->slot]++;
}

/* --- a guardian with its job ------------------------------------------------------------------ */

static hf_time in_ms(int64_t ms)
{
    return hf_time_add(its_time, hf_ms(ms));
}

static void set(int i, enum hf_slot_state state, hf_time valid)
{
    atomic_store(&leases[i]->state, (uint8_t)state);
    atomic_store(&leases[i]->valid_ns, valid.ns);
}

static void hold(int i, bool is_job)
{
    struct timing timing = config.timing;
    hf_time a[HF_NODES_MAX];
    uint32_t mark[HF_NODES_MAX] = {0};

    for (int n = 0; n < HF_NODES_MAX; n++)
        a[n] = its_time;
    leases[i] = lease_new(
        NODES,
        &(struct lease_words){
            .name = "n", .name_len = 1, .key = "n", .key_len = 1, .holder = &(struct holder){0}});
    leases[i]->is_job = is_job;
    lease_fsm_init(&leases[i]->fsm, NULL, NODES, QUORUM, &timing, is_job, HF_TIME_NEVER, a, mark);
    set(i, HF_SLOT_HELD, in_ms(TTL_MS));
    names[i].slot = (uint32_t)i;
    LIST_INSERT_HEAD(&client.held, &names[i], of_holder);
}

static int make(void **state)
{
    (void)state;
    make_agent();
    memset(&user, 0, sizeof(user));
    memset(&client, 0, sizeof(client));
    memset(&session, 0, sizeof(session));
    memset(names, 0, sizeof(names));
    memset(releases, 0, sizeof(releases));
    memset(told_killed, 0, sizeof(told_killed));
    memset(leases, 0, sizeof(leases));
    kills = opened = asked_path = 0;
    empty = false;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    client.user = session.user = &user;
    client.clients = session.clients = &the_clients;
    client.pid = session.pid = 100;
    session.client = &client;
    session.uid = (uint32_t)geteuid();
    session.guardian = true;
    session.socket.fd = sockets[0];
    LIST_INSERT_HEAD(&client.sessions, &session, of_client);
    assert_int_equal(groups_create(&agent, loop, &groups), HF_OK);
    return 0;
}

static int unmake(void **state)
{
    (void)state;
    groups_drop(&client);
    assert_int_equal(opened, 0);
    groups_destroy(groups);
    close(sockets[0]);
    close(sockets[1]);
    for (int i = 0; i < LEASES; i++)
        if (leases[i])
            lease_free(leases[i]);
    unmake_agent();
    return 0;
}

/* As a guardian hands its group over; an older one sends two descriptors. */
static bool give_so_many(int count)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int) * (HF_GROUP_FDS + 1))];
    } control = {.bytes = {0}};
    struct hf_group message = {.magic = HF_GROUP_MAGIC};
    struct iovec part = {.iov_base = &message, .iov_len = sizeof(message)};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    int fds[HF_GROUP_FDS + 1];

    for (int i = 0; i < count; i++)
        fds[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count);
    m.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count);
    memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)count);
    assert_int_equal(sendmsg(sockets[1], &m, 0), sizeof(message));
    for (int i = 0; i < count; i++)
        close(fds[i]);
    return groups_take(groups, &session);
}

static bool give(void)
{
    return give_so_many(HF_GROUP_FDS);
}

static void takes(void)
{
    assert_true(give());
    assert_non_null(client.group);
    assert_int_equal(user.groups, 1);
}

static void guardians_go(void)
{
    LIST_REMOVE(&session, of_client);
    groups_review(&client);
}

/* --- when it kills ---------------------------------------------------------------------------- */

static void a_held_lease_kills_nobody(void **state)
{
    (void)state;
    hold(0, true);
    takes();
    groups_review(&client);
    pass(10000);
    assert_int_equal(kills, 0);
}

/* V - 0.1 T, and again until what is killed is dead. */
static void it_kills_ahead_of_the_end(void **state)
{
    (void)state;
    hold(0, true);
    takes();
    set(0, HF_SLOT_LOSING, in_ms(1000));
    groups_review(&client);
    pass(1000 - TTL_MS / 10 - 1);
    assert_int_equal(kills, 0);
    pass(1);
    assert_int_equal(kills, 1);
    assert_int_equal(told_killed[0], 1);
    pass(100);
    assert_int_equal(kills, 2);
    assert_int_equal(told_killed[0], 1); /* once */
    assert_int_equal(releases[0], 0);    /* while a guardian lives that is its word */
}

static void the_first_of_its_leases_decides(void **state)
{
    (void)state;
    hold(0, true);
    hold(1, true);
    hold(2, false); /* no job's */
    takes();
    set(0, HF_SLOT_LOSING, in_ms(2000));
    set(1, HF_SLOT_LOSING, in_ms(1000));
    set(2, HF_SLOT_LOST, in_ms(0));
    groups_review(&client);
    pass(1000 - TTL_MS / 10 - 1);
    assert_int_equal(kills, 0);
    pass(1);
    assert_int_equal(kills, 1);
}

static void a_lost_lease_kills_at_once(void **state)
{
    (void)state;
    hold(0, true);
    takes();
    set(0, HF_SLOT_LOST, in_ms(-1));
    groups_review(&client);
    assert_int_equal(kills, 1);
}

/* --- nobody is left ---------------------------------------------------------------------------- */

/* (!) Released when the tree is dead, and not before. */
static void an_orphan_is_killed_and_then_released(void **state)
{
    (void)state;
    hold(0, true);
    hold(1, false);
    takes();
    guardians_go();
    assert_int_equal(kills, 1);
    pass(100);
    assert_int_equal(kills, 2);
    assert_int_equal(releases[0], 0);
    empty = true;
    pass(100);
    assert_int_equal(kills, 2);
    assert_int_equal(releases[0], 1);
    assert_int_equal(releases[1], 0); /* no job's */
    groups_review(&client);
    pass(1000);
    assert_int_equal(releases[0], 1);
}

/* What the group's kill does not end is told once, after a while, and keeps its lock until that lapses. */
static void an_orphan_that_does_not_die_keeps_its_lock(void **state)
{
    (void)state;
    hold(0, true);
    takes();
    guardians_go();
    pass(900);
    assert_int_equal(asked_path, 0);
    pass(200);
    assert_int_equal(asked_path, 1);
    pass(10000);
    assert_int_equal(asked_path, 1);
    assert_int_equal(releases[0], 0);
    assert_true(kills > 100);
}

/* Its lease is over sooner. */
static void a_short_lease_ends_with_a_word_too(void **state)
{
    (void)state;
    hold(0, true);
    takes();
    guardians_go();
    pass(100);
    assert_int_equal(asked_path, 0);
    LIST_REMOVE(&names[0], of_holder);
    groups_lease_over(&client);
    assert_int_equal(asked_path, 1);
}

static int open_files(void)
{
    int count = 0;

    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* Three, or of a bad guardian as many as there is room for: none is left open. */
static void each_number_of_descriptors(void **state)
{
    int before;

    (void)state;
    hold(0, true);
    takes(); /* and watches the group */
    groups_drop(&client);
    before = open_files();
    for (int count = 1; count <= HF_GROUP_FDS + 1; count++) {
        session.gave_group = false;
        assert_true(give_so_many(count));
        assert_int_equal(client.group != NULL, count >= HF_GROUP_FDS);
        groups_drop(&client);
        assert_int_equal(open_files(), before);
    }
}

static void an_empty_group_of_living_guardians_is_theirs(void **state)
{
    (void)state;
    hold(0, true);
    takes();
    empty = true;
    groups_review(&client);
    pass(1000);
    assert_int_equal(releases[0], 0);
    assert_int_equal(kills, 0);
}

/* Its guardians live, and come back to this agent. */
static void a_ghost_is_no_orphan(void **state)
{
    (void)state;
    hold(0, true);
    takes();
    client.ghost = true;
    empty = true;
    guardians_go();
    pass(1000);
    assert_int_equal(kills, 0);
    assert_int_equal(releases[0], 0);
}

/* --- taking and dropping ---------------------------------------------------------------------- */

static void the_last_lease_of_a_job_takes_the_group_along(void **state)
{
    (void)state;
    hold(0, true);
    hold(1, true);
    takes();
    LIST_REMOVE(&names[0], of_holder);
    groups_lease_over(&client);
    assert_non_null(client.group);
    LIST_REMOVE(&names[1], of_holder);
    groups_lease_over(&client);
    assert_null(client.group);
    assert_int_equal(user.groups, 0);
    assert_int_equal(opened, 0);
}

static void a_dropped_group_is_left_alone(void **state)
{
    (void)state;
    hold(0, true);
    takes();
    set(0, HF_SLOT_LOSING, in_ms(1000));
    groups_review(&client);
    groups_drop(&client);
    pass(10000);
    assert_int_equal(kills, 0);
}

static void without_a_lease_of_a_job_it_is_of_no_use(void **state)
{
    (void)state;
    hold(0, false);
    assert_true(give());
    assert_null(client.group);
    assert_int_equal(opened, 0);
}

static void a_user_has_so_many(void **state)
{
    (void)state;
    config.clients_per_uid = 4;
    user.groups = 2;
    hold(0, true);
    assert_true(give());
    assert_null(client.group);
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, make, unmake)
    const struct CMUnitTest tests[] = {
        ROW(a_held_lease_kills_nobody),
        ROW(it_kills_ahead_of_the_end),
        ROW(the_first_of_its_leases_decides),
        ROW(a_lost_lease_kills_at_once),
        ROW(an_orphan_is_killed_and_then_released),
        ROW(an_orphan_that_does_not_die_keeps_its_lock),
        ROW(a_short_lease_ends_with_a_word_too),
        ROW(each_number_of_descriptors),
        ROW(an_empty_group_of_living_guardians_is_theirs),
        ROW(a_ghost_is_no_orphan),
        ROW(the_last_lease_of_a_job_takes_the_group_along),
        ROW(a_dropped_group_is_left_alone),
        ROW(without_a_lease_of_a_job_it_is_of_no_use),
        ROW(a_user_has_so_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
