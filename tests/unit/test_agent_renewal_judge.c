/* What the renewal thread makes of answers that come at a bad moment. Nothing runs here but the test,
 * and no node: it hands the answers in, and stands between the agent and its clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <sys/syscall.h>
#include <time.h>

#include "agent/renewal/renewal_internal.h"
#include "tests/unit/renewal_fixture.h"

#define TEST(name) static void name(HF_UNUSED void **state)

/* --- the clock, and whoever looks at a check word whenever the agent looks at the clock ------- */

static int64_t ahead_ns; /* of the host's clock */
static const struct hf_slot *watched;
static uint32_t watched_generation;
static bool seen_over;
static int seen_again; /* held, after it was seen not to be */
/* Once this word has changed the clock jumps: an answer's other keys took the agent long. */
static const struct hf_slot *jumps_with;
static uint64_t jump_from;
static int64_t jump_ns;

int clock_gettime(clockid_t id, struct timespec *ret)
{
    int rc = (int)syscall(SYS_clock_gettime, id, ret);
    int64_t ns;

    if (rc != 0 || id != CLOCK_BOOTTIME)
        return rc;
    if (jumps_with && atomic_load(&jumps_with->check) != jump_from) {
        jumps_with = NULL;
        ahead_ns += jump_ns;
    }
    ns = (int64_t)ret->tv_sec * HF_NS_PER_SEC + ret->tv_nsec + ahead_ns;
    ret->tv_sec = (time_t)(ns / HF_NS_PER_SEC);
    ret->tv_nsec = (long)(ns % HF_NS_PER_SEC);
    if (watched) {
        bool holds =
            hf_check_holds(atomic_load(&watched->check), watched_generation, (hf_time){ns});

        seen_again += holds && seen_over;
        seen_over |= !holds;
    }
    return rc;
}

static void watch(const struct lease *lease)
{
    watched = &agent.table.slots[lease->slot];
    watched_generation = lease->generation;
    seen_over = false;
    seen_again = 0;
}

/* --- leases and answers ----------------------------------------------------------------------- */

static int make(void **state)
{
    char why[WHY_SIZE];

    (void)state;
    make_config();
    for (int i = 0; i < NODES; i++)
        assert_int_equal(node_address_parse("unix:/nowhere", &config.nodes[i], why, sizeof(why)),
                         HF_OK);
    make_agent();
    /* As INFO would have told of old nodes. */
    for (int i = 0; i < NODES; i++)
        agent.renewal->node[i].age.process = HF_TIME_PAST;
    return 0;
}

static int unmake(void **state)
{
    (void)state;
    watched = jumps_with = NULL;
    remove_agent();
    return 0;
}

static struct lease *adopted_in(uint32_t slot, bool is_job)
{
    hf_time now = clock_now();
    struct lease *lease = made("name", slot, ALL, is_job, now);

    renewal_adopt(agent.renewal, lease, now);
    return lease;
}

static struct lease *adopted(bool is_job)
{
    return adopted_in(0, is_job);
}

static int64_t nodes_ahead_us; /* of this host's wall clock */
static const char *nonce_told = NONCE;

/* A node's TIME at an instant of this host's, to the microsecond: what is read in between takes its time, and is no step. */
static hf_nodetime node_time(hf_time at)
{
    static int64_t began_us;
    int64_t us = (at.ns - ahead_ns) / HF_NS_PER_US;

    if (!began_us)
        began_us = clock_wall().ms * 1000 - us;
    return (hf_nodetime){began_us + us + nodes_ahead_us};
}

/* A node has renewed both, in one script that was sent at `sent`. */
static void answer_renewal(int node, const struct lease *first, const struct lease *second,
                           hf_time sent)
{
    struct renewal_node *n = &agent.renewal->node[node];
    struct renew_batch *batch = &n->batches[0];
    struct link_reply reply = {.outcome = LINK_ANSWERED,
                               .error_text = "",
                               .final = true,
                               .sent = sent,
                               .received = clock_now(),
                               .marks = "11",
                               .mark_count = 2};

    reply.node_time = node_time(reply.received);
    snprintf(reply.nonce, sizeof(reply.nonce), "%s", nonce_told);
    *batch = (struct renew_batch){.node = n, .busy = true, .count = 2};
    batch->keys[0].slot = first->slot;
    batch->keys[0].generation = first->generation;
    batch->keys[1].slot = second->slot;
    batch->keys[1].generation = second->generation;
    pace_sent(&n->pace);
    renewal_on_renewed(n->link, &reply, batch);
}

