/* agent/core/node_trust.h: first contact, restarts, sentinel, quarantine, refusals. */
#include "trust_fixture.h"

/* --- first contact ---------------------------------------------------------------------------- */

TEST(an_old_node_votes_once_it_was_judged)
{
    struct node_trust t;

    trust_init(&t, hf_ns(QUARANTINE), false);
    assert_false(trust_may_vote(&t, at(0)));
    assert_time(trust_until(&t, at(0)), HF_TIME_NEVER);
    assert_int_equal(facts(&t, RUN_A, at(0)), TRUST_FIRST);
    judge(&t, at(0));
    assert_false(t.judged);
    assert_int_equal(sample(&t, 0, at(0)), TRUST_NOTHING);
    judge(&t, at(0));
    assert_false(t.judged);
    assert_time(trust_until(&t, at(0)), HF_TIME_NEVER);
    assert_int_equal(sentinel(&t, NONCE_A, at(0)), TRUST_NOTHING);
    assert_false(trust_may_vote(&t, at(0)));
    assert_time(trust_until(&t, at(0)), at(QUARANTINE));
    judge(&t, at(0));
    assert_true(t.judged);
    assert_votes(&t, at(0));
}

struct ages {
    int64_t uptime, by_node, by_wall;
};

static struct node_trust aged(struct ages ages)
{
    struct node_facts f = facts_of(RUN_A, ages.uptime);
    struct node_sentinel s = sentinel_of(NONCE_A, at(0));
    struct node_trust t;

    s.created = node_time(at(-ages.by_node));
    s.created_wall = wall(at(-ages.by_wall));
    trust_init(&t, hf_ns(QUARANTINE), false);
    trust_on_facts(&t, &f, 0, at(0));
    sample(&t, 0, at(0));
    trust_on_sentinel(&t, &s, false, at(0));
    judge(&t, at(0));
    return t;
}

TEST(all_three_ages_must_exceed_the_quarantine)
{
    struct ages enough = {QUARANTINE + NS, QUARANTINE + HF_NS_PER_US, QUARANTINE + MS};
    struct ages too_young = enough;
    struct node_trust t = aged(enough);

    assert_votes(&t, at(0));
    too_young.uptime = QUARANTINE;
    assert_int_equal(aged(too_young).reasons, HF_QUARANTINE_AGE);
    too_young = enough;
    too_young.by_node = QUARANTINE;
    assert_int_equal(aged(too_young).reasons, HF_QUARANTINE_AGE);
    too_young = enough;
    too_young.by_wall = QUARANTINE;
    assert_int_equal(aged(too_young).reasons, HF_QUARANTINE_AGE);
}

TEST(a_sentinel_from_the_future_is_too_young)
{
    assert_int_equal(aged((struct ages){OLD, -OLD, OLD}).reasons, HF_QUARANTINE_AGE);
    assert_int_equal(aged((struct ages){OLD, OLD, -OLD}).reasons, HF_QUARANTINE_AGE);
}

TEST(both_ages_of_the_sentinel_must_agree_within_a_second)
{
    for (int sign = -1; sign <= 1; sign += 2) {
        struct ages apart = {OLD, OLD + sign * SEC, OLD};
        struct node_trust t = aged(apart);

        assert_votes(&t, at(0));
        apart.by_node += sign * 2 * MS; /* a wall clock tells milliseconds */
        assert_quarantine(aged(apart), HF_QUARANTINE_AGE, at(0));
        apart.by_node = OLD + sign * 20 * SEC;
        assert_quarantine(aged(apart), HF_QUARANTINE_AGE, at(0));
    }
}

TEST(the_word_skips_that_the_ages_agree)
{
    struct node_facts f = facts_of(RUN_A, OLD);
    struct node_sentinel s = sentinel_of(NONCE_A, at(-OLD));
    struct node_trust t = fresh();

    s.created_wall = wall(at(-OLD - 20 * SEC));
    trust_on_facts(&t, &f, 0, at(0));
    sample(&t, 0, at(0));
    trust_on_sentinel(&t, &s, false, at(0));
    judge(&t, at(0));
    assert_votes(&t, at(0));
}

