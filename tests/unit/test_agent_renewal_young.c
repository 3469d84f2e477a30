/* What the renewal thread makes of a node that forgot lately: it is written to, and counts later. Nothing runs
 * here but the test, which hands the answers in and has the clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <sys/syscall.h>
#include <time.h>

#include "agent/renewal/renewal_internal.h"
#include "tests/unit/renewal_fixture.h"

#define TEST(name) static void name(HF_UNUSED void **state)
#define OUR_DIGEST "01234567"

static int64_t ahead_ns; /* of the host's clock */

int clock_gettime(clockid_t id, struct timespec *ret)
{
    int rc = (int)syscall(SYS_clock_gettime, id, ret);
    int64_t ns;

    if (rc != 0 || id != CLOCK_BOOTTIME)
        return rc;
    ns = (int64_t)ret->tv_sec * HF_NS_PER_SEC + ret->tv_nsec + ahead_ns;
    ret->tv_sec = (time_t)(ns / HF_NS_PER_SEC);
    ret->tv_nsec = (long)(ns % HF_NS_PER_SEC);
    return rc;
}

static int make(void **state)
{
    char why[WHY_SIZE];

    (void)state;
    make_config();
    for (int i = 0; i < NODES; i++)
        assert_int_equal(node_address_parse("unix:/nowhere", &config.nodes[i], why, sizeof(why)),
                         HF_OK);
    make_agent();
    return 0;
}

static int unmake(void **state)
{
    (void)state;
    agent.renewal->fleet = NULL; /* it is a test's */
    remove_agent();
    return 0;
}

/* --- nodes ------------------------------------------------------------------------------------ */

static struct renewal_node *node_of(int node)
{
    return &agent.renewal->node[node];
}

static int64_t step_us[NODES]; /* of its clock */

static hf_nodetime time_of(int node)
{
    return (hf_nodetime){clock_now().ns / HF_NS_PER_US + INT64_C(1700000000000000) + step_us[node]};
}

static struct link_reply says(int node, const char *nonce)
{
    struct link_reply reply = {
        .outcome = LINK_ANSWERED,
        .error_text = "",
        .final = true,
        .sent = clock_now(),
        .received = clock_now(),
        .verdict = VERDICT_OK,
        .node_time = time_of(node),
    };

    snprintf(reply.nonce, sizeof(reply.nonce), "%s", nonce);
    return reply;
}

static void meet(int node, const char *run_id, int64_t uptime_ms)
{
    struct renewal_node *n = node_of(node);
    struct node_facts facts = {.uptime = hf_ms(uptime_ms)};
    struct node_trust before = n->trust;
    struct link_reply reply;

    snprintf(facts.run_id, sizeof(facts.run_id), "%s", run_id);
    (void)trust_on_facts(&n->trust, &facts, false, clock_now());
    age_on_facts(&n->age, &before, &facts, clock_now());
    servers_on_run_id(&agent.renewal->servers, node, run_id, agent.renewal->age_least, clock_now());
    reply = says(node, NONCE);
    (void)renewal_learn(n, &reply);
}

static int meet_all(void **state)
{
    static const char *const run_ids[NODES] = {"a", "b", "c"};

    if (make(state) != 0)
        return -1;
    memset(step_us, 0, sizeof(step_us));
    for (int i = 0; i < NODES; i++)
        meet(i, run_ids[i], 0); /* the word covers it */
    return 0;
}

static void forgets(int node)
{
    struct link_reply reply = says(node, NEW_NONCE);

    (void)renewal_learn(node_of(node), &reply);
}

/* --- leases and answers ----------------------------------------------------------------------- */

static struct lease *adopted(uint32_t votes)
{
    hf_time now = clock_now();
    struct lease *lease = made("name", 0, votes, false, now);

    renewal_adopt(agent.renewal, lease, now);
    return lease;
}

