/* agent/core/lease_fsm.h: leases readopted from a journal, and what holds in any sequence of
 * events. */
#include "lease_fixture.h"

TEST(a_readopted_lease_wants_a_tick_and_goes_on)
{
    struct lease_fsm l = readopted(RUN, at(SPAN), false);

    assert_time(lease_fsm_next(&l), HF_TIME_PAST);
    assert_int_equal(lease_fsm_tick(&l, at(SEC)), LEASE_ACT_TIMER);
    assert_state(&l, HF_SLOT_HELD, HF_LOSS_NONE);
    assert_time(lease_fsm_next(&l), at(LATE));
    assert_true(lease_fsm_renews(&l));
}

TEST(a_readopted_lease_is_renewed_until_v)
{
    struct lease_fsm l = readopted(LIBRARY, at(SPAN), false);

    lease_fsm_tick(&l, at(LOSING + SEC));
    assert_state(&l, HF_SLOT_LATE, HF_LOSS_NONE);
    assert_true(lease_fsm_renews(&l));
    assert_time(lease_fsm_next(&l), at(SPAN));
    assert_int_equal(lease_fsm_tick(&l, at(SPAN - NS)), 0);
    lease_fsm_hit(&l, 0, at(LOSING + SEC), 0, at(SPAN - NS));
    assert_true(lease_fsm_hit(&l, 1, at(LOSING + SEC), 0, at(SPAN - NS)) & LEASE_ACT_EXTEND);
    assert_state(&l, HF_SLOT_HELD, HF_LOSS_NONE);
    /* from then on as any other */
    lease_fsm_tick(&l, at(LOSING + SEC + LOSING));
    assert_state(&l, HF_SLOT_LOSING, HF_LOSS_QUORUM);
}

/* Readopted just before V - 0.3 T there is no more time for the nodes' answers than just after. */
TEST(a_lease_readopted_before_losing_is_renewed_until_v_too)
{
    struct lease_fsm l = readopted(LIBRARY, at(SPAN), false);

    lease_fsm_tick(&l, at(LOSING - MS));
    assert_time(lease_fsm_next(&l), at(SPAN));
    assert_int_equal(lease_fsm_tick(&l, at(LOSING)), 0);
    lease_fsm_hit(&l, 0, at(LOSING), 0, at(LOSING + SEC));
    lease_fsm_tick(&l, at(LOSING + SEC));
    assert_true(lease_fsm_renews(&l));
    assert_true(lease_fsm_hit(&l, 1, at(LOSING), 0, at(LOSING + SEC)) & LEASE_ACT_EXTEND);
    assert_state(&l, HF_SLOT_HELD, HF_LOSS_NONE);
    /* from then on as any other */
    lease_fsm_tick(&l, at(LOSING + LOSING));
    assert_state(&l, HF_SLOT_LOSING, HF_LOSS_QUORUM);
}

TEST(what_takes_a_readopted_lease_is_its_reason)
{
    struct lease_fsm l = readopted(LIBRARY, at(SPAN), false);

    lease_fsm_tick(&l, at(SEC));
    lease_fsm_foreign(&l, 0, at(SEC));
    lease_fsm_foreign(&l, 1, at(SEC));
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_FOREIGN);
}

TEST(a_small_step_of_v_does_not_end_the_grace)
{
    const hf_time d[] = {at(SPAN), at(SPAN), at(SPAN + MS)};
    struct lease_fsm l;

    lease_fsm_readopt(&l, NULL, 3, 2, &timing, false, HF_TIME_NEVER, d, marks, false);
    lease_fsm_tick(&l, at(LOSING + SEC));
    assert_true(lease_fsm_hit(&l, 0, at(LOSING + SEC), 0, at(LOSING + SEC)) & LEASE_ACT_EXTEND);
    assert_time(l.valid, at(SPAN + MS));
    assert_true(lease_fsm_renews(&l));
}

TEST(a_readopted_lease_that_is_not_renewed_by_v_is_lost)
{
    struct lease_fsm l = readopted(LIBRARY, at(SPAN), false);

    lease_fsm_tick(&l, at(LOSING));
    assert_int_equal(lease_fsm_tick(&l, at(SPAN)), OVER_BY_LOSS);
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_RESTART);
}

TEST(a_readopted_lease_past_v_is_lost)
{
    struct lease_fsm l = readopted(LIBRARY, at(SPAN), false);

    assert_int_equal(lease_fsm_tick(&l, at(SPAN)), OVER_BY_LOSS);
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_RESTART);
}

