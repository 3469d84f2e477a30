/* agent/core/lease_fsm.h: a lease from grant to end. */
#include "lease_fixture.h"

/* So long after the check word of a lease until then says that it is over. */
static hf_time shown(int64_t until, int64_t after)
{
    return (hf_time){((at(until).ns >> HF_CHECK_TIME_SHIFT) << HF_CHECK_TIME_SHIFT) + after};
}

/* --- from the grant on ------------------------------------------------------------------------ */

TEST(a_grant_is_held_until_the_q_th_largest_d)
{
    struct lease_fsm l = granted(LIBRARY, at(2 * SEC), at(0), at(SEC));

    assert_state(&l, HF_SLOT_HELD, HF_LOSS_NONE);
    assert_time(l.valid, at(SEC + SPAN));
    assert_int_equal(l.heal_wanted, 0);
    assert_true(lease_fsm_renews(&l));
    assert_time(lease_fsm_next(&l), at(SEC + LATE));
    assert_int_equal(lease_fsm_votes(&l, at(0)), 3);
}

TEST(nodes_without_a_vote_are_to_be_healed)
{
    struct lease_fsm l = granted(LIBRARY, at(0), HF_TIME_PAST, at(0));

    assert_int_equal(l.heal_wanted, 1 << 1);
    assert_time(l.valid, at(SPAN));
    assert_int_equal(lease_fsm_votes(&l, at(0)), 2);
    assert_int_equal(lease_fsm_votes(&l, at(SPAN - NS)), 2);
    assert_int_equal(lease_fsm_votes(&l, at(SPAN)), 0);
}

TEST(time_makes_it_late_then_losing_then_lost)
{
    struct lease_fsm l = held(LIBRARY);

    assert_int_equal(lease_fsm_tick(&l, at(LATE - NS)), 0);
    assert_state(&l, HF_SLOT_HELD, HF_LOSS_NONE);
    assert_int_equal(lease_fsm_tick(&l, at(LATE)), LEASE_ACT_STATE | LEASE_ACT_TIMER);
    assert_state(&l, HF_SLOT_LATE, HF_LOSS_NONE);
    assert_time(lease_fsm_next(&l), at(LOSING));

    assert_int_equal(lease_fsm_tick(&l, at(LOSING - NS)), 0);
    assert_int_equal(lease_fsm_tick(&l, at(LOSING)), LEASE_ACT_STATE | LEASE_ACT_TIMER);
    assert_state(&l, HF_SLOT_LOSING, HF_LOSS_QUORUM);
    assert_time(lease_fsm_next(&l), at(SPAN));
    assert_false(lease_fsm_renews(&l));

    assert_int_equal(lease_fsm_tick(&l, at(SPAN - NS)), 0);
    assert_int_equal(lease_fsm_tick(&l, at(SPAN)), OVER_BY_LOSS);
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_QUORUM);
    assert_final(&l, at(SPAN));
}

/* Renewal was due at about 9.9 s, and might have had an answer by 12. */
TEST(what_became_late_while_nobody_renewed_is_not_the_nodes_doing)
{
    static const struct {
        int64_t since, now;
        enum hf_slot_state state;
    } rows[] = {
        {2 * SEC, LATE, HF_SLOT_LATE},
        {11 * SEC, LOSING, HF_SLOT_LOSING},
        {2 * SEC, SPAN + 60 * SEC, HF_SLOT_LOST},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct lease_fsm l = held(RUN);

        assert_true(lease_fsm_missed(&l, at(rows[i].since), at(rows[i].now)));
        assert_true(lease_fsm_tick_after(&l, at(rows[i].since), at(rows[i].now)) & LEASE_ACT_STATE);
        assert_state(&l, rows[i].state,
                     rows[i].state == HF_SLOT_LATE ? HF_LOSS_NONE : HF_LOSS_AWAY);
    }
}

TEST(nodes_that_had_their_time_are_to_blame_whoever_was_away_after)
{
    struct lease_fsm l = held(LIBRARY);

    assert_false(lease_fsm_missed(&l, at(13 * SEC), at(SPAN)));
    assert_false(lease_fsm_missed(&l, at(2 * SEC), at(LATE - NS)));
    lease_fsm_tick_after(&l, at(13 * SEC), at(SPAN));
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_QUORUM);
    l = held(LIBRARY);
    lease_fsm_tick(&l, at(LATE));
    assert_false(lease_fsm_missed(&l, at(LATE), at(SPAN)));
    lease_fsm_tick_after(&l, at(LATE), at(LOSING));
    assert_state(&l, HF_SLOT_LOSING, HF_LOSS_QUORUM);
}

TEST(states_that_time_has_passed_are_left_out)
{
    struct lease_fsm l = held(LIBRARY);

    assert_int_equal(lease_fsm_tick(&l, at(LOSING)), LEASE_ACT_STATE | LEASE_ACT_TIMER);
    assert_state(&l, HF_SLOT_LOSING, HF_LOSS_QUORUM);
    l = held(LIBRARY);
    assert_int_equal(lease_fsm_tick(&l, at(SPAN)), OVER_BY_LOSS);
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_QUORUM);
}

/* --- hits ------------------------------------------------------------------------------------- */

TEST(v_rises_when_the_q_th_vote_does)
{
    struct lease_fsm l = held(LIBRARY);

    assert_int_equal(lease_fsm_hit(&l, 0, at(10 * SEC), 0, at(10 * SEC + MS)), 0);
    assert_time(l.valid, at(SPAN));
    assert_int_equal(lease_fsm_hit(&l, 2, at(9 * SEC), 0, at(10 * SEC + MS)),
                     LEASE_ACT_EXTEND | LEASE_ACT_TIMER);
    assert_time(l.valid, at(9 * SEC + SPAN));
    assert_int_equal(lease_fsm_hit(&l, 1, at(11 * SEC), 0, at(11 * SEC + MS)),
                     LEASE_ACT_EXTEND | LEASE_ACT_TIMER);
    assert_time(l.valid, at(10 * SEC + SPAN));
}