/* The node has our key, since a heal that was sent now. */
static void answer_heal(uint32_t slot, int node)
{
    struct renewal_node *n = &agent.renewal->node[node];
    struct heal *heal = calloc(1, sizeof(*heal) + 4);
    struct link_reply reply = {.outcome = LINK_ANSWERED,
                               .verdict = VERDICT_OK,
                               .error_text = "",
                               .final = true,
                               .sent = clock_now(),
                               .received = clock_now(),
                               .nonce = NONCE};

    reply.node_time = node_time(reply.received);
    heal->node = n;
    heal->slot = slot;
    heal->generation = generation;
    heal->attempt = timing.attempt;
    heal->ttl = timing.ttl;
    heal->token = token_bytes;
    heal->key_len = 4;
    memcpy(heal->key, "name", 4);
    n->heals++;
    renewal_on_healed(n->link, &reply, heal);
}

static void end(struct lease *lease)
{
    for (struct message *m = told(0); m; m = told(0))
        free(m);
    lease_free(lease);
}

/* --- tests ------------------------------------------------------------------------------------ */

/* (!) Judged by the turn's beginning they would count, and nobody may see the word rise again. */
TEST(answers_that_waited_in_their_turn_until_v_come_too_late)
{
    struct renewal *r = agent.renewal;
    struct lease *lease = adopted(false);
    hf_time valid = lease->fsm.valid, sent = hf_time_sub(valid, hf_ms(100));

    watch(lease);
    ahead_ns += hf_time_since(valid, clock_now()).ns - hf_ms(50).ns;
    r->turn = clock_now();
    assert_true(hf_time_before(r->turn, valid));
    ahead_ns += hf_ms(60).ns;
    for (int i = 0; i < NODES && !lease_is_over(lease); i++)
        renewal_hit(&r->node[i], lease, sent, HIT_RENEWED, clock_now());
    assert_int_equal(lease->fsm.state, HF_SLOT_LOST);
    assert_true(seen_over);
    assert_int_equal(seen_again, 0);
    for (int i = 0; i < NODES; i++)
        assert_true(hf_time_reached(valid, journal_of(lease->slot).d[i]));
    end(lease);
}

/* (!) By the clock of after the store: the thread may have been stopped before it, and somebody have seen V pass. */
TEST(an_extension_whose_store_took_until_v_is_withdrawn)
{
    struct renewal *r = agent.renewal;
    struct lease *lease = adopted(false);
    hf_time sent;

    ahead_ns += hf_ms(100).ns;
    sent = clock_now();
    jumps_with = &agent.table.slots[lease->slot];
    jump_from = atomic_load(&jumps_with->check);
    jump_ns = hf_time_since(lease->fsm.valid, sent).ns;
    for (int i = 0; i < QUORUM; i++)
        renewal_hit(&r->node[i], lease, sent, HIT_RENEWED, clock_now());
    assert_null(jumps_with);
    assert_int_equal(lease->fsm.state, HF_SLOT_LOST);
    assert_int_equal(lease->fsm.reason, HF_LOSS_LATE_REPLY);
    assert_int_equal(atomic_load(&agent.table.slots[lease->slot].check), 0);
    end(lease);
}

/* (!) One reading of the clock does for an answer's keys, but not for those of a lease that is late. */
TEST(a_late_lease_is_judged_by_a_clock_of_its_own)
{
    struct lease *late = adopted_in(0, false), *other;
    hf_time valid = late->fsm.valid, sent;

    late->fsm.node[0].at = hf_time_add(valid, hf_ms(1000));
    ahead_ns += hf_time_since(valid, clock_now()).ns - hf_ms(200).ns;
    other = adopted_in(1, false);
    other->fsm.node[0].at = hf_time_add(other->fsm.valid, hf_ms(1000));
    sent = hf_time_add(clock_now(), hf_ms(80)); /* more than T/64 */
    ahead_ns += hf_ms(100).ns;
    watch(late);
    jumps_with = &agent.table.slots[other->slot];
    jump_from = atomic_load(&jumps_with->check);
    jump_ns = hf_ms(200).ns;
    answer_renewal(1, other, late, sent);
    assert_null(jumps_with);
    assert_int_equal(other->fsm.state, HF_SLOT_HELD);
    assert_int_equal(late->fsm.state, HF_SLOT_LOST);
    assert_int_equal(seen_again, 0);
    for (int i = 1; i < NODES; i++)
        assert_true(hf_time_reached(valid, journal_of(late->slot).d[i]));
    end(late);
    end(other);
}

TEST(a_heal_that_is_answered_after_its_lease_is_released)
{
    answer_heal(0, 2);
    assert_int_equal(key_deleter_busy(agent.renewal->key_deleter), 1);
}

