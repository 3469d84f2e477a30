/* Contract. Shared and exclusive: many with a slot each, or one with all of them. */
#include "client_fixture.h"

#include "libclient/holdfast_sets.h"

#include <stdio.h>

static int take_shared(hf_client *client, int64_t wait_ms, unsigned slots, hf_lease **ret_lease)
{
    struct hf_acquire_options options = options_for("db", wait_ms);

    return hf_acquire_shared(client, &options, slots, ret_lease);
}

static int take_alone(hf_client *client, int64_t wait_ms, hf_lease **ret_leases)
{
    struct hf_acquire_options options = options_for("db", wait_ms);

    return hf_acquire_exclusive(client, &options, ret_leases);
}

static hf_op *start_shared(hf_client *client, unsigned slots)
{
    struct hf_acquire_options options = options_for("db", -1);
    hf_op *op = NULL;

    OK(hf_acquire_shared_start(client, &options, slots, &op));
    return op;
}

static hf_op *start_alone(hf_client *client, void (*progress)(const struct hf_progress *, void *),
                          void *arg)
{
    struct hf_acquire_options options = options_for("db", -1);
    hf_op *op = NULL;

    options.progress = progress;
    options.arg = arg;
    OK(hf_acquire_exclusive_start(client, &options, &op));
    return op;
}

/* Waits for a state of the agent's, while the op goes on. */
#define GOES_ON_UNTIL(op, condition)                                                               \
    EVENTUALLY((hf_dispatch(f.client), assert_int_equal(hf_op_result(op, out), HF_EPENDING),       \
                (condition)))

static void many_share_and_nobody_is_alone_meanwhile(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *one = NULL, *two = NULL, *out[HF_EXCLUSIVE_LEASES] = {NULL};
    struct hf_holder holder;

    (void)state;
    OK(take_shared(f.client, 0, 0, &one));
    OK(take_shared(f.client, -1, 0, &two));
    assert_in_range(hf_slot_number(one), 0, HF_SET_MAX - 1);
    assert_true(hf_slot_number(one) != hf_slot_number(two));
    assert_false(fake_agent_holds(f.agent, "db")); /* the calm needs no gate */
    assert_int_equal(take_alone(f.client, 0, out), HF_EBUSY);
    assert_int_equal(hf_conflict_count(), 2);
    assert_true(hf_conflict_index() == hf_slot_number(one) ||
                hf_conflict_index() == hf_slot_number(two));
    OK(hf_conflict(&holder));
    assert_null(out[0]);
    assert_int_equal(fake_agent_leases(f.agent),
                     2); /* more to give back than the ring has places */
    OK(hf_release(one));
    assert_int_equal(take_alone(f.client, 200, out), HF_ETIMEDOUT);
    assert_int_equal(hf_conflict_count(), 1);
    assert_int_equal(hf_conflict_index(), hf_slot_number(two));
    OK(hf_release(two));
    assert_int_equal(fake_agent_leases(f.agent) + fake_agent_waiters(f.agent), 0);
    OK(take_alone(f.client, 0, out));
    assert_int_equal(hf_conflict_count(), 0);
    OK(hf_release_all(out, HF_EXCLUSIVE_LEASES));
    fixture_end(&f);
}