/* Journal, check word and slot are written once for a round of renewals. */
TEST(a_small_gain_waits_for_more)
{
    struct lease_fsm l = held(LIBRARY);

    assert_int_equal(lease_fsm_hit(&l, 0, at(10 * SEC), 0, at(10 * SEC + MS)), 0);
    assert_int_equal(lease_fsm_hit(&l, 1, at(10 * SEC + MS), 0, at(10 * SEC + 2 * MS)),
                     LEASE_ACT_EXTEND | LEASE_ACT_TIMER);
    assert_time(l.valid, at(10 * SEC + SPAN));
    assert_int_equal(lease_fsm_hit(&l, 2, at(10 * SEC + 2 * MS), 0, at(10 * SEC + 3 * MS)), 0);
    assert_time(l.valid, at(10 * SEC + SPAN));
    /* It counts: without node 0 the lease is as long as with it. */
    assert_int_equal(lease_fsm_foreign(&l, 0, at(11 * SEC)), LEASE_ACT_EXTEND);
    assert_time(l.valid, at(10 * SEC + SPAN));
}

TEST(a_late_lease_takes_any_gain)
{
    struct lease_fsm l = held(LIBRARY);

    lease_fsm_tick(&l, at(LATE));
    assert_int_equal(lease_fsm_hit(&l, 0, at(MS), 0, at(LATE)), 0);
    assert_int_equal(lease_fsm_hit(&l, 1, at(MS), 0, at(LATE)) & LEASE_ACT_EXTEND,
                     LEASE_ACT_EXTEND);
    assert_time(l.valid, at(MS + SPAN));
}

TEST(a_hit_that_is_no_later_than_known_changes_nothing)
{
    struct lease_fsm l = held(LIBRARY);

    lease_fsm_hit(&l, 0, at(10 * SEC), 5, at(10 * SEC));
    assert_int_equal(lease_fsm_hit(&l, 0, at(10 * SEC), 6, at(10 * SEC)), 0);
    assert_int_equal(lease_fsm_hit(&l, 0, at(9 * SEC), 6, at(10 * SEC)), 0);
    assert_time(lease_fsm_d(&l, 0), at(10 * SEC + SPAN));
    assert_int_equal(l.node[0].mark, 5);
}

TEST(an_extension_takes_late_back)
{
    struct lease_fsm l = held(LIBRARY);

    lease_fsm_tick(&l, at(LATE));
    lease_fsm_hit(&l, 0, at(LATE), 0, at(LATE + SEC));
    assert_state(&l, HF_SLOT_LATE, HF_LOSS_NONE);
    assert_int_equal(lease_fsm_hit(&l, 1, at(LATE), 0, at(LATE + SEC)),
                     LEASE_ACT_EXTEND | LEASE_ACT_STATE | LEASE_ACT_TIMER);
    assert_state(&l, HF_SLOT_HELD, HF_LOSS_NONE);
}

TEST(a_late_vote_of_the_acquire_heals)
{
    struct lease_fsm l = granted(LIBRARY, at(0), HF_TIME_PAST, at(0));

    assert_int_equal(lease_fsm_hit(&l, 1, at(0), 3, at(SEC)), 0);
    assert_int_equal(l.heal_wanted, 0);
    assert_int_equal(l.node[1].mark, 3);
    assert_int_equal(lease_fsm_votes(&l, at(SEC)), 3);
}

/* --- (!) a reply is judged by the clock when it is processed ---------------------------------- */

TEST(a_reply_processed_just_before_v_extends)
{
    struct lease_fsm l = granted(LIBRARY, at(10 * SEC), at(0), at(0));

    assert_true(lease_fsm_hit(&l, 1, at(10 * SEC), 0, at(SPAN - NS)) & LEASE_ACT_EXTEND);
    assert_time(l.valid, at(10 * SEC + SPAN));
}

TEST(a_reply_processed_at_v_comes_too_late_whatever_it_says)
{
    struct lease_fsm l = granted(LIBRARY, at(10 * SEC), at(0), at(0));

    assert_int_equal(lease_fsm_hit(&l, 1, at(10 * SEC), 0, at(SPAN)), OVER_BY_LOSS);
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_LATE_REPLY);
    assert_final(&l, at(SPAN));
}

TEST(a_reply_at_v_that_extends_nothing_is_not_to_blame)
{
    struct lease_fsm l = held(LIBRARY);

    assert_int_equal(lease_fsm_hit(&l, 1, at(10 * SEC), 0, at(SPAN)), OVER_BY_LOSS);
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_QUORUM);
}

TEST(a_run_is_extended_just_before_losing)
{
    struct lease_fsm l = granted(RUN, at(10 * SEC), at(0), at(0));

    assert_true(lease_fsm_hit(&l, 1, at(10 * SEC), 0, at(LOSING - NS)) & LEASE_ACT_EXTEND);
    assert_state(&l, HF_SLOT_HELD, HF_LOSS_NONE);
}

