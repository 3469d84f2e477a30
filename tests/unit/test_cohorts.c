/* agent/core/cohorts.h: against a plain list. */
#include "core_fixture.h"

#include "agent/core/cohorts.h"
#include "agent/core/backoff.h"

#define NUMBERS 2000
#define ROOM    300

static hf_time at_ms(int64_t ms)
{
    return at(ms * MS);
}

struct fixture {
    struct cohorts c;
    struct cohort all[ROOM];
    struct heap_item *items[ROOM + 1];
    struct cohort_single singles[NUMBERS];
    struct heap_item *alone[NUMBERS + 1];
    uint32_t free[ROOM], free_singles[NUMBERS], home[NUMBERS];
    hf_time at[NUMBERS]; /* what is expected; HF_TIME_NEVER: it is in none */
};

static struct fixture *make(void)
{
    static struct fixture f;

    memset(&f, 0, sizeof(f));
    f.c = (struct cohorts){.heap = {.items = f.items, .room = ROOM + 1},
                           .all = f.all,
                           .free = f.free,
                           .home = f.home,
                           .alone = {.items = f.alone, .room = NUMBERS + 1},
                           .singles = f.singles,
                           .free_singles = f.free_singles,
                           .room = ROOM};
    for (int i = 0; i < NUMBERS; i++)
        f.at[i] = HF_TIME_NEVER;
    return &f;
}

TEST(who_is_due_together_stands_together)
{
    struct fixture *f = make();
    uint32_t out[NUMBERS];
    bool seen[COHORT_MOST] = {false};

    for (uint32_t i = 0; i < COHORT_MOST; i++)
        assert_true(cohorts_add(&f->c, i, at_ms(1000)));
    assert_true(cohorts_add(&f->c, 500, at_ms(1000))); /* full: another one */
    assert_true(cohorts_add(&f->c, 501, at_ms(900)));
    assert_int_equal(f->c.heap.count, 3);
    assert_true(cohorts_next(&f->c).ns == at_ms(900).ns);
    assert_int_equal(cohorts_take(&f->c, out, NUMBERS), 1);
    assert_int_equal(out[0], 501);
    for (int k = 0; k < 2; k++) {
        size_t count = cohorts_first(&f->c);

        assert_int_equal(cohorts_take(&f->c, out, NUMBERS), count);
        for (size_t i = 0; i < count && count > 1; i++)
            seen[out[i]] = true;
    }
    for (int i = 0; i < COHORT_MOST; i++)
        assert_true(seen[i]);
    assert_true(cohorts_next(&f->c).ns == HF_TIME_NEVER.ns);
    assert_int_equal(cohorts_take(&f->c, out, NUMBERS), 0);
}

/* However many times are open: no number is due at another's time, and of the ones of one time few
 * stand apart. */
TEST(each_time_has_its_own)
{
    struct fixture *f = make();

    for (uint32_t i = 0; i < NUMBERS; i++)
        assert_true(cohorts_add(&f->c, i, at_ms(1000 + i % 40 * 10)));
    for (uint32_t i = 0; i < NUMBERS; i++)
        assert_true(cohorts_at(&f->c, i).ns == at_ms(1000 + i % 40 * 10).ns);
    assert_in_range(f->c.heap.count, 40, 40 + 40);
}

TEST(who_left_and_came_back_is_taken_once)
{
    struct fixture *f = make();
    uint32_t out[4];

    assert_true(cohorts_add(&f->c, 7, at_ms(1)));
    assert_true(cohorts_add(&f->c, 8, at_ms(1)));
    cohorts_remove(&f->c, 7);
    assert_false(cohorts_has(&f->c, 7));
    assert_true(cohorts_add(&f->c, 7, at_ms(1)));
    assert_int_equal(cohorts_take(&f->c, out, 4), 2);
    assert_int_equal(out[0] + out[1], 15);
    cohorts_remove(&f->c, 7); /* fine */
    assert_true(cohorts_at(&f->c, 7).ns == HF_TIME_NEVER.ns);
}

TEST(without_room_it_is_said)
{
    struct fixture *f = make();
    uint32_t out[1];

    for (uint32_t i = 0; i < ROOM; i++)
        assert_true(cohorts_add(&f->c, i, at_ms(i)));
    assert_false(cohorts_add(&f->c, ROOM, at_ms(5000)));
    assert_false(cohorts_has(&f->c, ROOM));
    assert_int_equal(cohorts_take(&f->c, out, 1), 1);
    assert_true(cohorts_add(&f->c, ROOM, at_ms(5000)));
    assert_true(cohorts_room(1) == 1 && cohorts_room(1000000) < 1000000 / 50);
}