TEST(a_readopted_run_past_losing_is_losing)
{
    struct lease_fsm l = readopted(RUN, at(SPAN), false);

    lease_fsm_tick(&l, at(LOSING - NS));
    assert_true(lease_fsm_renews(&l));
    l = readopted(RUN, at(SPAN), false);
    lease_fsm_tick(&l, at(LOSING));
    assert_state(&l, HF_SLOT_LOSING, HF_LOSS_RESTART);
}

TEST(a_readopted_reply_before_the_first_tick_is_judged_the_same)
{
    struct lease_fsm l = readopted(RUN, at(SPAN), false);

    lease_fsm_hit(&l, 0, at(LOSING), 0, at(LOSING));
    assert_state(&l, HF_SLOT_LOSING, HF_LOSS_RESTART);
    l = readopted(LIBRARY, at(SPAN), false);
    lease_fsm_hit(&l, 0, at(LOSING), 0, at(LOSING));
    assert_true(lease_fsm_renews(&l));
    lease_fsm_hit(&l, 1, at(LOSING), 0, at(LOSING));
    assert_time(l.valid, at(LOSING + SPAN));
}

TEST(a_lease_that_was_losing_stays_so)
{
    struct lease_fsm l = readopted(LIBRARY, at(SPAN), true);

    lease_fsm_tick(&l, at(SEC));
    assert_int_equal(l.state, HF_SLOT_LOSING);
    lease_fsm_hit(&l, 0, at(SEC), 0, at(SEC));
    lease_fsm_hit(&l, 1, at(SEC), 0, at(SEC));
    assert_time(l.valid, at(SPAN));
    assert_time(lease_fsm_next(&l), at(SPAN));
}

TEST(fewer_than_q_votes_in_the_journal_are_a_loss)
{
    const hf_time d[] = {at(SPAN), HF_TIME_PAST, HF_TIME_PAST};
    struct lease_fsm l;

    lease_fsm_readopt(&l, NULL, 3, 2, &timing, false, HF_TIME_NEVER, d, marks, false);
    assert_int_equal(l.heal_wanted, 1 << 1 | 1 << 2);
    assert_int_equal(lease_fsm_tick(&l, at(SEC)), OVER_BY_LOSS);
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_RESTART);
}

/* Any sequence of events: V is the q-th largest d until it is over; LOSING, LOST and ENDED never go back; no V
 * rises from LOSING on; no state outlasts V. */
TEST(any_sequence_keeps_the_promises)
{
    uint32_t random = 2024;

    for (int life = 0; life < 3000; life++) {
        struct lease_fsm l = held(life % 2 ? RUN : LIBRARY);
        int64_t now = 0;

        for (int step = 0; step < 60; step++) {
            struct lease_fsm before = l;
            hf_time d[] = {lease_fsm_d(&before, 0), lease_fsm_d(&before, 1),
                           lease_fsm_d(&before, 2)};
            int node, over;

            random = random * 1664525 + 1013904223;
            node = (int)(random >> 8) % 3;
            now += (int64_t)(random >> 12) % 4000 * MS;
            switch ((random >> 24) % 24) {
            case 0:
                lease_fsm_missing(&l, node, random >> 30, at(now));
                break;
            case 1:
                lease_fsm_foreign(&l, node, at(now));
                break;
            case 2:
                lease_fsm_stepped(&l, node, at(now - SEC), at(now));
                break;
            case 3:
                if (step > 40)
                    lease_fsm_lose(&l, HF_LOSS_ASKED, at(now));
                break;
            case 4:
                lease_fsm_tick(&l, at(now));
                break;
            default:
                lease_fsm_hit(&l, node, at(now - SEC), 0, at(now));
                break;
            }
            lease_fsm_confirm(&l, before.valid, at(now));
            over = l.state == HF_SLOT_LOST;
            for (int i = 0; i < 3; i++)
                d[i] = lease_fsm_d(&l, i);
            assert_true(over || !hf_time_before(validity_qth(d, 3, 2), l.valid));
            assert_true(over || hf_time_since(validity_qth(d, 3, 2), l.valid).ns <
                                    30 * SEC / LEASE_FSM_SMALL);
            assert_true(over || hf_time_before(at(now), l.valid));
            if (before.state == HF_SLOT_LOSING) {
                assert_true(over || l.state == HF_SLOT_LOSING);
                assert_false(hf_time_before(before.valid, l.valid));
            }
            if (before.state == HF_SLOT_LOST)
                assert_int_equal(l.state, HF_SLOT_LOST);
            if (hf_time_reached(at(now), before.valid))
                assert_int_equal(l.state, HF_SLOT_LOST);
        }
    }
}

/* --- by another record of the fleet ------------------------------------------------------------ */

