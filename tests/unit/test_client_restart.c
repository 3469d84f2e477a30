/* Contract. The agent dies, hangs or is replaced while clients hold and wait. */
#include "client_fixture.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Instead of the C library's: fails like a user's limit of watches (fs.epoll.max_user_watches). */
static int refused_watches; /* 1: all; 2: all but the next one */

int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
    int refused = __atomic_load_n(&refused_watches, __ATOMIC_ACQUIRE);

    if (op == EPOLL_CTL_ADD && refused == 1) {
        errno = ENOSPC;
        return -1;
    }
    if (op == EPOLL_CTL_ADD && refused)
        __atomic_store_n(&refused_watches, refused - 1, __ATOMIC_RELEASE);
    return (int)syscall(SYS_epoll_ctl, epoll, op, fd, event);
}

static void a_warm_restart_keeps_leases(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *lease = must_acquire(f.client, "a"), *other;

    (void)state;
    fake_agent_kill(f.agent);
    assert_true(hf_held(lease));
    assert_int_equal(hf_try(f.client, "b", &other), HF_ENOAGENT);
    fake_agent_revive(f.agent, false);
    assert_true(hf_held(lease));
    OK(hf_try(f.client, "b", &other)); /* attaches again by itself */
    assert_true(hf_held(lease));
    OK(hf_release(lease));
    OK(hf_release(other));
    assert_int_equal(fake_agent_leases(f.agent), 0);
    fixture_end(&f);
}

static void a_cold_restart_ends_leases(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *old = must_acquire(f.client, "a"), *lease;

    (void)state;
    fake_agent_kill(f.agent);
    fake_agent_revive(f.agent, true);
    assert_false(hf_held(old)); /* the new agent zeroed the word */
    OK(hf_try(f.client, "a", &lease));
    assert_true(hf_held(lease)); /* in the new table */
    assert_false(hf_held(old));
    assert_int_equal(hf_state(old), HF_STATE_LOST);
    assert_int_equal(hf_release(old), HF_ELOST);
    assert_true(hf_held(lease));
    OK(hf_release(lease));
    fixture_end(&f);
}

struct waiter {
    struct fixture *f;
    int status, told;
    hf_lease *lease;
};

static void note_progress(const struct hf_progress *progress, void *arg)
{
    if (progress->reason == HF_ENOAGENT)
        __atomic_store_n(&((struct waiter *)arg)->told, 1, __ATOMIC_RELEASE);
}

static void *wait_for_it(void *arg)
{
    struct waiter *w = arg;
    struct hf_acquire_options options = options_for("a", -1);

    options.progress = note_progress;
    options.arg = w;
    w->status = hf_acquire_with(w->f->client, &options, &w->lease);
    return NULL;
}

static void a_wait_survives_a_restart(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct waiter w = {.f = &f};
    pthread_t thread;

    (void)state;
    fake_agent_foreign(f.agent, "a", true);
    pthread_create(&thread, NULL, wait_for_it, &w);
    EVENTUALLY(fake_agent_waiters(f.agent) == 1);
    fake_agent_kill(f.agent);
    EVENTUALLY(__atomic_load_n(&w.told, __ATOMIC_ACQUIRE)); /* what it waits for now */
    fake_agent_revive(f.agent, false);
    EVENTUALLY(fake_agent_waiters(f.agent) == 1); /* the request was sent again */
    fake_agent_foreign(f.agent, "a", false);
    pthread_join(thread, NULL);
    OK(w.status);
    assert_true(hf_held(w.lease));
    OK(hf_release(w.lease));
    fixture_end(&f);
}

static void an_event_loop_survives_a_restart(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct hf_acquire_options options = options_for("a", -1);
    struct pollfd p = {.fd = hf_fd(f.client), .events = POLLIN};
    int64_t end = boottime_ns() + PATIENCE_MS * HF_NS_PER_MS;
    int status;
    hf_lease *lease;
    hf_op *op;

    (void)state;
    fake_agent_foreign(f.agent, "a", true);
    OK(hf_acquire_start(f.client, &options, &op));
    EVENTUALLY(fake_agent_waiters(f.agent) == 1);
    fake_agent_kill(f.agent);
    assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
    OK(hf_dispatch(f.client));
    fake_agent_revive(f.agent, false);
    fake_agent_foreign(f.agent, "a", false);
    while ((status = hf_op_result(op, &lease)) == HF_EPENDING) {
        assert_true(boottime_ns() < end);
        if (poll(&p, 1, PATIENCE_MS) == 1)
            OK(hf_dispatch(f.client));
    }
    OK(status);
    OK(hf_release(lease));
    fixture_end(&f);
}

