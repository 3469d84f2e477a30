/* agent/core/ballot.h: when a round is won, to be raised, or lost, and that it is told at once. */
#include "core_fixture.h"

#include "agent/core/ballot.h"
#include "agent/core/fence.h"
#include "agent/core/timing.h"

#define FENCE UINT64_C(1000)
#define LIMIT UINT64_C(1000000) /* what one node may show */
/* With T = 30 s a vote ends 29.698 s after `a`; V >= now + 15 s holds until 14.698 s after. */
#define LAST_GRANT (14698 * MS)

static struct timing timing;

static int set_up(void **state)
{
    (void)state;
    timing = timing_of_ms(30000);
    return 0;
}

/* A round in which all n nodes were asked. */
static struct ballot asked(int n)
{
    struct ballot b;

    ballot_init(&b, n, ballot_quorum(n), FENCE, LIMIT, at(0));
    for (int i = 0; i < n; i++)
        ballot_ask(&b, i);
    return b;
}

static void yes(struct ballot *b, int node, hf_time a)
{
    ballot_answer(b, node, BALLOT_YES, a, b->fence);
}

static void low(struct ballot *b, int node, uint64_t seen)
{
    ballot_answer(b, node, BALLOT_YES_LOW, at(0), seen);
}

static void no(struct ballot *b, int node, enum ballot_vote vote)
{
    ballot_answer(b, node, vote, HF_TIME_PAST, 0);
}

/* Of the lease that those give who voted for the fence of now. */
static hf_time validity(const struct ballot *b)
{
    hf_time d[HF_NODES_MAX];
    int votes = 0;

    for (int i = 0; i < b->n; i++)
        if (b->node[i].vote == BALLOT_YES)
            d[votes++] = hf_time_add(b->node[i].a, timing.span);
    return validity_qth(d, votes, b->q);
}

static enum ballot_outcome outcome(const struct ballot *b)
{
    return ballot_decide(b, &timing, at(MS));
}

TEST(the_quorum_is_more_than_half_of_the_configured)
{
    const int quorum[] = {0, 1, 2, 2, 3, 3, 4, 4, 5, 5};

    for (int n = 1; n <= HF_NODES_MAX; n++)
        assert_int_equal(ballot_quorum(n), quorum[n]);
}

TEST(won_with_the_q_th_vote_and_not_before)
{
    for (int n = 1; n <= HF_NODES_MAX; n++) {
        struct ballot b = asked(n);

        for (int i = 0; i < ballot_quorum(n); i++) {
            assert_int_equal(outcome(&b), BALLOT_UNDECIDED);
            yes(&b, n - 1 - i, at(0));
        }
        assert_int_equal(outcome(&b), BALLOT_WON);
    }
}

TEST(nodes_that_were_not_asked_count_against_the_quorum)
{
    struct ballot b;

    ballot_init(&b, 3, 2, FENCE, LIMIT, at(0));
    assert_int_equal(outcome(&b), BALLOT_FAILED);
    ballot_ask(&b, 0);
    assert_int_equal(outcome(&b), BALLOT_FAILED);
    ballot_ask(&b, 1);
    assert_int_equal(outcome(&b), BALLOT_UNDECIDED);
    yes(&b, 0, at(0));
    yes(&b, 1, at(0));
    assert_int_equal(outcome(&b), BALLOT_WON);
}

TEST(taken_as_soon_as_it_cannot_be_won)
{
    struct ballot b = asked(3);

    no(&b, 0, BALLOT_TAKEN);
    assert_int_equal(outcome(&b), BALLOT_UNDECIDED);
    no(&b, 1, BALLOT_TAKEN);
    assert_int_equal(outcome(&b), BALLOT_TAKEN_BY_OTHER);
}

