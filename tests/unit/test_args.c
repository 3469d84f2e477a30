/* Contract. The command line of `holdfast run`. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "libclient/holdfast.h"
#include "tools/common/args.h"

static void assert_ms(const char *text, int64_t expected)
{
    int64_t ms = -1;

    assert_int_equal(args_duration_ms(text, &ms), HF_OK);
    assert_int_equal(ms, expected);
}

static void durations(void **state)
{
    (void)state;
    assert_ms("0", 0);
    assert_ms("30", 30000);
    assert_ms("30s", 30000);
    assert_ms("500ms", 500);
    assert_ms("5m", 300000);
    assert_ms("1h", 3600000);
    assert_ms("1d", 86400000);
    assert_ms("1.5", 1500);
    assert_ms("0.25h", 900000);
    assert_ms("1.0000000001s", 1000); /* beyond a nanosecond nothing counts */
    assert_ms("0.0001", 1);           /* a wait that was asked for is not made none */
    assert_ms("1.5ms", 2);
    assert_ms("36600d", INT64_C(36600) * 86400000);
}

static void durations_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "s",
        "-1",
        "+1",
        " 1",
        "1 ",
        "1x",
        "1ss",
        "0x10",
        "1e3",
        "inf",
        "nan",
        "1.",
        ".",
        ".s",
        "1,5",
        "1.5.5",
        "1 s",
        "1M",
        "36601d",
        "99999999999999999999",
        "9223372036854775807ms",
    };
    int64_t ms = 7;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(args_duration_ms(bad[i], &ms), HF_EINVAL);
    assert_int_equal(ms, 7);
}

static void whole_numbers(void **state)
{
    static const char *const refused[] = {
        "", "-1", "+1", " 1", "1 ", "0x1", "1.0", "a", "256", "0", "18446744073709551616"};
    uint64_t number = 7;

    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        assert_int_equal(args_number(refused[i], 1, 255, &number), HF_EINVAL);
    assert_int_equal(args_number("18446744073709551616", 0, UINT64_MAX, &number), HF_EINVAL);
    assert_int_equal(number, 7);
    assert_int_equal(args_number("255", 1, 255, &number), HF_OK);
    assert_int_equal(number, 255);
    assert_int_equal(args_number("007", 1, 255, &number), HF_OK);
    assert_int_equal(number, 7);
    assert_int_equal(args_number("18446744073709551615", 0, UINT64_MAX, &number), HF_OK);
    assert_true(number == UINT64_MAX);
}

static void signals(void **state)
{
    int sig;

    (void)state;
    assert_int_equal(args_signal("TERM", &sig), HF_OK);
    assert_int_equal(sig, SIGTERM);
    assert_int_equal(args_signal("SIGUSR1", &sig), HF_OK);
    assert_int_equal(sig, SIGUSR1);
    assert_int_equal(args_signal("int", &sig), HF_OK);
    assert_int_equal(sig, SIGINT);
    assert_int_equal(args_signal("9", &sig), HF_OK);
    assert_int_equal(sig, SIGKILL);
    assert_int_equal(args_signal("0", &sig), HF_EINVAL);
    assert_int_equal(args_signal("-9", &sig), HF_EINVAL);
    assert_int_equal(args_signal("99", &sig), HF_EINVAL);
    assert_int_equal(args_signal("9x", &sig), HF_EINVAL);
    assert_int_equal(args_signal("NOPE", &sig), HF_EINVAL);
    assert_int_equal(args_signal("", &sig), HF_EINVAL);
}

static void names(void **state)
{
    char name[257];

    (void)state;
    memset(name, 'x', sizeof(name));
    name[256] = '\0';
    assert_non_null(args_name_problem(name));
    name[255] = '\0';
    assert_null(args_name_problem(name));
    assert_non_null(args_name_problem(""));
    assert_non_null(args_name_problem("holdfast:node"));
    assert_null(args_name_problem("holdfast"));
    assert_null(args_name_problem("a b\nc"));
}

/* What a script can tell apart. */
static void exit_codes(void **state)
{
    (void)state;
    assert_int_equal(exit_code_of(HF_OK), 0);
    assert_int_equal(exit_code_of(HF_ENAME), 64);
    assert_int_equal(exit_code_of(HF_ETTL), 64);
    assert_int_equal(exit_code_of(HF_ENOAGENT), 69);
    assert_int_equal(exit_code_of(HF_ENOQUORUM), 69);
    assert_int_equal(exit_code_of(HF_EBUSY), 75);
    assert_int_equal(exit_code_of(HF_ETIMEDOUT), 75);
    assert_int_equal(exit_code_of(HF_EPERM), 77);
    assert_int_equal(exit_code_of(HF_EFLEET), 78);
    assert_int_equal(exit_code_of(HF_ELOST), 124);
    assert_int_equal(exit_code_of(HF_EPROTO), 125);
    assert_int_equal(exit_code_of(-9999), 125);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations),
        cmocka_unit_test(whole_numbers),
        cmocka_unit_test(durations_refused),
        cmocka_unit_test(signals),
        cmocka_unit_test(names),
        cmocka_unit_test(exit_codes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
