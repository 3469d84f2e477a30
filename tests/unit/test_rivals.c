/* agent/core/tally.h: on how many nodes the same other token was seen. */
#include "core_fixture.h"

#include "agent/core/tally.h"

#define NODES 5
#define ROOM  8
#define A     "0123456789abcdef0123456789abcdef01234567"
#define B     "0123456789abcdee0123456789abcdef01234567"

static uint64_t words[ROOM * (NODES + 1)];

static struct rivals none(void)
{
    memset(words, 0, sizeof(words));
    assert_int_equal(rivals_words(ROOM, NODES), HF_LENGTH(words));
    return (struct rivals){.room = ROOM, .n = NODES, .words = words};
}

TEST(nodes_that_showed_the_same_are_counted)
{
    struct rivals r = none();

    assert_int_equal(__builtin_popcount(rivals_seen(&r, 3, 1, 0, A)), 1);
    assert_int_equal(__builtin_popcount(rivals_seen(&r, 3, 1, 0, A)), 1); /* again */
    assert_int_equal(__builtin_popcount(rivals_seen(&r, 3, 1, 4, A)), 2);
    assert_int_equal(__builtin_popcount(rivals_seen(&r, 3, 1, 2, B)), 1); /* another one */
    assert_int_equal(__builtin_popcount(rivals_seen(&r, 3, 1, 2, A)), 3);
    assert_int_equal(__builtin_popcount(rivals_seen(&r, 3, 1, 0, B)), 1); /* higher since */
    assert_int_equal(__builtin_popcount(rivals_seen(&r, 3, 1, 1, A)), 3);
}

TEST(what_was_seen_is_the_tokens)
{
    struct rivals r = none();

    assert_int_equal(__builtin_popcount(rivals_seen(&r, 3, 1, 0, A)), 1);
    assert_int_equal(__builtin_popcount(rivals_seen(&r, 4, 1, 1, A)), 1);
    assert_int_equal(__builtin_popcount(rivals_seen(&r, 3, 1, 1, A)), 2);
    assert_int_equal(__builtin_popcount(rivals_seen(&r, 3, 2, 2, A)),
                     1); /* the next one in the slot */
    assert_int_equal(__builtin_popcount(rivals_seen(&r, 3, 2, 1, A)), 2);
}

TEST(two_that_meet_in_one_place_forget)
{
    struct rivals r = none();

    assert_int_equal(__builtin_popcount(rivals_seen(&r, 3, 1, 0, A)), 1);
    assert_int_equal(__builtin_popcount(rivals_seen(&r, 3 + ROOM, 1, 1, A)), 1);
    assert_int_equal(__builtin_popcount(rivals_seen(&r, 3, 1, 2, A)), 1);
}

TEST(no_tag_stands_for_none)
{
    struct rivals r = none();

    assert_int_equal(
        __builtin_popcount(rivals_seen(&r, 3, 1, 0, "0000000000000000000000000000000000000000")),
        1);
    assert_int_equal(rivals_room(5), 5);
    assert_int_equal(rivals_room(1000000), RIVALS_MOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_that_showed_the_same_are_counted),
        cmocka_unit_test(what_was_seen_is_the_tokens),
        cmocka_unit_test(two_that_meet_in_one_place_forget),
        cmocka_unit_test(no_tag_stands_for_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
