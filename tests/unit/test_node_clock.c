/* agent/core/node_trust.h: the clock of a node as an interval, its steps, and the median of the
 * nodes. */
#include "trust_fixture.h"

/* Known at 0 as [OFFSET, OFFSET + 1]; 10 s later widened by 0.1 s to both sides. */
#define DRIFT_US INT64_C(100000)

TEST(a_sample_that_touches_the_known_interval_is_no_step)
{
    struct node_trust t = trusted();

    assert_int_equal(sample(&t, DRIFT_US + 1, at(10 * SEC)), TRUST_NOTHING);
    assert_int_equal(t.low_us, OFFSET_US + DRIFT_US + 1);
    assert_int_equal(t.high_us, t.low_us);

    t = trusted();
    assert_int_equal(sample(&t, -DRIFT_US - 1, at(10 * SEC)), TRUST_NOTHING);
    assert_int_equal(t.low_us, OFFSET_US - DRIFT_US);
    assert_int_equal(t.high_us, t.low_us);
    assert_int_equal(t.steps, 0);
}

TEST(a_sample_apart_from_the_known_interval_is_a_step_in_either_direction)
{
    for (int sign = -1; sign <= 1; sign += 2) {
        struct node_trust t = trusted();
        int64_t off = sign * (DRIFT_US + 2);

        assert_int_equal(sample(&t, off, at(10 * SEC)), TRUST_STEPPED);
        assert_int_equal(t.steps, 1);
        /* it restarts from that sample: the next one like it is no step */
        assert_int_equal(t.low_us, OFFSET_US + off);
        assert_int_equal(t.high_us, OFFSET_US + off + 1);
        assert_int_equal(sample(&t, off, at(11 * SEC)), TRUST_NOTHING);
        assert_quarantine(t, HF_QUARANTINE_CLOCK, at(10 * SEC));
    }
}

TEST(a_step_within_a_slow_answer_is_not_swallowed_by_a_midpoint)
{
    struct node_trust t = trusted();

    /* Sent at 10 s, answered at 14 s: the node's clock was read somewhere in between. */
    assert_int_equal(trust_on_time(&t, node_time(at(14 * SEC)), at(10 * SEC), at(14 * SEC)), 0);
    /* The middle of [-4.15 s, -0.15 s] is far off, yet the end of it fits. */
    t = trusted();
    assert_int_equal(
        trust_on_time(&t, node_time(at(10 * SEC - 100 * MS)), at(10 * SEC), at(14 * SEC)), 0);
    t = trusted();
    assert_int_equal(
        trust_on_time(&t, node_time(at(10 * SEC - 200 * MS)), at(10 * SEC), at(14 * SEC)),
        TRUST_STEPPED);
}

TEST(samples_narrow_the_interval)
{
    struct node_trust t;

    trust_init(&t, hf_ns(QUARANTINE), false);
    trust_on_time(&t, node_time(at(0)), at(-SEC), at(SEC));
    assert_int_equal(t.low_us, OFFSET_US - 1000000);
    assert_int_equal(t.high_us, OFFSET_US + 1000001 + 20000);
    trust_on_time(&t, node_time(at(2 * SEC)), at(2 * SEC - MS), at(2 * SEC + MS));
    assert_int_equal(t.low_us, OFFSET_US - 1000);
    assert_int_equal(t.high_us, OFFSET_US + 1001 + 20);
}

/* The node's clock is 0.9 % fast, and the thread was stopped for 10 s when the answer came: that
 * says how the clocks stood 10 s ago. */
TEST(an_answer_that_lay_unread_makes_no_step_of_the_next_one)
{
    struct node_trust t;
    int64_t fast_us = 90000; /* in 10 s */

    trust_init(&t, hf_ns(QUARANTINE), false);
    trust_on_time(&t, node_time(at(0)), at(0), at(10 * SEC));
    assert_int_equal(trust_on_time(&t, (hf_nodetime){node_time(at(10 * SEC)).us + fast_us},
                                   at(10 * SEC), at(10 * SEC)),
                     TRUST_NOTHING);
    /* A slow one: its lower end has the room. */
    trust_init(&t, hf_ns(QUARANTINE), false);
    trust_on_time(&t, node_time(at(0)), at(0), at(10 * SEC));
    assert_int_equal(trust_on_time(&t, (hf_nodetime){node_time(at(10 * SEC)).us - fast_us},
                                   at(10 * SEC), at(10 * SEC)),
                     TRUST_NOTHING);
}