TEST(who_is_alone_is_in_no_cohort)
{
    struct fixture *f = make();
    uint32_t out[4];

    assert_null(cohorts_first_alone(&f->c));
    assert_true(cohorts_add(&f->c, 7, at_ms(1)));
    assert_true(cohorts_add(&f->c, 8, at_ms(1)));
    cohorts_put_alone(&f->c, 7, at_ms(5));
    assert_true(cohorts_is_alone(&f->c, 7) && !cohorts_is_alone(&f->c, 8));
    assert_false(cohorts_has(&f->c, 7));
    assert_true(cohorts_at(&f->c, 7).ns == HF_TIME_NEVER.ns);
    assert_true(cohorts_alone_at(&f->c, 7).ns == at_ms(5).ns);
    cohorts_put_alone(&f->c, 9, at_ms(4));
    assert_int_equal(cohorts_first_alone(&f->c)->number, 9);
    cohorts_put_alone(&f->c, 9, at_ms(6));
    assert_int_equal(cohorts_first_alone(&f->c)->number, 7);
    assert_int_equal(cohorts_take(&f->c, out, 4), 1);
    assert_int_equal(out[0], 8);
    cohorts_remove(&f->c, 7);
    cohorts_remove(&f->c, 9);
    cohorts_remove(&f->c, 9); /* fine */
    assert_false(cohorts_is_alone(&f->c, 7));
    assert_null(cohorts_first_alone(&f->c));
}

TEST(all_may_be_alone)
{
    struct fixture *f = make();

    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < NUMBERS; i++)
            cohorts_put_alone(&f->c, i, at_ms(i * 7919 % NUMBERS));
        for (uint32_t i = 0; i < NUMBERS; i++) {
            const struct cohort_single *first = cohorts_first_alone(&f->c);

            assert_true(first->item.at.ns == at_ms(i).ns);
            cohorts_remove(&f->c, first->number);
        }
    }
}

static hf_time earliest(const struct fixture *f, bool alone)
{
    hf_time first = HF_TIME_NEVER;

    for (int i = 0; i < NUMBERS; i++)
        if (cohorts_is_alone(&f->c, (uint32_t)i) == alone)
            first = hf_time_min(first, f->at[i]);
    return first;
}

static hf_time first_alone(const struct fixture *f)
{
    const struct cohort_single *first = cohorts_first_alone(&f->c);

    return first ? first->item.at : HF_TIME_NEVER;
}

TEST(any_sequence_gives_each_at_its_time)
{
    struct fixture *f = make();
    uint32_t random = 4711, out[COHORT_MOST];

    for (int step = 0; step < 100000; step++) {
        uint32_t n = draw_next(&random) % NUMBERS;

        if (f->at[n].ns != HF_TIME_NEVER.ns) {
            cohorts_remove(&f->c, n);
            f->at[n] = HF_TIME_NEVER;
        } else {
            hf_time when = at_ms(draw_next(&random) % 40);

            if (cohorts_add(&f->c, n, when))
                f->at[n] = when;
        }
        if (step % 5 == 0) { /* wherever it is */
            f->at[n] = at_ms(draw_next(&random) % 40);
            cohorts_put_alone(&f->c, n, f->at[n]);
        }
        if (step % 16 == 0) {
            hf_time first = earliest(f, false);
            size_t count = cohorts_take(&f->c, out, 1 + draw_next(&random) % COHORT_MOST);

            for (size_t i = 0; i < count; i++) {
                assert_true(f->at[out[i]].ns == first.ns);
                f->at[out[i]] = HF_TIME_NEVER;
            }
            assert_true(count > 0 || first.ns == HF_TIME_NEVER.ns);
        }
        assert_true(cohorts_next(&f->c).ns == earliest(f, false).ns);
        assert_true(first_alone(f).ns == earliest(f, true).ns);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_due_together_stands_together),
        cmocka_unit_test(each_time_has_its_own),
        cmocka_unit_test(who_left_and_came_back_is_taken_once),
        cmocka_unit_test(without_room_it_is_said),
        cmocka_unit_test(who_is_alone_is_in_no_cohort),
        cmocka_unit_test(all_may_be_alone),
        cmocka_unit_test(any_sequence_gives_each_at_its_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
