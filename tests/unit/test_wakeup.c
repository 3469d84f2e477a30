/* agent/core/wakeup.h: what is done next for a name that another host holds. */
#include "core_fixture.h"

#include "agent/core/wakeup.h"

#define ALL     7u /* of three nodes */
#define HALF    (UINT32_MAX / 2)
#define PTTL_MS 30000

/* Three nodes answered a round that was sent at 0: another holds the lock. */
static struct wakeup held_elsewhere(int64_t pttl_ms, bool tracked)
{
    struct wakeup w;

    wakeup_init(&w, 3, 2);
    wakeup_round(&w);
    for (int i = 0; i < 3; i++)
        wakeup_held(&w, i, pttl_ms, tracked, at(0), at(MS));
    wakeup_lost(&w, 0, false, hf_ns(200000), HALF, at(MS));
    return w;
}

static enum wakeup_step step(const struct wakeup *w, hf_time now)
{
    return wakeup_next(w, ALL, now).step;
}

/* --- notices ---------------------------------------------------------------------------------- */

TEST(q_notices_begin_a_round_at_once)
{
    struct wakeup w = held_elsewhere(PTTL_MS, true);

    assert_int_equal(step(&w, at(SEC)), WAKEUP_WAIT);
    wakeup_told(&w, 0, at(SEC));
    assert_int_equal(step(&w, at(SEC)), WAKEUP_WAIT);
    wakeup_told(&w, 2, at(SEC + 1));
    assert_int_equal(step(&w, at(SEC + 1)), WAKEUP_ROUND);
}

TEST(notices_of_nodes_that_may_not_vote_begin_none)
{
    struct wakeup w = held_elsewhere(PTTL_MS, true);

    wakeup_told(&w, 0, at(SEC));
    wakeup_told(&w, 2, at(SEC));
    assert_int_equal(wakeup_next(&w, 3, at(SEC)).step, WAKEUP_WAIT);
    assert_int_equal(wakeup_next(&w, 5, at(SEC)).step, WAKEUP_ROUND);
}

TEST(a_lone_notice_brings_a_query_after_a_few_milliseconds)
{
    struct wakeup w = held_elsewhere(PTTL_MS, true);
    struct wakeup_plan plan;

    wakeup_told(&w, 1, at(SEC));
    plan = wakeup_next(&w, ALL, at(SEC));
    assert_int_equal(plan.step, WAKEUP_WAIT);
    assert_in_range(plan.at.ns, at(SEC + MS).ns, at(SEC + 5 * MS).ns);
    plan = wakeup_next(&w, ALL, plan.at);
    assert_int_equal(plan.step, WAKEUP_QUERY);
    assert_int_equal(plan.nodes, 2);
}

TEST(a_renewal_arms_the_node_again_and_no_more)
{
    struct wakeup w = held_elsewhere(PTTL_MS, true);

    wakeup_told(&w, 1, at(SEC));
    wakeup_query(&w, 1, at(SEC + 3 * MS));
    assert_int_equal(step(&w, at(SEC + 4 * MS)), WAKEUP_WAIT);
    wakeup_held(&w, 1, PTTL_MS, true, at(SEC + 3 * MS), at(SEC + 4 * MS));
    wakeup_rest(&w, HALF, at(SEC + 4 * MS));
    assert_int_equal(step(&w, at(9 * SEC)), WAKEUP_WAIT);
}

TEST(a_query_that_finds_it_free_counts)
{
    struct wakeup w = held_elsewhere(PTTL_MS, true);

    wakeup_told(&w, 1, at(SEC));
    wakeup_query(&w, 1, at(SEC + 3 * MS));
    wakeup_free(&w, 1, true, at(SEC + 3 * MS));
    wakeup_rest(&w, HALF, at(SEC + 4 * MS));
    assert_int_equal(step(&w, at(SEC + 4 * MS)), WAKEUP_WAIT);
    wakeup_told(&w, 0, at(2 * SEC));
    assert_int_equal(step(&w, at(2 * SEC)), WAKEUP_ROUND);
}

TEST(a_notice_of_after_the_command_was_sent_outlives_its_answer)
{
    struct wakeup w;

    wakeup_init(&w, 3, 2);
    wakeup_round(&w);
    wakeup_told(&w, 0, at(MS));
    for (int i = 0; i < 3; i++)
        wakeup_held(&w, i, PTTL_MS, true, at(0), at(2 * MS));
    wakeup_lost(&w, 0, false, hf_ns(200000), HALF, at(2 * MS));
    assert_int_equal(w.armed, 6);
    assert_int_equal(w.told, 1);
    assert_int_equal(wakeup_next(&w, ALL, at(60 * MS)).step, WAKEUP_QUERY);
}