TEST(a_run_whose_reply_is_processed_at_losing_is_losing)
{
    struct lease_fsm l = granted(RUN, at(10 * SEC), at(0), at(0));

    assert_int_equal(lease_fsm_hit(&l, 1, at(10 * SEC), 0, at(LOSING)),
                     LEASE_ACT_STATE | LEASE_ACT_TIMER);
    assert_state(&l, HF_SLOT_LOSING, HF_LOSS_LATE_REPLY);
    assert_time(l.valid, at(SPAN));
    assert_int_equal(lease_fsm_tick(&l, at(SPAN)), OVER_BY_LOSS);
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_LATE_REPLY);
}

TEST(a_library_lease_may_be_extended_between_losing_and_v_if_no_tick_came_first)
{
    struct lease_fsm l = granted(LIBRARY, at(10 * SEC), at(0), at(0));

    assert_true(lease_fsm_hit(&l, 1, at(10 * SEC), 0, at(LOSING)) & LEASE_ACT_EXTEND);
    assert_state(&l, HF_SLOT_HELD, HF_LOSS_NONE);
}

/* --- (!) the clock is read again after an extension was stored -------------------------------- */

TEST(an_extension_stored_before_the_old_v_is_confirmed)
{
    struct lease_fsm l = granted(LIBRARY, at(10 * SEC), at(0), at(0));

    lease_fsm_hit(&l, 1, at(10 * SEC), 0, at(SPAN - MS));
    assert_int_equal(lease_fsm_confirm(&l, at(SPAN), shown(SPAN, -NS)), 0);
    assert_state(&l, HF_SLOT_LATE, HF_LOSS_NONE);
}

TEST(an_extension_stored_after_the_check_word_ran_out_is_withdrawn)
{
    struct lease_fsm l = granted(LIBRARY, at(10 * SEC), at(0), at(0));

    lease_fsm_hit(&l, 1, at(10 * SEC), 0, at(SPAN - MS));
    assert_int_equal(lease_fsm_confirm(&l, at(SPAN), shown(SPAN, 0)), OVER_BY_LOSS);
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_LATE_REPLY);
}

TEST(an_extension_stored_at_the_old_v_is_withdrawn)
{
    struct lease_fsm l = granted(LIBRARY, at(10 * SEC), at(0), at(0));

    lease_fsm_hit(&l, 1, at(10 * SEC), 0, at(SPAN - MS));
    assert_int_equal(lease_fsm_confirm(&l, at(SPAN), at(SPAN)), OVER_BY_LOSS);
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_LATE_REPLY);
    assert_final(&l, at(SPAN));
}

TEST(a_run_whose_extension_was_stored_at_the_old_losing_is_losing)
{
    struct lease_fsm l = granted(RUN, at(10 * SEC), at(0), at(0));

    lease_fsm_hit(&l, 1, at(10 * SEC), 0, at(LOSING - MS));
    assert_int_equal(lease_fsm_confirm(&l, at(SPAN), at(LOSING - NS)), 0);
    assert_int_equal(lease_fsm_confirm(&l, at(SPAN), at(LOSING)),
                     LEASE_ACT_STATE | LEASE_ACT_TIMER);
    assert_state(&l, HF_SLOT_LOSING, HF_LOSS_LATE_REPLY);
}

TEST(a_run_whose_extension_was_stored_at_the_old_v_is_lost)
{
    struct lease_fsm l = granted(RUN, at(10 * SEC), at(0), at(0));

    lease_fsm_hit(&l, 1, at(10 * SEC), 0, at(LOSING - MS));
    assert_int_equal(lease_fsm_confirm(&l, at(SPAN), at(SPAN)), OVER_BY_LOSS);
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_LATE_REPLY);
}

TEST(a_lowered_v_that_passed_while_it_was_stored_is_lost)
{
    struct lease_fsm l = granted(LIBRARY, at(10 * SEC), at(9 * SEC), at(0));

    assert_true(lease_fsm_foreign(&l, 0, at(SPAN - NS)) & LEASE_ACT_EXTEND);
    assert_int_equal(lease_fsm_confirm(&l, at(9 * SEC + SPAN), at(SPAN)), OVER_BY_LOSS);
}

/* --- another was given the lock --------------------------------------------------------------- */

TEST(a_later_grant_ends_it_whatever_votes_stand)
{
    for (enum kind kind = LIBRARY; kind <= RUN; kind++) {
        struct lease_fsm l = held(kind);

        assert_int_equal(lease_fsm_outbid(&l, 1, at(SEC)), 0);
        assert_state(&l, HF_SLOT_HELD, HF_LOSS_NONE);
        assert_int_equal(lease_fsm_votes(&l, at(SEC)), 3);
        assert_int_equal(lease_fsm_outbid(&l, 3, at(SEC)), 0); /* a try, and a lie */
        assert_state(&l, HF_SLOT_HELD, HF_LOSS_NONE);
        assert_int_equal(lease_fsm_outbid(&l, 7, at(SEC)), OVER_BY_LOSS);
        assert_state(&l, HF_SLOT_LOST, HF_LOSS_FENCE);
        assert_final(&l, at(2 * SEC));
    }
}

TEST(a_later_grant_ends_one_that_is_losing)
{
    struct lease_fsm l = held(LIBRARY);

    lease_fsm_lose(&l, HF_LOSS_ASKED, at(SEC));
    assert_int_equal(lease_fsm_outbid(&l, 1, at(SEC)), 0);
    assert_int_equal(lease_fsm_outbid(&l, 7, at(SEC)), OVER_BY_LOSS);
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_FENCE);
}

TEST(a_later_grant_that_is_found_at_v_comes_after_the_loss)
{
    struct lease_fsm l = held(LIBRARY);

    assert_int_equal(lease_fsm_outbid(&l, 7, at(SPAN)), OVER_BY_LOSS);
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_QUORUM);
}

