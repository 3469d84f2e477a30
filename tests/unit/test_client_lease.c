/* Contract. What a handle says: by the clock alone, by the agent's word, and in a forked child. */
#include "client_fixture.h"

#include "libclient/holdfast_admin.h"
#include "libclient/holdfast_run.h"
#include "shm/wire.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>

static void goes_through_its_states(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *lease = must_acquire(f.client, "a");

    (void)state;
    fake_agent_change(f.agent, "a", HF_SLOT_LATE, HF_LOSS_NONE);
    assert_int_equal(hf_state(lease), HF_STATE_LATE);
    fake_agent_change(f.agent, "a", HF_SLOT_HELD, HF_LOSS_NONE);
    assert_int_equal(hf_state(lease), HF_STATE_HELD);
    fake_agent_change(f.agent, "a", HF_SLOT_LOSING, HF_LOSS_ASKED);
    assert_int_equal(hf_state(lease), HF_STATE_LOSING);
    assert_true(hf_held(lease)); /* until V */
    assert_non_null(strstr(hf_reason(lease), "asked"));
    fake_agent_change(f.agent, "a", HF_SLOT_LOST, HF_LOSS_FOREIGN);
    assert_false(hf_held(lease));
    assert_int_equal(hf_remaining_ms(lease), 0);
    assert_int_equal(hf_valid_until_ns(lease), 0);
    assert_int_equal(hf_state(lease), HF_STATE_LOST);
    assert_non_null(strstr(hf_reason(lease), "another holder"));
    assert_true(hf_fence(lease) > 0);
    assert_int_equal(hf_release(lease), HF_ELOST);
    assert_message_has("another holder");
    fixture_end(&f);
}

/* The fleet's ttl_max has become smaller than what was asked for: renewals in time keep less than half of that. */
static void a_smaller_ttl_max_is_not_late(void **state)
{
    struct fake_agent_options options = {.ttl_ms = 4000};
    struct fixture f = fixture_start(&options);
    hf_lease *lease = must_acquire(f.client, "a");

    (void)state;
    fake_agent_renew(f.agent, false);
    EVENTUALLY(hf_state(lease) == HF_STATE_LATE);
    fake_agent_ttl_max(f.agent, 2000);
    assert_int_equal(hf_state(lease), HF_STATE_HELD);
    EVENTUALLY(hf_state(lease) == HF_STATE_LATE);
    fixture_end(&f);
}

/* The slot may be another lease's long since. */
static void a_lost_handle_stays_lost(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *lost = must_acquire(f.client, "a"), *next;

    (void)state;
    fake_agent_change(f.agent, "a", HF_SLOT_LOST, HF_LOSS_QUORUM);
    assert_false(hf_held(lost));
    next = must_acquire(f.client, "a");
    assert_true(hf_held(next));
    assert_false(hf_held(lost));
    assert_int_equal(hf_state(lost), HF_STATE_LOST);
    assert_int_equal(hf_release(lost), HF_ELOST);
    assert_true(hf_held(next));
    hf_lease_free(next);
    hf_lease_free(NULL);
    assert_true(fake_agent_holds(f.agent, "a")); /* freeing a handle is no release */
    fixture_end(&f);
}

static void null_is_no_lease(void **state)
{
    (void)state;
    assert_false(hf_held(NULL));
    assert_int_equal(hf_remaining_ms(NULL), 0);
    assert_int_equal(hf_valid_until_ns(NULL), 0);
    assert_int_equal(hf_state(NULL), HF_EINVAL);
    assert_int_equal(hf_fence(NULL), 0);
    assert_string_equal(hf_reason(NULL), "");
    assert_int_equal(hf_wait(NULL, HF_STATE_HELD, 0), HF_EINVAL);
    assert_int_equal(hf_on_change(NULL, NULL, NULL), HF_EINVAL);
    assert_int_equal(hf_begin_losing(NULL), HF_EINVAL);
    assert_int_equal(hf_begin_killing(NULL), HF_EINVAL);
    assert_int_equal(hf_dispatch(NULL), HF_EINVAL);
    assert_int_equal(hf_fd(NULL), HF_EINVAL);
}