static void answer_renewal(int node, const struct lease *lease, const char *nonce)
{
    struct renewal_node *n = node_of(node);
    struct renew_batch *batch = &n->batches[0];
    struct link_reply reply = says(node, nonce);

    reply.marks = "1";
    reply.mark_count = 1;
    *batch = (struct renew_batch){.node = n, .busy = true, .count = 1};
    batch->keys[0].slot = lease->slot;
    batch->keys[0].generation = lease->generation;
    pace_sent(&n->pace);
    renewal_on_renewed(n->link, &reply, batch);
}

/* As if it had been sent. */
static void answer_heal_with(int node, struct lease *lease, const struct link_reply *reply)
{
    struct renewal_node *n = node_of(node);
    struct heal *heal = calloc(1, sizeof(*heal) + 4);

    lease_node(lease, node)->written = true;
    lease_node(lease, node)->in_flight = true;
    cohorts_remove(&n->renewals, lease->slot);
    heal->node = n;
    heal->slot = lease->slot;
    heal->generation = lease->generation;
    heal->mark = n->trust.mark;
    heal->attempt = timing.attempt;
    heal->ttl = timing.ttl;
    heal->token = token_bytes;
    heal->key_len = 4;
    memcpy(heal->key, "name", 4);
    n->heals++;
    renewal_on_healed(n->link, reply, heal);
}

static void answer_heal(int node, struct lease *lease, const char *nonce)
{
    struct link_reply reply = says(node, nonce);

    answer_heal_with(node, lease, &reply);
}

static bool votes(const struct lease *lease, int node)
{
    return hf_time_before(clock_now(), lease_fsm_d(&lease->fsm, node));
}

static hf_time planned(const struct lease *lease, int node)
{
    const struct cohorts *c = &node_of(node)->renewals;

    return cohorts_is_alone(c, lease->slot) ? cohorts_alone_at(c, lease->slot)
                                            : cohorts_at(c, lease->slot);
}

static void later(int64_t ms)
{
    ahead_ns += ms * HF_NS_PER_MS;
}

static int64_t age_ms(void)
{
    return hf_dur_ms(agent.renewal->age_least);
}

static void end(struct lease *lease)
{
    for (struct message *m = told(0); m; m = told(0))
        free(m);
    lease_free(lease);
}

/* --- tests ------------------------------------------------------------------------------------ */

/* (!) A rival's round may have its vote from before. */
TEST(a_heal_counts_once_the_node_is_of_age)
{
    struct lease *lease = adopted(1 << 0 | 1 << 1);

    forgets(2);
    answer_heal(2, lease, NEW_NONCE);
    assert_false(votes(lease, 2));
    assert_false(lease->fsm.heal_wanted >> 2 & 1);
    later(age_ms() - 50);
    answer_renewal(2, lease, NEW_NONCE);
    assert_false(votes(lease, 2));
    later(60);
    answer_renewal(2, lease, NEW_NONCE);
    assert_true(votes(lease, 2));
    end(lease);
}

TEST(a_heal_of_an_old_node_counts_at_once)
{
    struct lease *lease = adopted(1 << 0 | 1 << 1);

    answer_heal(2, lease, NONCE);
    assert_true(votes(lease, 2));
    end(lease);
}

/* (!) It was sent before the record was known, or to a server that has another one. */
TEST(a_heal_by_another_record_counts_for_nothing)
{
    struct lease *lease = adopted(1 << 0 | 1 << 1);
    struct fleet_record record = {.version = 1, .state = FLEET_COMPLETE, .count = NODES};

    agent.renewal->fleet = &record;
    answer_heal(2, lease, NONCE);
    agent.renewal->fleet = NULL;
    assert_false(votes(lease, 2));
    assert_true(lease->fsm.heal_wanted >> 2 & 1);
    assert_true(planned(lease, 2).ns != HF_TIME_NEVER.ns); /* it is tried again */
    end(lease);
}

static void go_by(struct fleet_record *record)
{
    agent.renewal->fleet = record;
    memcpy(agent.renewal->fleet_digest, OUR_DIGEST, sizeof(OUR_DIGEST));
    for (int i = 0; i < NODES; i++)
        node_of(i)->seated = true;
}

static struct link_reply says_by(int node, enum link_verdict verdict, const char *digest)
{
    struct link_reply reply = says(node, NONCE);