TEST(one_taken_among_failures_names_another_holder)
{
    struct ballot b = asked(5);

    no(&b, 0, BALLOT_NO);
    no(&b, 1, BALLOT_NO);
    assert_int_equal(outcome(&b), BALLOT_UNDECIDED);
    no(&b, 2, BALLOT_TAKEN);
    assert_int_equal(outcome(&b), BALLOT_TAKEN_BY_OTHER);
}

TEST(failed_for_lack_of_answers)
{
    struct ballot b = asked(3);

    yes(&b, 0, at(0));
    no(&b, 1, BALLOT_NO);
    assert_int_equal(outcome(&b), BALLOT_UNDECIDED);
    no(&b, 2, BALLOT_NO);
    assert_int_equal(outcome(&b), BALLOT_FAILED);
}

TEST(a_split_vote_is_won_by_nobody)
{
    struct ballot b = asked(4);

    yes(&b, 0, at(0));
    yes(&b, 1, at(0));
    no(&b, 2, BALLOT_TAKEN);
    assert_int_equal(outcome(&b), BALLOT_UNDECIDED);
    no(&b, 3, BALLOT_TAKEN);
    assert_int_equal(outcome(&b), BALLOT_TAKEN_BY_OTHER);
}

/* One that has time left whenever it is decided here: what is asked is how old its votes are. */
static struct ballot asked_lately(int n)
{
    struct ballot b = asked(n);

    b.begun = at(LAST_GRANT);
    return b;
}

TEST(a_grant_has_half_the_ttl_ahead)
{
    struct ballot b = asked_lately(3);

    yes(&b, 0, at(0));
    yes(&b, 1, at(SEC));
    no(&b, 2, BALLOT_NO);
    assert_time(validity(&b), at(29698 * MS));
    assert_int_equal(ballot_decide(&b, &timing, at(LAST_GRANT)), BALLOT_WON);
    assert_int_equal(ballot_decide(&b, &timing, at(LAST_GRANT + NS)), BALLOT_TOO_LATE);
}

TEST(two_nodes_of_one_server_are_one_vote)
{
    struct ballot b = asked_lately(3);

    twins_pair(&b.twins, 0, 2);
    yes(&b, 0, at(0));
    yes(&b, 2, at(0));
    assert_int_equal(ballot_decide(&b, &timing, at(LAST_GRANT)), BALLOT_UNDECIDED);
    no(&b, 1, BALLOT_NO);
    assert_int_equal(ballot_decide(&b, &timing, at(LAST_GRANT)), BALLOT_FAILED);
    b = asked_lately(3);
    twins_pair(&b.twins, 0, 2);
    yes(&b, 2, at(0));
    yes(&b, 1, at(0)); /* whichever of them lies */
    assert_int_equal(ballot_decide(&b, &timing, at(LAST_GRANT)), BALLOT_WON);
    b = asked_lately(3);
    twins_pair(&b.twins, 0, 2);
    twins_pair(&b.twins, 1, 2);
    yes(&b, 0, at(0));
    yes(&b, 2, at(0));
    assert_int_equal(ballot_decide(&b, &timing, at(LAST_GRANT)), BALLOT_UNDECIDED);
    yes(&b, 1, at(0));
    assert_int_equal(ballot_decide(&b, &timing, at(LAST_GRANT)), BALLOT_WON);
}

TEST(too_late_waits_for_an_answer_that_could_still_give_enough)
{
    struct ballot b = asked_lately(3);

    yes(&b, 0, at(0));
    yes(&b, 1, at(SEC));
    assert_int_equal(ballot_decide(&b, &timing, at(LAST_GRANT + NS)), BALLOT_UNDECIDED);
    yes(&b, 2, at(SEC));
    assert_int_equal(ballot_decide(&b, &timing, at(LAST_GRANT + NS)), BALLOT_WON);
    assert_int_equal(ballot_decide(&b, &timing, at(LAST_GRANT + SEC)), BALLOT_WON);
    assert_int_equal(ballot_decide(&b, &timing, at(LAST_GRANT + SEC + NS)), BALLOT_TOO_LATE);
}

