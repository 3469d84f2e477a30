/* agent/core/containers.h: against a plain list. */
#include "core_fixture.h"

#include "agent/core/containers.h"

#define NUMBERS 500

static uint32_t first[NUMBERS], next[NUMBERS];

static struct chains make(uint32_t capacity)
{
    memset(first, 0, sizeof(first));
    memset(next, 0, sizeof(next));
    return (struct chains){.first = first,
                           .links = next,
                           .step = sizeof(next[0]),
                           .buckets = chains_buckets(capacity)};
}

static int times_found(const struct chains *c, uint32_t hash, uint32_t number)
{
    int times = 0;

    for (uint32_t at = chains_first(c, hash); at; at = chains_next(c, at))
        times += at - 1 == number;
    return times;
}

TEST(two_to_a_bucket)
{
    assert_int_equal(chains_buckets(1), 1);
    assert_int_equal(chains_buckets(2), 1);
    assert_int_equal(chains_buckets(4), 2);
    assert_int_equal(chains_buckets(5), 2);
    assert_int_equal(chains_buckets(6), 4);
    assert_int_equal(chains_buckets(1000000), 524288);
}

TEST(of_one_bucket_any_may_go_first)
{
    for (uint32_t goes = 0; goes < 3; goes++) {
        struct chains c = make(NUMBERS);

        for (uint32_t number = 0; number < 3; number++)
            chains_add(&c, 77 + number * c.buckets, number);
        chains_remove(&c, 77 + goes * c.buckets, goes);
        for (uint32_t number = 0; number < 3; number++)
            assert_int_equal(times_found(&c, 77, number), number != goes);
    }
}

TEST(what_was_added_is_found_and_nothing_else)
{
    struct chains c = make(NUMBERS);
    uint32_t random = 1, hash[NUMBERS];
    bool in[NUMBERS] = {false};

    for (int step = 0; step < 20000; step++) {
        uint32_t number;

        random = random * 1664525 + 1013904223;
        number = (random >> 8) % NUMBERS;
        if (in[number]) {
            chains_remove(&c, hash[number], number);
        } else {
            hash[number] = random % 300; /* some share theirs */
            chains_add(&c, hash[number], number);
        }
        in[number] = !in[number];
        if (step % 100)
            continue;
        for (uint32_t n = 0; n < NUMBERS; n++)
            assert_int_equal(times_found(&c, in[n] ? hash[n] : n, n), in[n]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_to_a_bucket),
        cmocka_unit_test(of_one_bucket_any_may_go_first),
        cmocka_unit_test(what_was_added_is_found_and_nothing_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