static void a_descriptor_that_watches_nothing_is_refused(void **state)
{
    struct fixture f = fixture_start(NULL);

    (void)state;
    for (int left = 1; left <= 2; left++) {
        __atomic_store_n(&refused_watches, left, __ATOMIC_RELEASE);
        assert_int_equal(hf_fd(f.client), HF_ESYS);
        assert_non_null(strstr(hf_last_message(), "max_user_watches"));
    }
    __atomic_store_n(&refused_watches, 0, __ATOMIC_RELEASE);
    assert_true(hf_fd(f.client) >= 0);
    fixture_end(&f);
}

/* An agent that starts again has a new socket, and there may be no watch left for it. */
static void an_event_loop_survives_a_restart_without_a_watch(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct hf_acquire_options options = options_for("a", -1);
    struct pollfd p = {.fd = hf_fd(f.client), .events = POLLIN};
    int64_t end = boottime_ns() + PATIENCE_MS * HF_NS_PER_MS;
    hf_lease *lease;
    hf_op *op;

    (void)state;
    fake_agent_foreign(f.agent, "a", true);
    OK(hf_acquire_start(f.client, &options, &op));
    EVENTUALLY(fake_agent_waiters(f.agent) == 1);
    __atomic_store_n(&refused_watches, 1, __ATOMIC_RELEASE);
    fake_agent_kill(f.agent);
    fake_agent_revive(f.agent, false);
    EVENTUALLY((hf_dispatch(f.client), fake_agent_waiters(f.agent) == 1));
    OK(hf_dispatch(f.client));
    fake_agent_foreign(f.agent, "a", false);
    while (hf_op_result(op, &lease) == HF_EPENDING && boottime_ns() < end) {
        assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
        OK(hf_dispatch(f.client));
    }
    assert_true(hf_held(lease));
    __atomic_store_n(&refused_watches, 0, __ATOMIC_RELEASE);
    OK(hf_release(lease));
    fixture_end(&f);
}

/* Whoever cancels while the agent is away must not get the lock afterwards. */
static void a_cancel_survives_a_restart(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct hf_acquire_options options = options_for("a", -1);
    hf_lease *lease;
    hf_op *op;

    (void)state;
    fake_agent_foreign(f.agent, "a", true);
    OK(hf_acquire_start(f.client, &options, &op));
    EVENTUALLY(fake_agent_waiters(f.agent) == 1);
    fake_agent_kill(f.agent);
    assert_int_equal(hf_try(f.client, "b", &lease), HF_ENOAGENT); /* notices */
    hf_op_cancel(op);
    fake_agent_foreign(f.agent, "a", false);
    fake_agent_revive(f.agent, false);
    OK(hf_try(f.client, "b", &lease));
    OK(hf_release(lease));
    EVENTUALLY((hf_dispatch(f.client), !fake_agent_holds(f.agent, "a")));
    assert_int_equal(fake_agent_waiters(f.agent), 0);
    fixture_end(&f);
}

/* Nor may it wait in the queue of the next agent, and take the lock for a moment some day. */
static void a_wait_that_ended_without_an_agent_is_over(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *lease;

    (void)state;
    fake_agent_foreign(f.agent, "a", true);
    for (int cancel = 0; cancel < 2; cancel++) {
        struct hf_acquire_options options = options_for("a", cancel ? -1 : 300);
        hf_op *op;

        OK(hf_acquire_start(f.client, &options, &op));
        EVENTUALLY(fake_agent_waiters(f.agent) == 1);
        fake_agent_kill(f.agent);
        assert_int_equal(hf_try(f.client, "b", &lease), HF_ENOAGENT); /* notices */
        if (cancel)
            hf_op_cancel(op);
        else
            EVENTUALLY(hf_op_result(op, &lease) == HF_ENOAGENT);
        fake_agent_revive(f.agent, false);
        OK(hf_try(f.client, "b", &lease));
        OK(hf_release(lease));
        EVENTUALLY((hf_dispatch(f.client), fake_agent_waiters(f.agent) == 0));
    }
    fixture_end(&f);
}