/* Its tree may live; once the keys are released, this one is, too. */
TEST(a_heal_that_is_answered_after_its_run_was_lost_waits_for_the_tree)
{
    struct lease *lease = adopted(true);

    renewal_lose(agent.renewal, lease, HF_LOSS_GUARDIAN, false, (struct asker){0});
    ahead_ns += hf_time_since(lease->fsm.valid, clock_now()).ns;
    renewal_tick(agent.renewal, clock_now());
    assert_int_equal(lease->fsm.state, HF_SLOT_LOST);
    answer_heal(lease->slot, 2);
    assert_int_equal(key_deleter_busy(agent.renewal->key_deleter), 0);
    renewal_release(agent.renewal, lease, HF_LOSS_NONE);
    assert_int_equal(key_deleter_busy(agent.renewal->key_deleter), 1);
    answer_heal(lease->slot, 2);
    assert_int_equal(key_deleter_busy(agent.renewal->key_deleter), 2);
    end(lease);
}

/* Its answer may never come: once the keys that were known have lapsed, nobody would remember it. */
TEST(a_heal_without_an_answer_of_a_lost_run_is_released_as_its_keys_lapse)
{
    struct renewal *r = agent.renewal;
    struct lease *lease = adopted(true);

    r->slots[lease->slot].doubt = 1 << 2;
    r->slots[lease->slot].doubt_until = hf_time_add(lease->fsm.valid, timing.attempt);
    ahead_ns += hf_time_since(lease->fsm.valid, clock_now()).ns;
    renewal_tick(r, clock_now());
    assert_int_equal(lease->fsm.state, HF_SLOT_LOST);
    assert_int_equal(key_deleter_busy(r->key_deleter), 0);
    ahead_ns += timing.ttl.ns / 30;
    renewal_tick(r, clock_now());
    assert_null(renewal_find(r, lease->slot, lease->generation));
    assert_int_equal(key_deleter_busy(r->key_deleter), 1);
    end(lease);
}

/* (!) The broker had it when the steps were found here: votes that were sent before them are void. */
TEST(a_lease_that_comes_after_a_step_has_no_votes_of_before_it)
{
    struct renewal *r = agent.renewal;
    struct lease *lease = made("name", 0, ALL, false, clock_now());

    ahead_ns += hf_ms(1).ns;
    renewal_stepped(&r->node[1], clock_now());
    renewal_stepped(&r->node[2], clock_now());
    renewal_adopt(r, lease, clock_now());
    assert_int_equal(lease->fsm.state, HF_SLOT_LOST);
    assert_int_equal(lease->fsm.reason, HF_LOSS_CLOCK);
    assert_false(holds(lease->slot));
    end(lease);
}

/* The broker has counted the vote that came after the grant, so one step leaves a quorum. */
TEST(a_step_found_meanwhile_takes_one_vote_of_three)
{
    struct renewal *r = agent.renewal;
    hf_time a = clock_now();
    struct lease *lease = made("name", 0, 3, false, a);

    lease_fsm_vote(&lease->fsm, 2, a);
    ahead_ns += hf_ms(1).ns;
    renewal_stepped(&r->node[0], clock_now());
    renewal_adopt(r, lease, clock_now());
    assert_int_equal(lease->fsm.state, HF_SLOT_HELD);
    assert_int_equal(lease_fsm_votes(&lease->fsm, clock_now()), 2);
    assert_true(holds(lease->slot));
    end(lease);
}

TEST(a_vote_after_the_grant_is_shown_and_journaled)
{
    hf_time a = clock_now();
    struct lease *lease = made("name", 0, 3, false, a);

    lease_fsm_vote(&lease->fsm, 2, a);
    ahead_ns += hf_ms(1).ns;
    renewal_adopt(agent.renewal, lease, clock_now());
    assert_int_equal(view_of(lease->slot).votes, NODES);
    assert_int_equal(journal_of(lease->slot).d[2].ns, hf_time_add(a, timing.span).ns);
    end(lease);
}

TEST(a_lease_that_was_granted_after_a_step_has_its_votes)
{
    struct lease *lease;

    renewal_stepped(&agent.renewal->node[1], clock_now());
    ahead_ns += hf_ms(1).ns;
    lease = adopted(false);
    assert_int_equal(lease_fsm_votes(&lease->fsm, clock_now()), NODES);
    end(lease);
}