/* --- LOSING is terminal ----------------------------------------------------------------------- */

TEST(losing_freezes_v_against_hits)
{
    struct lease_fsm l = held(LIBRARY);

    lease_fsm_tick(&l, at(LOSING));
    assert_int_equal(lease_fsm_hit(&l, 0, at(LOSING), 0, at(LOSING + MS)), 0);
    assert_int_equal(lease_fsm_hit(&l, 1, at(LOSING), 0, at(LOSING + MS)), 0);
    assert_time(l.valid, at(SPAN));
    assert_state(&l, HF_SLOT_LOSING, HF_LOSS_QUORUM);
}

TEST(void_votes_lower_a_frozen_v)
{
    struct lease_fsm l = granted(LIBRARY, at(2 * SEC), at(SEC), at(0));

    lease_fsm_lose(&l, HF_LOSS_ASKED, at(3 * SEC));
    assert_int_equal(lease_fsm_foreign(&l, 0, at(4 * SEC)), LEASE_ACT_EXTEND | LEASE_ACT_TIMER);
    assert_time(l.valid, at(SPAN));
    assert_state(&l, HF_SLOT_LOSING, HF_LOSS_ASKED);
    assert_int_equal(lease_fsm_foreign(&l, 1, at(4 * SEC)), OVER_BY_LOSS);
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_FOREIGN);
}

TEST(losing_by_request_keeps_its_reason_to_the_end)
{
    struct lease_fsm l = held(LIBRARY);

    assert_int_equal(lease_fsm_lose(&l, HF_LOSS_ASKED, at(SEC)), LEASE_ACT_STATE | LEASE_ACT_TIMER);
    assert_state(&l, HF_SLOT_LOSING, HF_LOSS_ASKED);
    assert_time(lease_fsm_next(&l), at(SPAN));
    assert_int_equal(lease_fsm_lose(&l, HF_LOSS_GUARDIAN, at(SEC)), 0);
    lease_fsm_tick(&l, at(SPAN));
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_ASKED);
}

/* The check word rounds V down to 2^20 ns. */
TEST(a_guardian_that_goes_by_the_shown_v_is_no_reason)
{
    const int64_t early = at(SPAN).ns % (INT64_C(1) << 20);
    struct lease_fsm l = held(RUN);

    assert_true(early > 0);
    lease_fsm_lose(&l, HF_LOSS_GUARDIAN, at(LOSING - early - 1));
    assert_state(&l, HF_SLOT_LOSING, HF_LOSS_GUARDIAN);
    l = held(RUN);
    lease_fsm_lose(&l, HF_LOSS_GUARDIAN, at(LOSING - early));
    assert_state(&l, HF_SLOT_LOSING, HF_LOSS_QUORUM);
    assert_time(l.valid, at(SPAN));
    l = held(RUN);
    lease_fsm_lose(&l, HF_LOSS_ASKED, at(LOSING - early));
    assert_state(&l, HF_SLOT_LOSING, HF_LOSS_ASKED);
}

TEST(a_request_at_v_finds_it_lost)
{
    struct lease_fsm l = held(LIBRARY);

    assert_int_equal(lease_fsm_lose(&l, HF_LOSS_ASKED, at(SPAN)), OVER_BY_LOSS);
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_QUORUM);
}

TEST(nothing_is_healed_from_losing_on)
{
    struct lease_fsm l = granted(LIBRARY, at(0), at(0), HF_TIME_PAST);

    lease_fsm_lose(&l, HF_LOSS_ASKED, at(SEC));
    assert_int_equal(l.heal_wanted, 0);
    lease_fsm_missing(&l, 2, 0, at(SEC));
    assert_int_equal(l.heal_wanted, 0);
}

/* --- missing, foreign and clock steps --------------------------------------------------------- */

TEST(a_foreign_key_voids_its_vote_at_once)
{
    struct lease_fsm l = granted(LIBRARY, at(2 * SEC), at(SEC), at(0));

    assert_int_equal(lease_fsm_foreign(&l, 0, at(2 * SEC)), LEASE_ACT_EXTEND | LEASE_ACT_TIMER);
    assert_time(l.valid, at(SPAN));
    assert_time(lease_fsm_d(&l, 0), HF_TIME_PAST);
    assert_int_equal(l.heal_wanted, 0);
    assert_state(&l, HF_SLOT_HELD, HF_LOSS_NONE);
}

TEST(a_foreign_key_takes_a_wanted_heal_back)
{
    struct lease_fsm l = granted(LIBRARY, at(0), at(0), HF_TIME_PAST);

    lease_fsm_foreign(&l, 2, at(SEC));
    assert_int_equal(l.heal_wanted, 0);
    assert_int_equal(lease_fsm_missing(&l, 2, 0, at(2 * SEC)), LEASE_ACT_HEAL);
    assert_int_equal(l.heal_wanted, 1 << 2);
}

TEST(a_missing_key_voids_its_vote_and_is_healed)
{
    struct lease_fsm l = granted(LIBRARY, at(2 * SEC), at(SEC), at(0));

    assert_int_equal(lease_fsm_missing(&l, 1, 0, at(2 * SEC)),
                     LEASE_ACT_EXTEND | LEASE_ACT_HEAL | LEASE_ACT_TIMER);
    assert_time(l.valid, at(SPAN));
    assert_time(lease_fsm_d(&l, 1), HF_TIME_PAST);
    assert_int_equal(l.heal_wanted, 1 << 1);
}

