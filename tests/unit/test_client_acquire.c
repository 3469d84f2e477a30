/* Contract. Acquiring: granted, refused, waited for, cancelled; by one thread, many, and an event loop. */
#include "client_fixture.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

static void grants_and_releases(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *lease = must_acquire(f.client, "a");
    uint64_t fence = hf_fence(lease);

    (void)state;
    assert_true(hf_held(lease));
    assert_int_equal(hf_state(lease), HF_STATE_HELD);
    assert_string_equal(hf_reason(lease), "");
    assert_in_range(hf_remaining_ms(lease), 20000, 30000);
    assert_true(hf_valid_until_ns(lease) > boottime_ns());
    assert_true(fence > 0);
    OK(hf_release(lease));
    assert_false(fake_agent_holds(f.agent, "a"));
    lease = must_acquire(f.client, "a");
    assert_true(hf_fence(lease) > fence);
    OK(hf_release(lease));
    assert_int_equal(hf_release(NULL), HF_ENOTHELD);
    fixture_end(&f);
}

static void tells_who_holds_it(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct hf_holder holder;
    hf_lease *lease = must_acquire(f.client, "a"), *none = NULL;

    (void)state;
    assert_int_equal(hf_try(f.client, "a", &none), HF_EBUSY);
    assert_null(none);
    assert_message_has("here");
    OK(hf_conflict(&holder));
    assert_string_equal(holder.host, "here");
    assert_string_equal(holder.command, "holder");
    assert_int_equal(holder.pid, getpid());
    assert_int_equal(holder.fence, hf_fence(lease));
    OK(hf_release(lease));
    OK(hf_try(f.client, "a", &lease));
    assert_int_equal(hf_conflict(&holder), HF_ENOTHELD); /* it was the last call's */
    OK(hf_release(lease));
    fixture_end(&f);
}

static void waits_until_its_time_is_over(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct hf_holder holder;
    int64_t start = boottime_ns();
    hf_lease *lease;

    (void)state;
    fake_agent_foreign(f.agent, "a", true);
    assert_int_equal(hf_acquire(f.client, "a", 0, 200, &lease), HF_ETIMEDOUT);
    assert_true(boottime_ns() - start >= 200 * HF_NS_PER_MS);
    OK(hf_conflict(&holder));
    assert_string_equal(holder.host, "elsewhere");
    assert_int_equal(fake_agent_waiters(f.agent), 0);
    fixture_end(&f);
}

static void refuses_what_cannot_be(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct hf_acquire_options options;
    char name[257], note[200];
    hf_lease *lease = NULL;

    (void)state;
    memset(name, 'n', sizeof(name));
    name[256] = '\0';
    assert_int_equal(hf_try(f.client, name, &lease), HF_ENAME);
    assert_message_has("256");
    name[255] = '\0';
    OK(hf_try(f.client, name, &lease));
    OK(hf_release(lease));
    assert_int_equal(hf_try(f.client, "", &lease), HF_ENAME);
    assert_int_equal(hf_try(f.client, NULL, &lease), HF_ENAME);
    assert_int_equal(hf_try(f.client, "holdfast:node", &lease), HF_ENAME);
    assert_int_equal(hf_acquire(f.client, "a", -1, 0, &lease), HF_ETTL);
    assert_int_equal(hf_acquire(f.client, "a", INT64_MAX, 0, &lease), HF_ETTL);
    assert_int_equal(hf_acquire(f.client, "a", (int64_t)UINT32_MAX + 1, 0, &lease), HF_ETTL);
    assert_int_equal(hf_acquire(f.client, "a", 0, -2, &lease), HF_EINVAL);
    assert_int_equal(hf_try(f.client, "a", NULL), HF_EINVAL);
    assert_int_equal(hf_try(NULL, "a", &lease), HF_EINVAL);

    options = options_for("a", 0);
    options.size = 8;
    assert_int_equal(hf_acquire_with(f.client, &options, &lease), HF_EINVAL);
    options = options_for("a", 0);
    options.flags = 1u << 30;
    assert_int_equal(hf_acquire_with(f.client, &options, &lease), HF_EINVAL);
    options = options_for("a", 0);
    memset(note, 'x', sizeof(note));
    note[128] = '\0';
    options.note = note;
    assert_int_equal(hf_acquire_with(f.client, &options, &lease), HF_EINVAL);
    note[127] = '\0';
    OK(hf_acquire_with(f.client, &options, &lease));
    OK(hf_release(lease));
    fixture_end(&f);
}