/* The node says which sentinel it has. */
static void says(int node, const char *nonce)
{
    struct link_reply reply = {.outcome = LINK_ANSWERED,
                               .error_text = "",
                               .final = true,
                               .sent = clock_now(),
                               .received = clock_now()};

    reply.node_time = node_time(reply.received);
    snprintf(reply.nonce, sizeof(reply.nonce), "%s", nonce);
    (void)renewal_learn(&agent.renewal->node[node], &reply);
}

static void missing(struct lease *lease, int node)
{
    (void)lease_fsm_missing(&lease->fsm, node, agent.renewal->node[node].trust.mark, clock_now());
}

/* The broker had it when that was found here: the quarantine guards what its keys were good for. */
TEST(a_lease_that_comes_after_its_nodes_forgot_has_its_votes)
{
    struct lease *lease;

    for (int i = 0; i < NODES; i++)
        says(i, NONCE);
    lease = made("name", 0, ALL, false, clock_now());
    ahead_ns += hf_ms(1).ns;
    for (int i = 0; i < NODES; i++)
        says(i, NEW_NONCE);
    renewal_adopt(agent.renewal, lease, clock_now());
    for (int i = 0; i < NODES; i++)
        missing(lease, i);
    assert_int_equal(lease->fsm.state, HF_SLOT_HELD);
    assert_int_equal(lease_fsm_votes(&lease->fsm, clock_now()), NODES);
    end(lease);
}

TEST(a_vote_that_comes_after_its_node_forgot_counts)
{
    struct lease *lease;
    hf_time a;

    for (int i = 0; i < NODES; i++)
        says(i, NONCE);
    a = clock_now();
    lease = made("name", 0, 3, false, a);
    ahead_ns += hf_ms(1).ns;
    for (int i = 0; i < NODES; i++)
        says(i, NEW_NONCE);
    renewal_adopt(agent.renewal, lease, clock_now());
    renewal_vote(agent.renewal, lease, 2, a);
    for (int i = 0; i < NODES; i++)
        missing(lease, i);
    assert_int_equal(lease_fsm_votes(&lease->fsm, clock_now()), NODES);
    end(lease);
}

/* The broker's mark of a step, told by this thread's connection first. */
TEST(the_brokers_mark_of_a_step_is_no_change)
{
    struct renewal_node *node = &agent.renewal->node[0];
    uint32_t mark;

    says(0, NONCE);
    mark = node->trust.mark;
    atomic_store(&agent.trace[0], agent_trace_word(NEW_NONCE));
    says(0, NEW_NONCE);
    assert_int_equal(node->trust.mark, mark);
    assert_string_equal(node->trust.nonce, NEW_NONCE);
    says(0, NONCE); /* an old snapshot */
    assert_int_equal(node->trust.mark, mark + 1);
}

/* (!) Clocks that are behind as renewals come end the keys early once they are right again, and until the nonce is another one
 * nobody else knows. */
TEST(what_is_renewed_by_a_clock_that_went_back_counts_once_others_know)
{
    struct lease *first = adopted_in(0, false), *second = adopted_in(1, false);
    hf_time valid = first->fsm.valid;

    for (int i = 0; i < NODES; i++)
        says(i, NONCE);
    ahead_ns += hf_ms(200).ns;
    nodes_ahead_us = 200000 - 500000;
    for (int i = 0; i < 2 * NODES; i++)
        answer_renewal(i % NODES, first, second, clock_now());
    assert_int_equal(first->fsm.valid.ns, valid.ns);
    assert_int_equal(lease_fsm_votes(&first->fsm, clock_now()), NODES);
    assert_true(holds(second->slot));
    for (int i = 0; i < NODES; i++)
        atomic_store(&agent.trace[i], agent_trace_word(NEW_NONCE));
    nonce_told = NEW_NONCE;
    for (int i = 0; i < NODES; i++)
        answer_renewal(i, first, second, clock_now());
    assert_true(hf_time_before(valid, first->fsm.valid));
    nonce_told = NONCE;
    nodes_ahead_us = 0;
    end(first);
    end(second);
}

/* Who is due by itself takes memory that is not given back. */
TEST(a_vote_that_comes_late_is_renewed_in_company)
{
    const struct cohorts *c = &agent.renewal->node[2].renewals;
    hf_time a = clock_now();
    struct lease *lease = made("name", 0, 3, false, a);

    renewal_adopt(agent.renewal, lease, a);
    assert_true(cohorts_is_alone(c, lease->slot));
    renewal_vote(agent.renewal, lease, 2, a);
    assert_true(cohorts_has(c, lease->slot));
    end(lease);
}

#define FEW 64 /* within a millisecond */

