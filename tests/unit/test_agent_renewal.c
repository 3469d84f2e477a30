/* The renewal thread on real nodes: what it keeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/renewal_fixture.h"

/* --- held ------------------------------------------------------------------------------------- */

static void test_renewed_until_released(void **state)
{
    struct lease *lease = granted("steady", ALL, false);
    hf_time first = lease->fsm.valid;

    (void)state;
    stays_renewed(lease, "steady", ALL, 2 * TTL_MS);
    assert_true(atomic_load(&lease->valid_ns) > first.ns);
    assert_int_equal(view_of(lease->slot).votes, NODES);
    assert_int_equal(view_of(lease->slot).deadline.ns, atomic_load(&lease->valid_ns));
    assert_true(journal_of(lease->slot).d[0].ns > first.ns);
    assert_true(counter(HF_COUNTER_RENEWED) >= NODES * 4);
    is_quiet(0);
    release(lease);
    assert_int_equal(holders_of("steady", ""), ALL);
    assert_int_equal(counter(HF_COUNTER_RELEASES), 1);
}

static void test_heartbeat(void **state)
{
    _Atomic int64_t *beat = &agent.table.header->renewal_beat_ns;

    (void)state;
    for (int i = 0; i < 20; i++) {
        assert_true(hf_time_since(clock_now(), (hf_time){atomic_load(beat)}).ns < HF_NS_PER_SEC);
        sleep_ms(20);
    }
}

/* The age of its vote is at least that of the silence; the agent itself was not late. */
static void test_a_silent_node_makes_renewals_overdue(void **state)
{
    const uint64_t least = (TTL_MS / 2 - TTL_MS * 11 / 30) * HF_NS_PER_MS;
    struct lease *lease = granted("overdue", ALL, false);

    (void)state;
    sleep_ms(200);
    redis_server_pause(&nodes[1]);
    sleep_ms(TTL_MS / 2);
    redis_server_resume(&nodes[1]);
    for (int waited = 0; waited < FAR_MS && counter(HF_COUNTER_RENEW_OVERDUE_MAX_NS) < least;
         waited += 5)
        sleep_ms(5); /* with little time for itself this host makes some less overdue before */
    assert_in_range(counter(HF_COUNTER_RENEW_OVERDUE_MAX_NS), least, TTL_MS * HF_NS_PER_MS);
    assert_true(counter(HF_COUNTER_RENEW_LAG_MAX_NS) < counter(HF_COUNTER_RENEW_OVERDUE_MAX_NS));
    stays_held(lease, 0);
    release(lease);
}

static void test_one_node_away_changes_nothing(void **state)
{
    struct lease *lease = granted("minority", ALL, false);

    (void)state;
    redis_server_pause(&nodes[1]);
    for (int i = 0; i < 2 * TTL_MS / 20; i++) {
        assert_true(holds(lease->slot));
        assert_true(ask_number(0, "PTTL", "minority") >= TTL_MS / 2);
        sleep_ms(20);
    }
    is_quiet(0);
    redis_server_resume(&nodes[1]);
    assert_true(becomes("minority", TOKEN, ALL)); /* it lapsed there, and is healed */
    release(lease);
    assert_true(becomes("minority", "", ALL));
}

static void test_many_keys_in_one_script(void **state)
{
    enum { LEASES = 1000 };
    static struct lease *leases[LEASES];
    uint64_t calls = counter(HF_COUNTER_RENEW_CALLS), renewed = counter(HF_COUNTER_RENEWED);
    char name[32];
    hf_time a;

    (void)state;
    for (int k = 0; k < LEASES; k++) {
        snprintf(name, sizeof(name), "many-%d", k);
        put_key(name, ALL);
    }
    for (int i = 0; i < NODES; i++)
        ask(i, "CONFIG RESETSTAT");
    a = hf_time_sub(clock_now(), hf_ms(100));
    for (int k = 0; k < LEASES; k++) {
        snprintf(name, sizeof(name), "many-%d", k);
        for (int i = 0; i < NODES && k % 100 == 0; i++)
            ask(i, "PEXPIRE %s %d", name, TTL_MS);
        leases[k] = made(name, (uint32_t)(2000 + k), ALL, false, a);
    }
    for (int k = 0; k < LEASES; k++)
        hand_over(leases[k]);
    sleep_ms(2 * TTL_MS);
    for (int k = 0; k < LEASES; k++)
        assert_true(holds(leases[k]->slot));
    is_quiet(0);
    calls = counter(HF_COUNTER_RENEW_CALLS) - calls;
    renewed = counter(HF_COUNTER_RENEWED) - renewed;
    assert_true(renewed >= (uint64_t)LEASES * NODES * 4);
    assert_true(renewed / calls >= 10);
    assert_true(counter(HF_COUNTER_RENEW_LAG_MAX_NS) < (uint64_t)TTL_MS * HF_NS_PER_MS / 2);
    for (int k = 0; k < LEASES; k++)
        post(MSG_RELEASE, leases[k], HF_LOSS_NONE);
    for (int ended = 0; ended < LEASES;) {
        struct message *message = told(FAR_MS);

        assert_non_null(message);
        if (message->kind == MSG_ENDED) {
            lease_free(message->lease);
            ended++;
        }
        free(message);
    }
    assert_true(becomes("many-0", "", ALL));
    assert_true(becomes("many-999", "", ALL));
}