TEST(part_of_a_microsecond_widens_the_sample)
{
    struct node_trust t;

    trust_init(&t, hf_ns(QUARANTINE), false);
    trust_on_time(&t, node_time(at(0)), at(-1), at(1));
    assert_int_equal(t.low_us, OFFSET_US - 1);
    assert_int_equal(t.high_us, OFFSET_US + 2);
}

TEST(baselines_survive_a_restart_of_the_node)
{
    struct node_trust t = trusted();

    facts(&t, RUN_B, at(10 * SEC));
    assert_int_equal(sample(&t, DRIFT_US + 2, at(10 * SEC)), TRUST_STEPPED);
}

TEST(every_step_begins_a_whole_quarantine)
{
    struct node_trust t = trusted();

    for (int i = 1; i <= 3; i++)
        assert_int_equal(sample(&t, i * INT64_C(5000000), at(i * SEC)), TRUST_STEPPED);
    assert_int_equal(t.steps, 3);
    assert_quarantine(t, HF_QUARANTINE_CLOCK, at(3 * SEC));
}

TEST(node_time_is_known_between_two_ends)
{
    struct node_trust t;
    hf_nodetime low = {7}, high = {7};

    trust_init(&t, hf_ns(QUARANTINE), false);
    assert_false(trust_node_time(&t, at(0), &low, &high));
    assert_int_equal(low.us, 7);
    sample(&t, 0, at(0));
    assert_true(trust_node_time(&t, at(0), &low, &high));
    assert_int_equal(low.us, node_time(at(0)).us);
    assert_int_equal(high.us, node_time(at(0)).us + 1);
    assert_true(trust_node_time(&t, at(10 * SEC), &low, &high));
    assert_int_equal(low.us, node_time(at(10 * SEC)).us - DRIFT_US);
    assert_int_equal(high.us, node_time(at(10 * SEC)).us + 1 + DRIFT_US);
    assert_true(trust_node_time(&t, at(-10 * SEC), &low, &high));
    assert_int_equal(low.us, node_time(at(-10 * SEC)).us - DRIFT_US);
}

TEST(no_time_that_a_node_may_tell_overflows)
{
    const int64_t told[] = {INT64_MAX, INT64_MIN, 0, -1};

    for (size_t i = 0; i < HF_LENGTH(told); i++) {
        struct node_trust t = trusted();
        struct node_sentinel s = sentinel_of(NONCE_A, at(0));
        hf_nodetime low, high;

        assert_int_equal(trust_on_time(&t, (hf_nodetime){told[i]}, at(SEC), at(SEC)),
                         TRUST_STEPPED);
        assert_true(trust_node_time(&t, at(1000000 * SEC), &low, &high));
        s.created.us = told[i];
        s.created_wall.ms = told[i];
        trust_on_sentinel(&t, &s, false, at(SEC));
        t.judged = false;
        judge(&t, at(SEC));
        trust_tick(&t, wall(at(SEC)), at(SEC));
        assert_false(trust_may_vote(&t, at(SEC)));
    }
}

/* Nodes whose clocks are so far off the host's. */
struct clocks {
    struct node_trust t[HF_NODES_MAX];
    const struct node_trust *nodes[HF_NODES_MAX];
    int n;
};

static void clocks_init(struct clocks *c, int n, const int64_t *off_us)
{
    c->n = n;
    for (int i = 0; i < n; i++) {
        trust_init(&c->t[i], hf_ns(QUARANTINE), false);
        if (off_us[i] != INT64_MIN)
            sample(&c->t[i], off_us[i], at(0));
        c->nodes[i] = &c->t[i];
    }
}

static bool median_of(int n, const int64_t *off_us, int64_t *ret_off_us)
{
    struct clocks c;
    int64_t median;

    clocks_init(&c, n, off_us);
    if (!trust_median(c.nodes, n, wall(at(0)), at(0), &median))
        return false;
    *ret_off_us = median - OFFSET_US;
    return true;
}

