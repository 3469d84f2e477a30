/* What each user may use of something that all use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/core/share.h"

#define EACH hf_ms(1000)

static hf_time at(int64_t ms)
{
    return hf_time_add((hf_time){INT64_C(1) << 50}, hf_ms(ms));
}

static int taken(struct shares *s, uint32_t who, int tries, hf_time now)
{
    int count = 0;

    for (int i = 0; i < tries; i++)
        count += share_take(s, share_of(s, who), 4, EACH, now);
    return count;
}

/* Another one than `who` has. */
static uint32_t somebody_else(const struct shares *s, uint32_t who)
{
    uint32_t other = who + 1;

    while (share_of(s, other) == share_of(s, who))
        other++;
    return other;
}

static void some_at_once_then_one_after_the_other(void **state)
{
    struct shares s = {.key = 7};

    (void)state;
    assert_int_equal(taken(&s, 1000, 10, at(0)), 4);
    assert_int_equal(taken(&s, 1000, 10, at(999)), 0);
    assert_int_equal(taken(&s, 1000, 10, at(1000)), 1);
    assert_int_equal(taken(&s, 1000, 10, at(3500)), 2);
    assert_int_equal(taken(&s, 1000, 10, at(60000)),
                     4); /* no more than at first, however long it waited */
}

static void nobody_uses_up_what_another_has(void **state)
{
    struct shares s = {.key = 7};
    uint32_t other = somebody_else(&s, 1000);

    (void)state;
    assert_int_equal(taken(&s, 1000, 1000, at(0)), 4);
    assert_int_equal(taken(&s, other, 10, at(0)), 4);
}

static void another_key_gives_others_a_common_share(void **state)
{
    struct shares one = {.key = 7}, two = {.key = 8};
    int same = 0, alike = 0;

    (void)state;
    for (uint32_t who = 0; who < 2000; who++) {
        assert_true(share_of(&one, who) < SHARES);
        same += share_of(&one, who) == share_of(&two, who);
        alike += share_of(&one, who) == share_of(&one, who + 1);
    }
    assert_true(same < 100 && alike < 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(some_at_once_then_one_after_the_other),
        cmocka_unit_test(nobody_uses_up_what_another_has),
        cmocka_unit_test(another_key_gives_others_a_common_share),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
