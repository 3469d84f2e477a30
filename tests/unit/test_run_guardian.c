/* What either guardian does, with a lease, a process tree and a control group made up for it: how it kills, when it
 * gives up, and what the agent hears of it. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/common/args.h"
#include "tools/run/guardian.h"
#include "tools/run/say.h"

#define NS_PER_MS INT64_C(1000000)
#define START_NS  (1000 * NS_PER_MS)

static struct {
    bool dies; /* the tree, with the next hunt */
    bool group_empty;
    bool traced; /* only the dead are left */
    pid_t tracer;
    unsigned living;          /* as a scan finds it */
    unsigned long long start; /* of the one that is named */
    int hunts, scans, first_kills, group_kills, signals[4], signal_count;
    int state, told_killing, released, release_status, taken_back, told_end, end, code;
    bool killing_told_before_release;
    char said[512];
    int said_count;
} fake;

static struct guardian_shared shared;
static const struct guardian_plan plan = {.name = "a"};

/* --- the neighbours --------------------------------------------------------------------------- */

void say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(fake.said, sizeof(fake.said), format, args);
    va_end(args);
    fake.said_count++;
}

int tree_signal(struct tree *tree, int signal, struct tree_outcome *ret_outcome)
{
    (void)tree;
    if (signal == SIGKILL)
        fake.scans++;
    else
        fake.signals[fake.signal_count++] = signal;
    if (ret_outcome)
        *ret_outcome = (struct tree_outcome){.living = fake.living,
                                             .stubborn = {.pid = fake.living ? 77 : 0,
                                                          .start = fake.start,
                                                          .state = 'D',
                                                          .command = "stu\nck"}};
    return 0;
}

bool tree_is_traced(const struct tree *tree, struct tree_traced *ret_traced)
{
    (void)tree;
    *ret_traced = (struct tree_traced){
        .pid = 5, .tracer = fake.tracer, .command = "job", .tracer_command = "gd\nb"};
    return fake.traced;
}

void tree_kill_first(const struct tree *tree, pid_t child)
{
    (void)tree;
    fake.first_kills += child == 55 && fake.group_kills == fake.first_kills;
}

bool tree_hunt(struct tree *tree, tree_reaped_fn *fn, void *arg)
{
    (void)tree;
    (void)fn;
    (void)arg;
    fake.hunts++;
    return fake.dies;
}

void cgroup_kill(struct cgroup *cgroup)
{
    (void)cgroup;
    fake.group_kills++;
}

bool cgroup_is_empty(struct cgroup *cgroup)
{
    (void)cgroup;
    return fake.group_empty;
}

int64_t lease_group_valid_until_ns(const struct lease_group *leases)
{
    (void)leases;
    return START_NS;
}

int lease_group_state(const struct lease_group *leases)
{
    (void)leases;
    return fake.state;
}

void lease_group_begin_killing(const struct lease_group *leases)
{
    (void)leases;
    fake.told_killing++;
    fake.killing_told_before_release = !fake.released;
}

int lease_group_release(struct lease_group *leases)
{
    (void)leases;
    fake.released++;
    return fake.release_status;
}

int lease_group_once_ended(const struct lease_group *leases, int64_t period_ms, int end, int code)
{
    (void)leases;
    (void)period_ms;
    fake.told_end++;
    fake.end = end;
    fake.code = code;
    return HF_OK;
}

int lease_group_once_take_back(const struct lease_group *leases, int64_t period_ms, int64_t before)
{
    (void)leases;
    (void)period_ms;
    (void)before;
    fake.taken_back++;
    return HF_OK;
}

const char *hf_last_message(void)
{
    return "";
}

const char *hf_strerror(int status)
{
    (void)status;
    return "an error";
}

int hf_fd(hf_client *client)
{
    (void)client;
    return -1;
}

int hf_agent_info(hf_client *client, struct hf_agent_info *ret_info)
{
    (void)client;
    (void)ret_info;
    return HF_ENOAGENT;
}

int hf_dispatch(hf_client *client)
{
    (void)client;
    return HF_OK;
}

/* --- the tests -------------------------------------------------------------------------------- */

static struct guardian begin(void)
{
    memset(&fake, 0, sizeof(fake));
    memset(&shared, 0, sizeof(shared));
    fake.state = HF_STATE_HELD;
    fake.group_empty = true;
    fake.living = 1;
    atomic_store(&shared.started, 1);
    return (struct guardian){.plan = &plan, .shared = &shared, .timeline = {.valid_ns = START_NS}};
}

static int64_t after_ms(int64_t ms)
{
    return START_NS + ms * NS_PER_MS;
}