TEST(ages_that_a_node_made_up_do_not_agree)
{
    const struct made_up {
        int64_t created_us, created_wall_ms;
    } made_up[] = {
        {INT64_MIN, INT64_MIN},
        {INT64_MIN / 2, INT64_MIN / 2},
        {OFFSET_US - OLD / HF_NS_PER_US, INT64_MIN / 1000},
        {INT64_MIN / 4, OFFSET_US / 1000 - OLD / MS},
    };

    for (size_t i = 0; i < HF_LENGTH(made_up); i++) {
        struct node_facts f = facts_of(RUN_A, OLD);
        struct node_sentinel s = sentinel_of(NONCE_A, at(-OLD));
        struct node_trust t;

        s.created.us = made_up[i].created_us;
        s.created_wall.ms = made_up[i].created_wall_ms;
        trust_init(&t, hf_ns(QUARANTINE), false);
        trust_on_facts(&t, &f, 0, at(0));
        sample(&t, 0, at(0));
        trust_on_sentinel(&t, &s, false, at(0));
        judge(&t, at(0));
        assert_quarantine(t, HF_QUARANTINE_AGE, at(0));
    }
}

TEST(a_quarantine_for_age_ends_after_its_time)
{
    /* a wall clock set back by a day keeps the sentinel young */
    struct node_trust t = aged((struct ages){OLD, OLD, -86400 * SEC});

    assert_quarantine(t, HF_QUARANTINE_AGE, at(0));
}

TEST(a_quarantine_for_age_ends_as_soon_as_all_ages_suffice)
{
    struct node_trust t = aged((struct ages){
        QUARANTINE - 10 * SEC, QUARANTINE - 19 * SEC - 500 * MS, QUARANTINE - 20 * SEC});

    trust_tick(&t, wall(at(20 * SEC)), at(20 * SEC));
    assert_false(trust_may_vote(&t, at(20 * SEC)));
    trust_tick(&t, wall(at(20 * SEC + MS)), at(20 * SEC + MS));
    assert_votes(&t, at(20 * SEC + MS));
}

TEST(age_does_not_shorten_another_quarantine)
{
    struct node_trust t = aged((struct ages){QUARANTINE - SEC, OLD, OLD});

    sample(&t, 5000000, at(SEC));
    trust_tick(&t, wall(at(2 * SEC)), at(2 * SEC));
    assert_quarantine(t, HF_QUARANTINE_AGE | HF_QUARANTINE_CLOCK, at(SEC));
}

TEST(a_node_more_than_1_s_off_the_median_is_in_quarantine)
{
    for (int sign = -1; sign <= 1; sign += 2) {
        struct node_trust t = trusted();

        t.judged = false;
        trust_judge(&t, OFFSET_US + sign * INT64_C(1000000), wall(at(0)), at(0));
        assert_votes(&t, at(0));
        t.judged = false;
        trust_judge(&t, OFFSET_US + sign * INT64_C(1000001), wall(at(0)), at(0));
        assert_quarantine(t, HF_QUARANTINE_MEDIAN, at(0));
    }
}

TEST(age_and_median_are_judged_at_first_contact_only)
{
    struct node_trust t = trusted();

    trust_judge(&t, OFFSET_US + INT64_C(9000000), (hf_wall){0}, at(SEC));
    assert_votes(&t, at(SEC));
    assert_int_equal(facts(&t, RUN_A, at(SEC)), TRUST_NOTHING);
    assert_votes(&t, at(SEC));
}

/* --- (!) reconnects and restarts -------------------------------------------------------------- */

TEST(a_reconnect_is_no_first_contact_and_restarts_no_quarantine)
{
    struct node_trust t = trusted();

    sentinel(&t, NONCE_B, at(SEC));
    for (int i = 2; i < 50; i++) {
        struct node_facts young = facts_of(RUN_A, 0);

        assert_int_equal(trust_on_facts(&t, &young, 0, at(i * SEC)), TRUST_NOTHING);
        assert_int_equal(sample(&t, 0, at(i * SEC)), TRUST_NOTHING);
        assert_int_equal(sentinel(&t, NONCE_B, at(i * SEC)), TRUST_NOTHING);
        judge(&t, at(i * SEC));
    }
    assert_quarantine(t, HF_QUARANTINE_SENTINEL, at(SEC));
}

