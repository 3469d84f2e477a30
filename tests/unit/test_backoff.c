/* agent/core/backoff.h: growth, jitter and bounds of delays. */
#include "core_fixture.h"

#include "agent/core/backoff.h"

TEST(delays_double_up_to_the_most)
{
    struct backoff b;
    const int64_t longest_ms[] = {100, 200, 400, 800, 1000, 1000, 1000};

    backoff_init(&b, hf_ms(100), hf_ms(1000));
    for (size_t i = 0; i < HF_LENGTH(longest_ms); i++) {
        struct backoff low = b;
        int64_t most = longest_ms[i] * MS;

        assert_int_equal(backoff_step(&low, 0).ns, most / 2);
        assert_in_range(backoff_step(&b, UINT32_MAX).ns, most - most / 1000, most);
    }
}

TEST(a_reset_begins_again)
{
    struct backoff b;

    backoff_init(&b, hf_ms(100), hf_ms(1000));
    for (int i = 0; i < 10; i++)
        backoff_step(&b, 1);
    backoff_reset(&b);
    assert_int_equal(backoff_step(&b, 0).ns, 50 * MS);
}

TEST(first_may_equal_max)
{
    struct backoff b;

    backoff_init(&b, hf_ns(1), hf_ns(1));
    for (int i = 0; i < 3; i++)
        assert_in_range(backoff_step(&b, UINT32_MAX).ns, 0, 1);
}

TEST(doubling_does_not_overflow)
{
    struct backoff b;

    backoff_init(&b, hf_ns(INT64_MAX / 4), hf_ns(INT64_MAX / 2));
    for (int i = 0; i < 4; i++)
        assert_true(backoff_step(&b, 0).ns > 0);
    assert_int_equal(b.next.ns, INT64_MAX / 2);
}

TEST(contenders_are_spread_over_50_to_250_ms)
{
    assert_int_equal(backoff_contend(-1, 0).ns, 50 * MS);
    assert_in_range(backoff_contend(-1, UINT32_MAX).ns, 250 * MS - 1000, 250 * MS);
    assert_int_equal(backoff_contend(-1, UINT32_C(1) << 31).ns, 150 * MS);
}

TEST(nobody_sleeps_past_the_end_of_the_key)
{
    assert_int_equal(backoff_contend(0, UINT32_MAX).ns, 1 * MS);
    assert_int_equal(backoff_contend(48, 0).ns, 49 * MS);
    assert_int_equal(backoff_contend(49, 0).ns, 50 * MS);
    assert_int_equal(backoff_contend(50, 0).ns, 50 * MS);
    assert_int_equal(backoff_contend(99, UINT32_MAX).ns, 100 * MS);
    assert_in_range(backoff_contend(249, UINT32_MAX).ns, 250 * MS - 1000, 250 * MS);
    assert_in_range(backoff_contend(INT64_MAX, UINT32_MAX).ns, 250 * MS - 1000, 250 * MS);
}

TEST(a_key_without_expiry_is_polled_at_the_usual_pace)
{
    assert_int_equal(backoff_contend(INT64_MIN, 0).ns, 50 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delays_double_up_to_the_most),
        cmocka_unit_test(a_reset_begins_again),
        cmocka_unit_test(first_may_equal_max),
        cmocka_unit_test(doubling_does_not_overflow),
        cmocka_unit_test(contenders_are_spread_over_50_to_250_ms),
        cmocka_unit_test(nobody_sleeps_past_the_end_of_the_key),
        cmocka_unit_test(a_key_without_expiry_is_polled_at_the_usual_pace),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