    reply.verdict = verdict;
    snprintf(reply.digest, sizeof(reply.digest), "%s", digest);
    return reply;
}

/* (!) Sent when no record was known, answered when one is. */
TEST(a_heal_of_before_the_record_is_sent_again_and_counts_by_it)
{
    struct lease *lease = adopted(1 << 0 | 1 << 1);
    struct fleet_record record = {.version = 1, .state = FLEET_COMPLETE, .count = NODES};
    struct link_reply before = says_by(2, VERDICT_OK, ""),
                      by_it = says_by(2, VERDICT_OK, OUR_DIGEST);
    hf_time latest;

    go_by(&record);
    answer_heal_with(2, lease, &before);
    assert_false(votes(lease, 2));
    latest = hf_time_add(clock_now(), hf_ms(hf_dur_ms(timing.retry_max) + 50));
    assert_true(hf_time_before(planned(lease, 2), latest));
    assert_false(lease_node(lease, 2)->in_flight);
    answer_heal_with(2, lease, &by_it);
    assert_true(votes(lease, 2));
    end(lease);
}

TEST(a_heal_by_a_record_that_is_not_known_counts_for_nothing)
{
    struct lease *lease = adopted(1 << 0 | 1 << 1);
    struct link_reply reply = says_by(2, VERDICT_OK, OUR_DIGEST);

    answer_heal_with(2, lease, &reply);
    assert_false(votes(lease, 2));
    end(lease);
}

/* (!) Whose key stands on another fleet's node says nothing about ours. */
TEST(a_heal_by_another_record_voids_nothing)
{
    struct lease *lease = adopted(ALL);
    struct fleet_record record = {.version = 1, .state = FLEET_COMPLETE, .count = NODES};
    struct link_reply before = says_by(2, VERDICT_TAKEN, ""),
                      theirs = says_by(2, VERDICT_TAKEN, "76543210"),
                      by_it = says_by(2, VERDICT_TAKEN, OUR_DIGEST);
    hf_time d = lease_fsm_d(&lease->fsm, 2), latest;

    go_by(&record);
    answer_heal_with(2, lease, &before);
    answer_heal_with(2, lease, &theirs);
    assert_int_equal(lease_fsm_d(&lease->fsm, 2).ns, d.ns);
    assert_false(lease_fsm_is_void(&lease->fsm, 2));
    latest = hf_time_add(clock_now(), hf_ms(hf_dur_ms(timing.retry_max) + 50));
    assert_true(hf_time_before(planned(lease, 2), latest));
    answer_heal_with(2, lease, &by_it);
    assert_true(lease_fsm_is_void(&lease->fsm, 2));
    end(lease);
}

/* Nor are fences of other fleets above ours. */
TEST(a_heal_by_another_record_outbids_nothing)
{
    struct lease *lease = adopted(ALL);
    struct fleet_record record = {.version = 1, .state = FLEET_COMPLETE, .count = NODES};
    static const char *const digests[] = {"", "76543210", OUR_DIGEST};

    go_by(&record);
    for (size_t k = 0; k < 3; k++)
        for (int i = 0; i < NODES; i++) {
            struct link_reply reply = says_by(i, VERDICT_LOW, digests[k]);

            assert_int_equal(lease->fsm.state, HF_SLOT_HELD);
            snprintf(reply.id, sizeof(reply.id), "rival");
            reply.fence = fence_node_part(lease->fence) + 1;
            answer_heal_with(i, lease, &reply);
        }
    assert_int_equal(lease->fsm.state, HF_SLOT_LOST);
    end(lease);
}

/* Not a third of the TTL later, and not at once, again and again. */
TEST(what_was_healed_is_renewed_as_the_node_comes_of_age)
{
    struct lease *lease = adopted(1 << 0 | 1 << 1);
    hf_time from;

    forgets(2);
    from = renewal_counts_from(node_of(2), lease);
    answer_heal(2, lease, NEW_NONCE);
    assert_true(hf_time_reached(planned(lease, 2), from));
    assert_true(hf_time_before(planned(lease, 2), hf_time_add(from, hf_ms(50))));
    end(lease);
}