TEST(a_missing_key_of_a_node_that_forgot_keeps_its_vote_and_is_healed)
{
    struct lease_fsm l = granted(LIBRARY, at(2 * SEC), at(SEC), at(0));

    assert_int_equal(lease_fsm_missing(&l, 1, 1, at(2 * SEC)), LEASE_ACT_HEAL);
    assert_time(l.valid, at(SEC + SPAN));
    assert_int_equal(l.heal_wanted, 1 << 1);
    /* once healed under the new sentinel, a missing key is a deleted one */
    lease_fsm_hit(&l, 1, at(3 * SEC), 1, at(3 * SEC));
    assert_int_equal(l.heal_wanted, 0);
    lease_fsm_missing(&l, 1, 1, at(4 * SEC));
    assert_time(lease_fsm_d(&l, 1), HF_TIME_PAST);
}

/* Of a generation the lowest bits are kept. */
TEST(a_node_that_forgot_very_often_is_told_from_one_that_lost_a_key)
{
    const uint32_t mark = (UINT32_C(5) << 16) + 7;
    struct lease_fsm l = held(LIBRARY);

    lease_fsm_hit(&l, 1, at(SEC), mark, at(SEC));
    assert_int_equal(lease_fsm_missing(&l, 1, mark + 1, at(2 * SEC)), LEASE_ACT_HEAL);
    assert_time(lease_fsm_d(&l, 1), at(SEC + SPAN));
    lease_fsm_missing(&l, 1, mark, at(2 * SEC));
    assert_time(lease_fsm_d(&l, 1), HF_TIME_PAST);
}

TEST(all_nodes_may_forget_and_the_lease_lives)
{
    struct lease_fsm l = held(LIBRARY);

    for (int i = 0; i < 3; i++)
        assert_int_equal(lease_fsm_missing(&l, i, 1, at(SEC)), LEASE_ACT_HEAL);
    assert_state(&l, HF_SLOT_HELD, HF_LOSS_NONE);
    for (int i = 0; i < 3; i++)
        lease_fsm_hit(&l, i, at(2 * SEC), 1, at(2 * SEC));
    assert_time(l.valid, at(2 * SEC + SPAN));
    assert_int_equal(l.heal_wanted, 0);
}

TEST(a_clock_step_voids_the_vote_until_renewed)
{
    struct lease_fsm l = granted(LIBRARY, at(2 * SEC), at(SEC), at(0));

    assert_true(lease_fsm_stepped(&l, 0, at(3 * SEC), at(3 * SEC + MS)) & LEASE_ACT_EXTEND);
    assert_time(l.valid, at(SPAN));
    assert_true(lease_fsm_hit(&l, 0, at(4 * SEC), 0, at(4 * SEC)) & LEASE_ACT_EXTEND);
    assert_time(l.valid, at(SEC + SPAN));
}

TEST(the_reply_that_showed_a_step_counts_as_a_renewal)
{
    struct lease_fsm l = held(LIBRARY);
    const hf_time sent = at(10 * SEC), now = at(10 * SEC + MS);

    lease_fsm_hit(&l, 0, sent, 0, now);
    assert_int_equal(lease_fsm_stepped(&l, 0, sent, now), 0);
    assert_time(lease_fsm_d(&l, 0), at(10 * SEC + SPAN));
    /* in the other order, too, though V falls in between */
    lease_fsm_stepped(&l, 1, sent, now);
    assert_time(lease_fsm_d(&l, 1), HF_TIME_PAST);
    lease_fsm_hit(&l, 1, sent, 0, now);
    assert_time(lease_fsm_d(&l, 1), at(10 * SEC + SPAN));
}

TEST(a_vote_from_before_a_step_gives_none_after_it)
{
    struct lease_fsm l = held(LIBRARY);

    lease_fsm_stepped(&l, 0, at(10 * SEC), at(10 * SEC + MS));
    assert_int_equal(lease_fsm_hit(&l, 0, at(10 * SEC - NS), 0, at(11 * SEC)), 0);
    assert_time(lease_fsm_d(&l, 0), HF_TIME_PAST);
    lease_fsm_hit(&l, 0, at(10 * SEC), 0, at(11 * SEC));
    assert_time(lease_fsm_d(&l, 0), at(10 * SEC + SPAN));
}

TEST(a_step_that_is_seen_now_wants_a_command_sent_since)
{
    struct lease_fsm l = held(LIBRARY);

    lease_fsm_stepped(&l, 0, at(10 * SEC), at(10 * SEC));
    assert_time(lease_fsm_d(&l, 0), HF_TIME_PAST);
    assert_int_equal(lease_fsm_hit(&l, 0, at(10 * SEC - NS), 0, at(11 * SEC)), 0);
    lease_fsm_hit(&l, 0, at(10 * SEC), 0, at(11 * SEC));
    assert_time(lease_fsm_d(&l, 0), at(10 * SEC + SPAN));
}

/* Before anybody else has the lease. */
TEST(a_vote_after_the_grant_stands_and_moves_nothing)
{
    struct lease_fsm l = granted(LIBRARY, at(0), at(2 * MS), HF_TIME_PAST);

    lease_fsm_vote(&l, 2, at(MS));
    assert_time(lease_fsm_d(&l, 2), at(SPAN + MS));
    assert_int_equal(l.heal_wanted, 0);
    assert_time(l.valid, at(SPAN));
    lease_fsm_vote(&l, 0, at(SEC)); /* it has one */
    assert_time(lease_fsm_d(&l, 0), at(SPAN));
    lease_fsm_missing(&l, 1, 0, at(SEC));
    assert_state(&l, HF_SLOT_HELD, HF_LOSS_NONE);
    lease_fsm_vote(&l, 1, at(2 * MS)); /* sent before it was found void */
    assert_time(lease_fsm_d(&l, 1), HF_TIME_PAST);
}

