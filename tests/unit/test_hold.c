/* What a job runs under: of several leases the worst decides. */
#include "client_fixture.h"

#include "tools/run/hold.h"

static hf_lease *acquire_job(hf_client *client, const char *name)
{
    struct hf_acquire_options options = options_for(name, 0);
    hf_lease *lease = NULL;

    options.flags = HF_ACQUIRE_RUN;
    OK(hf_acquire_with(client, &options, &lease));
    return lease;
}

/* "a" and "b", of which "b" was acquired later; the agent does not renew them. */
static struct hold take_two(struct fixture *f)
{
    struct hold hold = {.client = f->client, .names = {"a", "b"}, .count = 2};

    fake_agent_renew(f->agent, false);
    hold.leases[0] = acquire_job(f->client, "a");
    pause_ms(20);
    hold.leases[1] = acquire_job(f->client, "b");
    return hold;
}

static struct hold swapped(const struct hold *hold)
{
    return (struct hold){.client = hold->client,
                         .leases = {hold->leases[1], hold->leases[0]},
                         .names = {hold->names[1], hold->names[0]},
                         .count = 2};
}

static void the_earliest_validity_counts(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct hold hold = take_two(&f), turned = swapped(&hold), none = {.client = f.client};
    int64_t first_ns = hf_valid_until_ns(hold.leases[0]);

    (void)state;
    assert_true(first_ns < hf_valid_until_ns(hold.leases[1]));
    assert_true(hold_valid_until_ns(&hold) == first_ns);
    assert_true(hold_valid_until_ns(&turned) == first_ns);
    assert_true(hold_valid_until_ns(&none) == 0);
    assert_int_equal(hold_state(&hold), HF_STATE_HELD);
    assert_int_equal(hold_state(&none), HF_STATE_RELEASED);
    OK(hold_release(&hold));
    assert_int_equal(hold.count, 0);
    assert_int_equal(fake_agent_leases(f.agent), 0);
    assert_true(fake_agent_saw_reaped(f.agent));
    fixture_end(&f);
}

static void the_worst_state_counts(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct hold hold = take_two(&f), turned = swapped(&hold);
    const char *name;

    (void)state;
    fake_agent_change(f.agent, "b", HF_SLOT_LATE, HF_LOSS_NONE);
    assert_int_equal(hold_state(&hold), HF_STATE_LATE);
    fake_agent_change(f.agent, "b", HF_SLOT_LOSING, HF_LOSS_ASKED);
    assert_int_equal(hold_state(&hold), HF_STATE_LOSING);
    assert_int_equal(hold_state(&turned), HF_STATE_LOSING);
    assert_string_equal(hold_reason(&hold, &name), hf_reason(hold.leases[1]));
    assert_string_equal(name, "b");
    assert_true(hold_valid_until_ns(&hold) > 0);

    fake_agent_change(f.agent, "a", HF_SLOT_LOST, HF_LOSS_QUORUM);
    assert_int_equal(hold_state(&hold), HF_STATE_LOST);
    assert_true(hold_valid_until_ns(&hold) == 0);
    (void)hold_reason(&turned, &name);
    assert_string_equal(name, "a");
    assert_int_equal(hold_release(&hold), HF_ELOST);
    assert_int_equal(fake_agent_leases(f.agent), 0);
    fixture_end(&f);
}

static void what_is_told_is_told_of_all(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct hf_ticket tickets[2];
    struct hold hold = take_two(&f), second = {0};

    (void)state;
    OK(hold_tickets(&hold, tickets));
    OK(hold_join(&hold, tickets, &second));
    assert_int_equal(second.count, 2);
    assert_string_equal(second.names[1], "b");
    hold_begin_losing(&second);
    EVENTUALLY(hf_state(hold.leases[0]) == HF_STATE_LOSING &&
               hf_state(hold.leases[1]) == HF_STATE_LOSING);
    hold_begin_killing(&second);
    OK(hold_release(&second));
    assert_int_equal(fake_agent_leases(f.agent), 0);
    assert_int_equal(hold_join(&hold, tickets, &second), HF_ELOST);
    hold_free(&hold);
    hf_disconnect(second.client);
    fixture_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_earliest_validity_counts),
        cmocka_unit_test(the_worst_state_counts),
        cmocka_unit_test(what_is_told_is_told_of_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
