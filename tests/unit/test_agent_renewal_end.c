/* The renewal thread on real nodes: what is lost, given up, or left to the next agent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/renewal_fixture.h"

/* --- lost ------------------------------------------------------------------------------------- */

static void test_quorum_away_loses_by_the_clock(void **state)
{
    struct lease *lease = granted("lost", ALL, false);
    hf_time valid;

    (void)state;
    redis_server_pause(&nodes[0]);
    redis_server_pause(&nodes[1]);
    is_changed(lease, HF_SLOT_LATE, HF_LOSS_NONE);
    assert_true(holds(lease->slot));
    is_changed(lease, HF_SLOT_LOSING, HF_LOSS_QUORUM);
    assert_true(holds(lease->slot));
    assert_int_equal(journal_of(lease->slot).slot_state, HF_SLOT_LOSING);
    valid = view_of(lease->slot).deadline;
    is_changed(lease, HF_SLOT_LOST, HF_LOSS_QUORUM);
    assert_true(hf_time_reached(clock_now(), valid));
    assert_false(holds(lease->slot));
    assert_true(counter(HF_COUNTER_LOSSES) >= 1);
    is_ended(lease); /* an attempt later: one node answered */
    assert_string_equal(ask(2, "GET lost"), "");
    redis_server_resume(&nodes[0]);
    redis_server_resume(&nodes[1]);
    assert_true(becomes("lost", "", ALL));
}

static void test_back_in_time_is_held_again(void **state)
{
    struct lease *lease = granted("back", ALL, false);

    (void)state;
    redis_server_pause(&nodes[0]);
    redis_server_pause(&nodes[1]);
    is_changed(lease, HF_SLOT_LATE, HF_LOSS_NONE);
    redis_server_resume(&nodes[0]);
    redis_server_resume(&nodes[1]);
    is_changed(lease, HF_SLOT_HELD, HF_LOSS_NONE);
    assert_true(holds(lease->slot));
    release(lease);
}

static void test_foreign_quorum_loses_at_once(void **state)
{
    struct lease *lease = granted("foreign", ALL, false);

    (void)state;
    ask(0, "SET foreign %s PX 60000", OTHER);
    is_quiet(TTL_MS); /* one is not enough */
    assert_true(holds(lease->slot));
    ask(1, "SET foreign %s PX 60000", OTHER);
    is_changed(lease, HF_SLOT_LOST, HF_LOSS_FOREIGN);
    is_ended(lease);
    assert_int_equal(holders_of("foreign", OTHER), 1 << 0 | 1 << 1);
    assert_true(becomes("foreign", "", 1 << 2));
}

static void test_asked_to_stop(void **state)
{
    struct lease *lease = granted("asked", ALL, false);
    hf_time valid;

    (void)state;
    sleep_ms(100);
    post(MSG_LOSE, lease, HF_LOSS_ASKED);
    is_changed(lease, HF_SLOT_LOSING, HF_LOSS_ASKED);
    valid = view_of(lease->slot).deadline;
    assert_true(holds(lease->slot));
    assert_int_equal(journal_of(lease->slot).slot_state, HF_SLOT_LOSING);
    is_changed(lease, HF_SLOT_LOST, HF_LOSS_ASKED); /* not renewed any more */
    assert_int_equal(journal_of(lease->slot).d[0].ns >= valid.ns, 1);
    is_ended(lease);
}

/* --- runs ------------------------------------------------------------------------------------- */

static void test_lost_run_is_not_released(void **state)
{
    struct lease *lease = granted("run", ALL, true);
    long deleted;

    (void)state;
    assert_true(view_of(lease->slot).flags & HF_SLOT_F_JOB);
    deleted = calls_of(2, "del");
    post(MSG_LOSE, lease, HF_LOSS_GUARDIAN);
    is_changed(lease, HF_SLOT_LOSING, HF_LOSS_GUARDIAN);
    assert_true(view_of(lease->slot).flags & HF_SLOT_F_JOB);
    is_changed(lease, HF_SLOT_LOST, HF_LOSS_GUARDIAN);
    is_ended(lease); /* all keys have lapsed by then */
    assert_int_equal(holders_of("run", ""), ALL);
    assert_int_equal(calls_of(2, "del"), deleted);
}

static void test_lost_run_is_released_once_reaped(void **state)
{
    struct lease *lease = granted("reaped", ALL, true);

    (void)state;
    ask(0, "SET reaped %s PX 60000", OTHER);
    ask(1, "SET reaped %s PX 60000", OTHER);
    is_changed(lease, HF_SLOT_LOST, HF_LOSS_FOREIGN);
    is_quiet(100);
    assert_true(holders_of("reaped", TOKEN) & 1 << 2);
    post(MSG_RELEASE, lease, HF_LOSS_NONE);
    is_ended(lease);
    assert_true(becomes("reaped", "", 1 << 2));
}

/* (!) Its job may live until the V that it was shown, though no vote stands: the only node shows another's key,
 * or the mark of a forced release, which a release would take along. */
static void test_lost_run_without_a_vote_lapses_at_v(void **state)
{
    const uint32_t mark[HF_NODES_MAX] = {77, 77, 77};
    hf_time a = clock_now(), valid;
    const hf_time sent[HF_NODES_MAX] = {a, HF_TIME_PAST, HF_TIME_PAST};
    struct lease *lease;

    (void)state;
    put_key("single", 1 << 0);
    for (int i = 1; i < NODES; i++)
        ask(i, "SET single %s PX 60000", OTHER);
    lease = made("single", generation % CAPACITY, 1 << 0 | 1 << 1, true, a);
    lease_fsm_init(&lease->fsm, NULL, NODES, 1, &timing, true, HF_TIME_NEVER, sent, mark);
    valid = lease->fsm.valid;
    hand_over(lease);
    ask(0, "SET single %s PX 60000", OTHER);
    is_changed(lease, HF_SLOT_LOST, HF_LOSS_FOREIGN);
    assert_false(hf_time_before(journal_of(lease->slot).d[0], valid)); /* for the next agent */
    is_ended(lease);
    assert_true(hf_time_reached(clock_now(), valid));
}

