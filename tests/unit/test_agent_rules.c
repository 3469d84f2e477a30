/* agent/core/rules.h and agent/config/config.h: what rules mean, and which are refused. */
#include "core_fixture.h"

#include <stdio.h>

#include "agent/config/config.h"
#include "agent/core/rules.h"

#define ALICE 1001
#define BOB   1002
#define STAFF 2001
#define DBA   2002

static struct config config;
static char why[512];

static const uint32_t of_alice[] = {DBA, 3000};
static const struct caller alice = {
    .uid = ALICE, .gid = STAFF, .groups = of_alice, .group_count = 2};
static const struct caller bob = {.uid = BOB, .gid = STAFF};
static const struct caller stranger = {.uid = 65534, .gid = 65534};
static const struct caller root = {.uid = 0, .gid = 0, .trusted = true};

static int reset(HF_UNUSED void **state)
{
    memset(&config, 0, sizeof(config));
    return 0;
}

static void rule(const char *text)
{
    if (config_allow_add(&config, text, why, sizeof(why)) < 0)
        fail_msg("%s", why);
}

static void refuses(const char *text, const char *words)
{
    int before = config.rules.count;

    why[0] = '\0';
    assert_int_equal(config_allow_add(&config, text, why, sizeof(why)), HF_EINVAL);
    assert_int_equal(config.rules.count, before);
    if (!strstr(why, words))
        fail_msg("'%s' is not in: %s", words, why);
}

static bool may(const struct caller *caller, enum right right, const char *name)
{
    const struct rule *by;

    return rules_allow(&config.rules, right, name, strlen(name), caller, &by);
}

static bool may_take(const struct caller *caller, const char *name)
{
    return may(caller, RIGHT_TAKE, name);
}

TEST(of_a_process_in_all_groups_only_those_that_rules_name_are_kept)
{
    static uint32_t groups[65536];
    struct caller carol = {.uid = 1003, .gid = 1003, .groups = groups};
    size_t count = 0;

    assert_int_equal(rules_keep_groups(&config.rules, groups, 0), 0);
    for (uint32_t gid = 65535; gid > 0; gid--) /* falling, and this one twice */
        groups[count++] = gid == 7 ? DBA : gid;
    assert_int_equal(rules_keep_groups(&config.rules, groups, count), 0); /* no rule */
    for (uint32_t i = 0; i < count; i++)
        groups[i] = count - i == 7 ? DBA : (uint32_t)count - i;
    rule("db/* user:7 group:2002 group:3000");
    rule("files/* group:2001");
    rule("web/* group:2002 group:70000 user:5");
    carol.group_count = rules_keep_groups(&config.rules, groups, count);
    assert_int_equal(carol.group_count, 3);
    assert_int_equal(groups[0], STAFF);
    assert_int_equal(groups[1], DBA);
    assert_int_equal(groups[2], 3000);
    assert_true(may_take(&carol, "db/x") && may_take(&carol, "files/x") &&
                may_take(&carol, "web/x"));
    carol.group_count = rules_keep_groups(&config.rules, groups, 1);
    assert_false(may_take(&carol, "db/x"));
}

TEST(without_rules_everybody_may_take_and_see_and_nobody_may_force)
{
    assert_true(may(&stranger, RIGHT_TAKE, "x"));
    assert_true(may(&stranger, RIGHT_SEE, "x"));
    assert_false(may(&stranger, RIGHT_FORCE, "x"));
    assert_true(may(&root, RIGHT_FORCE, "x"));
}

TEST(a_rule_is_for_whom_it_names_and_against_all_others)
{
    rule("db/*  user:1001\tgroup:7");
    assert_string_equal(config.rules.rule[0].text, "db/* user:1001 group:7");
    assert_true(may_take(&alice, "db/x"));
    assert_false(may_take(&bob, "db/x"));
    assert_false(may_take(&stranger, "db/"));
    assert_true(may_take(&root, "db/x"));
    assert_true(may_take(&bob, "db")); /* which it does not match */
    assert_true(may_take(&bob, "other"));
    assert_true(may(&bob, RIGHT_SEE, "db/x")); /* it is for take */
}

TEST(groups_are_the_first_one_and_the_others)
{
    rule("a group:2001");
    rule("b group:2002");
    rule("c group:1001"); /* alice's number as a user */
    assert_true(may_take(&alice, "a"));
    assert_true(may_take(&bob, "a"));
    assert_true(may_take(&alice, "b"));
    assert_false(may_take(&bob, "b"));
    assert_false(may_take(&alice, "c"));
    assert_false(may_take(&stranger, "a"));
}

TEST(the_first_rule_that_matches_counts_alone)
{
    rule("alice/open/* everyone");
    rule("alice/* user:1001");
    rule("* group:2001");
    assert_true(may_take(&stranger, "alice/open/x"));
    assert_true(may_take(&alice, "alice/x"));
    assert_false(may_take(&bob, "alice/x")); /* though the last rule names his group */
    assert_true(may_take(&bob, "x"));
    assert_false(may_take(&stranger, "x"));
}

TEST(each_right_has_its_own_first_rule)
{
    rule("db/* user:1001 take see");
    rule("db/* group:2001 force");
    rule("* none see");
    assert_true(may(&alice, RIGHT_SEE, "db/x"));
    assert_true(may(&bob, RIGHT_FORCE, "db/x"));
    assert_true(may(&bob, RIGHT_SEE, "db/x")); /* who may force it */
    assert_false(may(&stranger, RIGHT_SEE, "db/x"));
    assert_false(may(&bob, RIGHT_FORCE, "x"));
    assert_false(may(&stranger, RIGHT_FORCE, "db/x"));
    assert_false(may(&alice, RIGHT_SEE, "x"));
    assert_true(may(&alice, RIGHT_TAKE, "x"));
    assert_true(may(&root, RIGHT_SEE, "x"));
}

