/* agent/core/phases.h: how many renew scripts may be on their way to a node. */
#include "core_fixture.h"

#include "agent/core/phases.h"

#define SLACK hf_ms(1000) /* of a TTL of 30 s */

static struct pace pace;

static int set_up(void **state)
{
    (void)state;
    memset(&pace, 0, sizeof(pace));
    return 0;
}

/* As many as leave that are so much behind their time. */
static int send_all(hf_dur late)
{
    int sent = 0;

    while (hf_time_reached(at(0), pace_next(&pace, hf_time_sub(at(0), late), SLACK))) {
        pace_sent(&pace);
        sent++;
    }
    return sent;
}

static void answer(int count, hf_dur late)
{
    for (int i = 0; i < count; i++)
        pace_ended(&pace, true, late, SLACK);
}

TEST(the_slack_is_a_thirtieth_of_the_ttl)
{
    struct timing timing = timing_of_ms(30000);

    assert_int_equal(pace_slack(&timing).ns, SLACK.ns);
}

TEST(one_leaves_at_its_time)
{
    assert_time(pace_next(&pace, at(5), SLACK), at(5));
    assert_time(pace_next(&pace, HF_TIME_NEVER, SLACK), HF_TIME_NEVER);
    assert_int_equal(send_all(hf_ns(0)), 1);
    assert_time(pace_next(&pace, at(5), SLACK), hf_time_add(at(5), PACE_STAGGER));
    answer(1, hf_ns(0));
    assert_time(pace_next(&pace, at(5), SLACK), at(5));
}

TEST(a_few_follow_it_one_after_the_other)
{
    assert_int_equal(send_all(hf_ms(4)), 1);
    assert_int_equal(send_all(hf_ms(5)), 1);
    assert_int_equal(send_all(hf_ms(14)), 1);
    assert_int_equal(send_all(hf_ms(999)), PACE_FEW - 3);
    assert_time(pace_next(&pace, at(5), SLACK), HF_TIME_NEVER);
    answer(1, hf_ms(15));
    assert_int_equal(send_all(hf_ms(999)), 1);
}

/* Twice as many with each round trip, for nothing else is known to help. */
TEST(late_ones_that_are_answered_bring_more)
{
    static const int rounds[] = {4, 8, 16, 32, 32};

    for (size_t i = 0; i < HF_LENGTH(rounds); i++) {
        assert_int_equal(send_all(hf_ms(2000)), rounds[i]);
        answer(rounds[i], hf_ms(2000));
    }
}

TEST(more_are_for_the_late_alone)
{
    send_all(hf_ms(2000));
    answer(PACE_FEW, hf_ms(2000));
    assert_int_equal(send_all(hf_ms(999)), PACE_FEW);
    assert_time(pace_next(&pace, at(5), SLACK), hf_time_add(at(5), SLACK));
    assert_int_equal(send_all(hf_ms(1000)), 4);
}

TEST(they_go_again_once_nothing_is_late)
{
    send_all(hf_ms(2000));
    answer(PACE_FEW, hf_ms(2000));
    send_all(hf_ms(2000));
    answer(5, hf_ms(1000)); /* of eight */
    assert_int_equal(pace.more, 0);
    answer(3, hf_ns(0));
    assert_int_equal(pace.more, 0);
    assert_int_equal(send_all(hf_ms(2000)), PACE_FEW);
}

/* (!) What waits at a node that is stopped would all be run when it goes on, by all hosts at once. */
TEST(a_silent_node_gets_no_more)
{
    send_all(hf_ms(2000));
    answer(PACE_FEW, hf_ms(2000));
    assert_int_equal(send_all(hf_ms(2000)), 8);
    pace_ended(&pace, false, hf_ms(2000), SLACK);
    assert_time(pace_next(&pace, at(-2000 * MS), SLACK), HF_TIME_NEVER);
    for (int i = 0; i < 7; i++)
        pace_ended(&pace, false, hf_ms(2000), SLACK);
    assert_int_equal(send_all(hf_ms(2000)), PACE_FEW);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_slack_is_a_thirtieth_of_the_ttl, set_up),
        cmocka_unit_test_setup(one_leaves_at_its_time, set_up),
        cmocka_unit_test_setup(a_few_follow_it_one_after_the_other, set_up),
        cmocka_unit_test_setup(late_ones_that_are_answered_bring_more, set_up),
        cmocka_unit_test_setup(more_are_for_the_late_alone, set_up),
        cmocka_unit_test_setup(they_go_again_once_nothing_is_late, set_up),
        cmocka_unit_test_setup(a_silent_node_gets_no_more, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