TEST(a_node_is_queried_no_more_than_twenty_times_a_second)
{
    struct wakeup w = held_elsewhere(PTTL_MS, true);
    int queries = 0;

    for (int64_t ms = 1000; ms < 2000; ms++) {
        hf_time now = at((ms + 5) * MS);

        wakeup_told(&w, 1, at(ms * MS));
        if (step(&w, now) == WAKEUP_QUERY) {
            queries++;
            wakeup_query(&w, 1, now);
            wakeup_held(&w, 1, PTTL_MS, true, now, now);
        }
    }
    assert_in_range(queries, 15, 21);
}

/* --- time alone ------------------------------------------------------------------------------- */

/* (!) Of three that have to tell one never does, though it says so: else nothing but ten seconds helps. */
TEST(who_is_told_by_too_few_again_and_again_polls)
{
    struct wakeup w;
    hf_time now = at(0);
    int64_t ms;

    wakeup_init(&w, 5, 3);
    wakeup_round(&w);
    for (int i = 0; i < 5; i++)
        wakeup_held(&w, i, PTTL_MS, true, at(0), at(0));
    wakeup_lost(&w, 0, false, hf_ns(200000), HALF, at(0));
    for (ms = 100; ms < 9000 && step(&w, now) != WAKEUP_POLL; ms += 10) {
        now = at(ms * MS);
        for (int i = 0; i < 2; i++)
            wakeup_told(&w, i, at((ms - 5) * MS));
        for (uint32_t nodes = wakeup_next(&w, 31, now).nodes, i = 0; i < 5; i++) {
            if (!(nodes >> i & 1))
                continue;
            wakeup_query(&w, (int)i, now);
            wakeup_held(&w, (int)i, PTTL_MS, true, now, now);
        }
        wakeup_rest(&w, HALF, now);
    }
    assert_in_range(ms, 300, 2000);
}

TEST(who_is_told_sleeps_until_the_keys_of_a_quorum_expire)
{
    struct wakeup w = held_elsewhere(PTTL_MS, true);

    wakeup_held(&w, 0, 1000, true, at(0), at(0));
    wakeup_rest(&w, HALF, at(0));
    assert_true(w.poll.ns > at(5 * SEC).ns);
    wakeup_held(&w, 2, 2000, true, at(0), at(0));
    wakeup_rest(&w, HALF, at(0));
    assert_in_range(w.poll.ns, at(2000 * MS).ns, at(2021 * MS).ns);
    assert_int_equal(step(&w, w.poll), WAKEUP_POLL);
}

TEST(nobody_sleeps_for_longer_than_ten_seconds)
{
    struct wakeup w = held_elsewhere(INT64_MAX, true);

    assert_true(w.poll.ns <= at(MS + 10 * SEC).ns);
}

TEST(who_is_not_told_polls)
{
    for (uint32_t random = 0; random < 10; random++) {
        struct wakeup w = held_elsewhere(PTTL_MS, false);

        wakeup_rest(&w, random * (UINT32_MAX / 10), at(0));
        assert_in_range(w.poll.ns, at(50 * MS).ns, at(250 * MS).ns);
    }
}

TEST(one_node_of_three_that_tells_is_not_enough)
{
    struct wakeup w = held_elsewhere(PTTL_MS, true);

    wakeup_telling(&w, 0, false);
    wakeup_rest(&w, HALF, at(0));
    assert_true(w.poll.ns > at(SEC).ns);
    wakeup_telling(&w, 1, false);
    wakeup_rest(&w, HALF, at(0));
    assert_in_range(w.poll.ns, at(50 * MS).ns, at(250 * MS).ns);
}

TEST(a_key_without_expiry_is_polled_for_though_nodes_tell)
{
    struct wakeup w = held_elsewhere(-1, true);

    assert_in_range(w.poll.ns, at(250 * MS).ns, at(1001 * MS).ns);
}

TEST(one_key_without_expiry_is_waited_out_with_the_others)
{
    struct wakeup w = held_elsewhere(2000, true);

    wakeup_held(&w, 0, -1, true, at(0), at(0));
    wakeup_rest(&w, HALF, at(0));
    assert_in_range(w.poll.ns, at(2000 * MS).ns, at(2022 * MS).ns);
}