TEST(a_rule_for_a_counted_lock_is_for_its_slots)
{
    rule("pool user:1001");
    rule("a#1 user:1001");
    assert_true(may_take(&alice, "pool#0"));
    assert_false(may_take(&bob, "pool#0"));
    assert_false(may_take(&bob, "pool#15"));
    assert_true(may_take(&bob, "pool#")); /* no slot */
    assert_true(may_take(&bob, "pool#x"));
    assert_true(may_take(&bob, "pool1"));
    assert_false(may_take(&bob, "a#1"));
    assert_false(may_take(&bob, "a#1#2"));
    assert_true(may_take(&bob, "a#2"));
    assert_true(may_take(&bob, "#0"));
    rule("#0 user:1001");
    assert_false(may_take(&bob, "#0"));
}

TEST(who_decided_is_told)
{
    const struct rule *by = NULL;

    rule("a user:1001");
    rule("b* user:1001");
    assert_false(rules_allow(&config.rules, RIGHT_TAKE, "bc", 2, &bob, &by));
    assert_ptr_equal(by, &config.rules.rule[1]);
    assert_true(rules_allow(&config.rules, RIGHT_TAKE, "c", 1, &bob, &by));
    assert_null(by);
    assert_false(rules_allow(&config.rules, RIGHT_FORCE, "a", 1, &bob, &by));
    assert_null(by);
}

TEST(names_of_users_and_groups_are_looked_up)
{
    rule("a user:root group:root");
    assert_int_equal(config.rules.rule[0].who[0].id, 0);
    assert_int_equal(config.rules.rule[0].who[1].id, 0);
    refuses("b user:no-such-user-here", "there is no user 'no-such-user-here' on this host");
    refuses("b group:no-such-group-here", "there is no group 'no-such-group-here'");
    refuses("b user:", "there is no user ''");
    refuses("b user:4294967295", "there is no user '4294967295'");
    refuses("b user:99999999999999999999", "there is no user");
    refuses("b user:-1", "there is no user");
    refuses("b user:1x", "there is no user '1x'");
}

TEST(what_is_no_rule)
{
    char text[400];

    refuses("", "does not say who may");
    refuses("db/*", "'db/*' does not say who may: write PATTERN WHO...");
    refuses("user:root", "does not say who may");
    refuses("db/* take", "does not say who may");
    refuses("db/* root", "'root' is none of these");
    refuses("user:root db/*", "'db/*' is none of these");
    refuses("db/* user:root write", "'write' is none of these");
    refuses("db/* everyone user:root", "stand alone");
    refuses("db/* none none", "stand alone");
    refuses("db/\\y* user:root", "begins none of");
    memset(text, 'x', sizeof(text));
    strcpy(text + RULE_TEXT - 10, " user:1001");
    refuses("x", "who may");
    refuses("x\ny user:root", "write control characters as");
    refuses("x\x7f user:root", "write control characters as");
    rule(text); /* just so long */
    strcpy(text + RULE_TEXT - 10, " user:10010");
    refuses(text, "at most 319 bytes");
    strcpy(text, "y");
    for (int i = 0; i <= RULE_WHO_MAX; i++)
        strcat(text, " user:1");
    refuses(text, "at most 16 users and groups");
}

TEST(a_rule_that_never_counts_is_refused)
{
    rule("db/* user:1001");
    refuses("db/* user:1002", "comes first and has all its names: join the two");
    refuses("db/x* user:1002", "'db/* user:1001' comes first");
    rule("db/* user:1002 see"); /* another right */
    rule("db/x user:1002 take force");
    refuses("db/x everyone take see force", "never counts");
    rule("* everyone");
    refuses("z none", "never counts");
    rule("z none force");
}

TEST(whether_names_without_a_rule_are_left)
{
    assert_false(rules_are_closed(&config.rules));
    rule("db/* none");
    rule("* none see force");
    assert_false(rules_are_closed(&config.rules));
    rule("** user:7");
    assert_true(rules_are_closed(&config.rules));
}

TEST(as_many_rules_as_there_may_be)
{
    char text[32];

    for (int i = 0; i < RULES_MAX; i++) {
        snprintf(text, sizeof(text), "p%d/* user:%d", i, i);
        rule(text);
    }
    refuses("x none", "more than 64 rules");
    assert_false(may_take(&alice, "p63/x"));
}

TEST(a_user_with_another_number_is_a_change)
{
    struct rules before;

    rule("a user:1001");
    before = config.rules;
    assert_false(config_allow_differs(&before, &config.rules));
    config.rules.rule[0].who[0].id++;
    assert_true(config_allow_differs(&before, &config.rules));
    config.rules = before;
    rule("b none");
    assert_true(config_allow_differs(&before, &config.rules));
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup(test, reset)
    const struct CMUnitTest tests[] = {
        ROW(of_a_process_in_all_groups_only_those_that_rules_name_are_kept),
        ROW(without_rules_everybody_may_take_and_see_and_nobody_may_force),
        ROW(a_rule_is_for_whom_it_names_and_against_all_others),
        ROW(groups_are_the_first_one_and_the_others),
        ROW(the_first_rule_that_matches_counts_alone),
        ROW(each_right_has_its_own_first_rule),
        ROW(a_rule_for_a_counted_lock_is_for_its_slots),
        ROW(who_decided_is_told),
        ROW(names_of_users_and_groups_are_looked_up),
        ROW(what_is_no_rule),
        ROW(a_rule_that_never_counts_is_refused),
        ROW(whether_names_without_a_rule_are_left),
        ROW(as_many_rules_as_there_may_be),
        ROW(a_user_with_another_number_is_a_change),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
