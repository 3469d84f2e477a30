/* What the renewal thread sends after a start by another record of the fleet. Nothing runs here but the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "agent/renewal/renewal_internal.h"
#include "tests/unit/renewal_fixture.h"

#define TEST(name) static void name(HF_UNUSED void **state)

#define LONGER_MS  60000 /* how much longer a lease's TTL was */

static int make(void **state)
{
    char why[WHY_SIZE];

    (void)state;
    make_config();
    for (int i = 0; i < NODES; i++)
        assert_int_equal(node_address_parse("unix:/nowhere", &config.nodes[i], why, sizeof(why)),
                         HF_OK);
    make_agent();
    return 0;
}

static int unmake(void **state)
{
    (void)state;
    for (struct message *m = told(0); m; m = told(0))
        free(m);
    remove_agent();
    config.track_held = 0;
    return 0;
}

static struct renewal_node *node_of(int node)
{
    return &agent.renewal->node[node];
}

static hf_time planned(const struct lease *lease, int node)
{
    const struct cohorts *c = &node_of(node)->renewals;

    return cohorts_is_alone(c, lease->slot) ? cohorts_alone_at(c, lease->slot)
                                            : cohorts_at(c, lease->slot);
}

/* Its votes end as if they had been asked for at `a`. */
static struct lease *adopted(uint32_t votes, hf_time a)
{
    struct lease *lease = made("name", 0, votes, false, a);

    lease->since = HF_TIME_PAST; /* an earlier agent's */
    renewal_adopt(agent.renewal, lease, clock_now());
    return lease;
}

static void is_let_alone_until(hf_time a, const struct lease *lease)
{
    for (int i = 0; i < NODES; i++)
        assert_false(hf_time_before(planned(lease, i), a));
}

/* (!) Its keys stand for longer than the TTL of now, and its holder may count on that. */
static void keeps_its_keys(uint32_t track_held)
{
    hf_time a = hf_time_add(clock_now(), hf_ms(LONGER_MS));
    struct lease *lease;

    config.track_held = track_held;
    lease = adopted(ALL, a);
    is_let_alone_until(a, lease);
    for (int i = 0; i < NODES; i++)
        renewal_schedule(node_of(i), lease, clock_now());
    is_let_alone_until(a, lease);
    for (int i = 0; i < NODES; i++)
        renewal_retry(node_of(i), lease, clock_now());
    is_let_alone_until(a, lease);
    lease_free(lease);
}

TEST(no_renewal_makes_a_key_end_sooner)
{
    keeps_its_keys(0);
}

TEST(no_renewal_of_a_tracked_lease_does)
{
    keeps_its_keys(1000);
}

/* What is usual is not put off. */
TEST(a_lease_of_this_ttl_is_renewed_when_it_is_wanted)
{
    struct lease *lease = adopted(ALL, clock_now());
    hf_time now = clock_now();

    renewal_schedule(node_of(1), lease, now);
    assert_int_equal(planned(lease, 1).ns, now.ns);
    lease_free(lease);
}

TEST(where_it_has_no_vote_it_is_healed_as_any)
{
    struct lease *lease = adopted(1 << 0 | 1 << 1, hf_time_add(clock_now(), hf_ms(LONGER_MS)));

    assert_true(hf_time_before(planned(lease, 2), hf_time_add(clock_now(), hf_ms(TTL_MS))));
    lease_free(lease);
}

TEST(nothing_is_sent_to_a_node_that_does_not_count)
{
    struct lease *lease;

    config.counting = 1 << 0 | 1 << 1;
    lease = adopted(1 << 0 | 1 << 1, clock_now());
    assert_true(planned(lease, 0).ns < HF_TIME_NEVER.ns);
    assert_int_equal(planned(lease, 2).ns, HF_TIME_NEVER.ns);
    renewal_schedule(node_of(2), lease, clock_now());
    renewal_plan(node_of(2), lease, clock_now(), hf_ns(0));
    renewal_plan_young(node_of(2), lease, clock_now());
    assert_int_equal(planned(lease, 2).ns, HF_TIME_NEVER.ns);
    lease_free(lease);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make, unmake)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(no_renewal_makes_a_key_end_sooner),
        CASE(no_renewal_of_a_tracked_lease_does),
        CASE(a_lease_of_this_ttl_is_renewed_when_it_is_wanted),
        CASE(where_it_has_no_vote_it_is_healed_as_any),
        CASE(nothing_is_sent_to_a_node_that_does_not_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