TEST(too_late_at_once_when_no_answer_can_help)
{
    struct ballot b = asked_lately(3);

    yes(&b, 0, at(0));
    yes(&b, 1, at(0));
    assert_int_equal(ballot_decide(&b, &timing, at(LAST_GRANT + NS)), BALLOT_TOO_LATE);
}

/* 2 T/15: 4 s. */
TEST(a_round_ends_whatever_validity_it_would_have)
{
    struct ballot b = asked(3);

    yes(&b, 0, at(4000 * MS));
    yes(&b, 1, at(4000 * MS));
    assert_time(ballot_ends(&b, &timing), at(4000 * MS));
    assert_int_equal(ballot_decide(&b, &timing, at(4000 * MS)), BALLOT_WON);
    assert_int_equal(ballot_decide(&b, &timing, at(4000 * MS + NS)), BALLOT_TOO_LATE);
}

TEST(a_raise_is_within_the_round_and_begins_none)
{
    struct ballot b = asked(3);

    low(&b, 0, FENCE + 1);
    low(&b, 1, FENCE + 1);
    assert_int_equal(ballot_decide(&b, &timing, at(3900 * MS)), BALLOT_RAISE);
    ballot_raise(&b);
    yes(&b, 0, at(4000 * MS));
    yes(&b, 1, at(4000 * MS));
    assert_int_equal(ballot_decide(&b, &timing, at(4000 * MS)), BALLOT_WON);
    assert_int_equal(ballot_decide(&b, &timing, at(4000 * MS + NS)), BALLOT_TOO_LATE);
}

TEST(a_round_that_is_over_waits_for_nobody)
{
    struct ballot b = asked(3);

    assert_int_equal(ballot_decide(&b, &timing, at(4000 * MS)), BALLOT_UNDECIDED);
    assert_int_equal(ballot_decide(&b, &timing, at(4000 * MS + NS)), BALLOT_FAILED);
    no(&b, 0, BALLOT_TAKEN);
    assert_int_equal(ballot_decide(&b, &timing, at(4000 * MS + NS)), BALLOT_TAKEN_BY_OTHER);
}

TEST(a_round_has_200_ms_at_least)
{
    struct timing fast = timing_of_ms(500);
    struct ballot b = asked(3);

    yes(&b, 0, at(0));
    yes(&b, 1, at(0));
    assert_int_equal(ballot_decide(&b, &fast, at(200 * MS)), BALLOT_WON);
    assert_int_equal(ballot_decide(&b, &fast, at(200 * MS + NS)), BALLOT_TOO_LATE);
}

TEST(the_validity_is_that_of_the_votes_for_this_fence)
{
    struct ballot b = asked(5);

    yes(&b, 0, at(3 * SEC));
    yes(&b, 1, at(2 * SEC));
    low(&b, 2, FENCE + 5);
    assert_time(validity(&b), HF_TIME_PAST);
    yes(&b, 3, at(SEC));
    assert_time(validity(&b), at(SEC + 29698 * MS));
    yes(&b, 4, at(2 * SEC));
    assert_time(validity(&b), at(2 * SEC + 29698 * MS));
}

TEST(one_and_the_same_quorum_votes_and_accepts_the_fence)
{
    /* (!) Three hold our key, but only two of them accepted the fence. */
    struct ballot b = asked(5);

    yes(&b, 0, at(0));
    yes(&b, 1, at(0));
    no(&b, 3, BALLOT_TAKEN);
    no(&b, 4, BALLOT_TAKEN);
    low(&b, 2, FENCE + 7);
    assert_int_equal(outcome(&b), BALLOT_RAISE);
}

TEST(a_raise_does_not_wait_for_a_node_that_is_away)
{
    struct ballot b = asked(3);

    low(&b, 0, FENCE + 1);
    assert_int_equal(outcome(&b), BALLOT_UNDECIDED);
    yes(&b, 1, at(0));
    assert_int_equal(outcome(&b), BALLOT_RAISE);
}

