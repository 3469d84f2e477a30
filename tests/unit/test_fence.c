/* agent/core/fence.h: what is proposed, what a raise makes of it, and the part that nodes see.
 */
#include "core_fixture.h"

#include "agent/core/fence.h"
#include "agent/core/handoff.h"

#define NOW_MS INT64_C(1800000000000)
#define NOW_US (NOW_MS * 1000)

static const hf_nodetime NOW = {NOW_US};

static hf_wall wall(int64_t ms)
{
    return (hf_wall){ms};
}

static hf_nodetime nodes(int64_t us)
{
    return (hf_nodetime){us};
}

TEST(nodes_see_the_microseconds_only)
{
    uint64_t fence = fence_make((uint64_t)NOW_US, 5);

    assert_int_equal(fence, (uint64_t)NOW_US * 1024 + 5);
    assert_int_equal(fence_node_part(fence), NOW_US);
    assert_int_equal(fence_handoffs(fence), 5);
    assert_int_equal(fence_node_part(fence_make(FENCE_NODE_MAX, FENCE_HANDOFFS_MAX)),
                     FENCE_NODE_MAX);
    assert_true(fence_make(FENCE_NODE_MAX, FENCE_HANDOFFS_MAX) <= INT64_MAX);
    /* Lua compares doubles: also the one above the highest is told from it. */
    assert_true((uint64_t)(double)FENCE_NODE_MAX == FENCE_NODE_MAX);
    assert_true((double)FENCE_NODE_MAX + 1 > (double)FENCE_NODE_MAX);
}

TEST(a_grant_is_above_every_hand_off_of_the_one_before)
{
    assert_true(fence_make(8, 0) > fence_make(7, FENCE_HANDOFFS_MAX));
}

TEST(a_hand_off_counts_below_the_clock)
{
    uint64_t fence = fence_make((uint64_t)NOW_US, 0);

    for (uint32_t i = 1; i <= HANDOFF_IN_A_ROW; i++) {
        fence = fence_handed_over(fence);
        assert_int_equal(fence, fence_make((uint64_t)NOW_US, i));
    }
}

/* The first form was milliseconds << 16. */
TEST(every_fence_is_above_those_of_the_first_form)
{
    const uint64_t year_2255_ms = UINT64_C(9007199254740);

    assert_true(fence_make(fence_propose(0, true, nodes(NOW_US), wall(0)), 0) >
                (year_2255_ms << 16 | UINT16_MAX));
    /* On a node that has one of those. */
    assert_true(fence_propose(0, true, nodes(NOW_US), wall(0)) > year_2255_ms);
    /* An agent that has one in its journal. */
    assert_true(fence_propose(fence_node_part((uint64_t)NOW_MS << 16), true, nodes(NOW_US),
                              wall(0)) == (uint64_t)NOW_US);
}

TEST(the_median_time_of_the_nodes_is_proposed)
{
    assert_int_equal(fence_propose(0, true, NOW, wall(NOW_MS - 5)), NOW_US);
    assert_int_equal(fence_propose(0, true, nodes(NOW_US + 7), wall(NOW_MS)), NOW_US + 7);
}

TEST(our_wall_clock_counts_within_60_s_of_the_median)
{
    assert_int_equal(fence_propose(0, true, NOW, wall(NOW_MS + 1)), NOW_US + 1000);
    assert_int_equal(fence_propose(0, true, NOW, wall(NOW_MS + 60000)), NOW_US + 60000000);
    assert_int_equal(fence_propose(0, true, NOW, wall(NOW_MS + 60001)), NOW_US);
    assert_int_equal(fence_propose(0, true, NOW, wall(NOW_MS - 60001)), NOW_US);
    assert_int_equal(fence_propose(0, true, NOW, wall(INT64_MAX)), NOW_US);
    assert_int_equal(fence_propose(0, true, NOW, wall(INT64_MIN)), NOW_US);
}

