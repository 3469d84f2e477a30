/* Contract. Counted locks: K slots, of which each holder takes one. */
#include "client_fixture.h"

#include "libclient/holdfast_sets.h"

#include <stdio.h>

#define SLOTS 3

static int take_slot(hf_client *client, int64_t wait_ms, unsigned slots, hf_lease **ret_lease)
{
    struct hf_acquire_options options = options_for("pool", wait_ms);
    unsigned slot = 99;
    int status = hf_acquire_slot(client, &options, slots, ret_lease, &slot);

    return status < 0 ? status : (int)slot;
}

static void fill(hf_client *client, hf_lease *leases[SLOTS])
{
    hf_lease *lease = NULL;

    memset(leases, 0, SLOTS * sizeof(leases[0]));
    for (int i = 0; i < SLOTS; i++) {
        int slot = take_slot(client, 0, SLOTS, &lease);

        assert_in_range(slot, 0, SLOTS - 1);
        assert_null(leases[slot]);
        leases[slot] = lease;
    }
}

static void each_slot_once(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *leases[SLOTS], *lease = NULL;
    struct hf_holder holder;

    (void)state;
    fill(f.client, leases);
    assert_true(fake_agent_holds(f.agent, "pool#0") && fake_agent_holds(f.agent, "pool#1") &&
                fake_agent_holds(f.agent, "pool#2"));
    assert_true(hf_held_all(leases, SLOTS));
    assert_int_equal(take_slot(f.client, 0, SLOTS, &lease), HF_EBUSY);
    assert_null(lease);
    assert_message_has("pool#");
    assert_in_range(hf_conflict_index(), 0, SLOTS - 1);
    OK(hf_conflict(&holder));
    assert_int_equal(hf_slot_number(leases[1]), 1);
    OK(hf_release(leases[1]));
    assert_int_equal(take_slot(f.client, 0, SLOTS, &lease), 1);
    OK(hf_release(lease));
    lease = must_acquire(f.client, "pool#1"); /* a lock like any other */
    assert_int_equal(hf_slot_number(lease), HF_ENOTHELD);
    assert_int_equal(hf_slot_number(NULL), HF_ENOTHELD);
    OK(hf_release(lease));
    OK(hf_release(leases[0]));
    OK(hf_release(leases[2]));
    fixture_end(&f);
}

static void begins_anywhere(void **state)
{
    struct fixture f = fixture_start(NULL);
    unsigned used = 0;
    hf_lease *lease;

    (void)state;
    for (int i = 0; i < 60; i++) { /* by chance the same each time: once in 3^59 */
        used |= 1u << take_slot(f.client, 0, SLOTS, &lease);
        OK(hf_release(lease));
    }
    assert_true(used & (used - 1)); /* more than one */
    fixture_end(&f);
}

static hf_op *begin(hf_client *client)
{
    struct hf_acquire_options options = options_for("pool", -1);
    hf_op *op = NULL;

    OK(hf_acquire_slot_start(client, &options, SLOTS, &op));
    return op;
}

static void waits_for_any(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_lease *leases[SLOTS], *lease = NULL;
    hf_op *op;

    (void)state;
    fill(f.client, leases);
    op = begin(f.client);
    EVENTUALLY(hf_op_result(op, &lease) == HF_EPENDING && fake_agent_waiters(f.agent) == SLOTS);
    OK(hf_release(leases[2]));
    EVENTUALLY(hf_op_result(op, &lease) == HF_OK);
    assert_int_equal(hf_slot_number(lease), 2);
    EVENTUALLY(fake_agent_waiters(f.agent) == 0);
    OK(hf_release(lease));
    assert_int_equal(hf_release_all(leases, SLOTS - 1), HF_OK);
    fixture_end(&f);
}

/* Both are granted before it hears of one: the other is given back. */
static void keeps_one_of_two_that_come_at_once(void **state)
{
    struct fixture f = fixture_start(NULL);
    hf_client *other = another_client(&f);
    hf_lease *leases[SLOTS], *lease = NULL;
    hf_op *op;

    (void)state;
    fill(other, leases);
    op = begin(f.client);
    EVENTUALLY(hf_op_result(op, &lease) == HF_EPENDING && fake_agent_waiters(f.agent) == SLOTS);
    OK(hf_release_all(leases, SLOTS));
    EVENTUALLY(fake_agent_leases(f.agent) == SLOTS);
    EVENTUALLY(hf_op_result(op, &lease) == HF_OK);
    EVENTUALLY(fake_agent_leases(f.agent) == 1);
    assert_true(hf_held(lease));
    OK(hf_release(lease));
    hf_disconnect(other);
    fixture_end(&f);
}

static void gives_up_in_time_and_when_cancelled(void **state)
{
    struct fixture f = fixture_start(NULL);
    int64_t start = boottime_ns();
    hf_lease *leases[SLOTS], *lease;
    hf_op *op;

    (void)state;
    fill(f.client, leases);
    assert_int_equal(take_slot(f.client, 200, SLOTS, &lease), HF_ETIMEDOUT);
    assert_true(boottime_ns() - start >= 200 * HF_NS_PER_MS);
    EVENTUALLY(fake_agent_waiters(f.agent) == 0);
    op = begin(f.client);
    EVENTUALLY(hf_op_result(op, &lease) == HF_EPENDING && fake_agent_waiters(f.agent) == SLOTS);
    hf_op_cancel(op);
    EVENTUALLY(fake_agent_waiters(f.agent) == 0);
    OK(hf_release_all(leases, SLOTS));
    fixture_end(&f);
}

static void refuses_what_cannot_be(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct hf_acquire_options options = options_for("pool", 0);
    char name[256];
    hf_lease *lease;
    unsigned slot;
    hf_op *op;

    (void)state;
    assert_int_equal(hf_acquire_slot(f.client, &options, 0, &lease, &slot), HF_EINVAL);
    assert_int_equal(hf_acquire_slot(f.client, &options, HF_SET_MAX + 1, &lease, &slot), HF_EINVAL);
    assert_message_has("64");
    assert_int_equal(hf_acquire_slot(f.client, &options, 2, NULL, &slot), HF_EINVAL);
    assert_int_equal(hf_acquire_slot(f.client, &options, 2, &lease, NULL), HF_EINVAL);
    assert_int_equal(hf_acquire_slot_start(f.client, &options, 2, NULL), HF_EINVAL);
    assert_int_equal(hf_acquire_slot(NULL, &options, 2, &lease, &slot), HF_EINVAL);
    memset(name, 'n', sizeof(name));
    options.name = name;
    options.name_len = 253;
    assert_int_equal(hf_acquire_slot(f.client, &options, 11, &lease, &slot), HF_ENAME);
    assert_message_has("252");
    OK(hf_acquire_slot(f.client, &options, 10, &lease, &slot));
    OK(hf_release(lease));
    options.name = "holdfast:x";
    options.name_len = 10;
    assert_int_equal(hf_acquire_slot_start(f.client, &options, 2, &op), HF_OK);
    EVENTUALLY(hf_op_result(op, &lease) == HF_ENAME);
    fixture_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_slot_once),
        cmocka_unit_test(begins_anywhere),
        cmocka_unit_test(waits_for_any),
        cmocka_unit_test(keeps_one_of_two_that_come_at_once),
        cmocka_unit_test(gives_up_in_time_and_when_cancelled),
        cmocka_unit_test(refuses_what_cannot_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