/* Nothing has to be alive for a holder to learn of its loss. */
static void expires_with_a_dead_agent(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *lease = must_acquire_ttl(f.client, "a", 1000);

    (void)state;
    fake_agent_kill(f.agent);
    assert_true(hf_held(lease));
    assert_int_equal(hf_wait(lease, HF_STATE_HELD, PATIENCE_MS), HF_STATE_LATE);
    assert_true(hf_held(lease));
    assert_int_equal(hf_wait(lease, HF_STATE_LATE, PATIENCE_MS), HF_STATE_LOSING);
    assert_true(hf_held(lease));
    assert_non_null(strstr(hf_reason(lease), "the agent is gone"));
    assert_int_equal(hf_wait(lease, HF_STATE_LOSING, PATIENCE_MS), HF_STATE_LOST);
    assert_false(hf_held(lease));
    assert_non_null(strstr(hf_reason(lease), "without a renewal"));
    assert_int_equal(hf_release(lease), HF_ELOST);
    fixture_end(&f);
}

/* Said by nobody but this library's clock, it is not for good. */
static void losing_without_an_agent_is_taken_back_by_its_return(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *lease = must_acquire_ttl(f.client, "a", 6000);
    int64_t until;

    (void)state;
    fake_agent_freeze(f.agent, true);
    until = hf_valid_until_ns(lease);
    EVENTUALLY(hf_state(lease) != HF_STATE_HELD);
    EVENTUALLY(hf_state(lease) == HF_STATE_LOSING);
    assert_true(until - boottime_ns() <= 6000 * HF_NS_PER_MS * 3 / 10);
    assert_true(hf_held(lease));
    fake_agent_freeze(f.agent, false);
    EVENTUALLY(hf_state(lease) == HF_STATE_HELD);
    assert_true(hf_held(lease) && hf_valid_until_ns(lease) > until);
    OK(hf_release(lease));
    fixture_end(&f);
}

/* An agent that lives decides by itself when a lease is being lost. */
static void a_living_agent_says_when_it_is_losing(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *lease = must_acquire_ttl(f.client, "a", 2000);
    bool losing = false;

    (void)state;
    fake_agent_renew(f.agent, false);
    while (hf_held(lease))
        losing |= hf_state(lease) == HF_STATE_LOSING;
    assert_false(losing);
    hf_lease_free(lease);
    fixture_end(&f);
}

static void expires_with_a_stopped_agent(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *lease = must_acquire_ttl(f.client, "a", 1000);
    int64_t until;

    (void)state;
    fake_agent_freeze(f.agent, true);
    until = hf_valid_until_ns(lease);
    EVENTUALLY(!hf_held(lease));
    assert_true(boottime_ns() >= until);
    assert_int_equal(hf_state(lease), HF_STATE_LOST);
    hf_lease_free(lease);
    fixture_end(&f);
}

static void is_renewed(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *lease = must_acquire_ttl(f.client, "a", 600);
    int64_t until = hf_valid_until_ns(lease);

    (void)state;
    EVENTUALLY(boottime_ns() > until);
    assert_true(hf_held(lease));
    fixture_end(&f);
}

struct delayed {
    struct fixture *f;
    enum hf_slot_state state;
};

static void *change_soon(void *arg)
{
    struct delayed *d = arg;

    pause_ms(30);
    fake_agent_change(d->f->agent, "a", d->state, HF_LOSS_ASKED);
    return NULL;
}

static void waits_for_a_change(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct delayed d = {.f = &f, .state = HF_SLOT_LOSING};
    hf_lease *lease = must_acquire(f.client, "a");
    pthread_t thread;

    (void)state;
    assert_int_equal(hf_wait(lease, HF_STATE_HELD, 0), HF_ETIMEDOUT);
    assert_int_equal(hf_wait(lease, HF_STATE_HELD, 30), HF_ETIMEDOUT);
    assert_int_equal(hf_wait(lease, HF_STATE_LATE, -1), HF_STATE_HELD);
    pthread_create(&thread, NULL, change_soon, &d);
    assert_int_equal(hf_wait(lease, HF_STATE_HELD, -1), HF_STATE_LOSING);
    pthread_join(thread, NULL);
    d.state = HF_SLOT_LOST;
    pthread_create(&thread, NULL, change_soon, &d);
    assert_int_equal(hf_wait(lease, HF_STATE_LOSING, -1), HF_STATE_LOST);
    pthread_join(thread, NULL);
    assert_int_equal(hf_wait(lease, HF_STATE_LOST, -1), HF_STATE_LOST); /* it is over */
    hf_lease_free(lease);
    fixture_end(&f);
}

struct changes {
    int count, states[16];
};