static void test_abandoned_run_lapses(void **state)
{
    struct lease *lease = granted("orphan", ALL, true);
    long deleted = calls_of(0, "del");
    hf_time valid;

    (void)state;
    sleep_ms(100);
    post(MSG_ABANDON, lease, HF_LOSS_HOLDER);
    while (!(view_of(lease->slot).flags & HF_SLOT_F_ORPHAN))
        sleep_ms(1);
    valid = view_of(lease->slot).deadline;
    is_changed(lease, HF_SLOT_LATE, HF_LOSS_NONE);
    is_changed(lease, HF_SLOT_LOSING, HF_LOSS_HOLDER);
    is_changed(lease, HF_SLOT_LOST, HF_LOSS_HOLDER);
    assert_true(hf_time_reached(clock_now(), valid));
    is_ended(lease);
    assert_int_equal(holders_of("orphan", ""), ALL);
    assert_int_equal(calls_of(0, "del"), deleted);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void test_dead_holder(void **state)
{
    struct lease *lease = granted("dead", ALL, false);
    hf_time start = clock_now();

    (void)state;
    post(MSG_RELEASE, lease, HF_LOSS_HOLDER);
    is_changed(lease, HF_SLOT_ENDED, HF_LOSS_HOLDER);
    is_ended(lease);
    assert_true(hf_time_since(clock_now(), start).ns < timing.attempt.ns);
    assert_true(becomes("dead", "", ALL));
}

/* (!) A heal that got no answer may still run: it is released again when its deadline has passed.
 */
static void test_heal_in_doubt_leaves_nothing(void **state)
{
    struct lease *lease;

    (void)state;
    redis_server_pause(&nodes[2]);
    lease = granted("doubt", 1 << 0 | 1 << 1, false);
    sleep_ms((int)hf_dur_ms(timing.attempt) * 2); /* the heal is on its way */
    post(MSG_RELEASE, lease, HF_LOSS_NONE);
    is_changed(lease, HF_SLOT_ENDED, HF_LOSS_NONE);
    is_ended(lease);
    redis_server_resume(&nodes[2]);
    sleep_ms(100);
    assert_true(becomes("doubt", "", ALL));
}

static void test_messages_of_another_generation(void **state)
{
    struct lease *lease = granted("mismatch", ALL, false);
    struct lease other = {.slot = lease->slot, .generation = lease->generation + 1000};
    struct lease nowhere = {.slot = CAPACITY + 5, .generation = 1};

    (void)state;
    post(MSG_RELEASE, &other, HF_LOSS_NONE);
    post(MSG_LOSE, &other, HF_LOSS_ASKED);
    post(MSG_ABANDON, &nowhere, HF_LOSS_NONE);
    is_quiet(200);
    assert_true(holds(lease->slot));
    release(lease);
    post(MSG_RELEASE, &other, HF_LOSS_NONE);
    is_quiet(50);
}

static void test_stop_keeps_the_leases(void **state)
{
    struct lease *lease = granted("kept", ALL, false);

    (void)state;
    is_quiet(100);
    post(MSG_STOP, NULL, HF_LOSS_NONE);
    renewal_join(agent.renewal);
    assert_true(holds(lease->slot));
    assert_int_equal(journal_of(lease->slot).state, JOURNAL_HELD);
    assert_int_equal(holders_of("kept", TOKEN), ALL);

    /* The next agent readopts it from the journal. */
    {
        struct journal_lease record = journal_of(lease->slot);
        uint32_t mark[HF_NODES_MAX] = {0};

        renewal_destroy(agent.renewal);
        assert_int_equal(renewal_create(&agent, &agent.renewal), HF_OK);
        lease_fsm_readopt(&lease->fsm, NULL, NODES, QUORUM, &timing, false, HF_TIME_NEVER, record.d,
                          mark, false);
        hand_over(lease);
        assert_int_equal(renewal_start(agent.renewal), HF_OK);
    }
    stays_renewed(lease, "kept", ALL, TTL_MS);
    release(lease);
    assert_true(becomes("kept", "", ALL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_quorum_away_loses_by_the_clock, start_afresh),
        cmocka_unit_test_setup(test_back_in_time_is_held_again, start_afresh),
        cmocka_unit_test_setup(test_foreign_quorum_loses_at_once, start_afresh),
        cmocka_unit_test_setup(test_asked_to_stop, start_afresh),
        cmocka_unit_test_setup(test_lost_run_is_not_released, start_afresh),
        cmocka_unit_test_setup(test_lost_run_is_released_once_reaped, start_afresh),
        cmocka_unit_test_setup(test_lost_run_without_a_vote_lapses_at_v, start_afresh),
        cmocka_unit_test_setup(test_abandoned_run_lapses, start_afresh),
        cmocka_unit_test_setup(test_dead_holder, start_afresh),
        cmocka_unit_test_setup(test_heal_in_doubt_leaves_nothing, start_afresh),
        cmocka_unit_test_setup(test_messages_of_another_generation, start_afresh),
        cmocka_unit_test_setup(test_stop_keeps_the_leases, start_afresh),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
