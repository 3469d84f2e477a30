/* shm/nstime.h: what is a span of time, and what is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/nstime.h"
#include "shm/status.h"

#define DAY_MS (INT64_C(24) * 3600 * 1000)

static void assert_span(const char *text, int64_t ms, bool part)
{
    int64_t its = -1;
    bool its_part = !part;

    assert_int_equal(hf_duration_parse(text, DAY_MS, &its, &its_part), HF_OK);
    assert_int_equal(its, ms);
    assert_int_equal(its_part, part);
}

static void units_and_fractions(void **state)
{
    (void)state;
    assert_span("0", 0, false);
    assert_span("30", 30000, false);
    assert_span("30s", 30000, false);
    assert_span("500ms", 500, false);
    assert_span(".3", 300, false);
    assert_span(".5ms", 0, true);
    assert_span("1.5h", 90 * 60000, false);
    assert_span("0.25m", 15000, false);
    assert_span("1d", DAY_MS, false);
    assert_span("1.5ms", 1, true);
    assert_span("0.0001s", 0, true);
    assert_span("2.5000000", 2500, false);
}

static void what_is_none_is_refused(void **state)
{
    static const char *const none[] = {
        "",   ".",   "1.",  "-1",   "+1",  " 1", "1 s",        "1S",
        "1w", "0x1", "inf", "1.s5", "1,5", "2d", "86400001ms", "99999999999999999999999"};

    (void)state;
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        int64_t ms = -1;
        bool part = true;

        assert_int_equal(hf_duration_parse(none[i], DAY_MS, &ms, &part), HF_EINVAL);
        assert_int_equal(ms, -1);
        assert_true(part);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_and_fractions),
        cmocka_unit_test(what_is_none_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
