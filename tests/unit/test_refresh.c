/* agent/core/refresh.h: every slot has its turn, spread over the lap. */
#include "core_fixture.h"

#include "agent/core/refresh.h"

#define HOUR  (3600 * SEC)
#define DAY   (24 * HOUR)
#define SLOTS 1000000

static uint8_t turns[SLOTS];

/* How many slots came until `end`, looked for every `every`; the most at one look. */
static uint32_t run_until(struct refresh *r, int64_t *now, int64_t end, int64_t every,
                          uint32_t *ret_most)
{
    uint32_t count = 0, most = 0;

    for (; *now < end; *now += every) {
        uint32_t slot, at_once = 0;

        while (refresh_take(r, at(*now), &slot)) {
            assert_true(slot < r->slots);
            turns[slot]++;
            at_once++;
        }
        count += at_once;
        most = at_once > most ? at_once : most;
    }
    *ret_most = most;
    return count;
}

static void all_had(uint32_t slots, int least, int most)
{
    for (uint32_t i = 0; i < slots; i++)
        assert_in_range(turns[i], least, most);
    memset(turns, 0, sizeof(turns));
}

/* Whatever an earlier agent left undone. */
TEST(the_first_lap_takes_an_hour)
{
    static const uint32_t starts[] = {0, 1, SLOTS - 1, 123456, UINT32_MAX};

    for (size_t i = 0; i < HF_LENGTH(starts); i++) {
        struct refresh r;
        int64_t now = 5;
        uint32_t most;

        refresh_init(&r, SLOTS, starts[i], at(now));
        assert_in_range(run_until(&r, &now, now + HOUR + SEC, SEC / 10, &most), SLOTS, SLOTS + 15);
        all_had(SLOTS, 1, 2);
        assert_true(most < 50);
    }
}

TEST(then_every_slot_comes_once_a_day)
{
    struct refresh r;
    int64_t now = 0;
    uint32_t most;

    refresh_init(&r, SLOTS, 77, at(0));
    run_until(&r, &now, HOUR + SEC, SEC, &most);
    all_had(SLOTS, 1, 2);
    for (int day = 0; day < 3; day++) {
        assert_in_range(run_until(&r, &now, now + DAY, SEC / 2, &most), SLOTS - 15, SLOTS + 15);
        all_had(SLOTS, 0, 2); /* at the seam */
        assert_true(most <= 13);
    }
}

TEST(a_small_table_has_its_laps_too)
{
    struct refresh r;
    int64_t now = 0;
    uint32_t most;

    refresh_init(&r, 1, 9, at(0));
    assert_int_equal(run_until(&r, &now, HOUR, 60 * SEC, &most), 1);
    assert_in_range(run_until(&r, &now, now + 7 * DAY, 60 * SEC, &most), 7, 8);
    memset(turns, 0, sizeof(turns));
}

TEST(a_standstill_is_no_burst)
{
    struct refresh r;
    int64_t now = 0;
    uint32_t most;

    refresh_init(&r, SLOTS, 0, at(0));
    run_until(&r, &now, HOUR + 2 * SEC, SEC, &most);
    now += DAY / 3; /* suspended */
    run_until(&r, &now, now + SEC, SEC, &most);
    assert_true(most <= 15);
    run_until(&r, &now, now + DAY + HOUR, SEC, &most);
    all_had(SLOTS, 1, 3); /* none is left out */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_lap_takes_an_hour),
        cmocka_unit_test(then_every_slot_comes_once_a_day),
        cmocka_unit_test(a_small_table_has_its_laps_too),
        cmocka_unit_test(a_standstill_is_no_burst),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