static void note_change(hf_lease *lease, int now, void *arg)
{
    struct changes *changes = arg;

    (void)lease;
    if (changes->count < 16)
        changes->states[changes->count] = now;
    changes->count++;
}

/* What an event loop does, until `count` changes were told. */
static void dispatch_until(hf_client *client, const struct changes *changes, int count)
{
    struct pollfd p = {.fd = hf_fd(client), .events = POLLIN};
    int64_t end = boottime_ns() + PATIENCE_MS * HF_NS_PER_MS;

    while (changes->count < count) {
        assert_true(boottime_ns() < end);
        if (poll(&p, 1, PATIENCE_MS) == 1)
            OK(hf_dispatch(client));
    }
}

static void tells_changes_to_a_callback(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct changes changes = {0};
    hf_lease *lease = must_acquire(f.client, "a");

    (void)state;
    OK(hf_on_change(lease, note_change, &changes));
    fake_agent_change(f.agent, "a", HF_SLOT_LATE, HF_LOSS_NONE);
    pause_ms(30);
    assert_int_equal(changes.count, 0); /* only from hf_dispatch() */
    dispatch_until(f.client, &changes, 1);
    assert_int_equal(changes.states[0], HF_STATE_LATE);
    fake_agent_change(f.agent, "a", HF_SLOT_LOSING, HF_LOSS_ASKED);
    dispatch_until(f.client, &changes, 2);
    assert_int_equal(changes.states[1], HF_STATE_LOSING);
    fake_agent_change(f.agent, "a", HF_SLOT_LOST, HF_LOSS_ASKED);
    dispatch_until(f.client, &changes, 3);
    assert_int_equal(changes.states[2], HF_STATE_LOST);
    for (int i = 0; i < 3; i++)
        OK(hf_dispatch(f.client));
    assert_int_equal(changes.count, 3); /* once for the end */
    hf_lease_free(lease);
    fixture_end(&f);
}

static void tells_the_end_without_an_agent(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct changes changes = {0};
    hf_lease *lease = must_acquire_ttl(f.client, "a", 1000);

    (void)state;
    OK(hf_on_change(lease, note_change, &changes));
    assert_true(hf_fd(f.client) >= 0);
    fake_agent_kill(f.agent);
    dispatch_until(f.client, &changes, 3);
    assert_int_equal(changes.states[0], HF_STATE_LATE);
    assert_int_equal(changes.states[1], HF_STATE_LOSING);
    assert_int_equal(changes.states[2], HF_STATE_LOST);
    hf_lease_free(lease);
    fixture_end(&f);
}

/* Dispatching for a while costs few turns: nothing makes the descriptor readable for no reason. */
static void does_not_spin_without_an_agent(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *lease = must_acquire_ttl(f.client, "a", 300);
    struct pollfd p = {.fd = hf_fd(f.client), .events = POLLIN};
    int64_t end = boottime_ns() + 1500 * HF_NS_PER_MS;
    int turns = 0;

    (void)state;
    fake_agent_kill(f.agent);
    while (boottime_ns() < end) {
        if (poll(&p, 1, 100) == 1)
            OK(hf_dispatch(f.client));
        turns++;
    }
    assert_in_range(turns, 1, 100);
    hf_lease_free(lease);
    fixture_end(&f);
}

static void a_callback_can_be_turned_off(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct changes changes = {0};
    hf_lease *lease = must_acquire(f.client, "a");

    (void)state;
    OK(hf_on_change(lease, note_change, &changes));
    OK(hf_on_change(lease, NULL, NULL));
    fake_agent_change(f.agent, "a", HF_SLOT_LOST, HF_LOSS_ASKED);
    OK(hf_dispatch(f.client));
    assert_int_equal(changes.count, 0);
    /* A change before the call is told too. */
    OK(hf_on_change(lease, note_change, &changes));
    OK(hf_dispatch(f.client));
    assert_int_equal(changes.count, 1);
    hf_lease_free(lease);
    fixture_end(&f);
}

static hf_lease *signal_lease;
static volatile sig_atomic_t signal_said;

static void look(int number)
{
    (void)number;
    signal_said = hf_held(signal_lease) && hf_remaining_ms(signal_lease) > 0 &&
                  hf_state(signal_lease) == HF_STATE_HELD && hf_fence(signal_lease) > 0;
}

static void a_signal_handler_may_look(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct sigaction action = {.sa_handler = look};

    (void)state;
    signal_lease = must_acquire(f.client, "a");
    sigaction(SIGUSR2, &action, NULL);
    raise(SIGUSR2);
    assert_int_equal(signal_said, 1);
    fixture_end(&f);
}

