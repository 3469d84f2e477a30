/* agent/core/heartbeat.h: whether a thread goes on. */
#include "core_fixture.h"

#include "agent/core/heartbeat.h"

static struct progress p;

static int set_up(void **state)
{
    (void)state;
    memset(&p, 0, sizeof(p));
    return 0;
}

static int64_t look(int64_t beat_ms, int64_t now_ms)
{
    return progress_look(&p, at(beat_ms * MS).ns, at(now_ms * MS)).ns / HF_NS_PER_MS;
}

TEST(a_thread_that_beats_goes_on)
{
    for (int64_t ms = 1; ms < 10000; ms += 100)
        assert_int_equal(look(ms, ms + 50), 0);
}

TEST(a_thread_without_a_new_beat_stands_still)
{
    look(1000, 1000);
    for (int64_t turn = 1; turn <= 30; turn++)
        assert_int_equal(look(1000, 1000 + turn * 100), turn * 100);
}

TEST(the_next_beat_ends_it)
{
    look(1000, 1000);
    look(1000, 1150);
    assert_int_equal(look(1001, 1200), 0);
    assert_int_equal(look(1001, 1300), 100);
}

/* (!) Or every resume from a suspend ended the agent. */
TEST(the_time_that_the_watcher_was_away_itself_counts_as_one_turn)
{
    look(1000, 1000);
    assert_int_equal(look(1000, 3600 * 1000), 200);
    assert_int_equal(look(1000, 3600 * 1000 + 100), 300);
    assert_int_equal(look(3600 * 1000 + 150, 3600 * 1000 + 200), 0);
}

TEST(a_thread_that_has_not_begun_does_not_hang)
{
    for (int64_t ms = 0; ms < 10000; ms += 100)
        assert_int_equal(progress_look(&p, 0, at(ms * MS)).ns, 0);
}

TEST(a_clock_that_goes_back_takes_nothing_off)
{
    look(1000, 2000);
    assert_int_equal(look(1000, 2100), 100);
    assert_int_equal(look(1000, 1500), 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_thread_that_beats_goes_on, set_up),
        cmocka_unit_test_setup(a_thread_without_a_new_beat_stands_still, set_up),
        cmocka_unit_test_setup(the_next_beat_ends_it, set_up),
        cmocka_unit_test_setup(the_time_that_the_watcher_was_away_itself_counts_as_one_turn,
                               set_up),
        cmocka_unit_test_setup(a_thread_that_has_not_begun_does_not_hang, set_up),
        cmocka_unit_test_setup(a_clock_that_goes_back_takes_nothing_off, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