TEST(a_new_run_id_begins_a_quarantine)
{
    struct node_trust t = trusted();

    assert_int_equal(facts(&t, RUN_B, at(SEC)), TRUST_RESTARTED);
    sentinel(&t, NONCE_A, at(SEC));
    assert_quarantine(t, HF_QUARANTINE_RUN_ID, at(SEC));
    assert_int_equal(facts(&t, RUN_B, at(2 * SEC)), TRUST_NOTHING);
    assert_quarantine(t, HF_QUARANTINE_RUN_ID, at(SEC));
    assert_int_equal(facts(&t, RUN_A, at(3 * SEC)), TRUST_RESTARTED);
    assert_quarantine(t, HF_QUARANTINE_RUN_ID, at(3 * SEC));
}

/* (!) Whatever it keeps: its files may be another server's, or not its last. */
TEST(a_restart_that_forgot_nothing_waits_for_the_quarantine)
{
    struct node_trust t = trusted();

    assert_int_equal(facts(&t, RUN_B, at(2 * SEC)), TRUST_RESTARTED);
    assert_int_equal(sentinel(&t, NONCE_A, at(2 * SEC)), TRUST_NOTHING);
    assert_quarantine(t, HF_QUARANTINE_RUN_ID, at(2 * SEC));
}

/* --- (!) sentinel ----------------------------------------------------------------------------- */

TEST(a_changed_sentinel_begins_a_quarantine_and_moves_the_mark)
{
    struct node_trust t = trusted();
    uint32_t mark = t.mark;

    assert_int_equal(sentinel(&t, NONCE_B, at(SEC)), TRUST_FORGOT);
    assert_int_equal(t.mark, mark + 1);
    assert_quarantine(t, HF_QUARANTINE_SENTINEL, at(SEC));
}

TEST(a_changed_nonce_in_a_reply_is_the_same_finding_once)
{
    struct node_trust t = trusted();
    uint32_t mark = t.mark;

    assert_int_equal(trust_on_nonce(&t, NONCE_A, at(SEC)), TRUST_NOTHING);
    assert_int_equal(trust_on_nonce(&t, NONCE_B, at(SEC)), TRUST_FORGOT);
    assert_int_equal(trust_on_nonce(&t, NONCE_B, at(2 * SEC)), TRUST_NOTHING);
    assert_int_equal(sentinel(&t, NONCE_B, at(3 * SEC)), TRUST_NOTHING);
    assert_int_equal(t.mark, mark + 1);
    assert_quarantine(t, HF_QUARANTINE_SENTINEL, at(SEC));
    /* the old data set again (SWAPDB twice) is another change */
    assert_int_equal(trust_on_nonce(&t, NONCE_A, at(4 * SEC)), TRUST_FORGOT);
    assert_int_equal(t.mark, mark + 2);
}

TEST(a_changed_nonce_is_not_voted_with_before_the_sentinel_was_read)
{
    struct node_trust t = trusted();

    trust_on_nonce(&t, NONCE_B, at(0));
    assert_false(trust_may_vote(&t, at(QUARANTINE)));
    assert_time(trust_until(&t, at(QUARANTINE)), HF_TIME_NEVER);
    sentinel(&t, NONCE_B, at(QUARANTINE));
    assert_votes(&t, at(QUARANTINE));
}

TEST(an_absent_sentinel_begins_a_quarantine)
{
    struct node_trust t = trusted();
    struct node_sentinel created = sentinel_of(NONCE_B, at(2 * SEC));

    assert_int_equal(trust_on_nonce(&t, "", at(SEC)), TRUST_FORGOT);
    assert_int_equal(trust_on_nonce(&t, "", at(2 * SEC)), TRUST_NOTHING);
    /* what happened between the two readings nobody watched */
    assert_int_equal(trust_on_sentinel(&t, &created, true, at(3 * SEC)), TRUST_FORGOT);
    assert_quarantine(t, HF_QUARANTINE_SENTINEL, at(3 * SEC));
}

TEST(a_sentinel_created_at_first_contact_was_absent)
{
    struct node_sentinel created = sentinel_of(NONCE_A, at(0));
    struct node_trust t;

    trust_init(&t, hf_ns(QUARANTINE), false);
    facts(&t, RUN_A, at(0));
    sample(&t, 0, at(0));
    assert_int_equal(trust_on_sentinel(&t, &created, true, at(0)), TRUST_FORGOT);
    assert_int_equal(t.mark, 1);
    judge(&t, at(0));
    assert_quarantine(t, HF_QUARANTINE_AGE | HF_QUARANTINE_SENTINEL, at(0));
}

