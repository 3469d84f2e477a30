/* agent/core/age.h: since when a node has forgotten nothing, and what counts of what it answers. */
#include "core_fixture.h"

#include "agent/core/age.h"

#define LEAST  hf_ms(8360)
#define NODE_0 (INT64_C(1700000000) * 1000000) /* its clock at at(0) */

static struct node_trust trust;
static struct node_age age;
static struct node_facts facts;
static struct node_sentinel sentinel;

static hf_nodetime node_at(int64_t ns)
{
    return (hf_nodetime){NODE_0 + ns / 1000};
}

static int set_up(void **state)
{
    (void)state;
    trust_init(&trust, hf_ms(62200), false);
    age_init(&age, false, false);
    facts = (struct node_facts){.run_id = "r1", .uptime = hf_ms(3600000)};
    sentinel = (struct node_sentinel){
        .present = true, .nonce = "n1", .created = node_at(-3600 * SEC), .nodes = 3};
    return 0;
}

static void with_word(void)
{
    trust_init(&trust, hf_ms(62200), true);
    age_init(&age, true, false);
}

static void hear_facts(int64_t now)
{
    struct node_trust before = trust;

    (void)trust_on_facts(&trust, &facts, false, at(now));
    age_on_facts(&age, &before, &facts, at(now));
}

static void hear_nonce(const char *nonce, int64_t now)
{
    struct node_trust before = trust;

    (void)trust_on_time(&trust, node_at(now), at(now), at(now));
    (void)trust_on_nonce(&trust, nonce, at(now));
    age_on_nonce(&age, &before, &trust, at(now));
}

static void hear_sentinel(int64_t now)
{
    hear_nonce(sentinel.nonce, now);
    (void)trust_on_sentinel(&trust, &sentinel, false, at(now));
    age_on_sentinel(&age, &trust, at(now));
}

static void meet(int64_t now)
{
    hear_facts(now);
    hear_sentinel(now);
}

static bool counts(int64_t sent)
{
    return hf_time_reached(at(sent), age_due(&age, LEAST, false));
}

/* Of a key that stood. */
static bool stands(int64_t sent)
{
    return hf_time_reached(at(sent), age_due(&age, LEAST, true));
}

TEST(nothing_counts_before_anything_was_heard)
{
    assert_time(age_due(&age, LEAST, true), HF_TIME_NEVER);
    hear_facts(0);
    assert_time(age_due(&age, LEAST, false), HF_TIME_NEVER);
    assert_true(stands(0));
}

TEST(an_old_node_counts_at_once)
{
    meet(0);
    assert_true(counts(0));
}

TEST(a_node_that_forgets_counts_once_it_is_of_age_again)
{
    meet(0);
    hear_nonce("n2", 10 * SEC);
    assert_false(counts(10 * SEC));
    assert_false(counts(18360 * MS - NS));
    assert_true(counts(18360 * MS));
}

TEST(the_same_nonce_again_makes_nothing_younger)
{
    meet(0);
    hear_nonce("n2", 10 * SEC);
    hear_nonce("n2", 15 * SEC);
    assert_true(counts(18360 * MS));
}

TEST(no_sentinel_and_then_a_new_one_counts_from_the_new_one)
{
    meet(0);
    hear_nonce("", 10 * SEC);
    hear_nonce("n2", 11 * SEC);
    assert_false(counts(19360 * MS - NS));
    assert_true(counts(19360 * MS));
}

/* What was swapped or replicated in may have been made long ago. */
TEST(of_a_change_that_was_seen_its_own_word_is_not_believed)
{
    meet(0);
    sentinel.nonce[1] = '2';
    hear_sentinel(10 * SEC);
    assert_false(counts(18360 * MS - NS));
    assert_true(counts(18360 * MS));
}

TEST(the_age_of_a_node_that_is_met_is_its_nonces_by_node_time)
{
    sentinel.created = node_at(-5 * SEC);
    meet(0);
    assert_false(counts(3360 * MS));
    assert_true(counts(3412 * MS)); /* 1 % for the clocks */
}

TEST(a_nonce_from_the_future_is_as_old_as_our_acquaintance)
{
    sentinel.created = node_at(3600 * SEC);
    meet(0);
    assert_false(counts(8360 * MS - NS));
    assert_true(counts(8360 * MS));
}

TEST(any_number_that_a_node_tells_is_survived)
{
    sentinel.created = (hf_nodetime){INT64_MIN};
    meet(0);
    assert_false(counts(0));
    set_up(NULL);
    sentinel.created = (hf_nodetime){INT64_MAX};
    meet(0);
    assert_false(counts(0));
    set_up(NULL);
    sentinel.created = (hf_nodetime){-(INT64_MAX / 2)};
    meet(0);
    assert_true(counts(0));
}

/* The nonce was in the snapshot that the process began with. */
TEST(a_young_process_does_not_count_however_old_its_nonce)
{
    facts.uptime = hf_ms(3000); /* up to a second less in truth */
    meet(0);
    assert_false(counts(6360 * MS - NS));
    assert_false(stands(6360 * MS - NS));
    assert_true(counts(6360 * MS));
}