static void alone_means_that_nobody_else_has_anything(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *out[HF_EXCLUSIVE_LEASES], *lease = NULL;
    struct hf_acquire_options options = options_for("db", 0);
    unsigned slot;

    (void)state;
    OK(take_alone(f.client, -1, out));
    assert_int_equal(fake_agent_leases(f.agent), HF_EXCLUSIVE_LEASES);
    assert_true(fake_agent_holds(f.agent, "db") && fake_agent_holds(f.agent, "db#0") &&
                fake_agent_holds(f.agent, "db#63"));
    assert_true(hf_held_all(out, HF_EXCLUSIVE_LEASES));
    assert_int_equal(hf_slot_number(out[17]), 17);
    assert_int_equal(hf_slot_number(out[HF_EXCLUSIVE_NAME]), HF_ENOTHELD);
    /* Whatever number of slots somebody believes in. */
    for (unsigned slots = 1; slots <= HF_SET_MAX; slots += 21) {
        assert_int_equal(take_shared(f.client, 0, slots, &lease), HF_EBUSY);
        assert_int_equal(hf_conflict_index(), HF_EXCLUSIVE_NAME);
        assert_int_equal(take_shared(f.client, 50, slots, &lease), HF_ETIMEDOUT);
        assert_int_equal(hf_conflict_index(), HF_EXCLUSIVE_NAME);
        assert_int_equal(hf_acquire_slot(f.client, &options, slots, &lease, &slot), HF_EBUSY);
    }
    assert_int_equal(hf_try(f.client, "db", &lease), HF_EBUSY);
    assert_int_equal(take_alone(f.client, 0, out), HF_EBUSY);
    assert_int_equal(hf_conflict_index(), HF_EXCLUSIVE_NAME);
    assert_int_equal(hf_conflict_count(), 0);
    fake_agent_change(f.agent, "db#63", HF_SLOT_LOST, HF_LOSS_QUORUM);
    assert_false(hf_held_all(out, HF_EXCLUSIVE_LEASES));
    assert_int_equal(hf_release_all(out, HF_EXCLUSIVE_LEASES), HF_ELOST);
    EVENTUALLY(fake_agent_leases(f.agent) == 0);
    fixture_end(&f);
}

/* From alone to shared: all leases but slot 0's are released. */
static void what_is_left_of_slot_0_is_a_shared_hold(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *out[HF_EXCLUSIVE_LEASES], *other = NULL;

    (void)state;
    OK(take_alone(f.client, 0, out));
    OK(hf_release_all(out + 1, HF_EXCLUSIVE_LEASES - 1));
    assert_true(hf_held(out[0]));
    OK(take_shared(f.client, 0, 2, &other));
    assert_int_equal(hf_slot_number(other), 1);
    assert_int_equal(take_alone(f.client, 0, out + 1), HF_EBUSY);
    OK(hf_release(other));
    OK(hf_release(out[0]));
    fixture_end(&f);
}

struct told {
    int reason;
    uint32_t holders;
    size_t index;
    int calls;
};

static void on_progress(const struct hf_progress *progress, void *arg)
{
    *(struct told *)arg = (struct told){progress->reason, progress->holders, progress->index,
                                        ((struct told *)arg)->calls + 1};
}

/* Who waits to be alone is waited for by whoever comes later, and waits for each who was there once. */
static void who_waits_to_be_alone_is_next(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_client *others = another_client(&f);
    hf_lease *there[2], *out[HF_EXCLUSIVE_LEASES], *later = NULL;
    struct told told = {0};
    hf_op *alone, *shared;

    (void)state;
    OK(take_shared(others, 0, 0, &there[0]));
    OK(take_shared(others, 0, 0, &there[1]));
    alone = start_alone(f.client, on_progress, &told);
    GOES_ON_UNTIL(alone, fake_agent_leases(f.agent) == HF_EXCLUSIVE_LEASES);
    assert_int_equal(fake_agent_waiters(f.agent), 2);
    GOES_ON_UNTIL(alone, told.calls > 0);
    assert_int_equal(told.reason, HF_EBUSY);
    assert_int_equal(told.holders, 2);
    assert_true(told.index < HF_SET_MAX);

    shared = start_shared(others, 0);
    EVENTUALLY(hf_op_result(shared, &later) == HF_EPENDING && fake_agent_waiters(f.agent) == 3);
    assert_int_equal(take_shared(others, 0, 0, &later), HF_EBUSY);
    OK(hf_release(there[0]));
    GOES_ON_UNTIL(alone, fake_agent_waiters(f.agent) == 2 && told.holders == 1);
    assert_int_equal(hf_op_result(shared, &later), HF_EPENDING);
    OK(hf_release(there[1]));
    EVENTUALLY(hf_op_result(alone, out) == HF_OK);
    assert_true(hf_held_all(out, HF_EXCLUSIVE_LEASES));
    assert_int_equal(hf_op_result(shared, &later), HF_EPENDING);
    OK(hf_release_all(out, HF_EXCLUSIVE_LEASES));
    EVENTUALLY(hf_op_result(shared, &later) == HF_OK);
    assert_in_range(hf_slot_number(later), 0, HF_SET_MAX - 1);
    EVENTUALLY(fake_agent_leases(f.agent) == 1 && fake_agent_waiters(f.agent) == 0); /* no gate */
    OK(hf_release(later));
    hf_disconnect(others);
    fixture_end(&f);
}

