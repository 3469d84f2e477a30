/* agent/core/fence.h: what is proposed, what a raise makes of it, and the 48 bits that nodes see.
 */
#include "core_fixture.h"

#include "agent/core/fence.h"

#define NOW_MS INT64_C(1800000000000)

static const hf_wall NOW = {NOW_MS};

static hf_wall wall(int64_t ms)
{
    return (hf_wall){ms};
}

TEST(nodes_see_the_48_bit_part_only)
{
    uint64_t fence = fence_make((uint64_t)NOW_MS, 5);

    assert_int_equal(fence, ((uint64_t)NOW_MS << 16) + 5);
    assert_int_equal(fence_node_part(fence), NOW_MS);
    assert_int_equal(fence_node_part(fence_make(FENCE_NODE_MAX, UINT16_MAX)), FENCE_NODE_MAX);
    assert_int_equal(fence_make(FENCE_NODE_MAX, UINT16_MAX), UINT64_MAX);
    assert_true(FENCE_NODE_MAX < UINT64_C(1) << 53);
}

TEST(a_grant_is_above_every_hand_off_of_the_one_before)
{
    assert_true(fence_make(8, 0) > fence_make(7, UINT16_MAX));
}

TEST(the_median_time_of_the_nodes_is_proposed)
{
    assert_int_equal(fence_propose(0, true, NOW, wall(NOW_MS - 5)), NOW_MS);
}

TEST(our_wall_clock_counts_within_60_s_of_the_median)
{
    assert_int_equal(fence_propose(0, true, NOW, wall(NOW_MS + 1)), NOW_MS + 1);
    assert_int_equal(fence_propose(0, true, NOW, wall(NOW_MS + 60000)), NOW_MS + 60000);
    assert_int_equal(fence_propose(0, true, NOW, wall(NOW_MS + 60001)), NOW_MS);
    assert_int_equal(fence_propose(0, true, NOW, wall(NOW_MS - 60001)), NOW_MS);
    assert_int_equal(fence_propose(0, true, NOW, wall(INT64_MAX)), NOW_MS);
    assert_int_equal(fence_propose(0, true, NOW, wall(INT64_MIN)), NOW_MS);
}

TEST(without_any_node_time_the_wall_clock_stands_alone)
{
    assert_int_equal(fence_propose(0, false, wall(0), NOW), NOW_MS);
    assert_int_equal(fence_propose(0, false, wall(INT64_MAX), NOW), NOW_MS);
}

TEST(the_own_last_is_exceeded)
{
    assert_int_equal(fence_propose((uint64_t)NOW_MS - 1, true, NOW, NOW), NOW_MS);
    assert_int_equal(fence_propose((uint64_t)NOW_MS, true, NOW, NOW), NOW_MS + 1);
    assert_int_equal(fence_propose((uint64_t)NOW_MS + 999999, true, NOW, NOW), NOW_MS + 1000000);
    assert_int_equal(fence_propose((uint64_t)NOW_MS, false, NOW, NOW), NOW_MS + 1);
}

TEST(a_fence_is_never_zero_nor_above_48_bits)
{
    assert_int_equal(fence_propose(0, false, wall(0), wall(0)), 1);
    assert_int_equal(fence_propose(0, false, wall(0), wall(-5)), 1);
    assert_int_equal(fence_propose(0, true, wall(INT64_MAX), wall(0)), FENCE_NODE_MAX);
    assert_int_equal(fence_propose(FENCE_NODE_MAX - 1, true, NOW, NOW), FENCE_NODE_MAX);
    assert_int_equal(fence_propose(FENCE_NODE_MAX, true, NOW, NOW), FENCE_NODE_MAX);
    assert_int_equal(fence_propose(UINT64_MAX, true, NOW, NOW), FENCE_NODE_MAX);
}

TEST(a_raise_goes_one_above_the_highest_seen)
{
    assert_int_equal(fence_raise(10, 10), 11);
    assert_int_equal(fence_raise(10, 50), 51);
    assert_int_equal(fence_raise(10, 9), 10);
    assert_int_equal(fence_raise(10, 3), 10);
}

TEST(a_raise_stays_within_48_bits)
{
    assert_int_equal(fence_raise(10, FENCE_NODE_MAX - 1), FENCE_NODE_MAX);
    assert_int_equal(fence_raise(10, FENCE_NODE_MAX), FENCE_NODE_MAX);
    assert_int_equal(fence_raise(10, UINT64_MAX), FENCE_NODE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_see_the_48_bit_part_only),
        cmocka_unit_test(a_grant_is_above_every_hand_off_of_the_one_before),
        cmocka_unit_test(the_median_time_of_the_nodes_is_proposed),
        cmocka_unit_test(our_wall_clock_counts_within_60_s_of_the_median),
        cmocka_unit_test(without_any_node_time_the_wall_clock_stands_alone),
        cmocka_unit_test(the_own_last_is_exceeded),
        cmocka_unit_test(a_fence_is_never_zero_nor_above_48_bits),
        cmocka_unit_test(a_raise_goes_one_above_the_highest_seen),
        cmocka_unit_test(a_raise_stays_within_48_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