TEST(a_sentinel_made_at_first_contact_is_found_out_by_its_nonce_first)
{
    struct node_sentinel created = sentinel_of(NONCE_A, at(0));
    struct node_trust t;

    trust_init(&t, hf_ns(QUARANTINE), false);
    facts(&t, RUN_A, at(0));
    sample(&t, 0, at(0));
    assert_int_equal(trust_on_nonce(&t, NONCE_A, at(0)), TRUST_NOTHING);
    assert_int_equal(trust_on_sentinel(&t, &created, true, at(0)), TRUST_FORGOT);
    assert_int_equal(trust_on_sentinel(&t, &created, true, at(SEC)), TRUST_NOTHING);
    judge(&t, at(0));
    assert_quarantine(t, HF_QUARANTINE_AGE | HF_QUARANTINE_SENTINEL, at(0));
}

TEST(the_quarantine_is_over_at_its_end_and_a_new_one_begins_afresh)
{
    struct node_trust t = trusted();

    sentinel(&t, NONCE_B, at(0));
    /* no tick in between: the reasons of the one that is over are no reasons of the next */
    sample(&t, 5000000, at(QUARANTINE));
    assert_quarantine(t, HF_QUARANTINE_CLOCK, at(QUARANTINE));
}

/* --- the operator's word ---------------------------------------------------------------------- */

TEST(the_word_skips_age_and_a_sentinel_that_is_not_there_yet)
{
    struct node_trust t = fresh();
    struct node_facts young = facts_of(RUN_A, 0);
    struct node_sentinel created = sentinel_of(NONCE_A, at(0));

    assert_int_equal(trust_on_facts(&t, &young, 0, at(0)), TRUST_FIRST);
    sample(&t, 0, at(0));
    assert_int_equal(trust_on_nonce(&t, "", at(0)), TRUST_NOTHING);
    assert_int_equal(trust_on_sentinel(&t, &created, true, at(0)), TRUST_NOTHING);
    judge(&t, at(0));
    assert_votes(&t, at(0));
}

TEST(the_word_does_not_skip_the_median_or_a_step)
{
    struct node_trust t = fresh();

    facts(&t, RUN_A, at(0));
    sample(&t, 0, at(0));
    sentinel(&t, NONCE_A, at(0));
    trust_judge(&t, OFFSET_US + INT64_C(1000001), wall(at(0)), at(0));
    assert_quarantine(t, HF_QUARANTINE_MEDIAN, at(0));

    t = fresh();
    facts(&t, RUN_A, at(0));
    sample(&t, 0, at(0));
    assert_int_equal(sample(&t, 5000000, at(SEC)), TRUST_STEPPED);
}

/* Also under the word: it says what was so when the agent started. */
TEST(a_node_remembers_as_far_back_as_it_runs_and_its_sentinel_is_old)
{
    struct node_trust t = trusted(); /* both are OLD at 0 */
    struct node_facts younger = facts_of(RUN_B, 0);

    assert_true(trust_remembers(&t, hf_ns(OLD - SEC), wall(at(0)), at(0)));
    assert_false(trust_remembers(&t, hf_ns(OLD + SEC), wall(at(0)), at(0)));
    assert_true(trust_remembers(&t, hf_ns(OLD + SEC), wall(at(100 * SEC)), at(100 * SEC)));
    /* It votes again long before that. */
    trust_on_facts(&t, &younger, 0, at(100 * SEC));
    sample(&t, 0, at(100 * SEC));
    assert_true(trust_may_vote(&t, at(200 * SEC)));
    assert_false(trust_remembers(&t, hf_ns(OLD), wall(at(200 * SEC)), at(200 * SEC)));
    assert_true(trust_remembers(&t, hf_ns(99 * SEC), wall(at(200 * SEC)), at(200 * SEC)));
    t = trusted();
    sentinel(&t, NONCE_A, at(0));
    {
        struct node_sentinel made = sentinel_of(NONCE_B, at(100 * SEC));

        trust_on_sentinel(&t, &made, false, at(100 * SEC));
    }
    sample(&t, 0, at(200 * SEC));
    assert_false(trust_remembers(&t, hf_ns(OLD), wall(at(200 * SEC)), at(200 * SEC)));
    assert_true(trust_remembers(&t, hf_ns(90 * SEC), wall(at(200 * SEC)), at(200 * SEC)));
    /* (!) Its clock was hours behind when it made the sentinel: uptime and age by its clock are too large. */
    t = trusted();
    t.sentinel.created_wall = wall(at(0));
    assert_false(trust_remembers(&t, hf_ns(OLD - SEC), wall(at(100 * SEC)), at(100 * SEC)));
}

