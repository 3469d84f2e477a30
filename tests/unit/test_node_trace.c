/* agent/core/node_trust.h: the trace that a clock step leaves on its node, and what the next agent of a
 * host goes by. */
#include "trust_fixture.h"

#define STEP_US INT64_C(5000000)

static const char TRACE[] = "0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c";
static const char NONCE_D[] = "0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d";

/* One answer: TIME, then the nonce. `steps` are those of 5 s that its clock has made. */
static unsigned answer(struct node_trust *t, int steps, const char *nonce, hf_time now)
{
    unsigned events = sample(t, steps * STEP_US, now);

    return events | trust_on_nonce(t, nonce, now);
}

/* Its clock has stepped once, a second after first contact, and the node is to be marked. */
static struct node_trust stepped(void)
{
    struct node_trust t = trusted();

    assert_int_equal(answer(&t, 1, NONCE_A, at(SEC)), TRUST_STEPPED);
    return t;
}

static struct node_trust restored(const struct node_trust *before, hf_time now)
{
    struct node_trust t;

    trust_init(&t, hf_ns(QUARANTINE), false);
    trust_restore(&t, before, HF_TIME_PAST, now);
    return t;
}

TEST(a_step_is_to_be_marked_under_the_nonce_of_before)
{
    struct node_trust t = stepped();

    assert_string_equal(t.step_nonce, NONCE_A);
    assert_string_equal(t.trace, "");
    assert_int_equal(answer(&t, 1, NONCE_A, at(2 * SEC)), TRUST_NOTHING);
    assert_string_equal(t.step_nonce, NONCE_A); /* until it is done */
}

TEST(without_a_step_nothing_is_to_be_marked)
{
    struct node_trust t = trusted();

    answer(&t, 0, NONCE_A, at(SEC));
    answer(&t, 0, NONCE_B, at(2 * SEC));
    answer(&t, 0, "", at(3 * SEC));
    assert_string_equal(t.step_nonce, "");
}

TEST(a_step_under_another_nonce_is_marked_already)
{
    struct node_trust t = trusted();

    assert_int_equal(answer(&t, 1, NONCE_B, at(SEC)), TRUST_STEPPED | TRUST_FORGOT);
    assert_string_equal(t.step_nonce, "");
    t = trusted();
    assert_int_equal(answer(&t, 1, "", at(SEC)), TRUST_STEPPED | TRUST_FORGOT);
    assert_string_equal(t.step_nonce, "");
}

TEST(somebody_elses_mark_settles_it)
{
    struct node_trust t = stepped();

    assert_int_equal(answer(&t, 1, NONCE_B, at(2 * SEC)), TRUST_FORGOT);
    assert_string_equal(t.step_nonce, "");
}

TEST(our_own_mark_is_no_change)
{
    struct node_trust t = stepped();
    uint32_t mark = t.mark;

    trust_choose_trace(&t, TRACE);
    assert_int_equal(answer(&t, 1, NONCE_A, at(2 * SEC)), TRUST_NOTHING);
    assert_int_equal(answer(&t, 1, TRACE, at(3 * SEC)), TRUST_NOTHING);
    assert_int_equal(sentinel(&t, TRACE, at(3 * SEC)), TRUST_NOTHING);
    trust_on_traced(&t);
    assert_int_equal(t.mark, mark);
    assert_string_equal(t.step_nonce, "");
    assert_string_equal(t.trace, "");
    assert_quarantine(t, HF_QUARANTINE_CLOCK, at(SEC));
    assert_int_equal(answer(&t, 1, NONCE_A, at(4 * SEC)), TRUST_FORGOT); /* an old snapshot */
}

TEST(our_mark_after_another_change_is_a_change)
{
    struct node_trust t = stepped();

    trust_choose_trace(&t, TRACE);
    assert_int_equal(answer(&t, 1, NONCE_B, at(2 * SEC)), TRUST_FORGOT);
    assert_int_equal(answer(&t, 1, TRACE, at(3 * SEC)), TRUST_FORGOT);
}

TEST(a_step_after_the_mark_is_marked_again)
{
    struct node_trust t = stepped();

    trust_choose_trace(&t, TRACE);
    answer(&t, 1, TRACE, at(2 * SEC));
    trust_on_traced(&t);
    assert_int_equal(answer(&t, 2, TRACE, at(3 * SEC)), TRUST_STEPPED);
    assert_string_equal(t.step_nonce, TRACE);
    assert_string_equal(t.trace, "");
}

/* It was written before the connection broke; whether before the second step nobody knows. */
TEST(a_mark_without_an_answer_is_made_again_after_another_step)
{
    struct node_trust t = stepped();

    trust_choose_trace(&t, TRACE);
    assert_int_equal(answer(&t, 2, TRACE, at(2 * SEC)), TRUST_STEPPED);
    assert_string_equal(t.step_nonce, TRACE);
    trust_choose_trace(&t, NONCE_D);
    assert_int_equal(answer(&t, 2, NONCE_D, at(3 * SEC)), TRUST_NOTHING);
    assert_string_equal(t.step_nonce, "");
}

