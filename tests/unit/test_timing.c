/* agent/core/timing.h: every derived time, and the combinations that are refused. */
#include "core_fixture.h"

#include "agent/core/backoff.h"

#define DAY_MS INT64_C(86400000)

static int derive(int64_t ttl_ns, int64_t ttl_max_ns, char why[256])
{
    struct timing timing;

    why[0] = '\0';
    return timing_derive(hf_ns(ttl_ns), hf_ns(ttl_max_ns), &timing, why, 256);
}

TEST(the_default_gives_the_worked_timeline)
{
    struct timing t = timing_of_ms(30000);

    assert_int_equal(t.ttl.ns, 30 * SEC);
    assert_int_equal(t.span.ns, 29698 * MS);
    assert_int_equal(t.renew_after.ns, 10 * SEC);
    assert_int_equal(t.renew_jitter.ns, SEC);
    assert_int_equal(t.attempt.ns, 2 * SEC);
    assert_int_equal(t.retry_first.ns, 500 * MS);
    assert_int_equal(t.retry_max.ns, 3 * SEC);
    assert_int_equal(t.late_before.ns, 15 * SEC);
    assert_int_equal(t.losing_before.ns, 9 * SEC);
    assert_int_equal(t.kill_before.ns, 3 * SEC);
    assert_int_equal(t.grant_least.ns, 15 * SEC);
    assert_int_equal(t.round_most.ns, 4 * SEC);
}

TEST(an_attempt_is_never_given_less_than_50_ms)
{
    assert_int_equal(timing_of_ms(500).attempt.ns, 50 * MS);
    assert_int_equal(timing_of_ms(749).attempt.ns, 50 * MS);
    assert_int_equal(timing_of_ms(750).attempt.ns, 50 * MS);
    assert_int_equal(timing_of_ms(765).attempt.ns, 51 * MS);
}

TEST(the_least_ttl_leaves_50_ms_between_kill_and_the_end)
{
    char why[256];

    assert_int_equal(timing_ttl_min().ns, 500 * MS);
    assert_int_equal(derive(500 * MS, 500 * MS, why), HF_OK);
    assert_int_equal(derive(499 * MS, 500 * MS, why), HF_ETTL);
    assert_string_equal(why,
                        "use a TTL of at least 500 ms, not 499 ms: it leaves 49.9 ms from SIGKILL "
                        "to the end of the validity, too few (0.1 T >= 50 ms)");
}

TEST(two_attempts_to_renew_must_fit_before_losing)
{
    char why[256];

    /* 1.1 T/3 + 100 ms < 0.69 T - 2 ms from T = 315.5 ms on; above that the other rule refuses. */
    assert_int_equal(derive(315 * MS, 60 * SEC, why), HF_ETTL);
    assert_string_equal(
        why, "use a TTL of at least 500 ms, not 315 ms: two attempts to renew need 215.5 ms and "
             "would have 215.3 ms (1.1 T/3 + 2 max(T/15, 50 ms) < 0.99 T - 2 ms - 0.3 T)");
    assert_int_equal(derive(316 * MS, 60 * SEC, why), HF_ETTL);
    assert_non_null(strstr(why, "0.1 T >= 50 ms"));
}

TEST(every_accepted_ttl_keeps_the_inequalities)
{
    for (int64_t ms = 500; ms <= DAY_MS; ms += 1 + ms / 7) {
        struct timing t;
        char why[256];

        assert_int_equal(timing_derive(hf_ms(ms), hf_ms(DAY_MS), &t, why, sizeof(why)), HF_OK);
        assert_true(t.renew_after.ns + t.renew_jitter.ns + 2 * t.attempt.ns <
                    t.span.ns - t.losing_before.ns);
        assert_true(t.kill_before.ns >= 50 * MS);
        assert_true(t.late_before.ns > t.losing_before.ns && t.losing_before.ns > t.kill_before.ns);
        /* the drift allowance: a vote ends 1 % and 2 ms before the key, at the latest */
        assert_true((t.ttl.ns - t.span.ns) * 100 >= t.ttl.ns + 200 * MS);
    }
}

TEST(no_ttl_below_or_at_zero)
{
    char why[256];

    assert_int_equal(derive(0, 60 * SEC, why), HF_ETTL);
    assert_non_null(strstr(why, "above 0"));
    assert_int_equal(derive(-1, 60 * SEC, why), HF_ETTL);
    assert_int_equal(derive(INT64_MIN, 60 * SEC, why), HF_ETTL);
}

TEST(a_ttl_is_whole_milliseconds_as_the_nodes_count)
{
    char why[256];

    assert_int_equal(derive(500 * MS + 1, 60 * SEC, why), HF_ETTL);
    assert_non_null(strstr(why, "use whole milliseconds"));
}

