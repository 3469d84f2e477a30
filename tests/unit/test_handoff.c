/* agent/core/handoff.h: what may be handed over, and when others get their turn. */
#include "core_fixture.h"

#include "agent/core/handoff.h"

#define TTL (30 * SEC)

/* One that may be. */
static struct handoff_facts facts(void)
{
    return (struct handoff_facts){
        .now = at(100 * SEC),
        .state = HF_SLOT_HELD,
        .renewed = true,
        .valid = at(100 * SEC + 29 * SEC),
        .ttl = hf_ns(TTL),
        .next_ttl = hf_ns(TTL),
        .count = 0,
        .won = at(99 * SEC),
        .turn = hf_ns(TTL / 2),
        .token_end = HF_TIME_NEVER,
        .next_end = HF_TIME_NEVER,
    };
}

TEST(a_fresh_lease_is_handed_over)
{
    struct handoff_facts f = facts();

    assert_int_equal(handoff_judge(&f), HANDOFF_YES);
}

TEST(the_key_has_the_ttl_of_its_grant)
{
    struct handoff_facts f = facts();

    f.next_ttl.ns++;
    assert_int_equal(handoff_judge(&f), HANDOFF_OTHER_TTL);
}

TEST(only_a_lease_that_is_well)
{
    const enum hf_slot_state others[] = {HF_SLOT_FREE, HF_SLOT_LATE, HF_SLOT_LOSING, HF_SLOT_LOST,
                                         HF_SLOT_ENDED};

    for (size_t i = 0; i < HF_LENGTH(others); i++) {
        struct handoff_facts f = facts();

        f.state = others[i];
        assert_int_equal(handoff_judge(&f), HANDOFF_NOT_HELD);
    }
    {
        struct handoff_facts f = facts();

        f.renewed = false;
        assert_int_equal(handoff_judge(&f), HANDOFF_NOT_HELD);
    }
}

TEST(half_the_ttl_must_be_left)
{
    struct handoff_facts f = facts();

    f.valid = hf_time_add(f.now, hf_ns(TTL / 2));
    assert_int_equal(handoff_judge(&f), HANDOFF_YES);
    f.valid.ns--;
    assert_int_equal(handoff_judge(&f), HANDOFF_SHORT);
    f.valid = HF_TIME_PAST;
    assert_int_equal(handoff_judge(&f), HANDOFF_SHORT);
}

TEST(the_token_lives_no_longer_than_it_may)
{
    struct handoff_facts f = facts();

    f.token_end = at(200 * SEC);
    assert_int_equal(handoff_judge(&f), HANDOFF_MAX_HOLD);
    f.next_end = at(200 * SEC);
    assert_int_equal(handoff_judge(&f), HANDOFF_YES);
    f.next_end.ns++;
    assert_int_equal(handoff_judge(&f), HANDOFF_MAX_HOLD);
}

TEST(sixteen_in_a_row_and_then_it_is_enough)
{
    struct handoff_facts f = facts();

    f.count = HANDOFF_IN_A_ROW - 1;
    assert_int_equal(handoff_judge(&f), HANDOFF_YES);
    f.count = HANDOFF_IN_A_ROW;
    assert_int_equal(handoff_judge(&f), HANDOFF_MANY);
    assert_true(handoff_is_enough(HANDOFF_MANY));
    assert_false(handoff_is_enough(HANDOFF_YES));
    assert_false(handoff_is_enough(HANDOFF_SHORT));
}

TEST(half_a_ttl_in_a_row_and_then_it_is_enough)
{
    struct handoff_facts f = facts();

    f.won = hf_time_sub(f.now, hf_ns(TTL / 2));
    assert_int_equal(handoff_judge(&f), HANDOFF_YES);
    f.won.ns--;
    assert_int_equal(handoff_judge(&f), HANDOFF_LONG);
    assert_true(handoff_is_enough(HANDOFF_LONG));
}

TEST(a_turn_is_short_where_others_want_it)
{
    hf_time now = at(100 * SEC);

    assert_int_equal(handoff_turn(hf_ns(TTL), HF_TIME_PAST, now).ns, TTL / 2);
    assert_int_equal(handoff_turn(hf_ns(TTL), at(40 * SEC), now).ns, TTL / 2);
    assert_int_equal(handoff_turn(hf_ns(TTL), at(40 * SEC + 1), now).ns, HANDOFF_TURN.ns);
    assert_int_equal(handoff_turn(hf_ms(100), now, now).ns, 50 * MS);
}