/* --- fork ------------------------------------------------------------------------------------- */

struct inherited {
    struct fixture *f;
    hf_lease *lease;
    hf_op *op;
};

static int look_in_child(void *arg)
{
    struct inherited *in = arg;
    struct hf_acquire_options options = options_for("b", 0);
    struct hf_agent_info info = {.size = sizeof(info)};
    struct hf_who_info who = {.size = sizeof(who)};
    struct hf_ticket ticket;
    hf_lease *lease = NULL;
    hf_op *op = NULL;

    if (hf_held(in->lease) || hf_remaining_ms(in->lease) || hf_fence(in->lease))
        return 1;
    if (hf_state(in->lease) != HF_EFORKED || hf_wait(in->lease, 1, -1) != HF_EFORKED ||
        hf_begin_losing(in->lease) != HF_EFORKED || hf_begin_killing(in->lease) != HF_EFORKED ||
        hf_lease_ticket(in->lease, &ticket) != HF_EFORKED ||
        hf_on_change(in->lease, NULL, NULL) != HF_EFORKED)
        return 2;
    if (hf_try(in->f->client, "b", &lease) != HF_EFORKED ||
        hf_acquire_start(in->f->client, &options, &op) != HF_EFORKED ||
        hf_op_result(in->op, &lease) != HF_EFORKED || hf_fd(in->f->client) != HF_EFORKED ||
        hf_dispatch(in->f->client) != HF_EFORKED || hf_ask(in->f->client, "a", 1) != HF_EFORKED ||
        hf_agent_info(in->f->client, &info) != HF_EFORKED ||
        hf_who(in->f->client, "a", 1, &who) != HF_EFORKED ||
        hf_force(in->f->client, "a", 1, &who, NULL) != HF_EFORKED ||
        hf_wait_free(in->f->client, "a", 1, -1, NULL, NULL) != HF_EFORKED ||
        hf_list(in->f->client, "a", 1, NULL, NULL, NULL) != HF_EFORKED)
        return 3;
    hf_op_cancel(in->op);
    if (hf_release(in->lease) != HF_EFORKED)
        return 4;
    hf_lease_free(in->lease);
    hf_disconnect(in->f->client);
    return 0;
}

static void a_forked_child_holds_nothing(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct inherited in = {.f = &f, .lease = must_acquire(f.client, "a")};
    struct hf_acquire_options options = options_for("a", -1);
    hf_lease *lease;

    (void)state;
    assert_true(hf_fd(f.client) >= 0);
    OK(hf_acquire_start(f.client, &options, &in.op));
    EVENTUALLY(fake_agent_waiters(f.agent) == 1);
    assert_int_equal(in_child(look_in_child, &in), 0);
    /* The parent's are as they were. */
    assert_true(hf_held(in.lease));
    assert_true(fake_agent_holds(f.agent, "a"));
    assert_int_equal(fake_agent_clients(f.agent), 1);
    OK(hf_release(in.lease));
    EVENTUALLY(hf_op_result(in.op, &lease) == HF_OK);
    OK(hf_release(lease));
    fixture_end(&f);
}

static int connect_in_child(void *arg)
{
    struct inherited *in = arg;
    hf_client *client = NULL;
    hf_lease *lease = NULL;

    if (hf_connect(fake_agent_path(in->f->agent), &client) != HF_OK)
        return 1;
    if (hf_try(client, "a", &lease) != HF_EBUSY) /* its parent has it */
        return 2;
    if (hf_try(client, "b", &lease) != HF_OK || !hf_held(lease))
        return 3;
    return hf_release(lease) == HF_OK ? 0 : 4;
}

static void a_child_may_connect_for_itself(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct inherited in = {.f = &f, .lease = must_acquire(f.client, "a")};

    (void)state;
    assert_int_equal(in_child(connect_in_child, &in), 0);
    assert_true(hf_held(in.lease));
    fixture_end(&f);
}

/* A child keeps the socket open; disconnecting must reach the agent all the same. */
static void a_child_does_not_keep_leases_alive(void **state)
{
    struct fixture f = fixture_start(NULL);
    pid_t pid;

    (void)state;
    must_acquire(f.client, "a");
    pid = fork();
    if (pid == 0) {
        pause();
        _exit(0);
    }
    hf_disconnect(f.client);
    EVENTUALLY(!fake_agent_holds(f.agent, "a"));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    fake_agent_free(f.agent);
}

