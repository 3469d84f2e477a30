/* agent/core/rules.h: which names a pattern matches, and which patterns cover others. */
#include "core_fixture.h"

#include <stdio.h>

#include "agent/core/rules.h"

/* What stands behind a pattern in a rule must not count. */
static bool matches_bytes(const char *pattern, const void *name, size_t name_len)
{
    char line[300];

    snprintf(line, sizeof(line), "%s user:x", pattern);
    assert_true(pattern_is_good(line, strlen(pattern)));
    return pattern_matches(line, strlen(pattern), name, name_len);
}

static bool matches(const char *pattern, const char *name)
{
    return matches_bytes(pattern, name, strlen(name));
}

static bool covers(const char *pattern, const char *other)
{
    return pattern_covers(pattern, strlen(pattern), other, strlen(other));
}

TEST(a_pattern_is_of_the_whole_name)
{
    assert_true(matches("db/x", "db/x"));
    assert_false(matches("db/x", "db/"));
    assert_false(matches("db/x", "db/xy"));
    assert_false(matches("db/x", "adb/x"));
    assert_false(matches("db/x", "DB/X"));
    assert_false(matches("db/x", ""));
    assert_true(matches("", ""));
    assert_false(matches("", "a"));
}

TEST(a_star_is_any_bytes_also_none_and_slashes)
{
    assert_true(matches("db/*", "db/x"));
    assert_true(matches("db/*", "db/"));
    assert_true(matches("db/*", "db/a/b/c"));
    assert_false(matches("db/*", "db"));
    assert_false(matches("db/*", "dbx/y"));
    assert_true(matches("*", ""));
    assert_true(matches("*", "x"));
    assert_true(matches("**", "x"));
    assert_true(matches("**", ""));
    assert_true(matches("a**b", "ab"));
    assert_true(matches("*x*y", "xxayxby"));
    assert_false(matches("*x*y", "xxayxb"));
    assert_true(matches("*ab", "aab"));
    assert_true(matches("*a*a*a", "aaa"));
    assert_false(matches("*a*a*a", "aa"));
}

TEST(a_question_mark_is_one_byte)
{
    assert_true(matches("?", "x"));
    assert_false(matches("?", ""));
    assert_false(matches("?", "xy"));
    assert_true(matches("a?c", "a/c"));
    assert_true(matches("*?", "x"));
    assert_false(matches("?*?", "x"));
    assert_false(matches("?", "\xc3\xa4")); /* a letter of two bytes */
    assert_true(matches("??", "\xc3\xa4"));
}

TEST(escapes_are_bytes)
{
    assert_true(matches("a\\*", "a*"));
    assert_false(matches("a\\*", "ab"));
    assert_true(matches("a\\?", "a?"));
    assert_false(matches("a\\?", "ab"));
    assert_true(matches("a\\\\*", "a\\b")); /* a backslash, then anything */
    assert_true(matches("a\\x20b", "a b"));
    assert_true(matches("\\n\\r\\t", "\n\r\t"));
    assert_true(matches("\\xc3\\xa4*", "\xc3\xa4x"));
    assert_true(matches("\xc3\xa4*", "\xc3\xa4x"));
    assert_false(matches("\xc3\xa4", "a\xcc\x88")); /* which looks alike */
    assert_true(matches_bytes("a\\x00b", "a\0b", 3));
    assert_true(matches_bytes("db/*", "db/\0", 4));
    assert_false(matches_bytes("db/x", "db/x\0", 5));
    assert_true(matches_bytes("\\xff*", "\xff\xfe", 2));
    assert_false(matches_bytes("\\x2a", "x", 1)); /* an escaped star is none, in hex, too */
}

TEST(wrong_escapes_are_found)
{
    static const char *const wrong[] = {"\\", "a\\", "\\a", "\\x", "\\x2", "\\xg0", "\\x2A", "*\\"};

    for (size_t i = 0; i < HF_LENGTH(wrong); i++) {
        char line[32];

        snprintf(line, sizeof(line), "%s user:x", wrong[i]);
        if (pattern_is_good(line, strlen(wrong[i])))
            fail_msg("'%s' is taken", wrong[i]);
    }
}

TEST(the_longest_names)
{
    char name[256], pattern[256];

    memset(name, 'a', 255);
    name[255] = '\0';
    assert_true(matches("*", name));
    assert_true(matches("a*", name));
    assert_true(matches(name, name));
    assert_false(matches("*b", name));
    for (int i = 0; i < 250; i += 2)
        memcpy(pattern + i, "*a", 2);
    strcpy(pattern + 250, "b");
    assert_false(matches(pattern, name)); /* and soon */
}

TEST(what_covers_what)
{
    assert_true(covers("*", "db/*"));
    assert_true(covers("*", "**"));
    assert_true(covers("**", "*"));
    assert_true(covers("*", ""));
    assert_true(covers("db/*", "db/*"));
    assert_true(covers("db/*", "db/x"));
    assert_true(covers("db/*", "db/x*y"));
    assert_true(covers("db/*", "db/?"));
    assert_true(covers("?", "x"));
    assert_true(covers("?", "?"));
    assert_true(covers("a*", "a\\*"));
    assert_true(covers("a\\x62", "ab"));
    assert_false(covers("db/*", "*"));
    assert_false(covers("db/*", "d*"));
    assert_false(covers("?", "*"));
    assert_false(covers("x", "?"));
    assert_false(covers("a\\*", "a*"));
    assert_false(covers("*x", "*"));
    assert_false(covers("db/x", "db/*"));
    assert_false(covers("", "*"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pattern_is_of_the_whole_name),
        cmocka_unit_test(a_star_is_any_bytes_also_none_and_slashes),
        cmocka_unit_test(a_question_mark_is_one_byte),
        cmocka_unit_test(escapes_are_bytes),
        cmocka_unit_test(wrong_escapes_are_found),
        cmocka_unit_test(the_longest_names),
        cmocka_unit_test(what_covers_what),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