TEST(a_node_that_tells_again_is_queried_to_be_asked_for_it)
{
    struct wakeup w = held_elsewhere(PTTL_MS, false);
    struct wakeup_plan plan;

    wakeup_telling(&w, 1, true);
    plan = wakeup_next(&w, ALL, at(20 * MS));
    assert_int_equal(plan.step, WAKEUP_QUERY);
    assert_int_equal(plan.nodes, 2);
    wakeup_query(&w, 1, at(20 * MS));
    wakeup_held(&w, 1, PTTL_MS, true, at(20 * MS), at(21 * MS));
    assert_int_equal(w.armed, 2);
}

TEST(a_query_without_an_answer_leaves_it_to_polling)
{
    struct wakeup w = held_elsewhere(PTTL_MS, true);

    for (int i = 0; i < 2; i++) {
        wakeup_told(&w, 0, at(SEC));
        wakeup_query(&w, 0, at(SEC));
        wakeup_unanswered(&w, 0);
        wakeup_telling(&w, 1, false);
    }
    wakeup_rest(&w, HALF, at(SEC));
    assert_in_range(w.poll.ns, at(SEC + 50 * MS).ns, at(SEC + 250 * MS).ns);
}

/* A lock that is held for moments only: a node tells all the time, and is queried. */
static void is_polled_by(struct wakeup w, hf_time last)
{
    for (uint32_t i = 1; hf_time_before(at(i * 50 * MS), last); i++) {
        hf_time now = at(i * 50 * MS);

        assert_true(hf_time_since(last, w.poll).ns >= 0);
        if (step(&w, now) == WAKEUP_POLL)
            return;
        wakeup_told(&w, 1, now);
        wakeup_query(&w, 1, now);
        wakeup_held(&w, 1, w.lasting ? -1 : PTTL_MS, w.armed != 0, now, now);
        wakeup_rest(&w, UINT32_MAX, now);
    }
    assert_int_equal(step(&w, last), WAKEUP_POLL);
}

TEST(queries_do_not_push_polling_ahead)
{
    is_polled_by(held_elsewhere(PTTL_MS, false), at(251 * MS));
    is_polled_by(held_elsewhere(-1, true), at(1001 * MS));
    is_polled_by(held_elsewhere(INT64_MAX, true), at(MS + 10 * SEC));
}

TEST(nodes_that_tell_now_and_then_do_not_push_polling_ahead)
{
    struct wakeup w = held_elsewhere(PTTL_MS, false);
    hf_time poll = w.poll;

    wakeup_held(&w, 1, PTTL_MS, true, at(50 * MS), at(50 * MS));
    wakeup_held(&w, 2, PTTL_MS, true, at(50 * MS), at(50 * MS));
    wakeup_rest(&w, HALF, at(50 * MS));
    assert_true(w.poll.ns > at(SEC).ns);
    wakeup_telling(&w, 1, false);
    wakeup_rest(&w, UINT32_MAX, at(100 * MS));
    assert_time(w.poll, poll);
    wakeup_round(&w);
    wakeup_lost(&w, 0, false, hf_ns(200000), HALF, at(SEC));
    assert_true(w.poll.ns > at(SEC).ns);
}

/* --- hosts that split the nodes --------------------------------------------------------------- */

TEST(after_a_split_each_draws_and_the_time_grows)
{
    struct wakeup w;
    int64_t longest = 0;

    wakeup_init(&w, 3, 2);
    for (int i = 0; i < 10; i++) {
        hf_time now = at(i * SEC);

        wakeup_round(&w);
        wakeup_held(&w, 1, PTTL_MS, true, now, now);
        wakeup_lost(&w, 1, false, hf_ns(200000), UINT32_MAX, now);
        assert_true(hf_time_since(w.not_before, now).ns >= longest);
        longest = hf_time_since(w.not_before, now).ns;
        if (i == 0)
            assert_in_range(longest, MS, 2 * MS);
        /* The others give their nodes back: not before the draw. */
        wakeup_told(&w, 1, now);
        assert_int_equal(step(&w, now), WAKEUP_WAIT);
        assert_int_equal(step(&w, w.not_before), WAKEUP_ROUND);
        assert_true(w.poll.ns <= hf_time_add(now, hf_ms(251)).ns);
    }
    assert_in_range(longest, 60 * MS, 64 * MS);
}

TEST(who_came_second_to_a_winner_draws_nothing)
{
    struct wakeup w;

    wakeup_init(&w, 3, 2);
    for (int i = 0; i < 2; i++)
        wakeup_held(&w, i, PTTL_MS, true, at(0), at(0));
    wakeup_lost(&w, 4, true, hf_ns(200000), UINT32_MAX, at(0));
    assert_int_equal(step(&w, at(SEC)), WAKEUP_WAIT);
    /* The third is free already. */
    wakeup_told(&w, 0, at(SEC));
    assert_int_equal(step(&w, at(SEC)), WAKEUP_ROUND);
}