TEST(what_has_longer_to_wait_is_kept_meanwhile)
{
    struct lease *lease = adopted(1 << 0 | 1 << 1);
    hf_time now;

    agent.renewal->age_least = hf_ms(8360);
    forgets(2);
    answer_heal(2, lease, NEW_NONCE);
    now = clock_now();
    assert_true(hf_time_before(planned(lease, 2), hf_time_add(now, hf_ms(TTL_MS / 3 * 11 / 10))));
    end(lease);
}

/* What was voted for before it forgot is guarded by its quarantine. */
TEST(the_vote_of_before_stands_until_its_end)
{
    struct lease *lease = adopted(ALL);
    hf_time d = lease_fsm_d(&lease->fsm, 2);

    later(100);
    forgets(2);
    (void)lease_fsm_missing(&lease->fsm, 2, node_of(2)->trust.mark, clock_now());
    answer_heal(2, lease, NEW_NONCE);
    assert_int_equal(lease_fsm_d(&lease->fsm, 2).ns, d.ns);
    later(age_ms());
    answer_renewal(2, lease, NEW_NONCE);
    assert_true(hf_time_before(d, lease_fsm_d(&lease->fsm, 2)));
    end(lease);
}

/* It may have begun with an older state, and our key in it. */
TEST(a_young_process_counts_for_nothing)
{
    struct lease *lease = adopted(ALL);
    hf_time d = lease_fsm_d(&lease->fsm, 2);

    later(100);
    meet(2, "another", 3600000);
    answer_renewal(2, lease, NONCE);
    assert_int_equal(lease_fsm_d(&lease->fsm, 2).ns, d.ns);
    later(age_ms());
    answer_renewal(2, lease, NONCE);
    assert_true(hf_time_before(d, lease_fsm_d(&lease->fsm, 2)));
    end(lease);
}

/* All of them step, and then their sentinels are replaced, which makes them young for everybody. */
TEST(steps_cost_no_vote_whose_key_stands)
{
    struct lease *lease = adopted(ALL);

    later(100);
    for (int i = 0; i < NODES; i++)
        step_us[i] = 5000000;
    for (int i = 0; i < NODES; i++) {
        answer_renewal(i, lease, i ? NEW_NONCE : NONCE);
        answer_renewal(i, lease, NEW_NONCE);
        assert_true(votes(lease, i));
    }
    assert_int_equal(lease->fsm.state, HF_SLOT_HELD);
    end(lease);
}

/* What the step took was perhaps a rival's. */
TEST(a_heal_behind_a_step_counts_later)
{
    struct lease *lease = adopted(1 << 0 | 1 << 1);

    later(100);
    step_us[2] = 5000000;
    answer_heal(2, lease, NONCE);
    assert_false(votes(lease, 2));
    answer_renewal(2, lease, NONCE);
    assert_false(votes(lease, 2));
    later(age_ms());
    answer_renewal(2, lease, NONCE);
    assert_true(votes(lease, 2));
    end(lease);
}

TEST(a_late_vote_of_the_grant_counts_at_any_age)
{
    hf_time a = clock_now();
    struct lease *lease = adopted(1 << 0 | 1 << 1);

    later(10);
    forgets(2);
    renewal_vote(agent.renewal, lease, 2, a);
    assert_true(votes(lease, 2));
    end(lease);
}

/* An acquire without an answer may be what wrote it, or an earlier agent's heal. */
TEST(a_key_that_came_to_stand_unseen_counts_later)
{
    struct lease *lease = adopted(1 << 0 | 1 << 1);

    forgets(2);
    answer_renewal(2, lease, NEW_NONCE);
    assert_false(votes(lease, 2));
    end(lease);
}