/* With all slots taken by others that share, the first waiter has the gate and waits for all slots. */
static void one_waits_for_the_slots_and_the_rest_for_the_gate(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *there[3], *out[3] = {NULL};
    hf_op *op[2];

    (void)state;
    for (int i = 0; i < 3; i++)
        OK(take_shared(f.client, 0, 3, &there[i]));
    op[0] = start_shared(f.client, 3);
    GOES_ON_UNTIL(op[0], fake_agent_waiters(f.agent) == 3 && fake_agent_holds(f.agent, "db"));
    op[1] = start_shared(f.client, 3);
    GOES_ON_UNTIL(op[1], fake_agent_waiters(f.agent) == 4);
    /* Somebody asks for the gate: it is given back, and the wait goes on. */
    fake_agent_change(f.agent, "db", HF_SLOT_LOSING, HF_LOSS_ASKED);
    EVENTUALLY((assert_int_equal(hf_op_result(op[0], out), HF_EPENDING),
                hf_op_result(op[1], out + 1) == HF_EPENDING && fake_agent_waiters(f.agent) == 6));
    OK(hf_release(there[2]));
    EVENTUALLY((op[0] && hf_op_result(op[0], out) == HF_OK && !(op[0] = NULL)) ||
               (op[1] && hf_op_result(op[1], out + 1) == HF_OK && !(op[1] = NULL)));
    hf_op_cancel(op[0]);
    hf_op_cancel(op[1]);
    EVENTUALLY(fake_agent_waiters(f.agent) == 0 && fake_agent_leases(f.agent) == 3);
    OK(hf_release_all(there, 2));
    OK(hf_release(out[0] ? out[0] : out[1]));
    fixture_end(&f);
}

static void begins_anew_when_one_is(enum hf_slot_state became, const char *name)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *out[HF_EXCLUSIVE_LEASES];
    hf_op *op;

    fake_agent_foreign(f.agent, "db#9", true);
    op = start_alone(f.client, NULL, NULL);
    GOES_ON_UNTIL(op, fake_agent_leases(f.agent) == HF_EXCLUSIVE_LEASES - 1);
    fake_agent_change(f.agent, name, became, HF_LOSS_ASKED);
    GOES_ON_UNTIL(op, fake_agent_leases(f.agent) == 0 && fake_agent_waiters(f.agent) == 0);
    GOES_ON_UNTIL(op, fake_agent_leases(f.agent) == HF_EXCLUSIVE_LEASES - 1);
    fake_agent_foreign(f.agent, "db#9", false);
    EVENTUALLY(hf_op_result(op, out) == HF_OK);
    assert_true(hf_held_all(out, HF_EXCLUSIVE_LEASES));
    OK(hf_release_all(out, HF_EXCLUSIVE_LEASES));
    assert_int_equal(fake_agent_leases(f.agent), 0);
    fixture_end(&f);
}

static void begins_anew_when_it_loses_what_it_has(void **state)
{
    (void)state;
    begins_anew_when_one_is(HF_SLOT_LOST, "db#0");
    begins_anew_when_one_is(HF_SLOT_LOSING, "db#63");
    begins_anew_when_one_is(HF_SLOT_LOSING, "db");
}