/* --- healed ----------------------------------------------------------------------------------- */

static void test_node_without_vote_is_healed(void **state)
{
    struct lease *lease = granted("partial", 1 << 0 | 1 << 1, false);

    (void)state;
    assert_true(becomes("partial", TOKEN, 1 << 2));
    assert_true(ask_number(2, "PTTL", "partial") > TTL_MS / 2);
    assert_string_equal(ask(2, "HGET holdfast:fence:partial fence"), "1700000000123");
    sleep_ms(50);
    assert_int_equal(view_of(lease->slot).votes, NODES);
    assert_true(counter(HF_COUNTER_HEALS) >= 1);
    release(lease);
}

static void test_late_vote_counts(void **state)
{
    struct lease *lease = granted("late-vote", 1 << 0 | 1 << 1, false);
    struct message *vote = message_new(MSG_VOTE);
    uint64_t heals = counter(HF_COUNTER_HEALS);

    (void)state;
    vote->slot = lease->slot;
    vote->generation = lease->generation;
    vote->node_number = 2;
    vote->at = clock_now();
    put_key("late-vote", 1 << 2);
    mailbox_post(&agent.to_renewal, vote);
    for (int i = 0; i < FAR_MS && view_of(lease->slot).votes != NODES; i++)
        sleep_ms(1);
    assert_int_equal(view_of(lease->slot).votes, NODES);
    assert_int_equal(counter(HF_COUNTER_HEALS), heals);
    release(lease);
    assert_true(becomes("late-vote", "", ALL));
}

static void test_deleted_key_is_healed(void **state)
{
    struct lease *lease = granted("deleted", ALL, false);

    (void)state;
    sleep_ms(100);
    ask(1, "DEL deleted");
    assert_true(becomes("deleted", TOKEN, ALL));
    assert_true(holds(lease->slot));
    assert_true(counter(HF_COUNTER_RENEW_MISSES) >= 1);
    is_quiet(0);
    release(lease);
}

/* It gives no votes, so it gets no keys. */
static void test_node_of_another_fleet_is_not_healed(void **state)
{
    struct lease *lease;

    (void)state;
    ask(2, "HSET holdfast:node ttl_max_ms 50000");
    sleep_ms(TTL_MS / 2); /* long enough for a probe */
    lease = granted("fleet", 1 << 0 | 1 << 1, false);
    is_quiet(TTL_MS / 2);
    assert_int_equal(holders_of("fleet", TOKEN), 1 << 0 | 1 << 1);
    ask(2, "HSET holdfast:node ttl_max_ms %d", TTL_MAX_MS);
    assert_true(becomes("fleet", TOKEN, ALL));
    release(lease);
}

/* What was healed counts once its node is old enough; held meanwhile. */
static void votes_again(struct lease *lease)
{
    for (int waited = 0; view_of(lease->slot).votes < NODES && waited < FAR_MS; waited += 20)
        stays_held(lease, 20);
    assert_int_equal(view_of(lease->slot).votes, NODES);
}

/* The restarted node has no sentinel until the broker makes one; the heal waits for that. */
static void test_restarted_node_is_healed(void **state)
{
    struct lease *lease = granted("restarted", ALL, false);
    struct message *message;

    (void)state;
    is_quiet(200);
    redis_server_kill(&nodes[0]);
    assert_true(redis_server_start(&nodes[0], NULL));
    is_quiet(2000); /* neither lost nor late */
    assert_true(told_events[0] & TRUST_RESTARTED);
    assert_true(told_events[0] & TRUST_FORGOT);
    assert_int_equal(holders_of("restarted", TOKEN), 1 << 1 | 1 << 2);
    put_sentinel(0, NEW_NONCE);
    message = message_new(MSG_TRUST);
    message->node_number = 0;
    memcpy(message->nonce, NEW_NONCE, sizeof(NEW_NONCE));
    mailbox_post(&agent.to_renewal, message);
    assert_true(becomes("restarted", TOKEN, ALL));
    is_quiet(0);
    votes_again(lease);
    release(lease);
}