TEST(what_the_other_thread_saw_is_to_be_marked_too)
{
    struct node_trust t = trusted();

    trust_owe_trace(&t, "");
    assert_string_equal(t.step_nonce, "");
    trust_owe_trace(&t, NONCE_A);
    trust_choose_trace(&t, TRACE);
    trust_owe_trace(&t, NONCE_A); /* the same step */
    assert_string_equal(t.trace, TRACE);
    trust_owe_trace(&t, NONCE_B);
    assert_string_equal(t.trace, "");
}

TEST(the_thread_that_is_told_follows_and_marks_nothing)
{
    struct node_trust t = trusted();
    uint32_t mark = t.mark;

    assert_int_equal(sample(&t, STEP_US, at(SEC)), TRUST_STEPPED);
    trust_on_own_trace(&t, TRACE);
    assert_int_equal(answer(&t, 1, TRACE, at(2 * SEC)), TRUST_NOTHING);
    assert_string_equal(t.step_nonce, "");
    assert_int_equal(t.mark, mark);
}

/* --- the next agent --------------------------------------------------------------------------- */

TEST(what_is_owed_is_owed_by_the_next_agent)
{
    struct node_trust t = stepped();

    trust_choose_trace(&t, TRACE);
    t = restored(&t, at(2 * SEC));
    assert_quarantine(t, HF_QUARANTINE_CLOCK, at(SEC));
    assert_string_equal(t.step_nonce, NONCE_A);
    assert_int_equal(answer(&t, 1, TRACE, at(3 * SEC)), TRUST_NOTHING);
    assert_string_equal(t.step_nonce, "");
}

TEST(a_step_while_nobody_looked_is_seen_and_marked)
{
    struct node_trust before = trusted(), t = restored(&before, at(10 * SEC));

    facts(&t, RUN_A, at(10 * SEC));
    assert_int_equal(answer(&t, 1, NONCE_A, at(10 * SEC)), TRUST_STEPPED);
    assert_string_equal(t.step_nonce, NONCE_A);
    assert_quarantine(t, HF_QUARANTINE_CLOCK, at(10 * SEC));
}

TEST(after_a_quarantine_without_a_look_it_is_a_first_contact)
{
    struct node_trust before = trusted(), t = restored(&before, at(QUARANTINE));

    assert_int_equal(facts(&t, RUN_B, at(QUARANTINE)), TRUST_FIRST);
    assert_int_equal(answer(&t, 0, NONCE_B, at(QUARANTINE)), TRUST_NOTHING);
    sentinel(&t, NONCE_B, at(QUARANTINE));
    assert_false(trust_may_vote(&t, at(QUARANTINE)));
    trust_judge(&t, OFFSET_US + 1100000, wall(at(QUARANTINE)), at(QUARANTINE));
    assert_quarantine(t, HF_QUARANTINE_MEDIAN, at(QUARANTINE));
}

/* 1 % of a day is more than the step, and then it is one all the same. */
TEST(the_clock_of_long_ago_is_known_within_its_drift)
{
    const int64_t day = 86400 * SEC;
    struct node_trust before = trusted(), t = restored(&before, at(day));

    facts(&t, RUN_A, at(day));
    assert_int_equal(answer(&t, 1, NONCE_A, at(day)), TRUST_NOTHING);
    t = restored(&before, at(day));
    assert_int_equal(answer(&t, 200, NONCE_A, at(day)), TRUST_STEPPED);
    assert_string_equal(t.step_nonce, NONCE_A);
}

TEST(a_quarantine_that_lasts_is_not_of_long_ago)
{
    struct node_trust before = trusted(), t;

    trust_on_told(&before, TRUST_STEPPED, at(QUARANTINE / 2));
    t = restored(&before, at(QUARANTINE));
    assert_quarantine(t, HF_QUARANTINE_CLOCK, at(QUARANTINE / 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_to_be_marked_under_the_nonce_of_before),
        cmocka_unit_test(without_a_step_nothing_is_to_be_marked),
        cmocka_unit_test(a_step_under_another_nonce_is_marked_already),
        cmocka_unit_test(somebody_elses_mark_settles_it),
        cmocka_unit_test(our_own_mark_is_no_change),
        cmocka_unit_test(our_mark_after_another_change_is_a_change),
        cmocka_unit_test(a_step_after_the_mark_is_marked_again),
        cmocka_unit_test(a_mark_without_an_answer_is_made_again_after_another_step),
        cmocka_unit_test(what_the_other_thread_saw_is_to_be_marked_too),
        cmocka_unit_test(the_thread_that_is_told_follows_and_marks_nothing),
        cmocka_unit_test(what_is_owed_is_owed_by_the_next_agent),
        cmocka_unit_test(a_step_while_nobody_looked_is_seen_and_marked),
        cmocka_unit_test(after_a_quarantine_without_a_look_it_is_a_first_contact),
        cmocka_unit_test(the_clock_of_long_ago_is_known_within_its_drift),
        cmocka_unit_test(a_quarantine_that_lasts_is_not_of_long_ago),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
