/* shm/measures.h: buckets, extremes that fall again, and tables with and without the section. */
#include "shm_fixture.h"

#include "shm/compiler.h"
#include "shm/measures.h"

#define MINUTE hf_ms(60000)

static hf_time at_minute(int64_t minute)
{
    return (hf_time){minute * MINUTE.ns + 1};
}

static void a_value_is_in_the_first_bucket_that_bounds_it(void **state)
{
    static const struct {
        int64_t ns;
        unsigned bucket;
    } values[] = {
        {-5, 0},
        {0, 0},
        {1, 0},
        {64000, 0},
        {64001, 1},
        {128000, 1},
        {128001, 2},
        {INT64_C(1024000), 4},
        {1024001, 5},
        {1000000, 4},
        {999, 0},
        {INT64_C(64000) << 26, 26},
        {(INT64_C(64000) << 26) + 1, 27},
        {INT64_MAX, 27},
    };

    (void)state;
    for (size_t i = 0; i < HF_LENGTH(values); i++) {
        unsigned bucket = hf_bucket_of(values[i].ns);

        if (bucket != values[i].bucket)
            fail_msg("%lld ns is in bucket %u", (long long)values[i].ns, bucket);
        assert_true(values[i].ns <= hf_bucket_bound_ns(bucket));
        assert_true(bucket == 0 || values[i].ns > hf_bucket_bound_ns(bucket - 1));
    }
    assert_int_equal(hf_bucket_bound_ns(0), 64000);
    assert_int_equal(hf_bucket_bound_ns(1), 128000);
    assert_true(hf_bucket_bound_ns(HF_BUCKETS - 1) == INT64_MAX);
}

static void a_histogram_counts_each_value_once_and_adds_them_up(void **state)
{
    struct hf_table table = fixture_table(16);
    uint64_t counts[HF_BUCKETS], sum_ns, others = 0;

    (void)state;
    hf_histogram_add(&table, HF_HISTOGRAM_WAIT, 100000);
    hf_histogram_add(&table, HF_HISTOGRAM_WAIT, 110000);
    hf_histogram_add(&table, HF_HISTOGRAM_WAIT, -7);
    hf_histogram_read(&table, HF_HISTOGRAM_WAIT, counts, &sum_ns);
    assert_int_equal(counts[0], 1);
    assert_int_equal(counts[1], 2);
    for (int i = 2; i < HF_BUCKETS; i++)
        others += counts[i];
    assert_int_equal(others, 0);
    assert_int_equal(sum_ns, 210000);
    hf_histogram_read(&table, HF_HISTOGRAM_LAG, counts, &sum_ns);
    assert_int_equal(sum_ns, 0);
    hf_table_close(&table);
}

static void a_maximum_falls_again(void **state)
{
    struct hf_table table = fixture_table(16);

    (void)state;
    assert_int_equal(hf_extreme_read(&table, HF_EXTREME_LAG, at_minute(100)), -1);
    hf_extreme_add(&table, HF_EXTREME_LAG, 500, at_minute(100));
    hf_extreme_add(&table, HF_EXTREME_LAG, 300, at_minute(100));
    assert_int_equal(hf_extreme_read(&table, HF_EXTREME_LAG, at_minute(100)), 500);
    hf_extreme_add(&table, HF_EXTREME_LAG, 200, at_minute(101));
    assert_int_equal(hf_extreme_read(&table, HF_EXTREME_LAG, at_minute(104)), 500);
    assert_int_equal(hf_extreme_read(&table, HF_EXTREME_LAG, at_minute(105)), 200);
    assert_int_equal(hf_extreme_read(&table, HF_EXTREME_LAG, at_minute(106)), -1);
    /* The place of minute 100 is that of minute 108. */
    hf_extreme_add(&table, HF_EXTREME_LAG, 7, at_minute(108));
    assert_int_equal(hf_extreme_read(&table, HF_EXTREME_LAG, at_minute(108)), 7);
    hf_table_close(&table);
}

static void zero_is_a_value_and_the_largest_is_kept(void **state)
{
    struct hf_table table = fixture_table(16);

    (void)state;
    hf_extreme_add_ns(&table, HF_EXTREME_TURN, 0, at_minute(3));
    assert_int_equal(hf_extreme_read(&table, HF_EXTREME_TURN, at_minute(3)), 0);
    hf_extreme_add_ns(&table, HF_EXTREME_TURN, 1, at_minute(3)); /* rounded up */
    assert_int_equal(hf_extreme_read(&table, HF_EXTREME_TURN, at_minute(3)), 1);
    hf_extreme_add(&table, HF_EXTREME_TURN, INT64_MAX, at_minute(3));
    assert_int_equal(hf_extreme_read(&table, HF_EXTREME_TURN, at_minute(3)),
                     (INT64_C(1) << 40) - 2);
    hf_table_close(&table);
}

