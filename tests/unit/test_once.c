/* Whether a job that is to run once in a period has run: what the nodes say, and what that comes to. */
#include "tests/unit/core_fixture.h"

#include "agent/core/once.h"

#define HOUR_US   INT64_C(3600000000)
#define MINUTE_US INT64_C(60000000)
#define NOW_US    (INT64_C(1700000000) * 1000000)

static const struct once_record never = {0}, earlier = {.fence = 7, .turn = 1, .at_us = 100},
                                later = {.fence = 8, .turn = 1, .at_us = 50};

static const hf_dur hour = {INT64_C(3600) * HF_NS_PER_SEC};

static struct once three_nodes(void)
{
    struct once once;

    once_begin(&once, 3, 2, NOW_US);
    return once;
}

static struct once_record standing(const struct once *once)
{
    return once_record_of(once, once_standing(once, NOW_US, hour));
}

static void every_node_is_waited_for(void **state)
{
    struct once once = three_nodes();

    (void)state;
    once_said(&once, 0, true, true, &never);
    once_said(&once, 1, true, true, &never);
    /* (!) The third may be the only one that remembers. */
    assert_int_equal(once_decide(&once), ONCE_OPEN);
    once_silent(&once, 2);
    assert_int_equal(once_decide(&once), ONCE_ENOUGH);
}

static void who_came_back_in_the_period_proves_nothing_unless_all_answer(void **state)
{
    struct once once = three_nodes();

    (void)state;
    once_said(&once, 0, true, false, &never); /* it restarted, and votes again */
    once_said(&once, 1, true, true, &never);
    once_silent(&once, 2);
    assert_int_equal(once_decide(&once), ONCE_ENOUGH);
    assert_false(once_proves_none(&once));
    once_said(&once, 2, true, false, &never);
    assert_true(once_proves_none(&once));
    /* Two that remember are a majority, whoever is away. */
    once = three_nodes();
    once_said(&once, 0, true, true, &never);
    once_said(&once, 1, true, true, &never);
    once_silent(&once, 2);
    assert_true(once_proves_none(&once));
    twins_pair(&once.twins, 0, 1);
    assert_false(once_proves_none(&once));
    /* Of them who may not vote does not count, nor what lies too far ahead. */
    once = three_nodes();
    once_said(&once, 0, false, true, &never);
    once_said(&once, 1, true, true, &never);
    once_silent(&once, 2);
    assert_false(once_proves_none(&once));
    once = three_nodes();
    once_said(&once, 0, true, false, &never);
    once_said(&once, 1, true, false, &never);
    once_said(&once, 2, true, true,
              &(struct once_record){.fence = 8, .at_us = NOW_US + 2 * HOUR_US});
    assert_false(once_proves_none(&once));
}

static void a_start_counts_for_longer_than_its_period_since_it_was_written(void **state)
{
    (void)state;
    assert_int_equal(once_memory(hour).ns, hour.ns + ONCE_ALLOWANCE_MOST_MS * MS);
    assert_int_equal(once_memory(hf_ns(2 * SEC)).ns, 3 * SEC);
    assert_true(once_allowance(hour, hour).ns <= once_memory(hour).ns - hour.ns);
}

static void a_node_that_may_not_vote_tells_and_does_not_count(void **state)
{
    struct once once = three_nodes();

    (void)state;
    once_said(&once, 0, true, true, &never);
    once_said(&once, 1, false, true, &later);
    once_silent(&once, 2);
    assert_int_equal(once_decide(&once), ONCE_FEW);
    assert_int_equal(standing(&once).at_us, later.at_us);
}

static void a_start_counts_unless_a_majority_has_a_later_record(void **state)
{
    struct once once = three_nodes();
    struct once_record back = {.fence = 8, .turn = 2, .at_us = 10}, none = {.fence = 9};

    (void)state;
    once_said(&once, 0, true, true, &later);
    once_said(&once, 1, true, true, &never);
    once_said(&once, 2, true, true, &back);
    /* (!) One node may have made up that it was taken back, or that a later asker ran nothing. */
    assert_int_equal(standing(&once).at_us, later.at_us);
    once_said(&once, 2, true, true, &none);
    assert_int_equal(standing(&once).at_us, later.at_us);
    once_said(&once, 1, true, true, &back);
    assert_int_equal(standing(&once).at_us, back.at_us);
    once_said(&once, 1, true, true, &none);
    assert_int_equal(once_standing(&once, NOW_US, hour), -1);
    twins_pair(&once.twins, 1, 2); /* one server is no majority */
    assert_int_equal(standing(&once).at_us, later.at_us);
    once.twins = (struct twins){0};
    /* One of this period, and not the latest: clocks were set back. */
    once_said(&once, 0, true, true, &(struct once_record){.fence = 7, .at_us = NOW_US});
    once_said(&once, 1, true, true,
              &(struct once_record){.fence = 8, .at_us = NOW_US + 2 * HOUR_US});
    once_said(&once, 2, true, true,
              &(struct once_record){.fence = 8, .at_us = NOW_US + 2 * HOUR_US});
    assert_int_equal(standing(&once).at_us, NOW_US + 2 * HOUR_US);
    once_said(&once, 2, true, true, &never);
    once_said(&once, 1, true, true, &(struct once_record){.fence = 8, .at_us = 1});
    assert_int_equal(standing(&once).at_us, NOW_US);
}