TEST(the_median_of_an_even_count_is_the_lower)
{
    int64_t m = 0;

    assert_true(median_of(1, (int64_t[]){5}, &m));
    assert_int_equal(m, 5);
    assert_true(median_of(2, (int64_t[]){9, 5}, &m));
    assert_int_equal(m, 5);
    assert_true(median_of(3, (int64_t[]){9, 5, 7}, &m));
    assert_int_equal(m, 7);
    assert_true(median_of(4, (int64_t[]){9, 5, 8, 7}, &m));
    assert_int_equal(m, 7);
}

TEST(the_median_leaves_out_nodes_whose_clock_is_unknown)
{
    int64_t m = 42;

    assert_true(median_of(4, (int64_t[]){INT64_MIN, 5, INT64_MIN, 9}, &m));
    assert_int_equal(m, 5);
    m = 42;
    assert_false(median_of(2, (int64_t[]){INT64_MIN, INT64_MIN}, &m));
    assert_int_equal(m, 42);
}

/* (!) The lower one would be that of a node which is an hour behind. */
TEST(of_two_that_are_far_apart_the_one_near_our_own_clock_is_the_median)
{
    const int64_t hour = INT64_C(3600) * 1000000, minute = INT64_C(60) * 1000000;
    int64_t m = 0;

    assert_true(median_of(2, (int64_t[]){-hour, 5}, &m));
    assert_int_equal(m, 5);
    assert_true(median_of(2, (int64_t[]){5, hour}, &m));
    assert_int_equal(m, 5);
    assert_true(median_of(4, (int64_t[]){9, -hour, -hour - 1, 7}, &m));
    assert_int_equal(m, 7);
    assert_true(median_of(2, (int64_t[]){-minute, 0}, &m));
    assert_int_equal(m, 0);
    assert_true(median_of(2, (int64_t[]){-minute + 1, 0}, &m));
    assert_int_equal(m, -minute + 1);
    /* Our own clock decides between two, and is not one itself. */
    assert_true(median_of(3, (int64_t[]){-hour, -hour, 5}, &m));
    assert_int_equal(m, -hour);
}

TEST(nodes_that_are_near_the_median_agree_and_the_farthest_is_named)
{
    const int64_t far_us = -INT64_C(3600) * 1000000;
    struct clocks c;
    int64_t ahead_us = 0;
    int farthest = -1;

    clocks_init(&c, 4, (int64_t[]){1000, far_us, -1001, INT64_MIN});
    assert_int_equal(trust_near(c.nodes, c.n, OFFSET_US, hf_ms(1), &farthest, &ahead_us), 1 << 0);
    assert_int_equal(farthest, 1);
    assert_int_equal(ahead_us, far_us);
    c.nodes[1] = NULL;
    assert_int_equal(trust_near(c.nodes, c.n, OFFSET_US, hf_ms(2), &farthest, &ahead_us),
                     1 << 0 | 1 << 2);
    assert_int_equal(farthest, 2);
    assert_int_equal(ahead_us, -1001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sample_that_touches_the_known_interval_is_no_step),
        cmocka_unit_test(a_sample_apart_from_the_known_interval_is_a_step_in_either_direction),
        cmocka_unit_test(a_step_within_a_slow_answer_is_not_swallowed_by_a_midpoint),
        cmocka_unit_test(samples_narrow_the_interval),
        cmocka_unit_test(an_answer_that_lay_unread_makes_no_step_of_the_next_one),
        cmocka_unit_test(part_of_a_microsecond_widens_the_sample),
        cmocka_unit_test(baselines_survive_a_restart_of_the_node),
        cmocka_unit_test(every_step_begins_a_whole_quarantine),
        cmocka_unit_test(node_time_is_known_between_two_ends),
        cmocka_unit_test(no_time_that_a_node_may_tell_overflows),
        cmocka_unit_test(the_median_of_an_even_count_is_the_lower),
        cmocka_unit_test(the_median_leaves_out_nodes_whose_clock_is_unknown),
        cmocka_unit_test(of_two_that_are_far_apart_the_one_near_our_own_clock_is_the_median),
        cmocka_unit_test(nodes_that_are_near_the_median_agree_and_the_farthest_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
