/* agent/core/server.h: which votes are of one server, and what is counted to a majority. */
#include "core_fixture.h"

#include "agent/core/server.h"

#define LEAST hf_ms(8360)
#define SPAN  hf_ms(9000)

static struct servers servers;

static int set_up(void **state)
{
    (void)state;
    memset(&servers, 0, sizeof(servers));
    for (int i = 0; i < 3; i++)
        servers_meet(&servers, i, "");
    servers_on_run_id(&servers, 0, "a", LEAST, at(0));
    servers_on_run_id(&servers, 1, "b", LEAST, at(0));
    servers_on_run_id(&servers, 2, "c", LEAST, at(0));
    return 0;
}

static void leads_to(int node, const char *run_id, int64_t ns)
{
    servers_on_run_id(&servers, node, run_id, LEAST, at(ns));
}

/* Whether the votes of the first two nodes, sent at those instants, are of one server. */
static bool are_one(int64_t a_ns, int64_t b_ns)
{
    const hf_time a[] = {at(a_ns), at(b_ns), HF_TIME_PAST};
    struct twins twins;

    servers_twins(&servers, a, 3, &twins);
    assert_int_equal(twins.of[0] >> 1 & 1, twins.of[1] & 1);
    return twins.of[0] >> 1 & 1;
}

TEST(servers_of_their_own_share_nothing)
{
    assert_false(servers.alike);
    assert_false(are_one(SEC, SEC));
    assert_int_equal(servers_count(&servers, 7), 3);
    assert_int_equal(servers_twin(&servers, 0), -1);
    assert_int_equal(servers_count(NULL, 5), 2);
}

TEST(nobody_shares_what_was_not_heard_of)
{
    servers_meet(&servers, 0, "");
    servers_meet(&servers, 1, "");
    assert_false(are_one(SEC, SEC));
    assert_int_equal(servers_twin(&servers, 0), -1);
}

TEST(a_vote_is_of_the_server_that_was_there_when_it_was_sent)
{
    leads_to(1, "a", 100 * SEC);
    assert_true(are_one(SEC, 100 * SEC));
    assert_true(are_one(SEC, 100 * SEC - NS)); /* it may have come into that one's place */
    assert_int_equal(servers_count(&servers, 3), 1);
    assert_int_equal(servers_count(&servers, 7), 2);
    assert_int_equal(servers_twin(&servers, 0), 1);
    assert_int_equal(servers_twin(&servers, 1), 0);
}

TEST(what_it_gave_before_the_node_led_elsewhere_is_its_vote)
{
    leads_to(0, "b", 100 * SEC);
    leads_to(1, "a", 100 * SEC);
    assert_false(are_one(100 * SEC - NS, 100 * SEC - NS)); /* two addresses were swapped */
    assert_true(are_one(100 * SEC, 100 * SEC - NS));
    assert_true(are_one(100 * SEC - NS, 100 * SEC));
    assert_false(are_one(100 * SEC, 100 * SEC));
}

/* (!) One server at two seats, that is started anew: both nodes are met again at some instant of their own. */
TEST(a_server_that_is_restarted_has_no_second_vote_by_another_node)
{
    leads_to(1, "a", 100 * SEC);
    leads_to(0, "x", 200 * SEC);
    assert_true(are_one(200 * SEC, 199 * SEC)); /* sent to the one before it by the other node */
    assert_true(are_one(199 * SEC, 201 * SEC));
    leads_to(1, "x", 210 * SEC);
    assert_true(are_one(200 * SEC, 199 * SEC));
    assert_true(are_one(199 * SEC, 199 * SEC));
    assert_true(are_one(199 * SEC, 210 * SEC));
    assert_true(are_one(210 * SEC, 210 * SEC));
}

TEST(a_server_that_is_restarted_is_no_other_nodes)
{
    leads_to(0, "x", 200 * SEC);
    leads_to(1, "y", 201 * SEC);
    for (int64_t a = 199; a < 203; a++)
        for (int64_t b = 199; b < 203; b++)
            assert_false(are_one(a * SEC, b * SEC));
}

TEST(it_is_known_from_the_records_of_an_earlier_agent)
{
    servers_meet(&servers, 1, "a");
    assert_true(are_one(0, 0));
    leads_to(1, "b", SEC);
    assert_true(are_one(SEC, SEC - NS));
    assert_false(are_one(SEC, SEC));
}

TEST(the_same_server_again_changes_nothing)
{
    leads_to(1, "a", 100 * SEC);
    leads_to(1, "a", 200 * SEC);
    assert_true(are_one(100 * SEC, 100 * SEC));
}