static void test_flushed_quorum_keeps_the_lease(void **state)
{
    struct lease *lease = granted("flushed", ALL, false);

    (void)state;
    is_quiet(200);
    for (int i = 0; i < QUORUM; i++) {
        ask(i, "FLUSHALL");
        put_sentinel(i, NEW_NONCE);
    }
    assert_true(becomes("flushed", TOKEN, ALL));
    assert_true(holds(lease->slot));
    is_quiet(TTL_MS); /* longer than what stood before */
    assert_int_equal(view_of(lease->slot).votes, NODES);
    assert_true(told_events[0] & TRUST_FORGOT);
    release(lease);
}

/* As the broker tells it: every vote of that node is void until renewed, so it is renewed at once.
 */
static void test_clock_step_renews_at_once(void **state)
{
    struct lease *lease = granted("stepped", ALL, false);
    struct message *message = message_new(MSG_TRUST);
    long before = calls_of(1, "pexpire");
    hf_time start = clock_now();

    (void)state;
    message->node_number = 1;
    message->events = TRUST_STEPPED;
    mailbox_post(&agent.to_renewal, message);
    while (calls_of(1, "pexpire") == before)
        sleep_ms(2);
    assert_true(hf_time_since(clock_now(), start).ns < timing.renew_after.ns / 2);
    sleep_ms(50);
    assert_int_equal(view_of(lease->slot).votes, NODES);
    stays_held(lease, 0);
    release(lease);
}

/* The node's clock jumps ahead, and the key there is gone. */
static void test_clock_of_one_node_steps(void **state)
{
    struct lease *lease;

    (void)state;
    if (!shift_us[1])
        skip();
    lease = granted("jumped", ALL, false);
    is_quiet(200);
    step_clock(1, 10000);
    for (int waited = 0; !(told_events[1] & TRUST_STEPPED) && waited < FAR_MS; waited += 50)
        stays_held(lease, 50);
    assert_true(told_events[1] & TRUST_STEPPED);
    assert_true(becomes("jumped", TOKEN, ALL));
    votes_again(lease);
    release(lease);
}

/* As the broker does. */
static void leave_trace(int node)
{
    static const char trace[] = "0f1e2d3c4b5a69780f1e2d3c4b5a6978";

    atomic_store(&agent.trace[node], agent_trace_word(trace));
    put_sentinel(node, trace);
}

/* One after the other: each is renewed before the next is found out. */
static void test_clocks_of_all_nodes_step(void **state)
{
    struct lease *lease;

    (void)state;
    if (!shift_us[0])
        skip();
    lease = granted("all-jumped", ALL, false);
    is_quiet(200);
    for (int i = 0; i < NODES; i++) {
        told_events[i] = 0;
        step_clock(i, -5000);
        for (int waited = 0; !(told_events[i] & TRUST_STEPPED) && waited < FAR_MS; waited += 50)
            stays_held(lease, 50);
        assert_true(told_events[i] & TRUST_STEPPED);
        leave_trace(i);
        stays_held(lease, 100);
        assert_int_equal(view_of(lease->slot).votes, NODES);
    }
    stays_held(lease, 0);
    release(lease);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_renewed_until_released, start_afresh),
        cmocka_unit_test_setup(test_heartbeat, start_afresh),
        cmocka_unit_test_setup(test_a_silent_node_makes_renewals_overdue, start_afresh),
        cmocka_unit_test_setup(test_one_node_away_changes_nothing, start_afresh),
        cmocka_unit_test_setup(test_many_keys_in_one_script, start_afresh),
        cmocka_unit_test_setup(test_node_without_vote_is_healed, start_afresh),
        cmocka_unit_test_setup(test_late_vote_counts, start_afresh),
        cmocka_unit_test_setup(test_deleted_key_is_healed, start_afresh),
        cmocka_unit_test_setup(test_node_of_another_fleet_is_not_healed, start_afresh),
        cmocka_unit_test_setup(test_clock_step_renews_at_once, start_afresh),
        cmocka_unit_test_setup(test_clock_of_one_node_steps, start_afresh),
        cmocka_unit_test_setup(test_clocks_of_all_nodes_step, start_afresh),
        cmocka_unit_test_setup(test_flushed_quorum_keeps_the_lease, start_afresh),
        cmocka_unit_test_setup(test_restarted_node_is_healed, start_afresh),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