/* A tree may fork while it is killed: passes come quickly first, and each reaches the group, too. */
static void killing_goes_by_passes(void **state)
{
    struct guardian g = begin();

    (void)state;
    atomic_store(&shared.job, 55);
    guardian_kill_tree(&g, after_ms(0));
    assert_int_equal(g.kill_since_ns, after_ms(0));
    guardian_kill_tree(&g, after_ms(4)); /* too early for another */
    assert_int_equal(fake.group_kills, 1);
    assert_int_equal(fake.first_kills, 1); /* before the group */
    assert_int_equal(fake.hunts, 1);
    assert_int_equal(fake.scans, 1); /* the hunt did not reach all */
    guardian_kill_tree(&g, after_ms(5));
    assert_int_equal(fake.hunts, 2);
    fake.dies = true;
    guardian_kill_tree(&g, after_ms(10));
    assert_int_equal(fake.hunts, 3);
    assert_int_equal(fake.scans, 2); /* not needed any more */
    assert_int_equal(fake.said_count, 0);
}

/* Whatever searches for the tree's processes ends when they must be killed. */
static void no_search_outlasts_the_kill(void **state)
{
    struct guardian g = begin();
    int64_t ttl_ns = 1000 * NS_PER_MS;

    (void)state;
    timeline_init(&g.timeline, ttl_ns, 0);
    assert_int_equal(guardian_judge(&g, START_NS - ttl_ns / 2), TIMELINE_HELD);
    assert_int_equal(g.tree.until_ns, START_NS - ttl_ns / 10);
    assert_int_equal(guardian_judge(&g, START_NS - ttl_ns / 5), TIMELINE_STOP);
    assert_int_equal(g.tree.until_ns, START_NS - ttl_ns / 10);
}

static void what_does_not_die_is_named_once(void **state)
{
    struct guardian g = begin();

    (void)state;
    guardian_kill_tree(&g, after_ms(0));
    guardian_kill_tree(&g, after_ms(1000));
    assert_int_equal(fake.said_count, 0);
    guardian_kill_tree(&g, after_ms(1006));
    assert_int_equal(fake.said_count, 1);
    assert_non_null(
        strstr(fake.said, "process 77 (stu\\nck) does not die (it is inside the kernel)"));
    assert_int_equal(fake.hunts, 3); /* something quick may be beside it */
    guardian_kill_tree(&g, after_ms(1050));
    assert_int_equal(fake.group_kills, 3);
    guardian_kill_tree(&g, after_ms(1056));
    assert_int_equal(fake.group_kills, 4);
    assert_int_equal(fake.said_count, 1);

    g = begin();
    fake.living = 0;
    fake.group_empty = false;
    guardian_kill_tree(&g, after_ms(0));
    guardian_kill_tree(&g, after_ms(1006));
    assert_non_null(strstr(fake.said, "in the job's control group does not die"));

    g = begin();
    g.cgroup.events_fd = -1; /* there is none */
    fake.living = 0;
    fake.group_empty = false;
    guardian_kill_tree(&g, after_ms(0));
    guardian_kill_tree(&g, after_ms(1006));
    assert_non_null(strstr(fake.said, "whether the job lives cannot be seen"));

    g = begin(); /* and the tree itself is dead */
    fake.dies = true;
    fake.living = 0;
    fake.group_empty = false;
    guardian_kill_tree(&g, after_ms(0));
    guardian_kill_tree(&g, after_ms(1006));
    assert_non_null(strstr(fake.said, "in the job's control group does not die"));
    assert_int_equal(fake.scans, 0);
    assert_true(guardian_kill_failed(&g, after_ms(10001)));

    g = begin();
    fake.living = 0;
    guardian_kill_tree(&g, after_ms(0));
    guardian_kill_tree(&g, after_ms(1006));
    assert_int_equal(fake.said_count, 0); /* only zombies are left */
}

/* Processes that fork and end are killed one after the other: none of them resists, and none is left. */
static void what_is_another_each_time_does_not_resist(void **state)
{
    struct guardian g = begin();

    (void)state;
    for (int ms = 0; ms < 60000; ms += 500) {
        fake.start = (unsigned long long)ms;
        guardian_kill_tree(&g, after_ms(ms));
        assert_false(guardian_kill_failed(&g, after_ms(ms)));
    }
    assert_int_equal(fake.said_count, 0);
    assert_int_equal(fake.hunts, 120);
    guardian_kill_tree(&g, after_ms(60000)); /* the last one does */
    guardian_kill_tree(&g, after_ms(61001));
    assert_int_equal(fake.said_count, 1);
    assert_true(guardian_kill_failed(&g, after_ms(70001)));
}

