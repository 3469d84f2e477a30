/* Contract. What comes next for a name: for every combination of facts. */
#include "core_fixture.h"

#include "agent/core/name_step.h"

#define FACTS 11

static struct name_facts facts_of(unsigned bits)
{
    return (struct name_facts){.held = bits & 1,
                               .waited_for = bits & 2,
                               .drained = bits & 4,
                               .undoing = bits & 8,
                               .barred = bits & 16,
                               .asking = bits & 32,
                               .waits = bits & 64,
                               .tried = bits & 128,
                               .yields = bits & 256,
                               .foreign = bits & 512,
                               .quorum = bits & 1024};
}

/* Those that a name can have: the others are refused by an assertion. */
static bool can_be(const struct name_facts *f)
{
    return (!f->barred || f->undoing) && (!f->held || (!f->undoing && !f->asking)) &&
           !(f->asking && f->undoing);
}

static void for_each(void (*check)(const struct name_facts *facts, enum name_step step))
{
    int count = 0;

    for (unsigned bits = 0; bits < 1u << FACTS; bits++) {
        const struct name_facts f = facts_of(bits);

        if (!can_be(&f))
            continue;
        check(&f, name_step(&f));
        count++;
    }
    assert_int_equal(count, 640);
}

static void asks_alone(const struct name_facts *f, enum name_step step)
{
    if (step != NAME_ASK)
        return;
    assert_true(f->waited_for && f->quorum);
    assert_false(f->held || f->drained || f->undoing || f->barred || f->asking || f->foreign);
    assert_false(f->yields);
    assert_true(!f->waits || f->tried);
}

/* (!) One contender for each name, none on a drained host, and none before this host's own release is answered. */
TEST(a_round_begins_only_where_nothing_is_under_way)
{
    for_each(asks_alone);
}

static void goes_on(const struct name_facts *f, enum name_step step)
{
    bool hindered = f->held || f->drained || f->undoing || f->asking || f->yields || f->foreign;

    if (f->waited_for && f->quorum && !hindered && (!f->waits || f->tried))
        assert_int_equal(step, NAME_ASK);
}

TEST(whoever_can_be_served_is_served)
{
    for_each(goes_on);
}

static void keeps_it(const struct name_facts *f, enum name_step step)
{
    if (f->waited_for)
        assert_int_not_equal(step, NAME_REST);
    if (step == NAME_REST)
        assert_false(f->held);
    if (step >= NAME_BARRED)
        assert_true(f->waited_for && !f->held);
}

TEST(a_name_that_is_waited_for_or_held_does_not_rest)
{
    for_each(keeps_it);
}

/* Of several hindrances the first of the header's table is told. */
TEST(the_first_fact_of_the_table_decides)
{
    struct name_facts f = {.waited_for = true,
                           .drained = true,
                           .undoing = true,
                           .barred = true,
                           .waits = true,
                           .yields = true,
                           .foreign = true};

    assert_int_equal(name_step(&f), NAME_DRAINED);
    f.drained = false;
    assert_int_equal(name_step(&f), NAME_BARRED);
    f.barred = false;
    assert_int_equal(name_step(&f), NAME_WAIT);
    f.undoing = false;
    f.asking = true;
    assert_int_equal(name_step(&f), NAME_WAIT);
    f.asking = false;
    assert_int_equal(name_step(&f), NAME_WAIT);
    f.tried = true; /* a try has the next round begin at once, unless it is others' turn */
    assert_int_equal(name_step(&f), NAME_YIELD);
    f.yields = false;
    assert_int_equal(name_step(&f), NAME_FOREIGN);
    f.foreign = false;
    assert_int_equal(name_step(&f), NAME_STALL);
    f.quorum = true;
    assert_int_equal(name_step(&f), NAME_ASK);
    f.held = true;
    assert_int_equal(name_step(&f), NAME_HELD);
    f.drained = true;
    assert_int_equal(name_step(&f), NAME_DRAINED);
    f.waited_for = false;
    assert_int_equal(name_step(&f), NAME_HELD);
    f.held = false;
    assert_int_equal(name_step(&f), NAME_REST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_begins_only_where_nothing_is_under_way),
        cmocka_unit_test(whoever_can_be_served_is_served),
        cmocka_unit_test(a_name_that_is_waited_for_or_held_does_not_rest),
        cmocka_unit_test(the_first_fact_of_the_table_decides),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