static void names_are_bytes(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct hf_acquire_options options = options_for("", 0);
    hf_lease *one, *two;

    (void)state;
    options.name = "a\0b\n";
    options.name_len = 4;
    OK(hf_acquire_with(f.client, &options, &one));
    options.name_len = 1;
    OK(hf_acquire_with(f.client, &options, &two));
    assert_true(hf_held(one) && hf_held(two));
    OK(hf_release(one));
    OK(hf_release(two));
    fixture_end(&f);
}

/* A program of a later version of the library, whose options have more. */
static void takes_longer_options_only_without_what_it_does_not_know(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct {
        struct hf_acquire_options known;
        uint64_t later;
    } longer = {.known = options_for("a", 0)};
    hf_lease *lease = NULL;

    (void)state;
    longer.known.size = sizeof(longer);
    OK(hf_acquire_with(f.client, &longer.known, &lease));
    OK(hf_release(lease));
    longer.later = 1;
    assert_int_equal(hf_acquire_with(f.client, &longer.known, &lease), HF_EINVAL);
    assert_message_has("newer");
    fixture_end(&f);
}

static void count_progress(const struct hf_progress *progress, void *arg)
{
    if (progress->reason == HF_EBUSY && strcmp(progress->holder.host, "elsewhere") == 0)
        atomic_fetch_add((atomic_int *)arg, 1);
}

static void tells_what_it_waits_for(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct hf_acquire_options options = options_for("a", 100);
    atomic_int calls = 0;
    hf_lease *lease;

    (void)state;
    fake_agent_foreign(f.agent, "a", true);
    options.progress = count_progress;
    options.arg = &calls;
    assert_int_equal(hf_acquire_with(f.client, &options, &lease), HF_ETIMEDOUT);
    assert_int_equal(calls, 1);
    fixture_end(&f);
}

static void do_nothing(int number)
{
    (void)number;
}

struct waiter {
    struct fixture *f;
    const char *name;
    int64_t wait_ms;
    int status;
    hf_lease *lease;
};

static void *wait_for_it(void *arg)
{
    struct waiter *w = arg;

    w->status = hf_acquire(w->f->client, w->name, 0, w->wait_ms, &w->lease);
    return NULL;
}

static void a_restarting_signal_handler_does_not_end_a_wait(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct waiter w = {.f = &f, .name = "a", .wait_ms = -1};
    struct sigaction action = {.sa_handler = do_nothing, .sa_flags = SA_RESTART};
    pthread_t thread;

    (void)state;
    sigaction(SIGUSR1, &action, NULL);
    fake_agent_foreign(f.agent, "a", true);
    pthread_create(&thread, NULL, wait_for_it, &w);
    EVENTUALLY(fake_agent_waiters(f.agent) == 1);
    for (int i = 0; i < 5; i++) {
        pthread_kill(thread, SIGUSR1);
        pause_ms(5);
    }
    assert_int_equal(fake_agent_waiters(f.agent), 1);
    fake_agent_foreign(f.agent, "a", false);
    pthread_join(thread, NULL);
    assert_int_equal(w.status, HF_OK);
    OK(hf_release(w.lease));
    fixture_end(&f);
}

/* More waiters than the ring has places: the holder's release must still get through. */
static void many_waiters_leave_room_for_a_release(void **state)
{
    enum { MANY = 80 };
    struct fixture f = fixture_start(NULL);
    hf_lease *lease = must_acquire(f.client, "a");
    struct hf_acquire_options options = options_for("a", -1);
    hf_op *ops[MANY];

    (void)state;
    for (int i = 0; i < MANY; i++)
        OK(hf_acquire_start(f.client, &options, &ops[i]));
    EVENTUALLY(fake_agent_waiters(f.agent) >= 20);
    OK(hf_release(lease));
    for (int i = 0; i < MANY; i++) { /* first come, first served */
        int status = HF_EPENDING;

        EVENTUALLY((status = hf_op_result(ops[i], &lease)) != HF_EPENDING);
        OK(status);
        OK(hf_release(lease));
    }
    assert_int_equal(fake_agent_leases(f.agent), 0);
    fixture_end(&f);
}

