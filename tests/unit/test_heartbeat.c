/* When a holder that beats no more is said to hang. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "agent/core/heartbeat.h"

#define D (1000 * HF_NS_PER_MS)

static hf_time at(int64_t ms)
{
    return (hf_time){(5000 + ms) * HF_NS_PER_MS};
}

static struct heartbeat begun(uint32_t count)
{
    struct heartbeat beat;

    heartbeat_init(&beat, hf_ns(D), count, at(0));
    return beat;
}

/* Looks whenever it wants to, up to `until_ms`; `beats` tells the count. Returns when it was said to
 * hang, in ms; -1 never. */
static int64_t watch(struct heartbeat *beat, uint32_t (*beats)(int64_t ms), int64_t until_ms)
{
    for (;;) {
        hf_time next = heartbeat_next(beat);
        int64_t ms = next.ns / HF_NS_PER_MS - 5000;

        if (ms > until_ms)
            return -1;
        if (heartbeat_look(beat, beats(ms), next))
            return ms;
    }
}

static uint32_t never(int64_t ms)
{
    (void)ms;
    return 7;
}

static uint32_t every_990_ms(int64_t ms)
{
    return 7 + (uint32_t)(ms / 990);
}

static uint32_t until_3_s(int64_t ms)
{
    return (uint32_t)((ms < 3000 ? ms : 3000) / 100);
}

static void test_first_beat_has_d_from_the_grant(void **state)
{
    struct heartbeat beat = begun(7);

    (void)state;
    assert_int_equal(watch(&beat, never, 10000), 1000);
}

static void test_what_stands_at_the_grant_is_no_beat(void **state)
{
    struct heartbeat beat = begun(7);

    (void)state;
    assert_false(heartbeat_look(&beat, 7, at(500)));
    assert_true(heartbeat_look(&beat, 7, at(1000)));
}

static void test_who_beats_in_time_never_hangs(void **state)
{
    struct heartbeat beat = begun(7);

    (void)state;
    assert_int_equal(watch(&beat, every_990_ms, 1000000), -1);
}

static void test_hang_is_found_between_d_and_a_quarter_more(void **state)
{
    struct heartbeat beat = begun(0);
    int64_t found = watch(&beat, until_3_s, 10000);

    (void)state;
    assert_in_range(found, 3000 + 1000, 3000 + 1250);
}

/* A count is nothing but different: no value, far ahead or going back, counts for longer. */
static void test_no_count_lasts_longer_than_d(void **state)
{
    static const uint32_t counts[] = {UINT32_MAX, 0, 1, 0x80000000u};

    (void)state;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct heartbeat beat = begun(7);

        assert_false(heartbeat_look(&beat, counts[i], at(250)));
        for (int64_t ms = 500; ms < 1250; ms += 250)
            assert_false(heartbeat_look(&beat, counts[i], at(ms)));
        assert_true(heartbeat_look(&beat, counts[i], at(1250)));
    }
}

/* The agent slept for an hour, and its holder with it. */
static void test_what_was_not_watched_is_not_held_against_it(void **state)
{
    struct heartbeat beat = begun(7);

    (void)state;
    assert_false(heartbeat_look(&beat, 7, at(3600000)));
    assert_false(heartbeat_look(&beat, 8, at(3600250)));
    assert_false(heartbeat_look(&beat, 8, at(7200000)));
    assert_true(heartbeat_look(&beat, 8, at(7200000 + 500)));
}

static void test_clock_that_stands_still_takes_nothing_away(void **state)
{
    struct heartbeat beat = begun(7);

    (void)state;
    assert_false(heartbeat_look(&beat, 7, at(500)));
    assert_false(heartbeat_look(&beat, 7, at(500)));
    assert_true(heartbeat_look(&beat, 7, at(1000)));
}

static void test_none_asked_for(void **state)
{
    struct heartbeat beat;

    (void)state;
    heartbeat_init(&beat, hf_ns(0), 7, at(0));
    assert_int_equal(heartbeat_next(&beat).ns, HF_TIME_NEVER.ns);
    assert_false(heartbeat_look(&beat, 7, at(1000000)));
}

static void test_looks_are_a_quarter_apart(void **state)
{
    struct heartbeat beat = begun(7);

    (void)state;
    assert_int_equal(heartbeat_next(&beat).ns, at(250).ns);
    assert_false(heartbeat_look(&beat, 7, at(500)));
    assert_false(heartbeat_look(&beat, 7, at(900)));
    assert_int_equal(heartbeat_next(&beat).ns, at(1000).ns); /* D is over before a quarter is */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_beat_has_d_from_the_grant),
        cmocka_unit_test(test_what_stands_at_the_grant_is_no_beat),
        cmocka_unit_test(test_who_beats_in_time_never_hangs),
        cmocka_unit_test(test_hang_is_found_between_d_and_a_quarter_more),
        cmocka_unit_test(test_no_count_lasts_longer_than_d),
        cmocka_unit_test(test_what_was_not_watched_is_not_held_against_it),
        cmocka_unit_test(test_clock_that_stands_still_takes_nothing_away),
        cmocka_unit_test(test_none_asked_for),
        cmocka_unit_test(test_looks_are_a_quarter_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