/* Nothing that it said counted yet, so the server before it is the one with votes. */
TEST(who_was_there_too_shortly_to_vote_is_not_remembered)
{
    leads_to(1, "a", 100 * SEC);
    leads_to(1, "b", 108 * SEC);
    assert_false(are_one(0, 0));
    assert_false(are_one(0, 108 * SEC));
    leads_to(1, "c", 200 * SEC);
    leads_to(1, "d", 208 * SEC);
    leads_to(0, "b", 208 * SEC);
    assert_true(are_one(208 * SEC, 200 * SEC - NS));
}

TEST(a_node_that_lies_makes_no_two_others_one_server)
{
    leads_to(2, "a", 100 * SEC);
    assert_int_equal(servers_count(&servers, 7), 2);
    assert_int_equal(servers_count(&servers, 3), 2);
    assert_int_equal(servers_count(&servers, 6), 2);
    assert_int_equal(servers_count(&servers, 5), 1);
    leads_to(2, "b", 200 * SEC);
    assert_int_equal(servers_count(&servers, 5), 2);
    assert_int_equal(servers_count(&servers, 6), 1);
}

static void pairs(struct twins *twins, const int *list, size_t count)
{
    *twins = (struct twins){0};
    for (size_t i = 0; i < count; i += 2)
        twins_pair(twins, list[i], list[i + 1]);
}

TEST(the_largest_set_of_different_servers_counts)
{
    struct twins twins;

    pairs(&twins, (int[]){0, 2, 1, 2}, 4); /* the third claims both */
    assert_int_equal(twins_count(&twins, 7), 2);
    pairs(&twins, (int[]){0, 1, 0, 2, 1, 2}, 6);
    assert_int_equal(twins_count(&twins, 7), 1);
    pairs(&twins, (int[]){3, 0, 4, 1}, 4); /* two of five */
    assert_int_equal(twins_count(&twins, 31), 3);
    assert_int_equal(twins_count(&twins, 27), 2);
    assert_int_equal(twins_count(&twins, 0), 0);
    assert_int_equal(twins_count(NULL, 31), 5);
}

TEST(validity_is_of_different_servers)
{
    const hf_time d[] = {at(10), at(20), at(30)};
    struct twins twins;

    assert_int_equal(twins_validity(NULL, d, 3, 2).ns, at(20).ns);
    pairs(&twins, (int[]){1, 2}, 2);
    assert_int_equal(twins_validity(&twins, d, 3, 2).ns, at(10).ns);
    assert_int_equal(twins_validity(&twins, d, 3, 3).ns, HF_TIME_PAST.ns);
    pairs(&twins, (int[]){0, 2}, 2); /* one server's votes last as long as the later one */
    assert_int_equal(twins_validity(&twins, d, 3, 2).ns, at(20).ns);
    assert_int_equal(twins_validity(&twins, d, 2, 3).ns, HF_TIME_PAST.ns);
}

TEST(votes_are_of_the_servers_of_their_time)
{
    const hf_time d[] = {at(100 * SEC), at(101 * SEC), HF_TIME_PAST};

    leads_to(1, "a", 92 * SEC);
    assert_int_equal(servers_validity(&servers, d, SPAN, 3, 2).ns, HF_TIME_PAST.ns);
    assert_int_equal(servers_votes(&servers, d, SPAN, 3, at(99 * SEC)), 1);
    assert_int_equal(set_up(NULL), 0);
    leads_to(0, "b", 93 * SEC);
    leads_to(1, "a", 93 * SEC); /* they were swapped since */
    assert_int_equal(servers_validity(&servers, d, SPAN, 3, 2).ns, at(100 * SEC).ns);
    assert_int_equal(servers_votes(&servers, d, SPAN, 3, at(99 * SEC)), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(servers_of_their_own_share_nothing, set_up),
        cmocka_unit_test_setup(nobody_shares_what_was_not_heard_of, set_up),
        cmocka_unit_test_setup(a_vote_is_of_the_server_that_was_there_when_it_was_sent, set_up),
        cmocka_unit_test_setup(what_it_gave_before_the_node_led_elsewhere_is_its_vote, set_up),
        cmocka_unit_test_setup(a_server_that_is_restarted_has_no_second_vote_by_another_node,
                               set_up),
        cmocka_unit_test_setup(a_server_that_is_restarted_is_no_other_nodes, set_up),
        cmocka_unit_test_setup(it_is_known_from_the_records_of_an_earlier_agent, set_up),
        cmocka_unit_test_setup(the_same_server_again_changes_nothing, set_up),
        cmocka_unit_test_setup(who_was_there_too_shortly_to_vote_is_not_remembered, set_up),
        cmocka_unit_test_setup(a_node_that_lies_makes_no_two_others_one_server, set_up),
        cmocka_unit_test(the_largest_set_of_different_servers_counts),
        cmocka_unit_test(validity_is_of_different_servers),
        cmocka_unit_test_setup(votes_are_of_the_servers_of_their_time, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
