/* The text of a fence record that says who holds a lock: what was written is read again, and what others may have written
 * there is cut or left out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/redis/holder_text.h"
#include "shm/compiler.h"

#define TEST(name)  static void name(HF_UNUSED void **state)
#define LONG_60     "0123456789 123456789 123456789 123456789 123456789 123456789"
#define FENCE       UINT64_C(1700000000000123)
#define HOLDER(...) ((const struct link_holder){__VA_ARGS__})
#define ALIKE(a, b) (strncmp(a, b, sizeof(a) - 1) == 0)

static struct hf_wire_holder again(const struct link_holder *holder, uint64_t fence)
{
    char text[HOLDER_TEXT_MAX];
    struct hf_wire_holder read = {0};

    holder_text_read(text, holder_text_write(holder, fence, text), fence, &read);
    return read;
}

static struct hf_wire_holder read_of(const char *text)
{
    struct hf_wire_holder read = {0};

    holder_text_read(text, strlen(text), 7, &read);
    return read;
}

TEST(what_was_written_is_read)
{
    struct hf_wire_holder r =
        again(&HOLDER(.host = "host-a", .command = "a b", .note = "x\ny", .pid = 4711,
                      .uid = UINT32_MAX, .since = {1700000000000}),
              FENCE);

    assert_string_equal(r.host, "host-a");
    assert_string_equal(r.comm, "a b");
    assert_string_equal(r.note, "x\ny");
    assert_int_equal(r.pid, 4711);
    assert_int_equal(r.uid, UINT32_MAX);
    assert_true(r.since_wall_ms == 1700000000000);
}

/* A process names itself as it likes. */
TEST(a_newline_does_not_move_what_comes_behind_it)
{
    struct hf_wire_holder r =
        again(&HOLDER(.host = "h\n", .command = "c\n0\nroot", .note = "n"), FENCE);

    assert_string_equal(r.host, "h?");
    assert_string_equal(r.comm, "c?0?root");
    assert_string_equal(r.note, "n");
}

TEST(longer_texts_are_cut)
{
    struct hf_wire_holder r =
        again(&HOLDER(.host = LONG_60 LONG_60, .command = LONG_60, .note = LONG_60 LONG_60 LONG_60,
                      .pid = INT32_MAX, .uid = 1, .since = {INT64_MAX}),
              (UINT64_C(1) << 53) - 1);

    assert_true(strlen(r.host) == 63 && ALIKE(r.host, LONG_60 LONG_60));
    assert_true(strlen(r.comm) == 15 && ALIKE(r.comm, LONG_60));
    assert_true(strlen(r.note) == 127);
    assert_true(r.since_wall_ms == INT64_MAX && r.pid == INT32_MAX);
}

TEST(nothing_is_known_without_texts)
{
    struct hf_wire_holder r = again(&HOLDER(.pid = 5, .since = {-1}), 1);

    assert_true(r.pid == 5 && r.since_wall_ms == 0);
    assert_string_equal(r.host, "");
    assert_string_equal(r.note, "");
}

/* (!) An agent of an earlier form leaves the text of the holder before it. */
TEST(the_text_of_another_fence_is_not_read)
{
    struct hf_wire_holder r = read_of("8\n12\n0\n9\nhost\nc\nn");

    assert_true(r.pid == 0 && r.since_wall_ms == 0);
    assert_string_equal(r.host, "");
}

TEST(what_others_wrote_is_cut_or_unknown)
{
    static const char *const nothing[] = {
        "", "\n", "7", "7x\n1", "-7\n1", "77777777777777777777\n1", " 7\n1"};
    struct hf_wire_holder r;

    for (size_t i = 0; i < HF_LENGTH(nothing); i++) {
        r = read_of(nothing[i]);
        assert_true(r.pid == 0 && r.uid == 0 && r.since_wall_ms == 0);
        assert_string_equal(r.host, "");
    }
    r = read_of("7\nmany\n-1\n99999999999999999999999\n\nc");
    assert_true(r.pid == 0 && r.uid == 0 && r.since_wall_ms == 0);
    assert_string_equal(r.host, "");
    assert_string_equal(r.comm, "c");
    assert_string_equal(r.note, "");
    r = read_of("7\n2147483648\n4294967296\n9223372036854775808\n" LONG_60 LONG_60 "\n" LONG_60
                "\nn");
    assert_true(r.pid == 0 && r.uid == 0 && r.since_wall_ms == 0);
    assert_int_equal(strlen(r.host), 63);
    assert_int_equal(strlen(r.comm), 15);
    assert_string_equal(r.note, "n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(a_newline_does_not_move_what_comes_behind_it),
        cmocka_unit_test(longer_texts_are_cut),
        cmocka_unit_test(nothing_is_known_without_texts),
        cmocka_unit_test(the_text_of_another_fence_is_not_read),
        cmocka_unit_test(what_others_wrote_is_cut_or_unknown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
