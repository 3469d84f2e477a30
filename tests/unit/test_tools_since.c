/* Contract. tools/common/since.h: what --since takes, and what it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "shm/compiler.h"
#include "tools/common/since.h"

/* 2026-11-24T12:00:00Z, 14:00 in a zone two hours east. */
#define NOW_MS  (INT64_C(1795521600) * 1000)
#define HOUR_MS (INT64_C(3600) * 1000)
#define DAY_MS  (24 * HOUR_MS)
#define ZONE    "HFT-2"

static void assert_since(const char *text, int64_t expected_ms)
{
    int64_t ms = -1;

    assert_int_equal(since_read(text, NOW_MS, &ms), SINCE_OK);
    assert_int_equal(ms - NOW_MS, expected_ms - NOW_MS);
}

static int zone(void **state)
{
    (void)state;
    setenv("TZ", ZONE, 1);
    tzset();
    return 0;
}

static void a_span_counts_back_from_now(void **state)
{
    (void)state;
    assert_since("10m", NOW_MS - 600 * 1000);
    assert_since("90", NOW_MS - 90 * 1000);
    assert_since("1.5h", NOW_MS - HOUR_MS * 3 / 2);
    assert_since("0", NOW_MS);
}

static void with_a_z_it_is_utc_and_else_local(void **state)
{
    (void)state;
    assert_since("2026-11-24T09:30:00Z", NOW_MS - HOUR_MS * 5 / 2);
    assert_since("2026-11-24T09:30:00.042Z", NOW_MS - HOUR_MS * 5 / 2 + 42);
    assert_since("2026-11-24 09:30:00", NOW_MS - HOUR_MS * 9 / 2);
    assert_since("2026-11-24T09:30", NOW_MS - HOUR_MS * 9 / 2);
    assert_since("2026-11-24", NOW_MS - HOUR_MS * 14);
    assert_since("2026-11-24Z", NOW_MS - HOUR_MS * 12);
    assert_since("09:30", NOW_MS - HOUR_MS * 9 / 2);
    assert_since("09:30:00.5", NOW_MS - HOUR_MS * 9 / 2 + 500);
    assert_since("09:30Z", NOW_MS - HOUR_MS * 5 / 2);
    assert_since("2024-02-29", NOW_MS - HOUR_MS * 14 - 999 * DAY_MS);
}

static void today_is_the_day_of_the_zone(void **state)
{
    int64_t late_ms = NOW_MS + 11 * HOUR_MS, ms = -1; /* 23:00 in UTC, 01:00 of the next day here */

    (void)state;
    assert_int_equal(since_read("00:30", late_ms, &ms), SINCE_OK);
    assert_int_equal(late_ms - ms, HOUR_MS / 2);
    assert_int_equal(since_read("00:30Z", late_ms, &ms), SINCE_OK);
    assert_int_equal(late_ms - ms, HOUR_MS * 45 / 2);
}

static void nonsense_is_refused(void **state)
{
    static const char *const none[] = {"",
                                       "yesterday",
                                       "-10m",
                                       "10 m",
                                       " 10m",
                                       "10m ",
                                       "1w",
                                       "noon",
                                       "25:00",
                                       "24:00",
                                       "9:30",
                                       "09:60",
                                       "09:30:60",
                                       "09:30:00.",
                                       "09:30 ",
                                       "09:30x",
                                       "2026-11",
                                       "2026-11-31",
                                       "2026-02-29",
                                       "2026-13-01",
                                       "2026-00-10",
                                       "2026-11-00",
                                       "2026-1-1",
                                       "1969-12-31",
                                       "2026-11-24T",
                                       "2026-11-24 ",
                                       "2026-11-24  09:30",
                                       "2026-11-24x09:30",
                                       "2026-11-24T09:30:00ZZ",
                                       "2026-11-24T09:30:00+02:00",
                                       "Z",
                                       "T09:30",
                                       "@1795521600",
                                       "2026-11-24T09:30:00.0000Z",
                                       "99999999999999999999",
                                       "0x10",
                                       "inf"};

    (void)state;
    for (size_t i = 0; i < HF_LENGTH(none); i++) {
        int64_t ms = -1;

        if (since_read(none[i], NOW_MS, &ms) != SINCE_NONSENSE || ms != -1)
            fail_msg("'%s' was taken for %lld", none[i], (long long)ms);
    }
}

static void the_future_is_told_apart(void **state)
{
    static const char *const later[] = {"14:01", "12:01Z", "2026-11-25", "2027-01-01T00:00:00Z",
                                        "9999-12-31"};

    (void)state;
    for (size_t i = 0; i < HF_LENGTH(later); i++) {
        int64_t ms = -1;

        assert_int_equal(since_read(later[i], NOW_MS, &ms), SINCE_FUTURE);
        assert_int_equal(ms, -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_span_counts_back_from_now),
        cmocka_unit_test(with_a_z_it_is_utc_and_else_local),
        cmocka_unit_test(today_is_the_day_of_the_zone),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(the_future_is_told_apart),
    };

    return cmocka_run_group_tests(tests, zone, NULL);
}
