/* agent/core/tally.h: what several nodes' words on one key come to. */
#include "core_fixture.h"

#include "agent/core/tally.h"

#define X "1111111111111111111111111111111111111111"
#define Y "2222222222222222222222222222222222222222"

/* One character per node: x and y hold the key, t another type does, - has none, ? is silent, . is
 * awaited. */
static struct tally heard(const char *words)
{
    struct tally t;

    tally_init(&t, (int)strlen(words), (int)strlen(words) / 2 + 1);
    for (int i = 0; words[i]; i++) {
        if (words[i] == 'x' || words[i] == 'y' || words[i] == 't')
            tally_key(&t, i, words[i] == 'x' ? X : words[i] == 'y' ? Y : "", 1000 * (i + 1));
        else if (words[i] == '-')
            tally_no_key(&t, i);
        else if (words[i] == '?')
            tally_silent(&t, i);
    }
    return t;
}

static enum tally_outcome outcome(const char *words)
{
    struct tally t = heard(words);

    return tally_decide(&t);
}

TEST(held_by_a_quorum)
{
    assert_int_equal(outcome("xxx"), TALLY_HELD);
    assert_int_equal(outcome("xx."), TALLY_HELD); /* told at once */
    assert_int_equal(outcome("x-x"), TALLY_HELD);
    assert_int_equal(outcome("?xx"), TALLY_HELD);
    assert_int_equal(outcome("ttx"), TALLY_HELD);
    assert_int_equal(outcome("x"), TALLY_HELD);
}

TEST(free_on_a_quorum)
{
    assert_int_equal(outcome("---"), TALLY_FREE);
    assert_int_equal(outcome("--."), TALLY_FREE);
    assert_int_equal(outcome("--?"), TALLY_FREE);
    assert_int_equal(outcome("-x-"), TALLY_FREE); /* a remain */
    assert_int_equal(outcome("xy---"), TALLY_FREE);
}

TEST(split)
{
    assert_int_equal(outcome("xy-"), TALLY_SPLIT);
    assert_int_equal(outcome("xxyy-"), TALLY_SPLIT);
    assert_int_equal(outcome("xt-"), TALLY_SPLIT);
    assert_int_equal(outcome("xx--"), TALLY_SPLIT); /* an even number: neither has three */
}

TEST(the_silent_ones_could_decide_it)
{
    assert_int_equal(outcome("x-?"), TALLY_UNKNOWN);
    assert_int_equal(outcome("?-?"), TALLY_UNKNOWN);
    assert_int_equal(outcome("???"), TALLY_UNKNOWN);
    assert_int_equal(outcome("xy?"), TALLY_UNKNOWN);
    assert_int_equal(outcome("xx--?"), TALLY_UNKNOWN);
}

/* One server at the first and the last node. */
TEST(two_nodes_of_one_server_are_one_word)
{
    struct tally t;

    tally_init(&t, 3, 2);
    twins_pair(&t.twins, 0, 2);
    tally_key(&t, 0, "a", 5000);
    tally_key(&t, 2, "a", 4000);
    assert_int_equal(tally_decide(&t), TALLY_OPEN);
    assert_int_equal(tally_count(&t, 0), 1);
    assert_int_equal(tally_lapse_ms(&t, 0), 5000);
    tally_no_key(&t, 1);
    assert_int_equal(tally_decide(&t), TALLY_SPLIT);
    tally_key(&t, 1, "a", 4500);
    assert_int_equal(tally_decide(&t), TALLY_HELD);
    assert_int_equal(tally_lapse_ms(&t, 0), 4500);
}

TEST(open_while_answers_may_come)
{
    assert_int_equal(outcome("..."), TALLY_OPEN);
    assert_int_equal(outcome("x-."), TALLY_OPEN);
    assert_int_equal(outcome("x.?"), TALLY_OPEN);
    assert_int_equal(outcome("-.?"), TALLY_OPEN);
}

TEST(who_leads_and_what_is_left)
{
    struct tally t = heard("yxx-?");

    assert_int_equal(tally_leader(&t), 1);
    assert_int_equal(tally_count(&t, 1), 2);
    assert_int_equal(tally_count(&t, 0), 1);
    assert_int_equal(tally_count(&t, 3), 0);
    assert_int_equal(tally_answered(&t), 4);
    assert_true(tally_complete(&t));
    assert_int_equal(tally_lapse_ms(&t, 1), 2000); /* on fewer than three: the last to have it */
    t = heard("xxx");
    assert_int_equal(tally_lapse_ms(&t, 0), 2000); /* the second of 3000, 2000, 1000 */
    t.node[0].pttl_ms = -1;
    assert_int_equal(tally_lapse_ms(&t, 0), 3000);
    t.node[1].pttl_ms = -1;
    assert_int_equal(tally_lapse_ms(&t, 0), -1);
    t = heard("---");
    assert_int_equal(tally_leader(&t), -1);
    assert_int_equal(tally_lapse_ms(&t, 0), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(held_by_a_quorum),
        cmocka_unit_test(free_on_a_quorum),
        cmocka_unit_test(split),
        cmocka_unit_test(the_silent_ones_could_decide_it),
        cmocka_unit_test(two_nodes_of_one_server_are_one_word),
        cmocka_unit_test(open_while_answers_may_come),
        cmocka_unit_test(who_leads_and_what_is_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