static void a_cancelled_one_leaves_nothing(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *out[HF_EXCLUSIVE_LEASES];
    hf_op *op;

    (void)state;
    fake_agent_foreign(f.agent, "db#5", true);
    op = start_alone(f.client, NULL, NULL);
    GOES_ON_UNTIL(op, fake_agent_leases(f.agent) == HF_EXCLUSIVE_LEASES - 1);
    hf_op_cancel(op);
    EVENTUALLY((hf_dispatch(f.client), fake_agent_leases(f.agent) == 0) &&
               fake_agent_waiters(f.agent) == 0);
    op = start_alone(f.client, NULL, NULL); /* at once, with the requests still out */
    hf_op_cancel(op);
    EVENTUALLY((hf_dispatch(f.client), fake_agent_leases(f.agent) == 0) &&
               fake_agent_waiters(f.agent) == 0);
    fake_agent_foreign(f.agent, "db", true);
    op = start_shared(f.client, 1);
    hf_op_cancel(op);
    (void)start_alone(f.client, NULL, NULL); /* hf_disconnect() frees it */
    fixture_end(&f);
}

static void the_agent_comes_back_and_all_stand(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *out[HF_EXCLUSIVE_LEASES], *lease = NULL;

    (void)state;
    OK(take_alone(f.client, 0, out));
    fake_agent_kill(f.agent);
    assert_true(hf_held_all(out, HF_EXCLUSIVE_LEASES));
    fake_agent_revive(f.agent, false);
    EVENTUALLY(take_shared(f.client, 0, 0, &lease) == HF_EBUSY);
    assert_true(hf_held_all(out, HF_EXCLUSIVE_LEASES));
    OK(hf_release_all(out, HF_EXCLUSIVE_LEASES));
    OK(take_shared(f.client, 0, 0, &lease));
    OK(hf_release(lease));
    fixture_end(&f);
}

static void refuses_what_cannot_be(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct hf_acquire_options options = options_for("db", 0);
    hf_lease *out[HF_EXCLUSIVE_LEASES];
    char name[256];
    hf_op *op;

    (void)state;
    assert_int_equal(hf_acquire_shared(f.client, &options, HF_SET_MAX + 1, out), HF_EINVAL);
    assert_message_has("64");
    assert_int_equal(hf_acquire_shared(f.client, &options, 2, NULL), HF_EINVAL);
    assert_int_equal(hf_acquire_shared_start(f.client, &options, 2, NULL), HF_EINVAL);
    assert_int_equal(hf_acquire_shared(NULL, &options, 2, out), HF_EINVAL);
    assert_int_equal(hf_acquire_exclusive(f.client, &options, NULL), HF_EINVAL);
    assert_int_equal(hf_acquire_exclusive_start(f.client, &options, NULL), HF_EINVAL);
    assert_int_equal(hf_acquire_exclusive(NULL, &options, out), HF_EINVAL);
    memset(name, 'n', sizeof(name));
    options.name = name;
    options.name_len = 253;
    assert_int_equal(hf_acquire_shared(f.client, &options, 0, out), HF_ENAME);
    assert_int_equal(hf_acquire_exclusive(f.client, &options, out), HF_ENAME);
    assert_message_has("252");
    OK(hf_acquire_shared(f.client, &options, 10, out));
    OK(hf_release(out[0]));
    options.name = "holdfast:x";
    options.name_len = 10;
    OK(hf_acquire_exclusive_start(f.client, &options, &op));
    EVENTUALLY(hf_op_result(op, out) == HF_ENAME);
    assert_int_equal(hf_conflict_index(), HF_EXCLUSIVE_NAME);
    fixture_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_share_and_nobody_is_alone_meanwhile),
        cmocka_unit_test(alone_means_that_nobody_else_has_anything),
        cmocka_unit_test(what_is_left_of_slot_0_is_a_shared_hold),
        cmocka_unit_test(who_waits_to_be_alone_is_next),
        cmocka_unit_test(one_waits_for_the_slots_and_the_rest_for_the_gate),
        cmocka_unit_test(begins_anew_when_it_loses_what_it_has),
        cmocka_unit_test(a_cancelled_one_leaves_nothing),
        cmocka_unit_test(the_agent_comes_back_and_all_stand),
        cmocka_unit_test(refuses_what_cannot_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