/* (!) One server would be a majority of three. */
TEST(a_server_that_two_nodes_lead_to_has_one_vote)
{
    struct lease *lease = adopted(ALL);
    hf_time valid = lease->fsm.valid;

    later(100);
    meet(1, "a", 3600000);
    later(age_ms());
    answer_renewal(0, lease, NONCE);
    answer_renewal(1, lease, NONCE);
    assert_int_equal(lease->fsm.valid.ns, valid.ns);
    answer_heal(1, lease, NONCE);
    assert_int_equal(lease->fsm.valid.ns, valid.ns);
    answer_renewal(2, lease, NONCE);
    assert_true(hf_time_before(valid, lease->fsm.valid));
    end(lease);
}

/* Also while it stands from before that node led elsewhere, or was last heard of. */
TEST(whichever_node_is_listed_first_the_vote_that_stands_is_the_one)
{
    struct lease *lease = adopted(ALL);
    hf_time valid = lease->fsm.valid;

    later(100);
    meet(0, "b", 3600000);
    later(age_ms());
    answer_renewal(0, lease, NONCE);
    answer_renewal(1, lease, NONCE);
    assert_int_equal(lease->fsm.valid.ns, valid.ns);
    meet(1, "a", 3600000);
    answer_renewal(0, lease, NONCE);
    assert_int_equal(lease->fsm.valid.ns, valid.ns);
    answer_renewal(2, lease, NONCE);
    assert_true(hf_time_before(valid, lease->fsm.valid));
    end(lease);
}

/* (!) One node that lies may not take the votes of honest ones: those of both count until the later one's end. */
TEST(a_node_that_says_it_is_another_one_costs_no_lease)
{
    struct lease *lease = adopted(ALL);
    hf_time valid = lease->fsm.valid;
    struct lease_before before;

    later(100);
    meet(0, "b", 3600000);
    later(age_ms());
    answer_renewal(1, lease, NONCE);
    answer_renewal(2, lease, NONCE);
    assert_true(hf_time_before(valid, lease->fsm.valid));
    valid = lease->fsm.valid;
    later(100);
    answer_renewal(0, lease, NONCE);
    before = lease_before(lease, 0, HF_LOSS_FOREIGN);
    renewal_act(agent.renewal, lease, lease_fsm_foreign(&lease->fsm, 0, clock_now()), &before);
    assert_int_equal(lease->fsm.valid.ns, valid.ns);
    answer_renewal(1, lease, NONCE);
    answer_renewal(2, lease, NONCE);
    assert_true(hf_time_before(valid, lease->fsm.valid));
    end(lease);
}

/* Not at once, again and again. */
TEST(what_has_no_vote_there_is_renewed_in_its_course)
{
    struct lease *lease = adopted(ALL);

    later(100);
    meet(1, "a", 3600000);
    later(age_ms());
    answer_renewal(0, lease, NONCE);
    answer_renewal(1, lease, NONCE);
    assert_true(hf_time_before(hf_time_add(clock_now(), hf_ms(TTL_MS / 6)), planned(lease, 1)));
    end(lease);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, meet_all, unmake)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_heal_counts_once_the_node_is_of_age),
        CASE(a_heal_of_an_old_node_counts_at_once),
        CASE(a_heal_by_another_record_counts_for_nothing),
        CASE(a_heal_of_before_the_record_is_sent_again_and_counts_by_it),
        CASE(a_heal_by_a_record_that_is_not_known_counts_for_nothing),
        CASE(a_heal_by_another_record_voids_nothing),
        CASE(a_heal_by_another_record_outbids_nothing),
        CASE(what_was_healed_is_renewed_as_the_node_comes_of_age),
        CASE(what_has_longer_to_wait_is_kept_meanwhile),
        CASE(the_vote_of_before_stands_until_its_end),
        CASE(a_young_process_counts_for_nothing),
        CASE(steps_cost_no_vote_whose_key_stands),
        CASE(a_heal_behind_a_step_counts_later),
        CASE(a_late_vote_of_the_grant_counts_at_any_age),
        CASE(a_key_that_came_to_stand_unseen_counts_later),
        CASE(a_server_that_two_nodes_lead_to_has_one_vote),
        CASE(a_node_that_says_it_is_another_one_costs_no_lease),
        CASE(whichever_node_is_listed_first_the_vote_that_stands_is_the_one),
        CASE(what_has_no_vote_there_is_renewed_in_its_course),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