TEST(with_the_word_it_remembers_until_it_is_seen_to_forget)
{
    struct node_trust t = fresh();
    struct node_facts young = facts_of(RUN_A, 0);

    trust_on_facts(&t, &young, 0, at(0));
    sample(&t, 0, at(0));
    sentinel(&t, NONCE_A, at(0));
    judge(&t, at(0));
    assert_true(trust_remembers(&t, hf_ns(100 * OLD), wall(at(SEC)), at(SEC)));
    {
        struct node_trust refused = t;

        trust_take_word_back(&refused);
        assert_false(trust_remembers(&refused, hf_ns(100 * OLD), wall(at(SEC)), at(SEC)));
    }
    young = facts_of(RUN_B, 0);
    trust_on_facts(&t, &young, 0, at(2 * SEC));
    sample(&t, 0, at(2 * SEC));
    assert_false(trust_remembers(&t, hf_ns(100 * OLD), wall(at(2 * SEC)), at(2 * SEC)));
}

TEST(the_word_is_not_about_nodes_that_come_later)
{
    struct node_trust t = fresh();

    assert_true(trust_has_word(&t, at(0), at(QUARANTINE - 1)));
    assert_true(t.word_age);
    assert_false(trust_has_word(&t, at(0), at(QUARANTINE)));
    assert_false(t.word_age || t.word_run_id);

    t = fresh(); /* what was met in time keeps it until it is used */
    facts(&t, RUN_A, at(0));
    assert_true(trust_has_word(&t, at(0), at(QUARANTINE)));
    assert_true(t.word_age);
}

TEST(the_word_is_used_once)
{
    struct node_trust t = fresh();

    facts(&t, RUN_A, at(0));
    sample(&t, 0, at(0));
    sentinel(&t, NONCE_A, at(0));
    judge(&t, at(0));
    assert_votes(&t, at(0));
    facts(&t, RUN_B, at(SEC));
    assert_quarantine(t, HF_QUARANTINE_RUN_ID, at(SEC));
    assert_int_equal(sentinel(&t, NONCE_B, at(2 * SEC)), TRUST_FORGOT);
}

TEST(the_word_skips_one_new_run_id_of_a_node_known_from_the_journal)
{
    struct node_trust journaled = trusted(), t = fresh();

    facts(&journaled, RUN_B, at(SEC)); /* its quarantine is covered by the word, too */
    trust_restore(&t, &journaled, HF_TIME_PAST, at(SEC));
    assert_int_equal(facts(&t, RUN_A, at(2 * SEC)), TRUST_RESTARTED);
    sentinel(&t, NONCE_A, at(2 * SEC));
    assert_votes(&t, at(2 * SEC));
    facts(&t, RUN_B, at(3 * SEC));
    assert_quarantine(t, HF_QUARANTINE_RUN_ID, at(3 * SEC));
}

TEST(the_word_does_not_skip_a_changed_sentinel_of_a_node_known_from_the_journal)
{
    struct node_trust journaled = trusted(), t = fresh();

    trust_restore(&t, &journaled, HF_TIME_PAST, at(SEC));
    facts(&t, RUN_B, at(SEC));
    assert_int_equal(sentinel(&t, NONCE_B, at(SEC)), TRUST_FORGOT);
    assert_quarantine(t, HF_QUARANTINE_SENTINEL, at(SEC));
}

TEST(a_node_known_from_the_journal_is_watched_on)
{
    struct node_trust journaled = trusted(), t;

    sentinel(&journaled, NONCE_B, at(SEC));
    trust_init(&t, hf_ns(QUARANTINE), false);
    trust_restore(&t, &journaled, HF_TIME_PAST, at(SEC));
    assert_int_equal(facts(&t, RUN_A, at(10 * SEC)), TRUST_NOTHING);
    assert_int_equal(sentinel(&t, NONCE_B, at(10 * SEC)), TRUST_NOTHING);
    assert_quarantine(t, HF_QUARANTINE_SENTINEL, at(SEC));
    assert_int_equal(sample(&t, 5000000, at(11 * SEC)), TRUST_STEPPED);
    assert_int_equal(facts(&t, RUN_B, at(12 * SEC)), TRUST_RESTARTED);
}