/* Its guardians may still go by it. */
TEST(what_ends_a_lease_leaves_the_v_that_was_shown)
{
    struct lease_fsm l = held(RUN);

    lease_fsm_hit(&l, 1, at(3 * SEC), 0, at(3 * SEC));
    lease_fsm_forced(&l, 0, at(5 * SEC));
    assert_state(&l, HF_SLOT_HELD, HF_LOSS_NONE);
    assert_time(l.valid, at(SPAN));
    assert_int_equal(lease_fsm_forced(&l, 1, at(6 * SEC)), OVER_BY_LOSS);
    assert_time(l.valid, at(SPAN));
}

TEST(a_vote_sent_before_a_key_was_found_missing_does_not_count)
{
    struct lease_fsm l = held(LIBRARY);

    lease_fsm_missing(&l, 0, 0, at(5 * SEC));
    assert_int_equal(lease_fsm_hit(&l, 0, at(5 * SEC - NS), 0, at(6 * SEC)), 0);
    assert_time(lease_fsm_d(&l, 0), HF_TIME_PAST);
    assert_int_equal(l.heal_wanted, 1 << 0);
    lease_fsm_hit(&l, 0, at(5 * SEC), 0, at(6 * SEC));
    assert_time(lease_fsm_d(&l, 0), at(5 * SEC + SPAN));
    assert_int_equal(l.heal_wanted, 0);
}

TEST(fewer_than_q_votes_are_a_loss_at_once_for_the_last_reason)
{
    struct lease_fsm l = held(LIBRARY);

    lease_fsm_missing(&l, 0, 0, at(SEC));
    assert_state(&l, HF_SLOT_HELD, HF_LOSS_NONE);
    assert_int_equal(lease_fsm_foreign(&l, 1, at(SEC)), OVER_BY_LOSS);
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_FOREIGN);
    assert_final(&l, at(SEC));

    l = held(LIBRARY);
    lease_fsm_foreign(&l, 0, at(SEC));
    assert_int_equal(lease_fsm_missing(&l, 1, 0, at(SEC)), OVER_BY_LOSS);
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_MISSING);
    assert_int_equal(l.heal_wanted, 0);

    l = held(RUN);
    lease_fsm_missing(&l, 0, 0, at(SEC));
    assert_int_equal(lease_fsm_stepped(&l, 1, at(SEC), at(SEC)), OVER_BY_LOSS);
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_CLOCK);
}

TEST(a_vote_that_has_ended_does_not_stand)
{
    struct lease_fsm l = granted(LIBRARY, at(10 * SEC), at(10 * SEC), at(0));

    assert_int_equal(lease_fsm_foreign(&l, 0, at(SPAN)), OVER_BY_LOSS);
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_FOREIGN);
}

TEST(a_void_vote_can_make_it_losing_at_once)
{
    struct lease_fsm l = granted(LIBRARY, at(10 * SEC), at(10 * SEC), at(0));

    assert_int_equal(lease_fsm_foreign(&l, 0, at(LOSING)),
                     LEASE_ACT_EXTEND | LEASE_ACT_STATE | LEASE_ACT_TIMER);
    assert_state(&l, HF_SLOT_LOSING, HF_LOSS_FOREIGN);
    assert_time(l.valid, at(SPAN));
}

TEST(a_void_vote_is_journaled_though_v_stays)
{
    struct lease_fsm l = granted(LIBRARY, at(10 * SEC), at(5 * SEC), at(0));

    assert_int_equal(lease_fsm_foreign(&l, 2, at(10 * SEC)), LEASE_ACT_EXTEND);
    assert_time(l.valid, at(5 * SEC + SPAN));
    assert_int_equal(lease_fsm_foreign(&l, 2, at(10 * SEC)), 0);
}

TEST(findings_at_v_come_too_late_to_be_the_reason)
{
    struct lease_fsm l = held(LIBRARY);

    assert_int_equal(lease_fsm_foreign(&l, 0, at(SPAN)), OVER_BY_LOSS);
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_QUORUM);
}

/* --- ends ------------------------------------------------------------------------------------- */

TEST(a_release_ends_it)
{
    struct lease_fsm l = held(LIBRARY);

    assert_int_equal(lease_fsm_release(&l, HF_LOSS_NONE, shown(SPAN, -NS)), OVER_BY_RELEASE);
    assert_state(&l, HF_SLOT_ENDED, HF_LOSS_NONE);
    assert_final(&l, at(SPAN));
}

TEST(a_release_after_the_check_word_ran_out_finds_it_lost)
{
    struct lease_fsm l = held(LIBRARY);

    assert_int_equal(lease_fsm_release(&l, HF_LOSS_NONE, shown(SPAN, 0)), OVER_BY_LOSS);
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_QUORUM);
}

TEST(a_holder_that_died_ends_it)
{
    struct lease_fsm l = held(LIBRARY);

    assert_int_equal(lease_fsm_release(&l, HF_LOSS_HOLDER, at(SEC)), OVER_BY_RELEASE);
    assert_state(&l, HF_SLOT_ENDED, HF_LOSS_HOLDER);
}

TEST(a_release_at_v_finds_it_lost)
{
    struct lease_fsm l = held(LIBRARY);

    assert_int_equal(lease_fsm_release(&l, HF_LOSS_NONE, at(SPAN)), OVER_BY_LOSS);
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_QUORUM);
}