static void a_wait_without_an_agent_ends_in_time(void **state)
{
    struct fixture f = fixture_start(NULL);
    int64_t start;
    hf_lease *lease;

    (void)state;
    fake_agent_kill(f.agent);
    start = boottime_ns();
    assert_int_equal(hf_acquire(f.client, "a", 0, 300, &lease), HF_ENOAGENT);
    assert_true(boottime_ns() - start >= 300 * HF_NS_PER_MS);
    assert_message_has("no agent answers");
    fixture_end(&f);
}

static void a_stopped_agent_is_not_waited_for(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct hf_acquire_options options = options_for("a", 0);
    hf_lease *lease;

    (void)state;
    options.ttl_ms = 1000;
    fake_agent_freeze(f.agent, true);
    assert_int_equal(hf_acquire_with(f.client, &options, &lease), HF_ENOAGENT);
    assert_message_has("does not answer");
    fake_agent_freeze(f.agent, false);
    /* The late grant is given back. */
    EVENTUALLY(hf_try(f.client, "a", &lease) == HF_OK);
    OK(hf_release(lease));
    fixture_end(&f);
}

static void a_release_without_an_agent_ends(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *lease = must_acquire_ttl(f.client, "a", 1000);
    int64_t until;

    (void)state;
    fake_agent_kill(f.agent);
    until = hf_valid_until_ns(lease);
    assert_int_equal(hf_release(lease), HF_ENOAGENT);
    assert_true(boottime_ns() >= until); /* it tried as long as there was something to release */
    fixture_end(&f);
}

static void *revive_soon(void *arg)
{
    pause_ms(200);
    fake_agent_revive(arg, false);
    return NULL;
}

static void *release_it(void *lease)
{
    return (void *)(intptr_t)hf_release(lease);
}

static void a_handle_holds_nothing_while_it_is_released(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *lease = must_acquire(f.client, "a");
    pthread_t thread;
    void *status;

    (void)state;
    fake_agent_kill(f.agent); /* nobody answers, nor takes the check word away */
    assert_int_equal(pthread_create(&thread, NULL, release_it, lease), 0);
    pause_ms(200);
    assert_false(hf_held(lease));
    fake_agent_revive(f.agent, false);
    assert_int_equal(pthread_join(thread, &status), 0);
    assert_int_equal((intptr_t)status, HF_OK);
    fixture_end(&f);
}

static void a_release_waits_for_the_next_agent(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *lease = must_acquire(f.client, "a");
    pthread_t thread;

    (void)state;
    fake_agent_kill(f.agent);
    pthread_create(&thread, NULL, revive_soon, f.agent);
    OK(hf_release(lease));
    pthread_join(thread, NULL);
    assert_false(fake_agent_holds(f.agent, "a"));
    fixture_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_warm_restart_keeps_leases),
        cmocka_unit_test(a_cold_restart_ends_leases),
        cmocka_unit_test(a_wait_survives_a_restart),
        cmocka_unit_test(an_event_loop_survives_a_restart),
        cmocka_unit_test(a_descriptor_that_watches_nothing_is_refused),
        cmocka_unit_test(an_event_loop_survives_a_restart_without_a_watch),
        cmocka_unit_test(a_cancel_survives_a_restart),
        cmocka_unit_test(a_wait_that_ended_without_an_agent_is_over),
        cmocka_unit_test(a_wait_without_an_agent_ends_in_time),
        cmocka_unit_test(a_stopped_agent_is_not_waited_for),
        cmocka_unit_test(a_release_without_an_agent_ends),
        cmocka_unit_test(a_handle_holds_nothing_while_it_is_released),
        cmocka_unit_test(a_release_waits_for_the_next_agent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
