/* The guardians' decisions at their boundary values, T = 10 s: STOP at V - 3 s, KILL at V - 1 s. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tools/run/timeline.h"

#define S  INT64_C(1000000000)
#define MS INT64_C(1000000)
#define T  (10 * S)
#define V  (100 * S)

static struct timeline fresh(int64_t lag_ns)
{
    struct timeline t;

    timeline_init(&t, T, lag_ns);
    return t;
}

static void by_the_clock(void **state)
{
    struct timeline t = fresh(0);

    (void)state;
    assert_int_equal(timeline_judge(&t, V - 9 * S, V, false), TIMELINE_HELD);
    assert_int_equal(timeline_judge(&t, V - 3 * S - 1, V, false), TIMELINE_HELD);
    assert_int_equal(timeline_judge(&t, V - 3 * S, V, false), TIMELINE_STOP);
    assert_int_equal(t.kill_at_ns, V - S);
    assert_int_equal(timeline_judge(&t, V - S - 1, V, false), TIMELINE_STOP);
    assert_int_equal(timeline_judge(&t, V - S, V, false), TIMELINE_KILL);
}

static void renewals_put_it_off(void **state)
{
    struct timeline t = fresh(0);

    (void)state;
    for (int64_t i = 0; i < 100; i++)
        assert_int_equal(timeline_judge(&t, V + i * S - 3 * S - 1, V + i * S, false),
                         TIMELINE_HELD);
}

/* Acted once, it is terminal: a renewal that comes after all moves nothing. */
static void stop_is_terminal(void **state)
{
    struct timeline t = fresh(0);

    (void)state;
    assert_int_equal(timeline_judge(&t, V - 3 * S, V, false), TIMELINE_STOP);
    assert_int_equal(timeline_judge(&t, V - 2 * S, V + 8 * S, false), TIMELINE_STOP);
    assert_int_equal(t.kill_at_ns, V - S);
    assert_int_equal(timeline_judge(&t, V - S, V + 8 * S, false), TIMELINE_KILL);
    assert_int_equal(timeline_judge(&t, V - S, V + 90 * S, false), TIMELINE_KILL);
}

/* `release`, max_hold: now, not at V - 0.3 T; the last line stays at V - 0.1 T. */
static void asked_to_stop(void **state)
{
    struct timeline t = fresh(0);

    (void)state;
    assert_int_equal(timeline_judge(&t, V - 8 * S, V, true), TIMELINE_STOP);
    assert_int_equal(t.kill_at_ns, V - S);
}

static void lost_is_killed_at_once(void **state)
{
    struct timeline t = fresh(0);

    (void)state;
    assert_int_equal(timeline_judge(&t, V - 8 * S, V, false), TIMELINE_HELD);
    assert_int_equal(timeline_judge(&t, V - 7 * S, 0, false), TIMELINE_KILL);
    assert_int_equal(t.valid_ns, V); /* as it was last seen */
    t = fresh(0);
    assert_int_equal(timeline_judge(&t, V, 0, false), TIMELINE_KILL);
}

/* Votes were voided: V fell while the guardian waited for the old one. */
static void validity_falls(void **state)
{
    struct timeline t = fresh(0);

    (void)state;
    assert_int_equal(timeline_judge(&t, V - 9 * S, V, false), TIMELINE_HELD);
    assert_int_equal(timeline_judge(&t, V - 9 * S, V - 6 * S, false), TIMELINE_STOP);
    assert_int_equal(t.kill_at_ns, V - 7 * S);
    assert_int_equal(timeline_judge(&t, V - 8 * S, V - 7 * S, false), TIMELINE_KILL);
}

/* A guardian that was stopped for too long does not send SIGTERM first. */
static void late_guardian_kills(void **state)
{
    struct timeline t = fresh(0);

    (void)state;
    assert_int_equal(timeline_judge(&t, V - S, V, false), TIMELINE_KILL);
}

/* The backup waits with STOP, never with KILL. */
static void backup_lags(void **state)
{
    struct timeline t = fresh(T / 50);

    (void)state;
    assert_int_equal(timeline_judge(&t, V - 3 * S, V, false), TIMELINE_HELD);
    assert_int_equal(timeline_next(&t, V - 3 * S), V - 3 * S + T / 50);
    assert_int_equal(timeline_judge(&t, V - 3 * S + T / 50, V, false), TIMELINE_STOP);
    assert_int_equal(timeline_judge(&t, V - S, V, false), TIMELINE_KILL);

    t = fresh(T / 50);
    assert_int_equal(timeline_judge(&t, V - 8 * S, V, true), TIMELINE_HELD);
    assert_int_equal(timeline_judge(&t, V - 8 * S + T / 50, V, true), TIMELINE_STOP);
}

static void looks_often_enough(void **state)
{
    struct timeline t = fresh(0);

    (void)state;
    timeline_judge(&t, V - 9 * S, V, false);
    assert_int_equal(timeline_next(&t, V - 9 * S), V - 9 * S + T / 20);
    assert_int_equal(timeline_next(&t, V - 3 * S - 5 * MS), V - 3 * S);
    timeline_judge(&t, V - 3 * S, V, false);
    assert_int_equal(timeline_next(&t, V - S - 5 * MS), V - S);

    timeline_init(&t, 100 * S, 0);
    timeline_judge(&t, 0, V, false);
    assert_int_equal(timeline_next(&t, 0), S);
    timeline_init(&t, S / 2, 0);
    timeline_judge(&t, 0, V, false);
    assert_int_equal(timeline_next(&t, 0), 50 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_the_clock),           cmocka_unit_test(renewals_put_it_off),
        cmocka_unit_test(stop_is_terminal),       cmocka_unit_test(asked_to_stop),
        cmocka_unit_test(lost_is_killed_at_once), cmocka_unit_test(validity_falls),
        cmocka_unit_test(late_guardian_kills),    cmocka_unit_test(backup_lags),
        cmocka_unit_test(looks_often_enough),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