TEST(one_low_vote_does_no_harm_to_a_full_quorum)
{
    struct ballot b = asked(3);

    yes(&b, 0, at(0));
    yes(&b, 1, at(0));
    low(&b, 2, FENCE + 1);
    assert_int_equal(outcome(&b), BALLOT_WON);
}

TEST(a_raise_asks_all_again_with_one_more_than_the_highest)
{
    struct ballot b = asked(3);

    yes(&b, 0, at(0));
    low(&b, 1, FENCE + 9);
    low(&b, 2, FENCE + 4);
    assert_int_equal(outcome(&b), BALLOT_RAISE);
    assert_int_equal(ballot_raise(&b), FENCE + 10);
    assert_int_equal(b.fence, FENCE + 10);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(b.node[i].vote, BALLOT_YES_LOW);
        ballot_ask(&b, i);
    }
    assert_int_equal(outcome(&b), BALLOT_UNDECIDED);
    yes(&b, 0, at(0));
    assert_int_equal(outcome(&b), BALLOT_UNDECIDED);
    yes(&b, 2, at(0));
    assert_int_equal(outcome(&b), BALLOT_WON);
}

TEST(a_vote_for_the_fence_before_the_raise_does_not_count)
{
    struct ballot b = asked(3);

    low(&b, 0, FENCE + 1);
    low(&b, 1, FENCE + 1);
    ballot_raise(&b);
    ballot_ask(&b, 0);
    ballot_ask(&b, 1);
    /* was under way all the time */
    ballot_answer(&b, 2, BALLOT_YES, at(0), FENCE);
    yes(&b, 0, at(0));
    assert_int_equal(b.node[2].vote, BALLOT_YES_LOW);
    assert_int_equal(outcome(&b), BALLOT_RAISE);
    yes(&b, 1, at(0));
    assert_int_equal(outcome(&b), BALLOT_WON);
}

/* Five nodes: the raise leaves after three answers, and the other two come while it is under way.
 * They are asked for the same fence; going higher each time would make the answers on their way
 * worthless, for ever. */
TEST(late_answers_to_the_first_fence_do_not_raise_it_again)
{
    struct ballot b = asked(5);

    for (int i = 0; i < 3; i++)
        low(&b, i, FENCE + 1);
    assert_int_equal(outcome(&b), BALLOT_RAISE);
    assert_int_equal(ballot_raise(&b), FENCE + 2);
    for (int i = 0; i < 3; i++)
        ballot_ask(&b, i);
    ballot_answer(&b, 3, BALLOT_YES_LOW, at(0), FENCE + 1);
    ballot_answer(&b, 4, BALLOT_YES, at(0), FENCE);
    yes(&b, 0, at(0));
    assert_int_equal(outcome(&b), BALLOT_RAISE);
    assert_int_equal(ballot_raise(&b), FENCE + 2);
    assert_int_equal(b.node[0].vote, BALLOT_YES);
    ballot_ask(&b, 3);
    ballot_ask(&b, 4);
    yes(&b, 1, at(0));
    yes(&b, 3, at(0));
    assert_int_equal(outcome(&b), BALLOT_WON);
}

TEST(a_raise_does_not_prolong_a_vote)
{
    struct ballot b = asked(3);

    low(&b, 0, FENCE + 1);
    low(&b, 1, FENCE + 1);
    ballot_raise(&b);
    ballot_ask(&b, 0);
    ballot_ask(&b, 1);
    yes(&b, 0, at(2 * SEC));
    yes(&b, 1, at(2 * SEC));
    assert_time(validity(&b), at(29698 * MS));
}