TEST(no_ttl_above_ttl_max_and_no_ttl_max_above_a_day)
{
    char why[256];

    assert_int_equal(derive(60 * SEC, 60 * SEC, why), HF_OK);
    assert_int_equal(derive(60 * SEC + MS, 60 * SEC, why), HF_ETTL);
    assert_non_null(
        strstr(why, "use a TTL of at most 60000 ms, the fleet's ttl_max, not 60001 ms"));
    assert_int_equal(derive(DAY_MS * MS, DAY_MS * MS, why), HF_OK);
    assert_int_equal(derive(30 * SEC, (DAY_MS + 1) * MS, why), HF_ETTL);
    assert_non_null(strstr(why, "use a ttl_max of at most 86400000 ms (24 h)"));
    assert_int_equal(derive(30 * SEC, INT64_MAX, why), HF_ETTL);
    assert_int_equal(derive(30 * SEC, 0, why), HF_ETTL);
}

TEST(a_refusal_leaves_the_result_alone)
{
    struct timing t = {.ttl = {42}};
    char why[8];

    assert_int_equal(timing_derive(hf_ms(1), hf_ms(60000), &t, why, sizeof(why)), HF_ETTL);
    assert_int_equal(t.ttl.ns, 42);
    assert_int_equal(strlen(why), sizeof(why) - 1);
}

TEST(the_quarantine_outlasts_the_longest_lease_by_2_percent_and_1_s)
{
    assert_int_equal(timing_quarantine(hf_ms(60000)).ns, 62200 * MS);
    assert_int_equal(timing_quarantine(hf_ms(1)).ns, 1001020000);
    assert_int_equal(timing_quarantine(hf_ms(DAY_MS)).ns, DAY_MS * MS / 100 * 102 + SEC);
}

TEST(a_round_lasts_for_two_attempts_and_200_ms_at_least)
{
    assert_int_equal(timing_of_ms(500).round_most.ns, 200 * MS);
    assert_int_equal(timing_of_ms(1500).round_most.ns, 200 * MS);
    assert_int_equal(timing_of_ms(60000).round_most.ns, 8 * SEC);
}

TEST(whoever_is_of_age_outlasts_any_round_by_clocks_that_are_1_percent_apart)
{
    assert_int_equal(timing_age(hf_ms(60000)).ns, 8360 * MS);
    for (int64_t ms = 500; ms <= DAY_MS; ms += 1 + ms / 7) {
        struct timing t;
        char why[256];

        assert_int_equal(timing_derive(hf_ms(ms), hf_ms(ms), &t, why, sizeof(why)), HF_OK);
        assert_true(t.round_most.ns / 100 * 101 < timing_age(hf_ms(ms)).ns);
    }
}

TEST(the_default_ttl_outlasts_nodes_that_restart_one_by_one)
{
    assert_in_range(timing_rolling(hf_ms(60000)).ns, 13370 * MS, 13372 * MS);
    for (int64_t ms = 500; ms <= DAY_MS; ms += 1 + ms / 7) {
        struct timing t = timing_of(timing_rolling(hf_ms(ms)));

        /* away, of age, and some moments for agents to be back, before the one after is losing */
        assert_true(SEC + timing_age(hf_ms(ms)).ns + t.ttl.ns / 10 <
                    t.ttl.ns / 2 + t.span.ns - t.losing_before.ns - t.renew_after.ns -
                        t.renew_jitter.ns);
    }
}

TEST(silence_is_a_third_of_the_ttl)
{
    assert_int_equal(timing_silence(hf_ms(30000)).ns, 10 * SEC);
}

TEST(a_draw_stays_within_its_span)
{
    assert_int_equal(draw_within(hf_ns(0), 0).ns, 0);
    assert_int_equal(draw_within(hf_ns(0), UINT32_MAX).ns, 0);
    assert_int_equal(draw_within(hf_ns(1), UINT32_MAX).ns, 1);
    assert_int_equal(draw_within(hf_ns(1), 0).ns, 0);
    assert_in_range(draw_within(hf_ms(DAY_MS), UINT32_MAX).ns, DAY_MS * MS - DAY_MS, DAY_MS * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_gives_the_worked_timeline),
        cmocka_unit_test(an_attempt_is_never_given_less_than_50_ms),
        cmocka_unit_test(the_least_ttl_leaves_50_ms_between_kill_and_the_end),
        cmocka_unit_test(two_attempts_to_renew_must_fit_before_losing),
        cmocka_unit_test(every_accepted_ttl_keeps_the_inequalities),
        cmocka_unit_test(no_ttl_below_or_at_zero),
        cmocka_unit_test(a_ttl_is_whole_milliseconds_as_the_nodes_count),
        cmocka_unit_test(no_ttl_above_ttl_max_and_no_ttl_max_above_a_day),
        cmocka_unit_test(a_refusal_leaves_the_result_alone),
        cmocka_unit_test(the_quarantine_outlasts_the_longest_lease_by_2_percent_and_1_s),
        cmocka_unit_test(a_round_lasts_for_two_attempts_and_200_ms_at_least),
        cmocka_unit_test(whoever_is_of_age_outlasts_any_round_by_clocks_that_are_1_percent_apart),
        cmocka_unit_test(the_default_ttl_outlasts_nodes_that_restart_one_by_one),
        cmocka_unit_test(silence_is_a_third_of_the_ttl),
        cmocka_unit_test(a_draw_stays_within_its_span),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