/* One host's grant, and after a majority forgot it another host's, a quarantine later. */
TEST(after_amnesia_fences_rise_while_clocks_lead_and_fall_back_by_less_than_the_quarantine)
{
    const int64_t quarantine_us = 62200000;

    for (int64_t lead_ms = -90000; lead_ms <= 90000; lead_ms += 7500) {
        uint64_t before = fence_propose(0, true, NOW, wall(NOW_MS + lead_ms));
        int64_t ahead_us = lead_ms > 0 && lead_ms <= 60000 ? lead_ms * 1000 : 0;

        for (int64_t back_us = 0; back_us <= quarantine_us; back_us += 1100000) {
            uint64_t after = fence_propose(0, true, nodes(NOW_US + quarantine_us - back_us),
                                           wall(NOW_MS - 90000));

            assert_int_equal(after > before, ahead_us + back_us < quarantine_us);
        }
    }
}

TEST(without_any_node_time_the_wall_clock_stands_alone)
{
    assert_int_equal(fence_propose(0, false, nodes(0), wall(NOW_MS)), NOW_US);
    assert_int_equal(fence_propose(0, false, nodes(INT64_MAX), wall(NOW_MS)), NOW_US);
}

TEST(the_own_last_is_exceeded)
{
    assert_int_equal(fence_propose((uint64_t)NOW_US - 1, true, NOW, wall(NOW_MS)), NOW_US);
    assert_int_equal(fence_propose((uint64_t)NOW_US, true, NOW, wall(NOW_MS)), NOW_US + 1);
    assert_int_equal(fence_propose((uint64_t)NOW_US + 999999, true, NOW, wall(NOW_MS)),
                     NOW_US + 1000000);
    assert_int_equal(fence_propose((uint64_t)NOW_US, false, NOW, wall(NOW_MS)), NOW_US + 1);
}

/* A majority may forget all of them: who comes next has the clock alone, and must be above. */
static void grants_stay_behind_the_clock(int a_ms, int64_t wall_ahead_ms)
{
    uint64_t last = 0;

    for (int i = 0; i < 1000 * a_ms; i++) {
        int64_t now_us = NOW_US + (i + 1) * INT64_C(1000) / a_ms;
        uint64_t fence = fence_propose(last, true, nodes(now_us), wall(NOW_MS + wall_ahead_ms));

        assert_true(fence > last);
        last = fence;
    }
    assert_true(last < fence_propose(0, true, nodes(NOW_US + 1001000), wall(NOW_MS + 1001)));
}

TEST(thousands_of_grants_a_second_do_not_run_ahead_of_the_clock)
{
    grants_stay_behind_the_clock(3, 0);
    grants_stay_behind_the_clock(100, 0);
    grants_stay_behind_the_clock(3, 500); /* of a wall clock that is ahead */
}

TEST(a_fence_is_never_zero_nor_above_53_bits)
{
    assert_int_equal(fence_propose(0, false, nodes(0), wall(0)), 1);
    assert_int_equal(fence_propose(0, false, nodes(0), wall(-5)), 1);
    assert_int_equal(fence_propose(0, false, nodes(0), wall(INT64_MIN)), 1);
    assert_int_equal(fence_propose(0, false, nodes(0), wall(INT64_MAX)), FENCE_NODE_MAX);
    assert_int_equal(fence_propose(0, true, nodes(INT64_MAX), wall(0)), FENCE_NODE_MAX);
    assert_int_equal(fence_propose(FENCE_NODE_MAX - 1, true, NOW, wall(NOW_MS)), FENCE_NODE_MAX);
    assert_int_equal(fence_propose(FENCE_NODE_MAX, true, NOW, wall(NOW_MS)), FENCE_NODE_MAX);
    assert_int_equal(fence_propose(UINT64_MAX, true, NOW, wall(NOW_MS)), FENCE_NODE_MAX);
}