/* (!) */
TEST(what_was_seen_after_now_is_of_another_clock_and_not_known)
{
    struct node_trust ahead = trusted(), t;

    sample(&ahead, 5000000, at(86400 * SEC));
    trust_init(&t, hf_ns(QUARANTINE), false);
    trust_restore(&t, &ahead, HF_TIME_PAST, at(SEC));
    assert_false(t.contacted || t.clock_known || t.judged);
    assert_int_equal(facts(&t, RUN_A, at(SEC)), TRUST_FIRST);
    assert_int_equal(sample(&t, 0, at(SEC)), TRUST_NOTHING);
    assert_int_equal(t.sampled.ns, at(SEC).ns);
}

TEST(a_clock_between_ends_that_are_the_other_way_round_is_not_known)
{
    struct node_trust wrong = trusted(), t;

    wrong.low_us = wrong.high_us + 1;
    trust_init(&t, hf_ns(QUARANTINE), false);
    trust_restore(&t, &wrong, HF_TIME_PAST, at(SEC));
    assert_false(t.contacted || t.clock_known);
    assert_int_equal(sample(&t, 0, at(SEC)), TRUST_NOTHING);
}

/* --- ttl_max was raised meanwhile: an earlier agent went by a shorter quarantine ----------------- */

#define LONGER (5 * QUARANTINE)

static struct node_trust restored(const struct node_trust *before, hf_time shown, hf_time now)
{
    struct node_trust t;

    trust_init(&t, hf_ns(LONGER), false);
    trust_restore(&t, before, shown, now);
    return t;
}

TEST(what_a_node_forgot_before_leases_were_longer_is_counted_as_then)
{
    struct node_trust before = trusted(), t;

    sentinel(&before, NONCE_B, at(SEC));
    t = restored(&before, at(SEC + 1), at(2 * SEC));
    assert_quarantine(t, HF_QUARANTINE_SENTINEL, at(SEC));
    assert_true(t.judged);
}

TEST(what_a_node_forgot_when_leases_could_be_longer_is_counted_anew)
{
    struct node_trust before = trusted(), t;

    sentinel(&before, NONCE_B, at(2 * SEC));
    t = restored(&before, at(SEC), at(3 * SEC));
    assert_int_equal(t.reasons, HF_QUARANTINE_SENTINEL);
    assert_int_equal(t.until.ns, at(2 * SEC + LONGER).ns);
}

TEST(of_a_quarantine_that_may_have_been_too_short_nothing_is_known)
{
    struct node_trust before = trusted(), t;

    t = restored(&before, at(SEC), at(SEC + QUARANTINE + 1));
    assert_false(t.contacted); /* met for the first time: its sentinel's age tells */
    assert_false(t.judged);
    assert_true(t.clock_known);
    t = restored(&before, at(SEC), at(SEC + QUARANTINE));
    assert_true(t.contacted && t.judged);
}

TEST(a_node_that_was_met_when_leases_could_be_longer_is_met_anew)
{
    struct node_trust before = trusted(), t;

    before.first_contact = at(2 * SEC);
    t = restored(&before, at(SEC), at(3 * SEC));
    assert_false(t.contacted);
    t = restored(&before, HF_TIME_PAST, at(3 * SEC)); /* no record was gone by */
    assert_false(t.contacted);
}

/* --- what the other thread saw ---------------------------------------------------------------- */

TEST(a_finding_of_the_other_thread_begins_a_quarantine)
{
    struct node_trust t = trusted();

    trust_on_told(&t, TRUST_STEPPED, at(SEC));
    assert_quarantine(t, HF_QUARANTINE_CLOCK, at(SEC));
    t = trusted();
    trust_on_told(&t, TRUST_FORGOT, at(SEC));
    assert_quarantine(t, HF_QUARANTINE_SENTINEL, at(SEC));
    t = trusted();
    trust_on_told(&t, TRUST_NOTHING, at(SEC));
    assert_votes(&t, at(SEC));
}