/* Ten seconds, and not before V: until then the lock is not another's. */
static void it_gives_up_late(void **state)
{
    struct guardian g = begin();

    (void)state;
    assert_false(guardian_kill_failed(&g, after_ms(99999))); /* it does not kill */
    guardian_kill_tree(&g, after_ms(0));
    assert_false(guardian_kill_failed(&g, after_ms(9999)));
    assert_true(guardian_kill_failed(&g, after_ms(10001)));
    g.timeline.valid_ns = after_ms(12000);
    assert_false(guardian_kill_failed(&g, after_ms(11999)));
    assert_true(guardian_kill_failed(&g, after_ms(12001)));
}

static void the_agent_hears_of_a_kill_for_the_locks_sake_once(void **state)
{
    struct guardian g = begin();

    (void)state;
    guardian_kill_in_time(&g, after_ms(0));
    guardian_kill_in_time(&g, after_ms(5));
    assert_int_equal(fake.told_killing, 1);
    assert_int_equal(atomic_load(&shared.killing), 1);

    g = begin();
    guardian_kill_tree(&g, after_ms(0)); /* what a job leaves behind */
    assert_int_equal(fake.told_killing, 0);
    assert_int_equal(atomic_load(&shared.killing), 0);
}

/* The two have a ring each: who releases says it first, whoever of them killed. */
static void a_kill_is_told_before_the_release(void **state)
{
    struct guardian g = begin();

    (void)state;
    guardian_release(&g);
    assert_int_equal(fake.told_killing, 0);
    assert_int_equal(fake.released, 1);
    assert_int_equal(atomic_load(&shared.released), 1);

    g = begin();
    atomic_store(&shared.killing, 1);
    guardian_release(&g);
    assert_int_equal(fake.told_killing, 1);
    assert_true(fake.killing_told_before_release);
}

static void a_command_that_could_not_run_uses_up_no_period(void **state)
{
    struct guardian g = begin();
    struct guardian_plan once = *g.plan;

    (void)state;
    once.once_per_ms = 60000;
    g.plan = &once;
    atomic_store(&shared.reaped, 1);
    for (int code = 125; code <= 128; code++) {
        shared.job_status = code << 8;
        fake.taken_back = fake.told_end = 0;
        guardian_release(&g);
        assert_int_equal(fake.taken_back, code == 126 || code == 127);
        assert_int_equal(fake.told_end, code == 125 || code == 128);
    }
    /* Its process may be another's to reap. */
    shared.job_status = -1;
    atomic_store(&shared.exec_failed, ENOENT);
    fake.taken_back = 0;
    guardian_release(&g);
    assert_int_equal(fake.taken_back, 1);
}

static void how_the_run_ended_is_told(void **state)
{
    struct guardian g = begin();
    struct guardian_plan once = *g.plan;

    (void)state;
    once.once_per_ms = 60000;
    g.plan = &once;
    atomic_store(&shared.reaped, 1);
    shared.exit_code = 3;
    shared.job_status = 3 << 8;
    guardian_release(&g);
    assert_int_equal(fake.end, HF_ONCE_EXITED);
    assert_int_equal(fake.code, 3);
    shared.exit_code = 137;
    shared.job_status = 9;
    guardian_release(&g);
    assert_int_equal(fake.end, HF_ONCE_KILLED);
    assert_int_equal(fake.code, 9);
    shared.exit_code = 125;
    shared.job_status = -1;
    guardian_release(&g);
    assert_int_equal(fake.end, HF_ONCE_OPEN);
}

static void a_run_that_failed_is_taken_back_if_that_is_wanted(void **state)
{
    struct guardian g = begin();
    struct guardian_plan retrying = *g.plan;

    (void)state;
    retrying.once_per_ms = 60000;
    g.plan = &retrying;
    atomic_store(&shared.reaped, 1);
    shared.exit_code = 1;
    shared.job_status = 1 << 8;
    guardian_release(&g);
    assert_int_equal(fake.taken_back, 0);
    retrying.retry_failed = true;
    guardian_release(&g);
    assert_int_equal(fake.taken_back, 1);
    shared.job_status = SIGKILL; /* from elsewhere, as by the kernel for want of memory */
    guardian_release(&g);
    assert_int_equal(fake.taken_back, 2);
    shared.exit_code = shared.job_status = 0;
    guardian_release(&g);
    assert_int_equal(fake.taken_back, 2);
}

/* It may have done all its work. */
static void a_run_whose_end_proves_no_failure_counts(void **state)
{
    static const struct {
        int code, status, cut_short;
    } ends[] = {
        {125, -1, 0}, {126, -1, 0}, {124, 1 << 8, 1}, {125, SIGTERM, 1}, {125, 127 << 8, 1}};
    struct guardian g = begin();
    struct guardian_plan retrying = *g.plan;

    (void)state;
    retrying.once_per_ms = 60000;
    retrying.retry_failed = true;
    g.plan = &retrying;
    atomic_store(&shared.reaped, 1);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        shared.exit_code = ends[i].code;
        shared.job_status = ends[i].status;
        shared.cut_short = ends[i].cut_short;
        guardian_release(&g);
        assert_int_equal(fake.taken_back, 0);
        assert_int_equal(fake.told_end, i + 1);
    }
}