TEST(a_raise_goes_one_above_the_highest_seen)
{
    assert_int_equal(fence_raise(10, 10), 11);
    assert_int_equal(fence_raise(10, 50), 51);
    assert_int_equal(fence_raise(10, 9), 10);
    assert_int_equal(fence_raise(10, 3), 10);
}

TEST(a_raise_stays_within_53_bits)
{
    assert_int_equal(fence_raise(10, FENCE_NODE_MAX - 1), FENCE_NODE_MAX);
    assert_int_equal(fence_raise(10, FENCE_NODE_MAX), FENCE_NODE_MAX);
    assert_int_equal(fence_raise(10, UINT64_MAX), FENCE_NODE_MAX);
}

TEST(one_node_is_believed_up_to_a_day_ahead_of_the_median)
{
    const uint64_t day = UINT64_C(86400) * 1000000;

    assert_int_equal(fence_limit(true, NOW, wall(0)), NOW_US + day);
    assert_int_equal(fence_limit(true, NOW, wall(INT64_MAX)), NOW_US + day);
    assert_int_equal(fence_limit(false, NOW, wall(NOW_MS)), NOW_US + day);
    assert_int_equal(fence_limit(true, nodes(INT64_MAX), wall(0)), FENCE_NODE_MAX);
    assert_int_equal(fence_limit(true, nodes(-1), wall(0)), 1 + day);
}

TEST(beyond_it_a_majority_is_believed)
{
    const uint64_t one[] = {90}, two[] = {90, 80}, three[] = {90, 0, 70},
                   five[] = {90, 0, 70, 80, 0};

    assert_int_equal(fence_believed(10, one, NULL, 1, 1), 90);
    assert_int_equal(fence_believed(10, two, NULL, 2, 2), 80);
    assert_int_equal(fence_believed(10, three, NULL, 3, 2), 70);
    assert_int_equal(fence_believed(10, five, NULL, 5, 3), 70);
    assert_int_equal(fence_believed(75, five, NULL, 5, 3), 75);
    assert_int_equal(fence_believed(10, (uint64_t[]){90, 0, 0}, NULL, 3, 2), 10);
    assert_int_equal(fence_believed(10, (uint64_t[]){90, 90, 0, 0, 0}, NULL, 5, 3), 10);
    assert_int_equal(fence_believed(10, (uint64_t[]){90, 90, 0}, NULL, 3, 2), 90);
}

TEST(there_is_a_last_fence)
{
    assert_true(fence_can_rise(FENCE_NODE_MAX - 1));
    assert_false(fence_can_rise(FENCE_NODE_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_see_the_microseconds_only),
        cmocka_unit_test(a_grant_is_above_every_hand_off_of_the_one_before),
        cmocka_unit_test(a_hand_off_counts_below_the_clock),
        cmocka_unit_test(every_fence_is_above_those_of_the_first_form),
        cmocka_unit_test(the_median_time_of_the_nodes_is_proposed),
        cmocka_unit_test(our_wall_clock_counts_within_60_s_of_the_median),
        cmocka_unit_test(
            after_amnesia_fences_rise_while_clocks_lead_and_fall_back_by_less_than_the_quarantine),
        cmocka_unit_test(without_any_node_time_the_wall_clock_stands_alone),
        cmocka_unit_test(the_own_last_is_exceeded),
        cmocka_unit_test(thousands_of_grants_a_second_do_not_run_ahead_of_the_clock),
        cmocka_unit_test(a_fence_is_never_zero_nor_above_53_bits),
        cmocka_unit_test(a_raise_goes_one_above_the_highest_seen),
        cmocka_unit_test(a_raise_stays_within_53_bits),
        cmocka_unit_test(there_is_a_last_fence),
        cmocka_unit_test(beyond_it_a_majority_is_believed),
        cmocka_unit_test(one_node_is_believed_up_to_a_day_ahead_of_the_median),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