static void of_margins_the_least_is_kept(void **state)
{
    struct hf_table table = fixture_table(16);

    (void)state;
    hf_extreme_add(&table, HF_EXTREME_MARGIN, 600000, at_minute(50));
    hf_extreme_add(&table, HF_EXTREME_MARGIN, 200000, at_minute(50));
    hf_extreme_add(&table, HF_EXTREME_MARGIN, 700000, at_minute(50));
    hf_extreme_add(&table, HF_EXTREME_MARGIN, 650000, at_minute(52));
    assert_int_equal(hf_extreme_read(&table, HF_EXTREME_MARGIN, at_minute(52)), 200000);
    assert_int_equal(hf_extreme_read(&table, HF_EXTREME_MARGIN, at_minute(55)), 650000);
    hf_extreme_add(&table, HF_EXTREME_MARGIN, -1, at_minute(55));
    assert_int_equal(hf_extreme_read(&table, HF_EXTREME_MARGIN, at_minute(55)), 0);
    hf_table_close(&table);
}

static void failures_are_counted_by_their_reason(void **state)
{
    static const struct {
        int status;
        const char *word;
    } rows[] = {
        {HF_EBUSY, "busy"},         {HF_ETIMEDOUT, "timeout"}, {HF_ENOQUORUM, "quorum"},
        {HF_EDRAINED, "drained"},   {HF_EFULL, "limit"},       {HF_EFLEET, "fleet"},
        {HF_ECANCELED, "canceled"}, {HF_EINVAL, "other"},
    };
    struct hf_table table = fixture_table(16);

    (void)state;
    for (size_t i = 0; i < HF_LENGTH(rows); i++) {
        hf_failure_add(&table, rows[i].status);
        assert_string_equal(hf_failure_word((enum hf_acquire_failure)i), rows[i].word);
        assert_int_equal(hf_failure_read(&table, (enum hf_acquire_failure)i), 1);
    }
    hf_failure_add(&table, HF_ELIMIT);
    assert_int_equal(hf_failure_read(&table, HF_FAILED_LIMIT), 2);
    hf_table_close(&table);
}

static void they_begin_anew_with_a_start(void **state)
{
    struct hf_table_spec spec = fixture_spec(16);
    char name[HF_TABLE_NAME_MAX], why[WHY_SIZE] = "";
    uint64_t counts[HF_BUCKETS], sum_ns;
    struct hf_table table;
    bool warm;

    (void)state;
    fixture_name(name);
    assert_int_equal(hf_table_create(name, &spec, &table, &warm, why, sizeof(why)), 0);
    hf_table_set_state(&table, HF_TABLE_ALIVE);
    hf_histogram_add(&table, HF_HISTOGRAM_ACQUIRE, 5);
    hf_extreme_add(&table, HF_EXTREME_WAIT, 5, at_minute(1));
    hf_gauge_set(&table, (enum hf_gauge_of)(HF_GAUGES - 1), 5);
    hf_failure_add(&table, HF_EBUSY);
    hf_table_close(&table);
    spec.slots_live = 1;
    assert_int_equal(hf_table_create(name, &spec, &table, &warm, why, sizeof(why)), 0);
    shm_unlink(name);
    assert_true(warm);
    hf_histogram_read(&table, HF_HISTOGRAM_ACQUIRE, counts, &sum_ns);
    assert_int_equal(counts[0], 0);
    assert_int_equal(sum_ns, 0);
    assert_int_equal(hf_extreme_read(&table, HF_EXTREME_WAIT, at_minute(1)), -1);
    assert_int_equal(hf_gauge_read(&table, (enum hf_gauge_of)(HF_GAUGES - 1)), 0);
    assert_int_equal(hf_failure_read(&table, HF_FAILED_BUSY), 0);
    hf_table_close(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_is_in_the_first_bucket_that_bounds_it),
        cmocka_unit_test(a_histogram_counts_each_value_once_and_adds_them_up),
        cmocka_unit_test(a_maximum_falls_again),
        cmocka_unit_test(zero_is_a_value_and_the_largest_is_kept),
        cmocka_unit_test(of_margins_the_least_is_kept),
        cmocka_unit_test(failures_are_counted_by_their_reason),
        cmocka_unit_test(they_begin_anew_with_a_start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