TEST(being_told_of_what_is_known_does_not_prolong_it)
{
    struct node_trust t = trusted();

    sentinel(&t, NONCE_B, at(SEC));
    trust_on_told(&t, TRUST_FORGOT, at(5 * SEC));
    assert_quarantine(t, HF_QUARANTINE_SENTINEL, at(SEC));
    trust_on_told(&t, TRUST_FORGOT | TRUST_STEPPED, at(6 * SEC));
    assert_quarantine(t, HF_QUARANTINE_SENTINEL | HF_QUARANTINE_CLOCK, at(6 * SEC));
}

TEST(a_restart_is_judged_by_the_own_connection)
{
    struct node_trust t = trusted();

    trust_on_told(&t, TRUST_RESTARTED, at(SEC));
    assert_votes(&t, at(SEC));
}

/* --- refusals --------------------------------------------------------------------------------- */

TEST(replicas_and_cluster_nodes_are_refused)
{
    struct node_trust t = trusted();
    struct node_facts f = facts_of(RUN_A, OLD);

    f.replica = f.cluster = true;
    assert_int_equal(trust_on_facts(&t, &f, 0, at(SEC)), TRUST_REFUSED);
    assert_int_equal(t.refusal, HF_REFUSED_REPLICA);
    assert_false(trust_may_vote(&t, at(SEC)));
    assert_time(trust_until(&t, at(SEC)), HF_TIME_NEVER);
    assert_int_equal(trust_on_facts(&t, &f, 0, at(SEC)), TRUST_NOTHING);
    f.replica = false;
    assert_int_equal(trust_on_facts(&t, &f, 0, at(SEC)), TRUST_REFUSED);
    assert_int_equal(t.refusal, HF_REFUSED_CLUSTER);
}

TEST(a_node_that_was_a_replica_may_have_forgotten)
{
    struct node_trust t = trusted();
    struct node_facts f = facts_of(RUN_A, OLD);

    f.replica = true;
    trust_on_facts(&t, &f, 0, at(SEC));
    assert_int_equal(facts(&t, RUN_A, at(2 * SEC)), TRUST_REFUSED);
    assert_false(t.refused);
    assert_quarantine(t, HF_QUARANTINE_SENTINEL, at(2 * SEC));
}

TEST(a_node_with_replicas_is_refused_unless_allowed)
{
    struct node_trust t = trusted();
    struct node_facts f = facts_of(RUN_A, OLD);

    f.replicated = true;
    assert_int_equal(trust_on_facts(&t, &f, TRUST_ALLOW_EVICTION, at(SEC)), TRUST_REFUSED);
    assert_int_equal(t.refusal, HF_REFUSED_REPLICATED);
    assert_false(trust_may_vote(&t, at(SEC)));
    assert_int_equal(trust_on_facts(&t, &f, TRUST_ALLOW_REPLICAS, at(SEC)), TRUST_REFUSED);
    assert_votes(&t, at(SEC));
    assert_int_equal(trust_on_facts(&t, &f, 0, at(SEC)), TRUST_REFUSED);
    assert_int_equal(facts(&t, RUN_A, at(2 * SEC)), TRUST_REFUSED); /* detached */
    assert_votes(&t, at(2 * SEC));
}

TEST(a_node_that_evicts_is_refused_unless_allowed)
{
    struct node_trust t = trusted();
    struct node_facts f = facts_of(RUN_A, OLD);

    f.evicts = true;
    assert_int_equal(trust_on_facts(&t, &f, 0, at(SEC)), TRUST_REFUSED);
    assert_int_equal(t.refusal, HF_REFUSED_EVICTION);
    assert_int_equal(trust_on_facts(&t, &f, TRUST_ALLOW_EVICTION, at(SEC)), TRUST_REFUSED);
    assert_votes(&t, at(SEC));
}

