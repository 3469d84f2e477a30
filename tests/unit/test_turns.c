/* agent/core/turns.h: hosts that want one lock let each other go first. */
#include "core_fixture.h"

#include "agent/core/turns.h"

enum { A = 11, B, C };

#define STEP TURNS_STEP.ns

/* A stretch whose gap is left already. */
static int64_t step_back(struct turns *t)
{
    return turns_step_back(t, t->stretch, 0).ns;
}

/* Its fences. */
static uint64_t fences;

static void others_turn(struct turns *t, uint32_t host)
{
    assert_true(turns_seen(t, ++fences, host));
}

static void our_turn(struct turns *t)
{
    turns_ours(t, ++fences);
}

/* Knows B and C, and had its turn before theirs. */
static struct turns one_of_three(void)
{
    struct turns t = {0};

    others_turn(&t, B);
    others_turn(&t, C);
    our_turn(&t);
    return t;
}

TEST(who_knows_of_nobody_steps_back_for_nobody)
{
    struct turns t = {0};

    assert_int_equal(turns_step_back(&t, 7, UINT32_MAX).ns, 0);
    our_turn(&t);
    assert_int_equal(turns_step_back(&t, 9, UINT32_MAX).ns, 0);
}

TEST(a_step_for_each_host_that_had_no_turn_since_ours)
{
    struct turns t = one_of_three();

    assert_int_equal(step_back(&t), 2 * STEP);
    others_turn(&t, B);
    assert_int_equal(step_back(&t), STEP);
    others_turn(&t, C);
    assert_int_equal(step_back(&t), 0);
    our_turn(&t);
    assert_int_equal(step_back(&t), 2 * STEP);
    assert_in_range(turns_step_back(&t, t.stretch, UINT32_MAX).ns, 2 * STEP + MS,
                    2 * STEP + TURNS_STEP_DRAW.ns);
}

TEST(one_host_that_had_two_turns_does_not_stand_for_two)
{
    struct turns t = one_of_three();

    others_turn(&t, B);
    others_turn(&t, B);
    assert_int_equal(step_back(&t), STEP);
}

TEST(a_turn_is_counted_once)
{
    struct turns t = one_of_three();

    others_turn(&t, B);
    assert_false(turns_seen(&t, fences, B));
    assert_false(turns_seen(&t, fences, C));
    assert_false(turns_seen(&t, 0, C));
    assert_int_equal(step_back(&t), STEP);
    our_turn(&t);
    assert_false(turns_seen(&t, fences, A)); /* it was ours */
    assert_int_equal(step_back(&t), STEP);   /* C did not come */
}

TEST(who_does_not_come_is_expected_no_more)
{
    struct turns t = one_of_three();

    others_turn(&t, C);
    our_turn(&t); /* after a step that B did not use */
    assert_int_equal(step_back(&t), STEP);
    our_turn(&t); /* nobody came */
    assert_int_equal(step_back(&t), 0);
    others_turn(&t, B); /* there it is again */
    our_turn(&t);
    assert_int_equal(step_back(&t), STEP);
}

TEST(a_turn_of_nobody_knows_whom_was_of_who_was_next)
{
    struct turns t = one_of_three();

    others_turn(&t, 0);
    assert_int_equal(step_back(&t), STEP);
    others_turn(&t, C);
    assert_int_equal(step_back(&t), 0);
    others_turn(&t, 0);
    assert_int_equal(step_back(&t), 0);
}

TEST(who_begins_to_wait_goes_at_once_and_keeps_what_it_knows)
{
    struct turns t = one_of_three();

    turns_fresh(&t);
    assert_int_equal(turns_step_back(&t, t.stretch + 1, 0).ns, 0);
    our_turn(&t);
    assert_int_equal(step_back(&t), 2 * STEP);
}

TEST(hosts_nobody_knows_have_one_gap_in_each_stretch)
{
    struct turns t = one_of_three();

    others_turn(&t, B);
    others_turn(&t, C);
    assert_int_equal(turns_step_back(&t, 9, 0).ns, TURNS_GAP.ns);
    assert_int_equal(turns_step_back(&t, 9, 0).ns, 0);
    our_turn(&t);
    assert_int_equal(turns_step_back(&t, 10, 0).ns, TURNS_GAP.ns + 2 * STEP);
    assert_int_equal(turns_step_back(&t, 2 * TURNS_LONG_IN, 0).ns, TURNS_GAP_LONG.ns + 2 * STEP);
    /* All agents are in the same stretch: it is the nodes' time. */
    assert_int_equal(turns_stretch((hf_nodetime){INT64_C(512000) * 7}), 7);
    assert_int_equal(turns_stretch((hf_nodetime){INT64_C(512000) * 8 - 1}), 7);
    /* At most 5 % of the time. */
    assert_true(20 * ((TURNS_LONG_IN - 1) * TURNS_GAP.ns + TURNS_GAP_LONG.ns) <=
                TURNS_LONG_IN * TURNS_GAP_EVERY.ns);
}

