/* agent/core/share.h: whose turn it is, and how many commands a second. */
#include "core_fixture.h"

#include "agent/core/share.h"

#define USERS 3
#define WANTS 1000

static struct turns turns;
static struct turns_user users[USERS];
static struct turns_want wants[USERS][WANTS];

static int set_up(void **state)
{
    (void)state;
    memset(users, 0, sizeof(users));
    memset(wants, 0, sizeof(wants));
    turns_init(&turns, 600);
    return 0;
}

static void wants_many(int user, int count)
{
    for (int i = 0; i < count; i++)
        turns_want(&turns, &users[user], &wants[user][i]);
}

static void is_next(int user, int want)
{
    assert_ptr_equal(turns_take(&turns), &wants[user][want]);
}

TEST(the_budget_holds_whatever_is_wanted)
{
    hf_time now = at(0);
    int sent = 0;

    wants_many(0, WANTS);
    while (!hf_time_before(at(SEC), now = turns_next(&turns, now))) {
        assert_non_null(turns_take(&turns));
        turns_spend(&turns, 3, now);
        sent += 3;
    }
    assert_in_range(sent, 590, 640);
}

TEST(few_commands_go_at_once)
{
    for (int i = 0; i < 100; i++) {
        hf_time now = at(i * 100 * MS);

        assert_int_equal(turns_next(&turns, now).ns, now.ns);
        turns_spend(&turns, 3, now);
    }
}

TEST(a_users_oldest_want_comes_first)
{
    wants_many(0, 3);
    is_next(0, 0);
    is_next(0, 1);
    turns_want(&turns, &users[0], &wants[0][0]);
    is_next(0, 2);
    is_next(0, 0);
    assert_null(turns_take(&turns));
    assert_false(turns_wanted(&turns));
}

TEST(a_users_only_want_waits_for_one_turn_of_each_other_user)
{
    wants_many(0, WANTS);
    wants_many(1, 10);
    is_next(0, 0);
    is_next(1, 0);
    wants_many(2, 1);
    is_next(0, 1);
    is_next(1, 1);
    is_next(2, 0);
    is_next(0, 2);
    is_next(1, 2);
    is_next(0, 3);
}

TEST(a_dropped_want_has_no_turn)
{
    wants_many(0, 3);
    wants_many(1, 1);
    turns_drop(&turns, &wants[0][1]);
    turns_drop(&turns, &wants[0][1]);
    turns_drop(&turns, &wants[1][0]);
    is_next(0, 0);
    is_next(0, 2);
    assert_false(turns_wanted(&turns));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_budget_holds_whatever_is_wanted, set_up),
        cmocka_unit_test_setup(few_commands_go_at_once, set_up),
        cmocka_unit_test_setup(a_users_oldest_want_comes_first, set_up),
        cmocka_unit_test_setup(a_users_only_want_waits_for_one_turn_of_each_other_user, set_up),
        cmocka_unit_test_setup(a_dropped_want_has_no_turn, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