TEST(a_draw_of_nothing_begins_at_once)
{
    struct wakeup w;

    wakeup_init(&w, 3, 2);
    wakeup_held(&w, 1, PTTL_MS, true, at(0), at(0));
    wakeup_lost(&w, 1, false, hf_ns(200000), 0, at(0));
    wakeup_told(&w, 1, at(0));
    assert_int_equal(step(&w, at(0)), WAKEUP_ROUND);
}

/* One of the two nodes that are up is another's, and that was certain before the other one answered. */
static struct wakeup lost_before_its_vote(void)
{
    struct wakeup w;

    wakeup_init(&w, 3, 2);
    wakeup_held(&w, 1, PTTL_MS, true, at(0), at(MS));
    wakeup_lost(&w, 0, false, hf_ns(200000), HALF, at(MS));
    return w;
}

TEST(a_vote_after_the_loss_counts_as_free)
{
    struct wakeup w = lost_before_its_vote();

    wakeup_won_late(&w, 0, false, hf_ns(200000), HALF, at(2 * MS));
    assert_int_equal(step(&w, at(2 * MS)), WAKEUP_WAIT);
    wakeup_told(&w, 1, at(3 * MS));
    assert_int_equal(step(&w, hf_time_max(w.not_before, at(3 * MS))), WAKEUP_ROUND);
}

TEST(votes_after_the_loss_are_splits_and_the_time_grows)
{
    struct wakeup w = lost_before_its_vote();
    int64_t longest = 0;

    for (int i = 1; i < 10; i++) {
        hf_time now = at(i * SEC);

        wakeup_round(&w);
        wakeup_held(&w, 1, PTTL_MS, true, now, now);
        wakeup_lost(&w, 0, false, hf_ns(200000), UINT32_MAX, now);
        wakeup_won_late(&w, 0, false, hf_ns(200000), UINT32_MAX, now);
        assert_true(hf_time_since(w.not_before, now).ns >= longest);
        longest = hf_time_since(w.not_before, now).ns;
    }
    assert_in_range(longest, 60 * MS, 64 * MS);
}

TEST(a_vote_after_a_loss_to_a_winner_has_the_node_asked_to_tell)
{
    struct wakeup w = held_elsewhere(PTTL_MS, true);
    struct wakeup_plan plan;

    wakeup_won_late(&w, 2, true, hf_ns(200000), HALF, at(2 * MS));
    plan = wakeup_next(&w, ALL, at(60 * MS));
    assert_int_equal(plan.step, WAKEUP_QUERY);
    assert_int_equal(plan.nodes, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(q_notices_begin_a_round_at_once),
        cmocka_unit_test(notices_of_nodes_that_may_not_vote_begin_none),
        cmocka_unit_test(a_lone_notice_brings_a_query_after_a_few_milliseconds),
        cmocka_unit_test(a_renewal_arms_the_node_again_and_no_more),
        cmocka_unit_test(a_query_that_finds_it_free_counts),
        cmocka_unit_test(a_notice_of_after_the_command_was_sent_outlives_its_answer),
        cmocka_unit_test(a_node_is_queried_no_more_than_twenty_times_a_second),
        cmocka_unit_test(who_is_told_by_too_few_again_and_again_polls),
        cmocka_unit_test(who_is_told_sleeps_until_the_keys_of_a_quorum_expire),
        cmocka_unit_test(nobody_sleeps_for_longer_than_ten_seconds),
        cmocka_unit_test(who_is_not_told_polls),
        cmocka_unit_test(one_node_of_three_that_tells_is_not_enough),
        cmocka_unit_test(a_key_without_expiry_is_polled_for_though_nodes_tell),
        cmocka_unit_test(one_key_without_expiry_is_waited_out_with_the_others),
        cmocka_unit_test(a_node_that_tells_again_is_queried_to_be_asked_for_it),
        cmocka_unit_test(a_query_without_an_answer_leaves_it_to_polling),
        cmocka_unit_test(after_a_split_each_draws_and_the_time_grows),
        cmocka_unit_test(who_came_second_to_a_winner_draws_nothing),
        cmocka_unit_test(a_draw_of_nothing_begins_at_once),
        cmocka_unit_test(queries_do_not_push_polling_ahead),
        cmocka_unit_test(nodes_that_tell_now_and_then_do_not_push_polling_ahead),
        cmocka_unit_test(a_vote_after_the_loss_counts_as_free),
        cmocka_unit_test(votes_after_the_loss_are_splits_and_the_time_grows),
        cmocka_unit_test(a_vote_after_a_loss_to_a_winner_has_the_node_asked_to_tell),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