TEST(a_release_ends_a_losing_lease_and_keeps_why)
{
    struct lease_fsm l = held(RUN);

    lease_fsm_lose(&l, HF_LOSS_ASKED, at(SEC));
    assert_int_equal(lease_fsm_release(&l, HF_LOSS_NONE, at(2 * SEC)), OVER_BY_RELEASE);
    assert_state(&l, HF_SLOT_ENDED, HF_LOSS_ASKED);
}

TEST(an_abandoned_run_is_not_renewed_and_lapses)
{
    struct lease_fsm l = granted(RUN, at(0), at(0), HF_TIME_PAST);

    lease_fsm_abandon(&l, at(SEC));
    assert_false(lease_fsm_renews(&l));
    assert_int_equal(l.heal_wanted, 0);
    assert_int_equal(lease_fsm_hit(&l, 0, at(SEC), 0, at(SEC)), 0);
    assert_int_equal(lease_fsm_hit(&l, 1, at(SEC), 0, at(SEC)), 0);
    assert_time(l.valid, at(SPAN));
    lease_fsm_missing(&l, 2, 0, at(SEC));
    assert_int_equal(l.heal_wanted, 0);
    lease_fsm_tick(&l, at(LOSING));
    assert_state(&l, HF_SLOT_LOSING, HF_LOSS_HOLDER);
    assert_int_equal(lease_fsm_tick(&l, at(SPAN)), OVER_BY_LOSS);
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_HOLDER);
}

TEST(max_hold_makes_it_losing_though_renewed)
{
    const hf_time a[] = {at(0), at(0), at(0)};
    struct lease_fsm l;

    lease_fsm_init(&l, NULL, 3, 2, &timing, false, at(12 * SEC), a, marks);
    assert_time(lease_fsm_next(&l), at(12 * SEC));
    lease_fsm_hit(&l, 0, at(10 * SEC), 0, at(10 * SEC));
    lease_fsm_hit(&l, 1, at(10 * SEC), 0, at(10 * SEC));
    assert_int_equal(lease_fsm_tick(&l, at(12 * SEC - NS)), 0);
    assert_int_equal(lease_fsm_hit(&l, 2, at(11 * SEC), 0, at(12 * SEC)),
                     LEASE_ACT_STATE | LEASE_ACT_TIMER);
    assert_state(&l, HF_SLOT_LOSING, HF_LOSS_MAX_HOLD);
    assert_time(l.valid, at(10 * SEC + SPAN));
}

TEST(of_max_hold_and_losing_the_earlier_is_the_reason)
{
    const hf_time a[] = {at(0), at(0), at(0)};
    struct lease_fsm l;

    lease_fsm_init(&l, NULL, 3, 2, &timing, false, at(LOSING), a, marks);
    lease_fsm_tick(&l, at(LOSING + SEC));
    assert_state(&l, HF_SLOT_LOSING, HF_LOSS_MAX_HOLD);
    lease_fsm_init(&l, NULL, 3, 2, &timing, false, at(LOSING + NS), a, marks);
    lease_fsm_tick(&l, at(LOSING + SEC));
    assert_state(&l, HF_SLOT_LOSING, HF_LOSS_QUORUM);
    lease_fsm_init(&l, NULL, 3, 2, &timing, false, at(LOSING), a, marks);
    lease_fsm_tick(&l, at(SPAN));
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_MAX_HOLD);
}

/* The first and the last node are one server. */
static const struct servers *one_twice(void)
{
    static struct servers servers;

    memset(&servers, 0, sizeof(servers));
    servers_meet(&servers, 0, "r");
    servers_meet(&servers, 1, "s");
    servers_meet(&servers, 2, "r");
    return &servers;
}

TEST(v_is_of_different_servers)
{
    const hf_time a[] = {at(2 * SEC), at(SEC), at(3 * SEC)};
    struct lease_fsm l;

    lease_fsm_init(&l, one_twice(), 3, 2, &timing, false, HF_TIME_NEVER, a, marks);
    assert_time(l.valid, at(SEC + SPAN));
    assert_int_equal(lease_fsm_votes(&l, at(3 * SEC)), 2);
    (void)lease_fsm_hit(&l, 0, at(10 * SEC), 0, at(10 * SEC));
    (void)lease_fsm_hit(&l, 2, at(10 * SEC), 0, at(10 * SEC));
    assert_time(l.valid, at(SEC + SPAN));
    (void)lease_fsm_hit(&l, 1, at(9 * SEC), 0, at(10 * SEC));
    assert_time(l.valid, at(9 * SEC + SPAN));
    /* Whichever of them is found void, the other one's vote is the server's. */
    (void)lease_fsm_foreign(&l, 2, at(11 * SEC));
    assert_time(l.valid, at(9 * SEC + SPAN));
    (void)lease_fsm_foreign(&l, 1, at(11 * SEC));
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_FOREIGN);
}

TEST(two_nodes_of_one_server_show_one_rival)
{
    struct lease_fsm l = held(LIBRARY);

    l.servers = one_twice();
    assert_int_equal(lease_fsm_outbid(&l, 6, at(SEC)), 0);
    assert_int_equal(lease_fsm_outbid(&l, 7, at(SEC)),
                     0); /* one may say that it is another's server */
    l.servers = NULL;
    assert_int_equal(lease_fsm_outbid(&l, 7, at(SEC)), OVER_BY_LOSS);
}