static void of_a_job_that_was_not_started_nothing_is_told(void **state)
{
    struct guardian g = begin();
    struct guardian_plan once = *g.plan;

    (void)state;
    once.once_per_ms = 60000;
    g.plan = &once;
    atomic_store(&shared.reaped, 1);
    atomic_store(&shared.started, 0);
    fake.release_status = HF_ELOST;
    for (int code = 0; code <= 128; code++) {
        shared.exit_code = code;
        guardian_release(&g);
        assert_int_equal(shared.exit_code, code);
    }
    assert_int_equal(fake.taken_back + fake.told_end + fake.said_count, 0);
    assert_int_equal(fake.released, 129);
}

static void what_the_release_finds_lost_was_not_held(void **state)
{
    struct guardian g = begin();

    (void)state;
    shared.exit_code = 0;
    fake.release_status = HF_ELOST;
    guardian_release(&g);
    assert_int_equal(fake.said_count, 1);
    assert_int_equal(shared.exit_code, EXIT_LOST);
}

static void a_release_that_fails_is_told(void **state)
{
    struct guardian g = begin();

    (void)state;
    fake.release_status = HF_ELOST;
    fake.state = HF_STATE_LOST; /* known already */
    guardian_release(&g);
    assert_int_equal(fake.said_count, 0);
    fake.state = HF_STATE_HELD;
    fake.release_status = HF_ENOAGENT;
    guardian_release(&g);
    assert_string_equal(fake.said,
                        "a: not released: an error; its key ends by itself within the TTL");
}

/* Who traces it may be about to reap it. */
static void the_dead_that_others_trace_keep_no_lock(void **state)
{
    struct guardian g = begin();

    (void)state;
    assert_true(guardian_is_over(&g, true, after_ms(0)));
    fake.traced = true;
    fake.tracer = 6;
    fake.living = 0;
    assert_false(guardian_is_over(&g, false, after_ms(0)));
    fake.traced = false;
    assert_false(guardian_is_over(&g, false, after_ms(900)));
    fake.traced = true;
    assert_false(guardian_is_over(&g, false, after_ms(1200)));
    assert_false(guardian_is_over(&g, false, after_ms(2100)));
    fake.living = 1;
    assert_false(guardian_is_over(&g, false, after_ms(2400)));
    fake.living = 0;
    fake.group_empty = false;
    assert_false(guardian_is_over(&g, false, after_ms(2700)));
    assert_int_equal(fake.said_count, 0);
    fake.group_empty = true;
    assert_true(guardian_is_over(&g, false, after_ms(3000)));
    assert_string_equal(fake.said,
                        "a: process 5 (job) is dead, but process 6 (gd\\nb) traces it and does "
                        "not reap it; the lock is released all the same");
}

static void words_pass_and_a_dead_peer_is_no_matter(void **state)
{
    struct guardian g = begin(), other = begin();
    int link[2], word = 0;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, link),
                     0);
    g.link_fd = link[0];
    other.link_fd = link[1];
    assert_false(guardian_hear(&other, &word));
    guardian_tell(&g, SIGHUP | GUARDIAN_OF_GROUP);
    assert_true(guardian_hear(&other, &word));
    assert_int_equal(word, SIGHUP | GUARDIAN_OF_GROUP);
    close(link[1]);
    guardian_tell(&g, SIGHUP); /* no SIGPIPE */
    assert_false(guardian_hear(&g, &word));
    close(link[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killing_goes_by_passes),
        cmocka_unit_test(no_search_outlasts_the_kill),
        cmocka_unit_test(what_does_not_die_is_named_once),
        cmocka_unit_test(what_is_another_each_time_does_not_resist),
        cmocka_unit_test(it_gives_up_late),
        cmocka_unit_test(the_agent_hears_of_a_kill_for_the_locks_sake_once),
        cmocka_unit_test(a_kill_is_told_before_the_release),
        cmocka_unit_test(a_command_that_could_not_run_uses_up_no_period),
        cmocka_unit_test(how_the_run_ended_is_told),
        cmocka_unit_test(a_run_that_failed_is_taken_back_if_that_is_wanted),
        cmocka_unit_test(a_run_whose_end_proves_no_failure_counts),
        cmocka_unit_test(of_a_job_that_was_not_started_nothing_is_told),
        cmocka_unit_test(what_the_release_finds_lost_was_not_held),
        cmocka_unit_test(a_release_that_fails_is_told),
        cmocka_unit_test(the_dead_that_others_trace_keep_no_lock),
        cmocka_unit_test(words_pass_and_a_dead_peer_is_no_matter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