TEST(a_key_that_vanished_before_the_raise_is_no_vote)
{
    struct ballot b = asked(3);

    low(&b, 0, FENCE + 1);
    low(&b, 1, FENCE + 1);
    no(&b, 2, BALLOT_TAKEN);
    ballot_raise(&b);
    ballot_ask(&b, 0);
    ballot_ask(&b, 1);
    yes(&b, 0, at(0));
    no(&b, 1, BALLOT_NO);
    assert_int_equal(outcome(&b), BALLOT_TAKEN_BY_OTHER);
}

TEST(low_votes_that_are_too_old_are_not_worth_a_raise)
{
    struct ballot b = asked_lately(3);

    low(&b, 0, FENCE + 1);
    low(&b, 1, FENCE + 1);
    no(&b, 2, BALLOT_NO);
    assert_int_equal(ballot_decide(&b, &timing, at(LAST_GRANT)), BALLOT_RAISE);
    assert_int_equal(ballot_decide(&b, &timing, at(LAST_GRANT + NS)), BALLOT_TOO_LATE);
}

TEST(a_stale_answer_is_asked_again)
{
    struct ballot b = asked(3);

    yes(&b, 0, at(0));
    no(&b, 1, BALLOT_NO);
    ballot_ask(&b, 2);
    assert_int_equal(outcome(&b), BALLOT_UNDECIDED);
    yes(&b, 2, at(SEC));
    assert_int_equal(outcome(&b), BALLOT_WON);
    assert_time(validity(&b), at(29698 * MS));
}

TEST(a_contended_lock_is_asked_for_without_nodes_that_hang)
{
    assert_int_equal(ballot_electorate(7, 4, NULL, 2, true), 3);
    assert_int_equal(ballot_electorate(7, 4, NULL, 2, false), 7);
    /* Too few are left: it may be we who did not read. */
    assert_int_equal(ballot_electorate(7, 6, NULL, 2, true), 7);
    assert_int_equal(ballot_electorate(3, 2, NULL, 2, true), 3);
    assert_int_equal(ballot_electorate(27, 16, NULL, 3, true), 11);
}

static int64_t patience_ms(int64_t a, int64_t b, int64_t c, int q, int node)
{
    const hf_dur rtt[] = {hf_ms(a), hf_ms(b), hf_ms(c)};

    return hf_dur_ms(ballot_patience(ballot_round_time(rtt, 3, q), rtt[node]));
}

TEST(an_answer_is_overdue_after_four_times_the_last_one)
{
    assert_int_equal(patience_ms(20, 30, 40, 2, 0), 80);
    assert_int_equal(patience_ms(20, 30, 40, 2, 1), 120);
    assert_int_equal(patience_ms(0, 1, 12, 2, 1), 50);
}

/* (!) Where the others are split all wait for it, and it may answer as late as it likes. */
TEST(a_slow_node_is_waited_for_no_longer_than_a_majority_takes)
{
    assert_int_equal(patience_ms(20, 30, 2000, 2, 2), 400);
    assert_int_equal(patience_ms(2000, 1, 1, 2, 0), 400);
    assert_int_equal(patience_ms(20, 150, 2000, 2, 2), 600);
    assert_int_equal(patience_ms(20, 30, 40, 3, 2), 160);
    assert_int_equal(patience_ms(30, 1000, 2000, 1, 1), 400);
}

/* (!) Else a near node that says "taken", rightly or not, lets no round wait for it, and none has a majority. */
TEST(a_far_node_is_waited_for_beside_near_ones)
{
    assert_int_equal(patience_ms(0, 1, 60, 2, 2), 240);
    assert_int_equal(patience_ms(0, 1, 100, 2, 2), 400);
}

/* --- fences beyond belief ---------------------------------------------------------------------- */

#define FAR (UINT64_C(1) << 52)