static bool is_readable(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, ms) == 1;
}

/* As an event loop does it; false when it took too long. */
static int result_by_poll(hf_client *client, hf_op *op, hf_lease **ret_lease)
{
    int64_t end = boottime_ns() + PATIENCE_MS * HF_NS_PER_MS;
    int status;

    while ((status = hf_op_result(op, ret_lease)) == HF_EPENDING) {
        assert_true(boottime_ns() < end);
        assert_true(is_readable(hf_fd(client), PATIENCE_MS));
        OK(hf_dispatch(client));
    }
    return status;
}

static void grants_to_an_event_loop(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct hf_acquire_options options = options_for("a", -1);
    hf_lease *lease;
    hf_op *op;

    (void)state;
    assert_true(hf_fd(f.client) >= 0);
    OK(hf_dispatch(f.client));
    fake_agent_foreign(f.agent, "a", true);
    OK(hf_acquire_start(f.client, &options, &op));
    EVENTUALLY(fake_agent_waiters(f.agent) == 1);
    assert_int_equal(hf_op_result(op, &lease), HF_EPENDING);
    fake_agent_foreign(f.agent, "a", false);
    assert_int_equal(result_by_poll(f.client, op, &lease), HF_OK);
    assert_true(hf_held(lease));
    OK(hf_dispatch(f.client));
    assert_false(is_readable(hf_fd(f.client), 0)); /* quiet when there is nothing to do */
    OK(hf_release(lease));
    fixture_end(&f);
}

static void times_out_in_an_event_loop(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct hf_acquire_options options = options_for("a", 50);
    hf_lease *lease;
    hf_op *op;

    (void)state;
    assert_true(hf_fd(f.client) >= 0);
    fake_agent_foreign(f.agent, "a", true);
    OK(hf_acquire_start(f.client, &options, &op));
    assert_int_equal(result_by_poll(f.client, op, &lease), HF_ETIMEDOUT);
    fixture_end(&f);
}

/* Another thread's blocking call may take the completion from the ring; the loop must hear of it.
 */
static void a_blocked_thread_does_not_swallow_completions(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct waiter w = {.f = &f, .name = "other", .wait_ms = -1};
    struct hf_acquire_options options = options_for("a", -1);
    pthread_t thread;
    hf_lease *lease;
    hf_op *op;

    (void)state;
    assert_true(hf_fd(f.client) >= 0);
    OK(hf_dispatch(f.client));
    fake_agent_foreign(f.agent, "a", true);
    fake_agent_foreign(f.agent, "other", true);
    pthread_create(&thread, NULL, wait_for_it, &w);
    for (int i = 0; i < 20; i++) {
        OK(hf_acquire_start(f.client, &options, &op));
        EVENTUALLY(fake_agent_waiters(f.agent) == 2);
        fake_agent_foreign(f.agent, "a", false);
        assert_int_equal(result_by_poll(f.client, op, &lease), HF_OK);
        OK(hf_release(lease));
        fake_agent_foreign(f.agent, "a", true);
    }
    fake_agent_foreign(f.agent, "other", false);
    pthread_join(thread, NULL);
    OK(w.status);
    fixture_end(&f);
}

static void cancels_a_wait(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct hf_acquire_options options = options_for("a", -1);
    hf_op *op;

    (void)state;
    fake_agent_foreign(f.agent, "a", true);
    OK(hf_acquire_start(f.client, &options, &op));
    EVENTUALLY(fake_agent_waiters(f.agent) == 1);
    hf_op_cancel(op);
    EVENTUALLY(fake_agent_waiters(f.agent) == 0);
    hf_op_cancel(NULL);
    fixture_end(&f);
}

/* The grant may be on its way already, or even there. */
static void a_cancelled_grant_is_released(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct hf_acquire_options options = options_for("a", -1);
    hf_op *op;

    (void)state;
    OK(hf_acquire_start(f.client, &options, &op));
    EVENTUALLY(fake_agent_holds(f.agent, "a"));
    hf_op_cancel(op);
    OK(hf_dispatch(f.client));
    EVENTUALLY(!fake_agent_holds(f.agent, "a"));

    OK(hf_acquire_start(f.client, &options, &op));
    EVENTUALLY(fake_agent_holds(f.agent, "a"));
    OK(hf_dispatch(f.client)); /* takes the grant in */
    hf_op_cancel(op);
    EVENTUALLY(!fake_agent_holds(f.agent, "a"));
    fixture_end(&f);
}