static void who_has_another_start_is_told(void **state)
{
    struct once once = three_nodes();

    (void)state;
    for (int i = 0; i < 3; i++)
        once_said(&once, i, true, true, &later);
    assert_false(once_differs(&once, &later));
    once_said(&once, 1, false, true, &never); /* in quarantine: it will vote */
    assert_true(once_differs(&once, &later));
    once_said(&once, 1, true, true, &(struct once_record){.fence = 9});
    assert_true(once_differs(&once, &later));
}

static void a_start_far_ahead_is_doubted_unless_a_majority_shows_it(void **state)
{
    struct once once = three_nodes();
    struct once_record ahead = {.fence = 8, .at_us = NOW_US + MINUTE_US + 1},
                       near = {.fence = 8, .at_us = NOW_US + MINUTE_US};

    (void)state;
    once_said(&once, 0, true, true, &earlier);
    once_said(&once, 1, true, true, &never);
    once_said(&once, 2, true, true, &near);
    assert_int_equal(standing(&once).at_us, near.at_us);
    once_said(&once, 2, true, true, &ahead);
    assert_true(once_doubts(&once, 2));
    assert_int_equal(standing(&once).at_us, earlier.at_us);
    assert_true(once_differs(&once, &earlier));
    assert_int_equal(once_decide(&once), ONCE_ENOUGH);
    /* (!) It has no vote: else a start that is on it and on the silent one is in no majority. */
    once_begin(&once, 3, 2, NOW_US);
    once_said(&once, 0, true, true, &never);
    once_silent(&once, 1);
    once_said(&once, 2, true, true, &ahead);
    assert_int_equal(once_decide(&once), ONCE_FEW);
    once_said(&once, 1, true, true, &ahead);
    assert_false(once_doubts(&once, 2));
    assert_int_equal(standing(&once).at_us, ahead.at_us);
}

static void an_asker_far_ahead_is_doubted_unless_a_majority_shows_it(void **state)
{
    struct once once = three_nodes();
    const uint64_t far = (uint64_t)(NOW_US + MINUTE_US + 1);

    (void)state;
    once_refused(&once, 2, far);
    assert_int_equal(once_decide(&once), ONCE_OPEN);
    once_said(&once, 0, true, true, &never);
    once_said(&once, 1, true, true, &(struct once_record){.seen = 7, .seen_turn = 1});
    assert_true(once_doubts(&once, 2));
    assert_int_equal(once_decide(&once), ONCE_ENOUGH);
    once_said(&once, 2, true, true, &(struct once_record){.seen = far, .seen_turn = 9});
    assert_int_equal(once_seen(&once).seen, 7);
    once_refused(&once, 2, far - 1);
    assert_int_equal(once_decide(&once), ONCE_LATE);
    once_refused(&once, 2, far);
    once_refused(&once, 1, far);
    assert_int_equal(once_decide(&once), ONCE_LATE);
    once_silent(&once, 1);
    once_begin(&once, 3, 2, NOW_US);
    once_said(&once, 0, true, true, &never);
    once_silent(&once, 1);
    once_refused(&once, 2, far);
    assert_int_equal(once_decide(&once), ONCE_FEW);
}

static void one_refusal_is_enough(void **state)
{
    struct once once = three_nodes();

    (void)state;
    once_said(&once, 0, true, true, &never);
    once_said(&once, 1, true, true, &never);
    once_refused(&once, 2, 9);
    assert_int_equal(once_decide(&once), ONCE_LATE);
}