TEST(a_restart_makes_it_young_whatever_its_uptime_says)
{
    meet(0);
    facts.run_id[1] = '2'; /* and its clock was set right before anybody was back */
    hear_facts(10 * SEC);
    assert_false(stands(18360 * MS - NS));
    assert_true(stands(18360 * MS));
}

TEST(the_same_process_again_makes_nothing_younger)
{
    meet(0);
    facts.uptime = hf_ns(-3600 * SEC); /* its clock was stepped back */
    hear_facts(10 * SEC);
    assert_true(stands(10 * SEC));
}

TEST(a_step_makes_it_young_but_for_keys_that_stood)
{
    meet(0);
    age_on_step(&age, at(10 * SEC));
    assert_false(counts(18360 * MS - NS));
    assert_true(counts(18360 * MS));
    assert_true(stands(10 * SEC));
}

TEST(the_word_covers_what_is_found_first)
{
    facts.uptime = hf_ns(0);
    with_word();
    hear_facts(0);
    hear_nonce("", 0);
    assert_true(counts(0));
    hear_nonce("n1", SEC); /* made by an agent */
    assert_true(counts(SEC));
    hear_nonce("n2", 10 * SEC);
    assert_false(counts(10 * SEC));
    assert_true(stands(10 * SEC));
    facts.run_id[1] = '2';
    hear_facts(11 * SEC);
    assert_false(stands(11 * SEC));
}

TEST(a_sentinel_that_is_there_is_covered_too)
{
    facts.uptime = hf_ns(0);
    sentinel.created = node_at(0);
    with_word();
    meet(0);
    assert_true(counts(0));
}

/* What the journal of an earlier agent says. */
static void journaled(bool votes, bool word)
{
    struct node_trust before;

    meet(0);
    before = trust;
    trust_init(&trust, hf_ms(62200), word);
    trust_restore(&trust, &before, HF_TIME_PAST, before.sampled);
    age_init(&age, word, votes);
    facts.uptime = hf_ns(0); /* covered by the word of then */
    sentinel.created = node_at(0);
}

TEST(a_node_that_votes_by_the_journal_is_old)
{
    journaled(true, false);
    meet(SEC);
    assert_true(counts(SEC));
}

TEST(one_that_does_not_vote_is_as_old_as_it_says)
{
    journaled(false, false);
    meet(SEC);
    assert_false(counts(SEC));
    assert_false(stands(SEC));
}

TEST(a_change_since_the_journal_is_a_change)
{
    journaled(true, false);
    facts.run_id[1] = '2';
    facts.uptime = hf_ms(3600000);
    sentinel.nonce[1] = '2';
    sentinel.created = node_at(-3600 * SEC);
    meet(SEC);
    assert_false(stands(9360 * MS - NS));
    assert_false(counts(9360 * MS - NS));
    assert_true(counts(9360 * MS));
}

TEST(the_word_covers_a_restart_since_the_journal_and_no_loss_of_memory)
{
    journaled(true, true);
    facts.run_id[1] = '2';
    sentinel.nonce[1] = '2';
    meet(SEC);
    assert_true(stands(SEC));
    assert_false(counts(SEC));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_counts_before_anything_was_heard, set_up),
        cmocka_unit_test_setup(an_old_node_counts_at_once, set_up),
        cmocka_unit_test_setup(a_node_that_forgets_counts_once_it_is_of_age_again, set_up),
        cmocka_unit_test_setup(the_same_nonce_again_makes_nothing_younger, set_up),
        cmocka_unit_test_setup(no_sentinel_and_then_a_new_one_counts_from_the_new_one, set_up),
        cmocka_unit_test_setup(of_a_change_that_was_seen_its_own_word_is_not_believed, set_up),
        cmocka_unit_test_setup(the_age_of_a_node_that_is_met_is_its_nonces_by_node_time, set_up),
        cmocka_unit_test_setup(a_nonce_from_the_future_is_as_old_as_our_acquaintance, set_up),
        cmocka_unit_test_setup(any_number_that_a_node_tells_is_survived, set_up),
        cmocka_unit_test_setup(a_young_process_does_not_count_however_old_its_nonce, set_up),
        cmocka_unit_test_setup(a_restart_makes_it_young_whatever_its_uptime_says, set_up),
        cmocka_unit_test_setup(the_same_process_again_makes_nothing_younger, set_up),
        cmocka_unit_test_setup(a_step_makes_it_young_but_for_keys_that_stood, set_up),
        cmocka_unit_test_setup(the_word_covers_what_is_found_first, set_up),
        cmocka_unit_test_setup(a_sentinel_that_is_there_is_covered_too, set_up),
        cmocka_unit_test_setup(a_node_that_votes_by_the_journal_is_old, set_up),
        cmocka_unit_test_setup(one_that_does_not_vote_is_as_old_as_it_says, set_up),
        cmocka_unit_test_setup(a_change_since_the_journal_is_a_change, set_up),
        cmocka_unit_test_setup(the_word_covers_a_restart_since_the_journal_and_no_loss_of_memory,
                               set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