struct crowd {
    struct fixture *f;
    atomic_int inside, overlaps, failures;
};

static void *come_and_go(void *arg)
{
    struct crowd *crowd = arg;

    for (int i = 0; i < 50; i++) {
        hf_lease *lease;

        if (hf_acquire(crowd->f->client, "one", 0, PATIENCE_MS, &lease) != HF_OK) {
            atomic_fetch_add(&crowd->failures, 1);
            continue;
        }
        if (atomic_fetch_add(&crowd->inside, 1) != 0)
            atomic_fetch_add(&crowd->overlaps, 1);
        atomic_fetch_sub(&crowd->inside, 1);
        if (!hf_held(lease) || hf_release(lease) != HF_OK)
            atomic_fetch_add(&crowd->failures, 1);
    }
    return NULL;
}

static void threads_share_a_client(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct crowd crowd = {.f = &f};
    pthread_t threads[8];

    (void)state;
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, &crowd), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(crowd.overlaps, 0);
    assert_int_equal(crowd.failures, 0);
    assert_int_equal(fake_agent_leases(f.agent), 0);
    fixture_end(&f);
}

static void holds_many_leases(void **state)
{
    enum { MANY = 200 }; /* several chunks of the pool */
    struct fixture f = fixture_start(NULL);
    hf_lease *leases[MANY];
    char name[32];

    (void)state;
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i);
        leases[i] = must_acquire(f.client, name);
    }
    for (int i = 0; i < MANY; i++)
        assert_true(hf_held(leases[i]));
    for (int i = 0; i < MANY; i += 2)
        OK(hf_release(leases[i]));
    for (int i = 1; i < MANY; i += 2)
        assert_true(hf_held(leases[i]));
    assert_int_equal(fake_agent_leases(f.agent), MANY / 2);
    fixture_end(&f); /* frees the rest */
}

static void a_try_does_not_wait_for_an_agent_that_hangs(void **state)
{
    struct fixture f = fixture_start(NULL); /* T = 30 s: a node has 10 s */
    int64_t began = boottime_ns();
    hf_lease *lease;

    (void)state;
    fake_agent_freeze(f.agent, true);
    assert_int_equal(hf_try(f.client, "a", &lease), HF_ENOAGENT);
    assert_non_null(strstr(hf_last_message(), "does not answer"));
    assert_true(boottime_ns() - began < 6 * HF_NS_PER_SEC);
    /* A wait goes on to its end, and an agent that goes on before it is asked. */
    began = boottime_ns();
    assert_int_equal(hf_acquire(f.client, "b", 0, 2000, &lease), HF_ENOAGENT);
    assert_in_range(boottime_ns() - began, 2 * HF_NS_PER_SEC, 6 * HF_NS_PER_SEC);
    fake_agent_freeze(f.agent, false);
    OK(hf_acquire(f.client, "c", 0, 2000, &lease));
    OK(hf_release(lease));
    fixture_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grants_and_releases),
        cmocka_unit_test(tells_who_holds_it),
        cmocka_unit_test(waits_until_its_time_is_over),
        cmocka_unit_test(refuses_what_cannot_be),
        cmocka_unit_test(names_are_bytes),
        cmocka_unit_test(takes_longer_options_only_without_what_it_does_not_know),
        cmocka_unit_test(tells_what_it_waits_for),
        cmocka_unit_test(a_restarting_signal_handler_does_not_end_a_wait),
        cmocka_unit_test(many_waiters_leave_room_for_a_release),
        cmocka_unit_test(grants_to_an_event_loop),
        cmocka_unit_test(times_out_in_an_event_loop),
        cmocka_unit_test(a_blocked_thread_does_not_swallow_completions),
        cmocka_unit_test(cancels_a_wait),
        cmocka_unit_test(a_cancelled_grant_is_released),
        cmocka_unit_test(threads_share_a_client),
        cmocka_unit_test(holds_many_leases),
        cmocka_unit_test(a_try_does_not_wait_for_an_agent_that_hangs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