/* (!) A node that answers late holds no start back; and a later asker finds the record on one of those that took it. */
static void a_write_is_over_once_a_majority_took_it(void **state)
{
    struct once once = three_nodes();

    (void)state;
    once_said(&once, 0, true, true, &never);
    assert_int_equal(once_taken(&once), ONCE_OPEN);
    once_said(&once, 1, false, true, &never);
    assert_int_equal(once_taken(&once), ONCE_OPEN);
    once_said(&once, 1, true, true, &never);
    assert_int_equal(once_taken(&once), ONCE_ENOUGH);
    once_refused(&once, 2, 9);
    assert_int_equal(once_taken(&once), ONCE_ENOUGH);
    once_refused(&once, 1, 9);
    assert_int_equal(once_taken(&once), ONCE_LATE);
    once = three_nodes();
    twins_pair(&once.twins, 0, 1);
    once_said(&once, 0, true, true, &never);
    once_said(&once, 1, true, true, &never);
    assert_int_equal(once_taken(&once), ONCE_OPEN);
    once_silent(&once, 2);
    assert_int_equal(once_taken(&once), ONCE_FEW);
}

/* The time in a record is ahead of its write, so that the job starts before it; half of that is the client's. */
static void a_start_is_in_time_or_asked_again(void **state)
{
    hf_dur none = hf_ms(0), ten = hf_ms(10000);
    hf_time until = hf_time_add((hf_time){0}, hour);

    (void)state;
    assert_int_equal(once_allowance(ten, none).ns, hf_ms(500).ns);
    assert_int_equal(once_allowance(hf_ms(1000), none).ns, hf_ms(50).ns);
    assert_int_equal(once_allowance(hour, none).ns, hf_ms(1000).ns);
    assert_int_equal(once_allowance(ten, hf_ms(50)).ns, hf_ms(500).ns);
    /* Half of it covers a write that takes as long again. */
    assert_int_equal(once_allowance(ten, hf_ms(300)).ns, hf_ms(900).ns);
    assert_int_equal(once_allowance(hour, hf_ms(9000)).ns, hf_ms(ONCE_ALLOWANCE_MOST_MS).ns);
    assert_int_equal(once_allowance(hf_ms(1000), hf_ms(9000)).ns, hf_ms(500).ns);
    assert_int_equal(once_allowance(hf_ms(10), none).ns, hf_ms(5).ns);
    assert_true(once_is_in_time(until, hf_time_sub(until, hf_ms(100)), hf_ms(200)));
    assert_false(once_is_in_time(until, hf_time_sub(until, hf_ns(hf_ms(100).ns - 1)), hf_ms(200)));
    assert_false(once_is_in_time(until, until, hf_ms(200)));
    /* (!) Such a time counts for whoever asks with a shorter period, too. */
    assert_true(once_is_done(NOW_US + INT64_C(1000) * ONCE_ALLOWANCE_MOST_MS, NOW_US, hf_ms(1)));
    assert_false(
        once_is_done(NOW_US + INT64_C(1000) * ONCE_ALLOWANCE_MOST_MS + 1, NOW_US, hf_ms(1)));
}

static void clocks_agree_to_a_twentieth_of_the_period(void **state)
{
    (void)state;
    assert_int_equal(once_clocks_apart(hf_ms(100000)).ns, hf_ms(5000).ns);
    assert_int_equal(once_clocks_apart(hf_ms(3000)).ns, hf_ms(1000).ns);
    assert_int_equal(once_clocks_apart(hour).ns, hf_ms(60000).ns);
}

static void late_words_change_nothing(void **state)
{
    struct once once = three_nodes();

    (void)state;
    for (int i = 0; i < 3; i++)
        once_said(&once, i, true, true, &never);
    once_silent(&once, 1);
    assert_int_equal(once_decide(&once), ONCE_ENOUGH);
}

/* A daily job that starts two seconds earlier than yesterday runs, and on the day of 23 hours, too. */
static void nine_tenths_of_the_period(void **state)
{
    hf_dur day = hf_ms(INT64_C(24) * 3600 * 1000);

    (void)state;
    assert_false(once_is_done(0, NOW_US, day));
    assert_true(once_is_done(NOW_US, NOW_US, day));
    assert_true(once_is_done(NOW_US - 21 * HOUR_US, NOW_US, day));
    assert_true(once_is_done(NOW_US - day.ns / HF_NS_PER_US / 10 * 9 + 1, NOW_US, day));
    assert_false(once_is_done(NOW_US - day.ns / HF_NS_PER_US / 10 * 9, NOW_US, day));
    assert_false(once_is_done(NOW_US - 23 * HOUR_US, NOW_US, day));
    assert_false(once_is_done(NOW_US - 24 * HOUR_US + 2000000, NOW_US, day));
}