/* Its record may be on the nodes, and its job has not begun. */
static void a_call_of_once_that_failed_leaves_its_number_to_the_next(void **state)
{
    const int failed[] = {HF_ENOQUORUM, HF_ELOST, HF_ENOQUORUM};
    struct fixture f = fixture_start(NULL);
    hf_lease *lease = must_acquire(f.client, "a");
    uint64_t first = 0, next;

    (void)state;
    for (int i = 0; i < 3; i++) {
        (void)fake_agent_once(f.agent, failed[i]);
        assert_int_equal(hf_once(lease, 1000, NULL), failed[i]);
        next = fake_agent_once(f.agent, HF_OK);
        assert_true(next != 0);
        assert_true(i == 0 || next == first);
        first = next;
    }
    assert_int_equal(hf_once(lease, 1000, NULL), HF_OK);
    next = fake_agent_once(f.agent, HF_OK);
    assert_true(next == first);
    /* (!) The job has started: another call finds its record, and is not its asker. */
    assert_int_equal(hf_once(lease, 1000, NULL), HF_OK);
    assert_true(fake_agent_once(f.agent, HF_EDONE) != first);
    assert_int_equal(hf_once(lease, 1000, NULL), HF_EDONE);
    next = fake_agent_once(f.agent, HF_OK);
    assert_int_equal(hf_once(lease, 1000, NULL), HF_OK);
    assert_true(fake_agent_once(f.agent, HF_OK) != next);
    fixture_end(&f);
}

/* The nodes' record says until when the job may start. This process may have slept since the agent's answer. */
static void an_answer_of_once_that_came_too_late_starts_nothing(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *lease = must_acquire(f.client, "a");
    uint64_t first;

    (void)state;
    (void)fake_agent_once_until(f.agent, 1);
    assert_int_equal(hf_once(lease, 1000, NULL), HF_ENOQUORUM);
    assert_non_null(strstr(hf_last_message(), "too late"));
    assert_int_equal(fake_agent_once_until(f.agent, INT64_MAX), 3);
    first = fake_agent_once(f.agent, HF_OK);
    assert_int_equal(hf_once(lease, 1000, NULL), HF_OK);
    assert_int_equal(fake_agent_once_until(f.agent, 0), 4);
    assert_true(fake_agent_once(f.agent, HF_OK) == first);
    fixture_end(&f);
}

/* The lease itself is another one's later: its place is used again. */
static void another_lease_has_another_number_of_once(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *lease = must_acquire(f.client, "a");
    uint64_t first;

    (void)state;
    (void)fake_agent_once(f.agent, HF_ENOQUORUM);
    assert_int_equal(hf_once(lease, 1000, NULL), HF_ENOQUORUM);
    first = fake_agent_once(f.agent, HF_OK);
    assert_int_equal(hf_release(lease), HF_OK);
    lease = must_acquire(f.client, "a");
    assert_int_equal(hf_once(lease, 1000, NULL), HF_OK);
    assert_true(fake_agent_once(f.agent, HF_OK) != first);
    fixture_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_through_its_states),
        cmocka_unit_test(a_smaller_ttl_max_is_not_late),
        cmocka_unit_test(a_lost_handle_stays_lost),
        cmocka_unit_test(null_is_no_lease),
        cmocka_unit_test(expires_with_a_dead_agent),
        cmocka_unit_test(losing_without_an_agent_is_taken_back_by_its_return),
        cmocka_unit_test(a_living_agent_says_when_it_is_losing),
        cmocka_unit_test(expires_with_a_stopped_agent),
        cmocka_unit_test(is_renewed),
        cmocka_unit_test(waits_for_a_change),
        cmocka_unit_test(tells_changes_to_a_callback),
        cmocka_unit_test(tells_the_end_without_an_agent),
        cmocka_unit_test(does_not_spin_without_an_agent),
        cmocka_unit_test(a_callback_can_be_turned_off),
        cmocka_unit_test(a_signal_handler_may_look),
        cmocka_unit_test(a_forked_child_holds_nothing),
        cmocka_unit_test(a_child_may_connect_for_itself),
        cmocka_unit_test(a_child_does_not_keep_leases_alive),
        cmocka_unit_test(a_call_of_once_that_failed_leaves_its_number_to_the_next),
        cmocka_unit_test(an_answer_of_once_that_came_too_late_starts_nothing),
        cmocka_unit_test(another_lease_has_another_number_of_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
