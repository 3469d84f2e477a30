/* agent/core/census.h: what several nodes' words on one key come to. */
#include "core_fixture.h"

#include "agent/core/census.h"

#define X "1111111111111111111111111111111111111111"
#define Y "2222222222222222222222222222222222222222"

/* One character per node: x and y hold the key, t another type does, - has none, ? is silent, . is
 * awaited. */
static struct census heard(const char *words)
{
    struct census c;

    census_init(&c, (int)strlen(words), (int)strlen(words) / 2 + 1);
    for (int i = 0; words[i]; i++) {
        if (words[i] == 'x' || words[i] == 'y' || words[i] == 't')
            census_key(&c, i, words[i] == 'x' ? X : words[i] == 'y' ? Y : "", 1000 * (i + 1));
        else if (words[i] == '-')
            census_no_key(&c, i);
        else if (words[i] == '?')
            census_silent(&c, i);
    }
    return c;
}

static enum census_outcome outcome(const char *words)
{
    struct census c = heard(words);

    return census_decide(&c);
}

TEST(held_by_a_quorum)
{
    assert_int_equal(outcome("xxx"), CENSUS_HELD);
    assert_int_equal(outcome("xx."), CENSUS_HELD); /* told at once */
    assert_int_equal(outcome("x-x"), CENSUS_HELD);
    assert_int_equal(outcome("?xx"), CENSUS_HELD);
    assert_int_equal(outcome("ttx"), CENSUS_HELD);
    assert_int_equal(outcome("x"), CENSUS_HELD);
}

TEST(free_on_a_quorum)
{
    assert_int_equal(outcome("---"), CENSUS_FREE);
    assert_int_equal(outcome("--."), CENSUS_FREE);
    assert_int_equal(outcome("--?"), CENSUS_FREE);
    assert_int_equal(outcome("-x-"), CENSUS_FREE); /* a remain */
    assert_int_equal(outcome("xy---"), CENSUS_FREE);
}

TEST(split)
{
    assert_int_equal(outcome("xy-"), CENSUS_SPLIT);
    assert_int_equal(outcome("xxyy-"), CENSUS_SPLIT);
    assert_int_equal(outcome("xt-"), CENSUS_SPLIT);
    assert_int_equal(outcome("xx--"), CENSUS_SPLIT); /* an even number: neither has three */
}

TEST(the_silent_ones_could_decide_it)
{
    assert_int_equal(outcome("x-?"), CENSUS_UNKNOWN);
    assert_int_equal(outcome("?-?"), CENSUS_UNKNOWN);
    assert_int_equal(outcome("???"), CENSUS_UNKNOWN);
    assert_int_equal(outcome("xy?"), CENSUS_UNKNOWN);
    assert_int_equal(outcome("xx--?"), CENSUS_UNKNOWN);
}

TEST(open_while_answers_may_come)
{
    assert_int_equal(outcome("..."), CENSUS_OPEN);
    assert_int_equal(outcome("x-."), CENSUS_OPEN);
    assert_int_equal(outcome("x.?"), CENSUS_OPEN);
    assert_int_equal(outcome("-.?"), CENSUS_OPEN);
}

TEST(who_leads_and_what_is_left)
{
    struct census c = heard("yxx-?");

    assert_int_equal(census_leader(&c), 1);
    assert_int_equal(census_count(&c, 1), 2);
    assert_int_equal(census_count(&c, 0), 1);
    assert_int_equal(census_count(&c, 3), 0);
    assert_int_equal(census_answered(&c), 4);
    assert_true(census_complete(&c));
    assert_int_equal(census_lapse_ms(&c, 1), 2000); /* on fewer than three: the last to have it */
    c = heard("xxx");
    assert_int_equal(census_lapse_ms(&c, 0), 2000); /* the second of 3000, 2000, 1000 */
    c.node[0].pttl_ms = -1;
    assert_int_equal(census_lapse_ms(&c, 0), 3000);
    c.node[1].pttl_ms = -1;
    assert_int_equal(census_lapse_ms(&c, 0), -1);
    c = heard("---");
    assert_int_equal(census_leader(&c), -1);
    assert_int_equal(census_lapse_ms(&c, 0), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(held_by_a_quorum),
        cmocka_unit_test(free_on_a_quorum),
        cmocka_unit_test(split),
        cmocka_unit_test(the_silent_ones_could_decide_it),
        cmocka_unit_test(open_while_answers_may_come),
        cmocka_unit_test(who_leads_and_what_is_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