TEST(who_was_passed_over_leaves_no_gap)
{
    struct turns t = {0};

    others_turn(&t, B);
    our_turn(&t);
    for (int i = 0; i < 3; i++)
        others_turn(&t, B);
    assert_int_equal(turns_step_back(&t, 9, 0).ns, TURNS_GAP.ns);
    others_turn(&t, B);
    assert_int_equal(turns_step_back(&t, 10, 0).ns, 0);
    our_turn(&t);
    assert_int_equal(turns_step_back(&t, 11, 0).ns, TURNS_GAP.ns + STEP);
}

TEST(of_many_hosts_those_are_remembered_that_had_it_last)
{
    struct turns t = {0};

    for (uint32_t host = 1; host <= 3 * TURNS_HOSTS; host++)
        others_turn(&t, host);
    assert_int_equal(t.known, TURNS_HOSTS);
    assert_int_equal(t.had, TURNS_HOSTS);
    our_turn(&t);
    assert_int_equal(step_back(&t), TURNS_HOSTS * STEP);
    others_turn(&t, 1); /* for the oldest, which had none */
    assert_int_equal(t.known, TURNS_HOSTS);
    assert_int_equal(step_back(&t), (TURNS_HOSTS - 1) * STEP);
    for (uint32_t host = 2 * TURNS_HOSTS + 2; host <= 3 * TURNS_HOSTS; host++)
        others_turn(&t, host);
    assert_int_equal(step_back(&t), 0);
}

/* Two hosts know each other, a third one nobody. All see all turns, and whoever steps back least takes
 * the next one; where two are equal, the one that is nearer. */
TEST(hosts_that_see_all_turns_take_them_in_turn)
{
    struct turns t[3] = {{0}};
    int turns_of[3] = {0}, last[3] = {0};

    turns_seen(&t[0], 1, A + 1);
    turns_seen(&t[1], 2, A);
    for (int turn = 1; turn <= 300; turn++) {
        int64_t back[3];
        int next = 0;

        for (int i = 0; i < 3; i++)
            back[i] = turns_step_back(&t[i], 1 + turn / 10, 0).ns;
        for (int i = 1; i < 3; i++)
            if (back[i] < back[next])
                next = i;
        fences++;
        for (int i = 0; i < 3; i++)
            if (i == next)
                turns_ours(&t[i], fences);
            else
                assert_true(turns_seen(&t[i], fences, (uint32_t)(A + next)));
        if (turn > 30)
            assert_int_equal(turn - last[next], 3);
        last[next] = turn;
        turns_of[next]++;
    }
    for (int i = 0; i < 3; i++)
        assert_in_range(turns_of[i], 90, 110);
}

TEST(who_knows_of_nobody_owes_a_gap_in_eight_stretches)
{
    uint64_t us = (uint64_t)(TURNS_LONG_IN * TURNS_GAP_EVERY.ns / HF_NS_PER_US);

    assert_false(turns_owes_gap_alone(0, us, (hf_nodetime){(int64_t)(5 * us)}));
    assert_false(turns_owes_gap_alone(us, us + 1, (hf_nodetime){(int64_t)(2 * us) - 1}));
    assert_true(turns_owes_gap_alone(us, us + 1, (hf_nodetime){(int64_t)(2 * us)}));
    assert_true(turns_owes_gap_alone(us - 1, us, (hf_nodetime){(int64_t)us + 1}));
}

TEST(hosts_are_told_apart_by_name)
{
    assert_true(turns_host("a") != turns_host("b"));
    assert_int_equal(turns_host("host-1"), turns_host("host-1"));
    assert_true(turns_host("") != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_knows_of_nobody_steps_back_for_nobody),
        cmocka_unit_test(a_step_for_each_host_that_had_no_turn_since_ours),
        cmocka_unit_test(one_host_that_had_two_turns_does_not_stand_for_two),
        cmocka_unit_test(a_turn_is_counted_once),
        cmocka_unit_test(who_does_not_come_is_expected_no_more),
        cmocka_unit_test(a_turn_of_nobody_knows_whom_was_of_who_was_next),
        cmocka_unit_test(who_begins_to_wait_goes_at_once_and_keeps_what_it_knows),
        cmocka_unit_test(hosts_nobody_knows_have_one_gap_in_each_stretch),
        cmocka_unit_test(who_was_passed_over_leaves_no_gap),
        cmocka_unit_test(of_many_hosts_those_are_remembered_that_had_it_last),
        cmocka_unit_test(hosts_that_see_all_turns_take_them_in_turn),
        cmocka_unit_test(who_knows_of_nobody_owes_a_gap_in_eight_stretches),
        cmocka_unit_test(hosts_are_told_apart_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
