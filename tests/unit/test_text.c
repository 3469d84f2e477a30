#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/common/text.h"

static void escapes(void **state)
{
    char out[64];

    (void)state;
    assert_string_equal(text_escape_str(out, sizeof(out), "db/migrate"), "db/migrate");
    assert_string_equal(text_escape(out, sizeof(out), "a\0b\nc\\", 6), "a\\x00b\\nc\\\\");
    assert_string_equal(text_escape_str(out, sizeof(out), "\033[2J\x7f\xc3\xa9"),
                        "\\x1b[2J\\x7f\\xc3\\xa9");
    assert_string_equal(text_escape(out, sizeof(out), "", 0), "");
}

/* The longest name fits, and a short buffer cuts between characters. */
static void escapes_within_bounds(void **state)
{
    char name[255], out[TEXT_NAME_SIZE], small[6];

    (void)state;
    memset(name, 0, sizeof(name));
    assert_int_equal(strlen(text_escape(out, sizeof(out), name, sizeof(name))), 4 * 255);
    assert_string_equal(text_escape_str(small, sizeof(small), "ab\001\001"), "ab");
    assert_string_equal(text_escape_str(small, sizeof(small), "abcdefgh"), "abcde");
    assert_string_equal(text_escape_str(small, 1, "abc"), "");
}

static void spans(void **state)
{
    char out[TEXT_SPAN_SIZE];

    (void)state;
    assert_string_equal(text_span(out, sizeof(out), 0), "0ms");
    assert_string_equal(text_span(out, sizeof(out), 999), "999ms");
    assert_string_equal(text_span(out, sizeof(out), 12999), "12.9s");
    assert_string_equal(text_span(out, sizeof(out), 192000), "3m12s");
    assert_string_equal(text_span(out, sizeof(out), 3600000), "1h0m");
    assert_string_equal(text_span(out, sizeof(out), INT64_C(356400000)), "4d3h");
    assert_string_equal(text_span(out, sizeof(out), -1500), "-1.5s");
    assert_true(strlen(text_span(out, sizeof(out), INT64_MIN)) < sizeof(out));
    assert_string_equal(text_wall(out, sizeof(out), INT64_C(1772366400123)),
                        "2026-03-01T12:00:00Z");
}

static void conflict(void **state)
{
    char out[CONFLICT_SIZE];
    struct hf_holder holder = {.pttl_ms = -2};

    (void)state;
    strcpy(holder.host, "host7");
    strcpy(holder.command, "pg_dump");
    holder.pid = 4121;
    holder.uid = 0;
    holder.since_wall_ms = INT64_C(1772366400000);
    holder.fence = 9182;
    assert_string_equal(
        conflict_line(out, sizeof(out), "db/migrate", &holder, holder.since_wall_ms + 192000),
        "db/migrate is held by host7 pid 4121 (uid 0) command pg_dump since "
        "2026-03-01T12:00:00Z (3m12s), fence 9182");
    strcpy(holder.note, "deploy\n771");
    holder.uid = 4000000000u;
    holder.since_wall_ms = 0;
    holder.pttl_ms = -1;
    assert_string_equal(conflict_line(out, sizeof(out), "a\nb", &holder, 0),
                        "a\\nb is held by host7 pid 4121 (uid 4000000000) command pg_dump, fence "
                        "9182, note deploy\\n771, and its key never expires");
}

/* A user has a name where the holder is. */
static void conflict_here(void **state)
{
    char out[CONFLICT_SIZE], wanted[CONFLICT_SIZE];
    struct hf_holder holder = {.pttl_ms = -2, .pid = 7};

    (void)state;
    assert_int_equal(gethostname(holder.host, sizeof(holder.host) - 1), 0);
    assert_true(conflict_is_here(&holder));
    snprintf(wanted, sizeof(wanted), "x is held by %s pid 7 (user root)", holder.host);
    assert_string_equal(conflict_line(out, sizeof(out), "x", &holder, 0), wanted);
    holder.host[0]++;
    assert_false(conflict_is_here(&holder));
}

/* A key of other software, or a holder that nothing is known of. */
static void conflict_unknown(void **state)
{
    char out[CONFLICT_SIZE];
    const struct hf_holder nobody = {.pttl_ms = -2};
    struct hf_holder other = {.pttl_ms = 192000};

    (void)state;
    assert_string_equal(conflict_line(out, sizeof(out), "x", &other, 0),
                        "x is held by another that left no record, and its key has 3m12s left "
                        "unless that is renewed");
    other.pttl_ms = -1;
    assert_string_equal(conflict_line(out, sizeof(out), "x", &other, 0),
                        "x is held by another that left no record, and its key never expires");
    assert_string_equal(conflict_line(out, sizeof(out), "x", NULL, 0),
                        "x is held by another that left no record");
    assert_string_equal(conflict_line(out, sizeof(out), "x", &nobody, 0),
                        "x is held by another that left no record");
    assert_string_equal(conflict_line(out, 8, "x", &nobody, 0), "x is he");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escapes),       cmocka_unit_test(escapes_within_bounds),
        cmocka_unit_test(spans),         cmocka_unit_test(conflict),
        cmocka_unit_test(conflict_here), cmocka_unit_test(conflict_unknown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