/* They come by slot, with times of many scripts, and no order. */
TEST(leases_of_an_earlier_agent_are_renewed_together)
{
    struct renewal *r = agent.renewal;
    struct lease *lease[FEW];
    hf_time now = clock_now();

    r->started = hf_time_add(now, hf_ms(1));
    for (uint32_t i = 0; i < FEW; i++) {
        lease[i] = made("name", i, ALL, false, hf_time_sub(now, hf_ns(i * HF_NS_PER_MS / 100)));
        renewal_adopt(r, lease[i], now);
    }
    for (int i = 0; i < NODES; i++)
        assert_in_range(r->node[i].renewals.heap.count, 1, 2);
    for (uint32_t i = 0; i < FEW; i++)
        end(lease[i]);
}

TEST(a_lease_that_was_granted_after_its_nodes_forgot_is_lost_with_its_keys)
{
    struct lease *lease;

    for (int i = 0; i < NODES; i++) {
        says(i, NONCE);
        says(i, NEW_NONCE);
    }
    ahead_ns += hf_ms(1).ns;
    lease = adopted(false);
    for (int i = 0; i < QUORUM; i++)
        missing(lease, i);
    assert_int_equal(lease->fsm.state, HF_SLOT_LOST);
    end(lease);
}

static hf_dur renewed_after_a_flush(const struct lease *lease, hf_time sent, uint32_t held)
{
    struct renewal_node *node = &agent.renewal->node[0];
    uint32_t before = agent.renewal->held;

    agent.renewal->held = held;
    renewal_noticed(node->link, NULL, 0, agent.renewal);
    agent.renewal->held = before;
    return hf_time_since(cohorts_alone_at(&node->renewals, lease->slot), sent);
}

/* A node may tell of one flush after the other. */
TEST(a_flush_has_many_leases_renewed_at_the_pace_of_a_full_agent)
{
    struct lease *lease = adopted(false);
    hf_time sent = clock_now();

    renewal_hit(&agent.renewal->node[0], lease, sent, HIT_RENEWED, clock_now());
    assert_int_equal(hf_dur_ms(renewed_after_a_flush(lease, sent, 1)), 100);
    assert_int_equal(hf_dur_ms(renewed_after_a_flush(lease, sent, 20000)), 400);
    end(lease);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(answers_that_waited_in_their_turn_until_v_come_too_late,
                                        make, unmake),
        cmocka_unit_test_setup_teardown(an_extension_whose_store_took_until_v_is_withdrawn, make,
                                        unmake),
        cmocka_unit_test_setup_teardown(a_late_lease_is_judged_by_a_clock_of_its_own, make, unmake),
        cmocka_unit_test_setup_teardown(a_heal_that_is_answered_after_its_lease_is_released, make,
                                        unmake),
        cmocka_unit_test_setup_teardown(
            a_heal_that_is_answered_after_its_run_was_lost_waits_for_the_tree, make, unmake),
        cmocka_unit_test_setup_teardown(
            a_heal_without_an_answer_of_a_lost_run_is_released_as_its_keys_lapse, make, unmake),
        cmocka_unit_test_setup_teardown(a_lease_that_comes_after_a_step_has_no_votes_of_before_it,
                                        make, unmake),
        cmocka_unit_test_setup_teardown(a_step_found_meanwhile_takes_one_vote_of_three, make,
                                        unmake),
        cmocka_unit_test_setup_teardown(a_vote_after_the_grant_is_shown_and_journaled, make,
                                        unmake),
        cmocka_unit_test_setup_teardown(a_lease_that_was_granted_after_a_step_has_its_votes, make,
                                        unmake),
        cmocka_unit_test_setup_teardown(a_lease_that_comes_after_its_nodes_forgot_has_its_votes,
                                        make, unmake),
        cmocka_unit_test_setup_teardown(a_vote_that_comes_after_its_node_forgot_counts, make,
                                        unmake),
        cmocka_unit_test_setup_teardown(the_brokers_mark_of_a_step_is_no_change, make, unmake),
        cmocka_unit_test_setup_teardown(
            what_is_renewed_by_a_clock_that_went_back_counts_once_others_know, make, unmake),
        cmocka_unit_test_setup_teardown(
            a_lease_that_was_granted_after_its_nodes_forgot_is_lost_with_its_keys, make, unmake),
        cmocka_unit_test_setup_teardown(a_vote_that_comes_late_is_renewed_in_company, make, unmake),
        cmocka_unit_test_setup_teardown(a_flush_has_many_leases_renewed_at_the_pace_of_a_full_agent,
                                        make, unmake),
        cmocka_unit_test_setup_teardown(leases_of_an_earlier_agent_are_renewed_together, make,
                                        unmake),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