TEST(one_node_of_three_does_not_raise_a_fence_beyond_belief)
{
    struct ballot b = asked(3);

    low(&b, 0, FAR);
    assert_int_equal(ballot_vote_of(&b, 0), BALLOT_DOUBTED);
    yes(&b, 1, at(0));
    assert_int_equal(outcome(&b), BALLOT_UNDECIDED);
    yes(&b, 2, at(0));
    assert_int_equal(outcome(&b), BALLOT_WON);
    assert_int_equal(b.fence, FENCE);
}

TEST(without_the_others_it_is_no_vote)
{
    struct ballot b = asked(3);

    low(&b, 0, FAR);
    yes(&b, 1, at(0));
    no(&b, 2, BALLOT_NO);
    assert_int_equal(outcome(&b), BALLOT_FAILED);
}

TEST(a_majority_is_believed_whatever_it_shows)
{
    struct ballot b = asked(3);

    low(&b, 0, FAR);
    yes(&b, 1, at(0));
    low(&b, 2, FAR + 5);
    assert_int_equal(outcome(&b), BALLOT_RAISE); /* by nodes 0 and 1 */
    assert_int_equal(ballot_raise(&b), FAR + 1); /* 2 alone has more */
    assert_int_equal(ballot_vote_of(&b, 2), BALLOT_DOUBTED);
    yes(&b, 0, at(0));
    yes(&b, 1, at(0));
    assert_int_equal(outcome(&b), BALLOT_WON);
}

TEST(a_key_in_the_way_shows_a_fence_too)
{
    struct ballot b = asked(3);

    ballot_answer(&b, 1, BALLOT_TAKEN, HF_TIME_PAST, FAR);
    low(&b, 0, FAR);
    yes(&b, 2, at(0));
    assert_int_equal(outcome(&b), BALLOT_RAISE);
    assert_int_equal(ballot_raise(&b), FAR + 1);
}

TEST(two_nodes_of_five_do_not_raise_it_either)
{
    struct ballot b = asked(5);

    low(&b, 0, FAR);
    low(&b, 1, FAR);
    yes(&b, 2, at(0));
    yes(&b, 3, at(0));
    assert_int_equal(outcome(&b), BALLOT_UNDECIDED);
    low(&b, 4, LIMIT);
    assert_int_equal(outcome(&b), BALLOT_RAISE);
    assert_int_equal(ballot_raise(&b), LIMIT + 1);
}

TEST(of_two_nodes_the_lower_fence_is_believed)
{
    struct ballot b = asked(2);

    low(&b, 0, FAR);
    yes(&b, 1, at(0));
    assert_int_equal(outcome(&b), BALLOT_FAILED);
    b = asked(2);
    low(&b, 0, FAR);
    low(&b, 1, FAR);
    assert_int_equal(outcome(&b), BALLOT_RAISE);
    assert_int_equal(ballot_raise(&b), FAR + 1);
}

TEST(the_only_node_is_believed_until_there_is_no_higher_fence)
{
    struct ballot b = asked(1);

    low(&b, 0, FENCE_NODE_MAX - 1);
    assert_int_equal(outcome(&b), BALLOT_RAISE);
    assert_int_equal(ballot_raise(&b), FENCE_NODE_MAX);
    b = asked(1);
    low(&b, 0, FENCE_NODE_MAX);
    assert_int_equal(outcome(&b), BALLOT_FAILED);
}

/* (!) Fast enough, it would have raised the others' fences for as long as the round lasts. */
TEST(a_node_that_no_raise_satisfies_is_no_vote)
{
    struct ballot b = asked(3);

    yes(&b, 0, at(0));
    low(&b, 1, FENCE + 5);
    assert_int_equal(outcome(&b), BALLOT_RAISE);
    assert_int_equal(ballot_raise(&b), FENCE + 6);
    low(&b, 1, FENCE + 7);
    assert_int_equal(outcome(&b), BALLOT_UNDECIDED);
    yes(&b, 0, at(0));
    yes(&b, 2, at(0));
    assert_int_equal(outcome(&b), BALLOT_WON);
    assert_int_equal(b.fence, FENCE + 6);
}