TEST(a_token_is_handed_on_within_its_turn)
{
    struct handoff_facts f = facts();

    f.turn = HANDOFF_TURN;
    f.won = hf_time_sub(f.now, HANDOFF_TURN);
    assert_int_equal(handoff_judge(&f), HANDOFF_YES);
    f.won.ns--;
    assert_int_equal(handoff_judge(&f), HANDOFF_LONG);
}

TEST(who_knows_of_nobody_else_waits_for_nobody)
{
    hf_time now = at(100 * SEC);

    assert_int_equal(handoff_yield(hf_ns(TTL), HF_TIME_PAST, now, UINT32_MAX).ns, 0);
    assert_int_equal(handoff_yield(hf_ns(TTL), at(40 * SEC), now, UINT32_MAX).ns, 0);
}

TEST(who_knows_of_others_steps_back_for_a_short_while)
{
    hf_time now = at(100 * SEC);
    int64_t least = HANDOFF_YIELD_LEAST.ns, most = HANDOFF_YIELD_MOST.ns;

    assert_int_equal(handoff_yield(hf_ns(TTL), at(40 * SEC + 1), now, 0).ns, least);
    for (uint64_t random = 0; random <= UINT32_MAX; random += UINT32_MAX / 16)
        assert_in_range(handoff_yield(hf_ns(TTL), now, now, (uint32_t)random).ns, least, most);
    assert_in_range(handoff_yield(hf_ns(TTL), now, now, UINT32_MAX).ns, most - MS, most);
}

TEST(programs_that_poll_have_one_gap_in_each_stretch)
{
    hf_time now = at(100 * SEC), seen = at(99 * SEC);

    assert_in_range(handoff_gap(hf_ns(TTL), seen, -1, 0, now, 0).ns, HANDOFF_GAP.ns,
                    HANDOFF_GAP.ns);
    assert_in_range(handoff_gap(hf_ns(TTL), seen, 6, 7, now, UINT32_MAX).ns, HANDOFF_GAP.ns,
                    HANDOFF_GAP.ns + HANDOFF_GAP_DRAW.ns);
    assert_int_equal(handoff_gap(hf_ns(TTL), seen, 7, 7, now, UINT32_MAX).ns, 0);
    /* All agents are in the same stretch: it is the nodes' time. */
    assert_int_equal(handoff_gap_stretch((hf_nodetime){INT64_C(320000) * 7}), 7);
    assert_int_equal(handoff_gap_stretch((hf_nodetime){INT64_C(320000) * 8 - 1}), 7);
    assert_true(8 * HANDOFF_GAP.ns <= HANDOFF_GAP_EVERY.ns);
}

TEST(agents_among_themselves_leave_no_gap)
{
    hf_time now = at(100 * SEC);

    assert_int_equal(handoff_gap(hf_ns(TTL), HF_TIME_PAST, 6, 7, now, UINT32_MAX).ns, 0);
    assert_int_equal(handoff_gap(hf_ns(TTL), at(40 * SEC), 6, 7, now, UINT32_MAX).ns, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fresh_lease_is_handed_over),
        cmocka_unit_test(the_key_has_the_ttl_of_its_grant),
        cmocka_unit_test(only_a_lease_that_is_well),
        cmocka_unit_test(half_the_ttl_must_be_left),
        cmocka_unit_test(the_token_lives_no_longer_than_it_may),
        cmocka_unit_test(sixteen_in_a_row_and_then_it_is_enough),
        cmocka_unit_test(half_a_ttl_in_a_row_and_then_it_is_enough),
        cmocka_unit_test(a_turn_is_short_where_others_want_it),
        cmocka_unit_test(a_token_is_handed_on_within_its_turn),
        cmocka_unit_test(who_knows_of_nobody_else_waits_for_nobody),
        cmocka_unit_test(who_knows_of_others_steps_back_for_a_short_while),
        cmocka_unit_test(programs_that_poll_have_one_gap_in_each_stretch),
        cmocka_unit_test(agents_among_themselves_leave_no_gap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