/* Two that have one token by a hand-off are not one. */
static void an_asker_is_known_by_its_number(void **state)
{
    struct once_record record = {.fence = 7, .turn = 1, .at_us = 100, .asker = 123456789012345};

    (void)state;
    assert_true(once_is_of(&record, 7, 123456789012345));
    assert_false(once_is_of(&record, 7, 123456789012346));
    assert_false(once_is_of(&record, 8, 123456789012345));
    record.asker = 0; /* what was found was written again */
    assert_false(once_is_of(&record, 7, 0));
}

/* Clocks that were set back keep a job from running for a period at most. */
static void a_start_in_the_future(void **state)
{
    hf_dur day = hf_ms(INT64_C(24) * 3600 * 1000);

    (void)state;
    assert_true(once_is_done(NOW_US + HOUR_US, NOW_US, day));
    assert_true(once_is_done(NOW_US + 23 * HOUR_US, NOW_US, day));
    assert_false(once_is_done(NOW_US + 24 * HOUR_US, NOW_US, day));
}

/* Agents that start again go on by the time; one agent gives none out twice. */
static void turns_rise(void **state)
{
    hf_dur long_held = hf_ms(INT64_C(30) * 365 * 86400 * 1000);
    int64_t first = once_turn(0, hf_ms(5), 0), next = once_turn(0, hf_ms(5), first);

    (void)state;
    assert_true(first + ONCE_TAKE_BACK < next);
    assert_true(next + ONCE_TAKE_BACK < once_turn(0, hf_ms(8), 0));
    assert_true(once_turn(0, long_held, 0) < once_turn(1, hf_ms(0), 0));
    assert_true(once_turn(1, hf_ms(0), first) < once_turn(1, hf_ms(3), 0));
    assert_true(once_turn(1023, long_held, 0) < INT64_C(1) << 53);
}

/* (!) No write of an asker has the turn of a word that its record does not count: else both would be the latest. */
static void what_is_forgotten_comes_after_all_that_have_asked(void **state)
{
    int64_t first = once_turn(0, hf_ms(5), 0), next = once_turn(0, hf_ms(5), first);

    (void)state;
    for (int step = ONCE_LOOK; step <= ONCE_END; step++) {
        int64_t turn = once_turn_to_forget(first + step);

        assert_true(turn > first + ONCE_TAKE_BACK);
        assert_true(turn < next);
    }
}

static void the_latest_who_asked_is_of_any_node(void **state)
{
    struct once once = three_nodes();
    struct once_record a = {.seen = 7, .seen_turn = 9}, b = {.seen = 8, .seen_turn = 1},
                       ended = {.fence = 8, .turn = 1, .at_us = 50, .ended = 1};

    (void)state;
    once_said(&once, 0, true, true, &a);
    once_said(&once, 1, true, true, &b);
    assert_int_equal(once_seen(&once).seen, 8);
    assert_int_equal(once_seen(&once).seen_turn, 1);
    /* Not every node was told how it ended. */
    once_said(&once, 0, true, true, &later);
    once_said(&once, 1, true, true, &ended);
    once_said(&once, 2, true, true, &earlier);
    assert_int_equal(standing(&once).ended, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_node_is_waited_for),
        cmocka_unit_test(a_start_counts_for_longer_than_its_period_since_it_was_written),
        cmocka_unit_test(who_came_back_in_the_period_proves_nothing_unless_all_answer),
        cmocka_unit_test(a_node_that_may_not_vote_tells_and_does_not_count),
        cmocka_unit_test(a_start_counts_unless_a_majority_has_a_later_record),
        cmocka_unit_test(who_has_another_start_is_told),
        cmocka_unit_test(a_start_far_ahead_is_doubted_unless_a_majority_shows_it),
        cmocka_unit_test(an_asker_far_ahead_is_doubted_unless_a_majority_shows_it),
        cmocka_unit_test(one_refusal_is_enough),
        cmocka_unit_test(a_write_is_over_once_a_majority_took_it),
        cmocka_unit_test(a_start_is_in_time_or_asked_again),
        cmocka_unit_test(clocks_agree_to_a_twentieth_of_the_period),
        cmocka_unit_test(late_words_change_nothing),
        cmocka_unit_test(an_asker_is_known_by_its_number),
        cmocka_unit_test(nine_tenths_of_the_period),
        cmocka_unit_test(a_start_in_the_future),
        cmocka_unit_test(turns_rise),
        cmocka_unit_test(what_is_forgotten_comes_after_all_that_have_asked),
        cmocka_unit_test(the_latest_who_asked_is_of_any_node),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