TEST(a_node_that_accepts_another_fence_again_and_again_is_no_vote)
{
    struct ballot b = asked(3);
    int raises = 0;

    yes(&b, 0, at(0));
    do {
        ballot_answer(&b, 1, BALLOT_YES, at(0), FENCE - 1);
        raises++;
    } while (outcome(&b) == BALLOT_RAISE && ballot_raise(&b) == FENCE && raises < 100);
    assert_in_range(raises, 2, 20);
    assert_int_equal(outcome(&b), BALLOT_UNDECIDED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_quorum_is_more_than_half_of_the_configured),
        cmocka_unit_test(won_with_the_q_th_vote_and_not_before),
        cmocka_unit_test(one_node_of_three_does_not_raise_a_fence_beyond_belief),
        cmocka_unit_test(without_the_others_it_is_no_vote),
        cmocka_unit_test(a_majority_is_believed_whatever_it_shows),
        cmocka_unit_test(a_key_in_the_way_shows_a_fence_too),
        cmocka_unit_test(two_nodes_of_five_do_not_raise_it_either),
        cmocka_unit_test(of_two_nodes_the_lower_fence_is_believed),
        cmocka_unit_test(the_only_node_is_believed_until_there_is_no_higher_fence),
        cmocka_unit_test(a_node_that_no_raise_satisfies_is_no_vote),
        cmocka_unit_test(a_node_that_accepts_another_fence_again_and_again_is_no_vote),
        cmocka_unit_test(nodes_that_were_not_asked_count_against_the_quorum),
        cmocka_unit_test(taken_as_soon_as_it_cannot_be_won),
        cmocka_unit_test(one_taken_among_failures_names_another_holder),
        cmocka_unit_test(failed_for_lack_of_answers),
        cmocka_unit_test(a_split_vote_is_won_by_nobody),
        cmocka_unit_test(a_grant_has_half_the_ttl_ahead),
        cmocka_unit_test(too_late_waits_for_an_answer_that_could_still_give_enough),
        cmocka_unit_test(too_late_at_once_when_no_answer_can_help),
        cmocka_unit_test(a_round_ends_whatever_validity_it_would_have),
        cmocka_unit_test(a_raise_is_within_the_round_and_begins_none),
        cmocka_unit_test(a_round_that_is_over_waits_for_nobody),
        cmocka_unit_test(a_round_has_200_ms_at_least),
        cmocka_unit_test(the_validity_is_that_of_the_votes_for_this_fence),
        cmocka_unit_test(one_and_the_same_quorum_votes_and_accepts_the_fence),
        cmocka_unit_test(a_raise_does_not_wait_for_a_node_that_is_away),
        cmocka_unit_test(one_low_vote_does_no_harm_to_a_full_quorum),
        cmocka_unit_test(a_raise_asks_all_again_with_one_more_than_the_highest),
        cmocka_unit_test(a_vote_for_the_fence_before_the_raise_does_not_count),
        cmocka_unit_test(late_answers_to_the_first_fence_do_not_raise_it_again),
        cmocka_unit_test(a_raise_does_not_prolong_a_vote),
        cmocka_unit_test(a_key_that_vanished_before_the_raise_is_no_vote),
        cmocka_unit_test(low_votes_that_are_too_old_are_not_worth_a_raise),
        cmocka_unit_test(a_stale_answer_is_asked_again),
        cmocka_unit_test(two_nodes_of_one_server_are_one_vote),
        cmocka_unit_test(a_contended_lock_is_asked_for_without_nodes_that_hang),
        cmocka_unit_test(an_answer_is_overdue_after_four_times_the_last_one),
        cmocka_unit_test(a_slow_node_is_waited_for_no_longer_than_a_majority_takes),
        cmocka_unit_test(a_far_node_is_waited_for_beside_near_ones),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