/* One vote is left that counts, for `left` more than the holder was promised. */
static struct lease_fsm promised(hf_time until, hf_time left)
{
    const hf_time d[] = {left, HF_TIME_PAST, HF_TIME_PAST};
    struct lease_fsm l;

    lease_fsm_readopt(&l, NULL, 3, 2, &timing, false, HF_TIME_NEVER, d, marks, false);
    lease_fsm_freeze(&l, until);
    return l;
}

TEST(what_was_promised_stands)
{
    struct lease_fsm l = promised(at(SPAN), at(SPAN + SEC));

    assert_time(l.valid, at(SPAN));
    (void)lease_fsm_tick(&l, at(SEC));
    assert_state(&l, HF_SLOT_HELD, HF_LOSS_NONE);
    assert_int_equal(l.heal_wanted, 6);
    (void)lease_fsm_hit(&l, 0, at(2 * SEC), 0, at(2 * SEC)); /* one vote extends nothing */
    assert_time(l.valid, at(SPAN));
    (void)lease_fsm_hit(&l, 2, at(3 * SEC), 0, at(3 * SEC));
    assert_time(l.valid, at(2 * SEC + SPAN));
}

/* (!) The promise was made of votes of which that may have been one. */
TEST(a_void_vote_ends_what_was_promised)
{
    struct lease_fsm l = promised(at(SPAN), at(SPAN + SEC));

    (void)lease_fsm_tick(&l, at(SEC));
    (void)lease_fsm_stepped(&l, 1, at(2 * SEC), at(2 * SEC)); /* of a server that leaves */
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_CLOCK);
    l = promised(at(SPAN), at(SPAN + SEC));
    (void)lease_fsm_tick(&l, at(SEC));
    (void)lease_fsm_missing(&l, 0, marks[0], at(2 * SEC));
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_MISSING);
}

/* The agent was away when the holder went, and came back when it was too late to renew the lease. */
TEST(a_lease_that_was_abandoned_is_lost_by_its_holder)
{
    struct lease_fsm l = readopted(RUN, at(SPAN), false);

    lease_fsm_was_abandoned(&l);
    assert_false(lease_fsm_renews(&l));
    (void)lease_fsm_tick(&l, at(SPAN - 1));
    assert_state(&l, HF_SLOT_LOSING, HF_LOSS_HOLDER);
    (void)lease_fsm_tick(&l, at(SPAN));
    assert_state(&l, HF_SLOT_LOST, HF_LOSS_HOLDER);
}

TEST(a_promise_adds_nothing_to_what_counts)
{
    struct lease_fsm l = readopted(LIBRARY, at(SPAN), false);

    lease_fsm_freeze(&l, at(SPAN - SEC));
    assert_time(l.valid, at(SPAN));
    lease_fsm_freeze(&l, HF_TIME_PAST);
    assert_time(l.valid, at(SPAN));
}

TEST(what_is_readopted_counts_different_servers)
{
    const hf_time d[] = {at(20 * SEC), at(10 * SEC), at(20 * SEC)};
    struct servers servers = {0};
    struct lease_fsm l;

    servers_meet(&servers, 0, "r");
    servers_meet(&servers, 1, "s");
    servers_meet(&servers, 2, "r");
    lease_fsm_readopt(&l, &servers, 3, 2, &timing, false, HF_TIME_NEVER, d, marks, false);
    assert_time(l.valid, at(10 * SEC));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_readopted_counts_different_servers),
        cmocka_unit_test(what_was_promised_stands),
        cmocka_unit_test(a_void_vote_ends_what_was_promised),
        cmocka_unit_test(a_promise_adds_nothing_to_what_counts),
        cmocka_unit_test(a_readopted_lease_wants_a_tick_and_goes_on),
        cmocka_unit_test(a_readopted_lease_is_renewed_until_v),
        cmocka_unit_test(a_lease_readopted_before_losing_is_renewed_until_v_too),
        cmocka_unit_test(what_takes_a_readopted_lease_is_its_reason),
        cmocka_unit_test(a_small_step_of_v_does_not_end_the_grace),
        cmocka_unit_test(a_readopted_lease_that_is_not_renewed_by_v_is_lost),
        cmocka_unit_test(a_readopted_lease_past_v_is_lost),
        cmocka_unit_test(a_readopted_run_past_losing_is_losing),
        cmocka_unit_test(a_readopted_reply_before_the_first_tick_is_judged_the_same),
        cmocka_unit_test(a_lease_that_was_losing_stays_so),
        cmocka_unit_test(a_lease_that_was_abandoned_is_lost_by_its_holder),
        cmocka_unit_test(fewer_than_q_votes_in_the_journal_are_a_loss),
        cmocka_unit_test(any_sequence_keeps_the_promises),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
