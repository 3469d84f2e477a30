/* agent/core/server.h: which server a vote is of, when nodes of the list come to lead to others. */
#include "core_fixture.h"

#include "agent/core/server.h"

#define LEAST hf_ms(8360)

static struct server one, two;

static int set_up(void **state)
{
    (void)state;
    server_init(&one, "");
    server_init(&two, "");
    server_on_run_id(&one, "a", LEAST, at(0));
    server_on_run_id(&two, "b", LEAST, at(0));
    return 0;
}

TEST(servers_of_their_own_share_nothing)
{
    assert_false(server_is_shared(&one, &two));
    assert_false(server_gave(&one, &two, at(SEC)));
}

TEST(nobody_shares_what_was_not_heard_of)
{
    server_init(&one, "");
    server_init(&two, "");
    assert_false(server_is_shared(&one, &two));
    assert_false(server_gave(&one, &two, at(SEC)));
}

TEST(a_vote_is_of_the_server_that_was_there_when_it_was_sent)
{
    server_on_run_id(&two, "a", LEAST, at(100 * SEC));
    assert_true(server_is_shared(&one, &two));
    assert_false(server_gave(&one, &two, at(100 * SEC - NS)));
    assert_true(server_gave(&one, &two, at(100 * SEC)));
    assert_true(server_gave(&two, &one, at(0)));
}

TEST(what_it_gave_before_the_node_led_elsewhere_is_its_vote)
{
    server_on_run_id(&one, "b", LEAST, at(100 * SEC));
    server_on_run_id(&two, "a", LEAST, at(110 * SEC));
    assert_true(server_gave(&one, &two, at(110 * SEC - NS)));
    assert_false(server_gave(&one, &two, at(110 * SEC)));
    assert_true(server_gave(&two, &one, at(100 * SEC - NS)));
}

TEST(it_is_known_from_the_records_of_an_earlier_agent)
{
    server_init(&two, "a");
    assert_true(server_gave(&one, &two, at(0)));
    server_on_run_id(&two, "b", LEAST, at(SEC));
    assert_true(server_gave(&one, &two, at(SEC - NS)));
    assert_false(server_gave(&one, &two, at(SEC)));
}

TEST(the_same_server_again_changes_nothing)
{
    server_on_run_id(&two, "a", LEAST, at(100 * SEC));
    server_on_run_id(&two, "a", LEAST, at(200 * SEC));
    assert_true(server_gave(&one, &two, at(100 * SEC)));
}

/* An address that slips for a moment. */
TEST(who_was_there_too_shortly_to_vote_is_not_remembered)
{
    server_on_run_id(&two, "a", LEAST, at(100 * SEC));
    server_on_run_id(&two, "b", LEAST, at(108 * SEC));
    assert_false(server_is_shared(&one, &two));
    assert_false(server_gave(&one, &two, at(0)));
    assert_false(server_gave(&one, &two, at(108 * SEC)));
    server_on_run_id(&two, "c", LEAST, at(200 * SEC));
    server_on_run_id(&two, "d", LEAST, at(208 * SEC));
    server_on_run_id(&one, "b", LEAST, at(208 * SEC));
    assert_true(server_gave(&one, &two, at(200 * SEC - NS)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(servers_of_their_own_share_nothing, set_up),
        cmocka_unit_test_setup(nobody_shares_what_was_not_heard_of, set_up),
        cmocka_unit_test_setup(a_vote_is_of_the_server_that_was_there_when_it_was_sent, set_up),
        cmocka_unit_test_setup(what_it_gave_before_the_node_led_elsewhere_is_its_vote, set_up),
        cmocka_unit_test_setup(it_is_known_from_the_records_of_an_earlier_agent, set_up),
        cmocka_unit_test_setup(the_same_server_again_changes_nothing, set_up),
        cmocka_unit_test_setup(who_was_there_too_shortly_to_vote_is_not_remembered, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