/* Two nodes changed places: each server's vote stands by the other node. */
TEST(a_hit_that_would_shorten_a_lease_does_not_count)
{
    struct servers servers = {0};
    struct lease_fsm l = granted(LIBRARY, at(0), at(0), HF_TIME_PAST);

    servers_meet(&servers, 0, "r");
    servers_meet(&servers, 1, "s");
    l.servers = &servers;
    servers_on_run_id(&servers, 0, "s", hf_ms(SEC), at(SEC));
    servers_on_run_id(&servers, 1, "r", hf_ms(SEC), at(SEC));
    (void)lease_fsm_hit(&l, 0, at(10 * SEC), 0, at(10 * SEC));
    assert_time(l.valid, at(SPAN));
    assert_state(&l, HF_SLOT_HELD, HF_LOSS_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_grant_is_held_until_the_q_th_largest_d),
        cmocka_unit_test(nodes_without_a_vote_are_to_be_healed),
        cmocka_unit_test(time_makes_it_late_then_losing_then_lost),
        cmocka_unit_test(what_became_late_while_nobody_renewed_is_not_the_nodes_doing),
        cmocka_unit_test(nodes_that_had_their_time_are_to_blame_whoever_was_away_after),
        cmocka_unit_test(states_that_time_has_passed_are_left_out),
        cmocka_unit_test(v_rises_when_the_q_th_vote_does),
        cmocka_unit_test(a_small_gain_waits_for_more),
        cmocka_unit_test(a_late_lease_takes_any_gain),
        cmocka_unit_test(a_hit_that_is_no_later_than_known_changes_nothing),
        cmocka_unit_test(an_extension_takes_late_back),
        cmocka_unit_test(a_late_vote_of_the_acquire_heals),
        cmocka_unit_test(a_reply_processed_just_before_v_extends),
        cmocka_unit_test(a_reply_processed_at_v_comes_too_late_whatever_it_says),
        cmocka_unit_test(a_reply_at_v_that_extends_nothing_is_not_to_blame),
        cmocka_unit_test(a_run_is_extended_just_before_losing),
        cmocka_unit_test(a_run_whose_reply_is_processed_at_losing_is_losing),
        cmocka_unit_test(
            a_library_lease_may_be_extended_between_losing_and_v_if_no_tick_came_first),
        cmocka_unit_test(an_extension_stored_before_the_old_v_is_confirmed),
        cmocka_unit_test(an_extension_stored_after_the_check_word_ran_out_is_withdrawn),
        cmocka_unit_test(an_extension_stored_at_the_old_v_is_withdrawn),
        cmocka_unit_test(a_run_whose_extension_was_stored_at_the_old_losing_is_losing),
        cmocka_unit_test(a_run_whose_extension_was_stored_at_the_old_v_is_lost),
        cmocka_unit_test(a_lowered_v_that_passed_while_it_was_stored_is_lost),
        cmocka_unit_test(a_later_grant_ends_it_whatever_votes_stand),
        cmocka_unit_test(a_later_grant_ends_one_that_is_losing),
        cmocka_unit_test(a_later_grant_that_is_found_at_v_comes_after_the_loss),
        cmocka_unit_test(losing_freezes_v_against_hits),
        cmocka_unit_test(void_votes_lower_a_frozen_v),
        cmocka_unit_test(losing_by_request_keeps_its_reason_to_the_end),
        cmocka_unit_test(a_guardian_that_goes_by_the_shown_v_is_no_reason),
        cmocka_unit_test(a_request_at_v_finds_it_lost),
        cmocka_unit_test(nothing_is_healed_from_losing_on),
        cmocka_unit_test(a_foreign_key_voids_its_vote_at_once),
        cmocka_unit_test(a_foreign_key_takes_a_wanted_heal_back),
        cmocka_unit_test(a_missing_key_voids_its_vote_and_is_healed),
        cmocka_unit_test(a_missing_key_of_a_node_that_forgot_keeps_its_vote_and_is_healed),
        cmocka_unit_test(a_node_that_forgot_very_often_is_told_from_one_that_lost_a_key),
        cmocka_unit_test(all_nodes_may_forget_and_the_lease_lives),
        cmocka_unit_test(a_clock_step_voids_the_vote_until_renewed),
        cmocka_unit_test(the_reply_that_showed_a_step_counts_as_a_renewal),
        cmocka_unit_test(a_vote_from_before_a_step_gives_none_after_it),
        cmocka_unit_test(a_step_that_is_seen_now_wants_a_command_sent_since),
        cmocka_unit_test(a_vote_after_the_grant_stands_and_moves_nothing),
        cmocka_unit_test(what_ends_a_lease_leaves_the_v_that_was_shown),
        cmocka_unit_test(a_vote_sent_before_a_key_was_found_missing_does_not_count),
        cmocka_unit_test(fewer_than_q_votes_are_a_loss_at_once_for_the_last_reason),
        cmocka_unit_test(a_vote_that_has_ended_does_not_stand),
        cmocka_unit_test(a_void_vote_can_make_it_losing_at_once),
        cmocka_unit_test(a_void_vote_is_journaled_though_v_stays),
        cmocka_unit_test(findings_at_v_come_too_late_to_be_the_reason),
        cmocka_unit_test(a_release_ends_it),
        cmocka_unit_test(a_holder_that_died_ends_it),
        cmocka_unit_test(a_release_at_v_finds_it_lost),
        cmocka_unit_test(a_release_after_the_check_word_ran_out_finds_it_lost),
        cmocka_unit_test(a_release_ends_a_losing_lease_and_keeps_why),
        cmocka_unit_test(an_abandoned_run_is_not_renewed_and_lapses),
        cmocka_unit_test(max_hold_makes_it_losing_though_renewed),
        cmocka_unit_test(v_is_of_different_servers),
        cmocka_unit_test(two_nodes_of_one_server_show_one_rival),
        cmocka_unit_test(a_hit_that_would_shorten_a_lease_does_not_count),
        cmocka_unit_test(of_max_hold_and_losing_the_earlier_is_the_reason),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