TEST(a_refusal_that_info_says_nothing_about_stays)
{
    const enum hf_node_refusal goes[] = {HF_REFUSED_AUTH, HF_REFUSED_NOT_REDIS,
                                         HF_REFUSED_DUPLICATE}; /* of a build before */

    for (size_t i = 0; i < HF_LENGTH(goes); i++) {
        struct node_trust t = trusted();

        assert_int_equal(trust_refuse(&t, HF_REFUSED_FLEET), TRUST_REFUSED);
        assert_int_equal(trust_refuse(&t, HF_REFUSED_FLEET), TRUST_NOTHING);
        assert_int_equal(facts(&t, RUN_A, at(SEC)), TRUST_NOTHING);
        assert_false(trust_may_vote(&t, at(SEC)));
        assert_int_equal(trust_refuse(&t, HF_REFUSED_NOT), TRUST_REFUSED);
        assert_votes(&t, at(SEC));

        t = trusted();
        trust_refuse(&t, goes[i]);
        assert_int_equal(facts(&t, RUN_A, at(SEC)), TRUST_REFUSED);
        assert_votes(&t, at(SEC));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_old_node_votes_once_it_was_judged),
        cmocka_unit_test(all_three_ages_must_exceed_the_quarantine),
        cmocka_unit_test(a_sentinel_from_the_future_is_too_young),
        cmocka_unit_test(both_ages_of_the_sentinel_must_agree_within_a_second),
        cmocka_unit_test(the_word_skips_that_the_ages_agree),
        cmocka_unit_test(ages_that_a_node_made_up_do_not_agree),
        cmocka_unit_test(a_quarantine_for_age_ends_after_its_time),
        cmocka_unit_test(a_quarantine_for_age_ends_as_soon_as_all_ages_suffice),
        cmocka_unit_test(age_does_not_shorten_another_quarantine),
        cmocka_unit_test(a_node_more_than_1_s_off_the_median_is_in_quarantine),
        cmocka_unit_test(age_and_median_are_judged_at_first_contact_only),
        cmocka_unit_test(a_reconnect_is_no_first_contact_and_restarts_no_quarantine),
        cmocka_unit_test(a_new_run_id_begins_a_quarantine),
        cmocka_unit_test(a_restart_that_forgot_nothing_waits_for_the_quarantine),
        cmocka_unit_test(a_changed_sentinel_begins_a_quarantine_and_moves_the_mark),
        cmocka_unit_test(a_changed_nonce_in_a_reply_is_the_same_finding_once),
        cmocka_unit_test(a_changed_nonce_is_not_voted_with_before_the_sentinel_was_read),
        cmocka_unit_test(an_absent_sentinel_begins_a_quarantine),
        cmocka_unit_test(a_sentinel_created_at_first_contact_was_absent),
        cmocka_unit_test(a_sentinel_made_at_first_contact_is_found_out_by_its_nonce_first),
        cmocka_unit_test(the_quarantine_is_over_at_its_end_and_a_new_one_begins_afresh),
        cmocka_unit_test(the_word_skips_age_and_a_sentinel_that_is_not_there_yet),
        cmocka_unit_test(the_word_does_not_skip_the_median_or_a_step),
        cmocka_unit_test(a_node_remembers_as_far_back_as_it_runs_and_its_sentinel_is_old),
        cmocka_unit_test(with_the_word_it_remembers_until_it_is_seen_to_forget),
        cmocka_unit_test(the_word_is_not_about_nodes_that_come_later),
        cmocka_unit_test(the_word_is_used_once),
        cmocka_unit_test(the_word_skips_one_new_run_id_of_a_node_known_from_the_journal),
        cmocka_unit_test(
            the_word_does_not_skip_a_changed_sentinel_of_a_node_known_from_the_journal),
        cmocka_unit_test(a_node_known_from_the_journal_is_watched_on),
        cmocka_unit_test(what_was_seen_after_now_is_of_another_clock_and_not_known),
        cmocka_unit_test(a_clock_between_ends_that_are_the_other_way_round_is_not_known),
        cmocka_unit_test(what_a_node_forgot_before_leases_were_longer_is_counted_as_then),
        cmocka_unit_test(what_a_node_forgot_when_leases_could_be_longer_is_counted_anew),
        cmocka_unit_test(of_a_quarantine_that_may_have_been_too_short_nothing_is_known),
        cmocka_unit_test(a_node_that_was_met_when_leases_could_be_longer_is_met_anew),
        cmocka_unit_test(a_finding_of_the_other_thread_begins_a_quarantine),
        cmocka_unit_test(being_told_of_what_is_known_does_not_prolong_it),
        cmocka_unit_test(a_restart_is_judged_by_the_own_connection),
        cmocka_unit_test(replicas_and_cluster_nodes_are_refused),
        cmocka_unit_test(a_node_that_was_a_replica_may_have_forgotten),
        cmocka_unit_test(a_node_with_replicas_is_refused_unless_allowed),
        cmocka_unit_test(a_node_that_evicts_is_refused_unless_allowed),
        cmocka_unit_test(a_refusal_that_info_says_nothing_about_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
