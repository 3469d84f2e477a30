/* Contract. The control request `fleet-change`: what is read, what is none, and the line for what has begun. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/process/fleet_wishes.h"
#include "shm/compiler.h"
#include "shm/text.h"
#include "shm/status.h"

#define TEST(name) static void name(void **state HF_UNUSED)

static struct fleet_wish read_it(const char *tail)
{
    struct fleet_wish wish;
    char request[2048];

    snprintf(request, sizeof(request), "fleet-change %s", tail);
    if (fleet_request_read(request, &wish) != HF_OK)
        fail_msg("refused: %s", request);
    return wish;
}

TEST(what_is_asked_for)
{
    struct fleet_wish wish = read_it("move b 10.0.0.7:6379");

    assert_int_equal(wish.kind, FLEET_WISH_MOVE);
    assert_string_equal(wish.id, "b");
    assert_string_equal(wish.seat, "10.0.0.7:6379");
    assert_false(wish.gone);
    assert_true(read_it("move b 10.0.0.7:6379 gone").gone);
    wish = read_it("add d\\x20d /run/a\\\\b");
    assert_int_equal(wish.kind, FLEET_WISH_ADD);
    assert_string_equal(wish.id, "d d");
    assert_string_equal(wish.seat, "/run/a\\b");
    wish = read_it("remove c");
    assert_int_equal(wish.kind, FLEET_WISH_REMOVE);
    assert_false(wish.gone);
    assert_true(read_it("remove c gone").gone);
    wish = read_it("ttl-max 120000");
    assert_int_equal(wish.kind, FLEET_WISH_TTL_MAX);
    assert_int_equal(wish.ttl_max_ms, 120000);
    wish = read_it("gone b");
    assert_int_equal(wish.kind, FLEET_WISH_GONE);
    assert_string_equal(wish.id, "b");
}

TEST(what_is_no_request)
{
    static const char *const bad[] = {
        "",
        "move",
        "move b",
        "move b ",
        "move  b x",
        "move b x alive",
        "move b x gone gone",
        "move b x gone more",
        "move - x",
        "move b -",
        "move b \\q",
        "move b \\x00",
        "moves b x",
        "add b",
        "add b x gone",
        "remove",
        "remove - gone",
        "remove b alive",
        "ttl-max",
        "ttl-max -1",
        "ttl-max 1s",
        "ttl-max 1 2",
        "ttl-max 9999999999999999",
        "gone",
        "gone b c",
        "complete 2",
    };
    struct fleet_wish wish = {.ttl_max_ms = 42};
    char request[64], longest[2048] = "fleet-change remove ";

    for (size_t i = 0; i < HF_LENGTH(bad); i++) {
        snprintf(request, sizeof(request), "fleet-change %s", bad[i]);
        if (fleet_request_read(request, &wish) != HF_EINVAL)
            fail_msg("taken: %s", request);
    }
    assert_int_equal(wish.ttl_max_ms, 42); /* written on success only */
    memset(longest + strlen(longest), 'x', HF_NODE_TEXT_MAX);
    assert_int_equal(fleet_request_read(longest, &wish), HF_OK);
    longest[strlen(longest)] = 'x';
    assert_int_equal(fleet_request_read(longest, &wish), HF_EINVAL);
}

TEST(what_has_begun)
{
    struct fleet_record record = {
        .version = 7, .count = 4, .ttl_max_ms = 30000, .ttl_max_before_ms = 60000};
    char line[256] = "";
    FILE *out = fmemopen(line, sizeof(line), "w");

    assert_non_null(out);
    fleet_request_begun(&record, "/run/a b", out);
    assert_int_equal(fclose(out), 0);
    /* a quarantine of the longer one: 1.02 * 60 s + 1 s */
    assert_string_equal(line, "begun 7 62200 4 /run/a\\x20b\n");
}

/* Whatever a text is, it is one word, and comes back. */
TEST(words)
{
    static const char *const texts[] = {"",         "-",     "two words", " ",  "\\x20",
                                        "a\nend\t", "=\x01", "\xff",      "--", "a"};
    char word[HF_WORD_SIZE(16)], back[16], small[3];

    for (size_t i = 0; i < HF_LENGTH(texts); i++) {
        hf_word(word, sizeof(word), texts[i]);
        assert_null(strpbrk(word, " \n\t"));
        assert_true(*word);
        assert_true(hf_word_read(word, back, sizeof(back)));
        assert_string_equal(back, texts[i]);
    }
    assert_string_equal(hf_word(word, sizeof(word), ""), "-");
    assert_string_equal(hf_word(word, sizeof(word), "-"), "\\x2d");
    assert_false(hf_word_read("", back, sizeof(back)));
    assert_true(hf_text_read("", back, sizeof(back)));
    assert_false(hf_word_read("abc", small, sizeof(small)));
    assert_string_equal(hf_word(word, 6, "ab  "), "ab"); /* cut between escapes */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_asked_for),
        cmocka_unit_test(what_is_no_request),
        cmocka_unit_test(what_has_begun),
        cmocka_unit_test(words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
