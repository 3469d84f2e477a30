/* What a job runs under: of several leases the worst decides. */
#include "client_fixture.h"

#include "tools/run/lease_group.h"

static hf_lease *acquire_job(hf_client *client, const char *name)
{
    struct hf_acquire_options options = options_for(name, 0);
    hf_lease *lease = NULL;

    options.flags = HF_ACQUIRE_JOB;
    OK(hf_acquire_with(client, &options, &lease));
    return lease;
}

/* "a" and "b", of which "b" was acquired later; the agent does not renew them. */
static struct lease_group take_two(struct fixture *f)
{
    struct lease_group leases = {.client = f->client, .names = {"a", "b"}, .count = 2};

    fake_agent_renew(f->agent, false);
    leases.lease[0] = acquire_job(f->client, "a");
    pause_ms(20);
    leases.lease[1] = acquire_job(f->client, "b");
    return leases;
}

static struct lease_group swapped(const struct lease_group *leases)
{
    return (struct lease_group){.client = leases->client,
                                .lease = {leases->lease[1], leases->lease[0]},
                                .names = {leases->names[1], leases->names[0]},
                                .count = 2};
}

static void the_earliest_validity_counts(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct lease_group leases = take_two(&f), turned = swapped(&leases),
                       none = {.client = f.client};
    int64_t first_ns = hf_valid_until_ns(leases.lease[0]);

    (void)state;
    assert_true(first_ns < hf_valid_until_ns(leases.lease[1]));
    assert_true(lease_group_valid_until_ns(&leases) == first_ns);
    assert_true(lease_group_valid_until_ns(&turned) == first_ns);
    assert_true(lease_group_valid_until_ns(&none) == 0);
    assert_int_equal(lease_group_state(&leases), HF_STATE_HELD);
    assert_int_equal(lease_group_state(&none), HF_STATE_RELEASED);
    OK(lease_group_release(&leases));
    assert_int_equal(leases.count, 0);
    assert_int_equal(fake_agent_leases(f.agent), 0);
    assert_true(fake_agent_saw_reaped(f.agent));
    fixture_end(&f);
}

static void the_worst_state_counts(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct lease_group leases = take_two(&f), turned = swapped(&leases);
    const char *name;

    (void)state;
    fake_agent_change(f.agent, "b", HF_SLOT_LATE, HF_LOSS_NONE);
    assert_int_equal(lease_group_state(&leases), HF_STATE_LATE);
    fake_agent_change(f.agent, "b", HF_SLOT_LOSING, HF_LOSS_ASKED);
    assert_int_equal(lease_group_state(&leases), HF_STATE_LOSING);
    assert_int_equal(lease_group_state(&turned), HF_STATE_LOSING);
    assert_string_equal(lease_group_reason(&leases, &name), hf_reason(leases.lease[1]));
    assert_string_equal(name, "b");
    assert_true(lease_group_valid_until_ns(&leases) > 0);

    fake_agent_change(f.agent, "a", HF_SLOT_LOST, HF_LOSS_QUORUM);
    assert_int_equal(lease_group_state(&leases), HF_STATE_LOST);
    assert_true(lease_group_valid_until_ns(&leases) == 0);
    (void)lease_group_reason(&turned, &name);
    assert_string_equal(name, "a");
    assert_int_equal(lease_group_release(&leases), HF_ELOST);
    assert_int_equal(fake_agent_leases(f.agent), 0);
    fixture_end(&f);
}

static void what_is_told_is_told_of_all(void **state)
{
    struct fixture f = fixture_start(NULL);
    struct hf_ticket tickets[2];
    struct lease_group leases = take_two(&f), second = {0};

    (void)state;
    OK(lease_group_tickets(&leases, tickets));
    OK(lease_group_join(&leases, tickets, &second));
    assert_int_equal(second.count, 2);
    assert_string_equal(second.names[1], "b");
    lease_group_begin_losing(&second);
    EVENTUALLY(hf_state(leases.lease[0]) == HF_STATE_LOSING &&
               hf_state(leases.lease[1]) == HF_STATE_LOSING);
    lease_group_begin_killing(&second);
    OK(lease_group_release(&second));
    assert_int_equal(fake_agent_leases(f.agent), 0);
    assert_int_equal(lease_group_join(&leases, tickets, &second), HF_ELOST);
    lease_group_free(&leases);
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
