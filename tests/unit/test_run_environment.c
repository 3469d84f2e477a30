/* What a job finds in its environment of the locks that it runs under, and of those of a run around it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/run/job.h"

/* Leases made up here: a fence each, and the number of the slot. */
static struct {
    uint64_t fence;
    int slot;
} made_up[HF_EXCLUSIVE_LEASES];

uint64_t hf_fence(const hf_lease *lease)
{
    return made_up[(const char *)lease - (const char *)made_up].fence;
}

int hf_slot_number(const hf_lease *lease)
{
    return made_up[(const char *)lease - (const char *)made_up].slot;
}

static struct lease_group leases_of(size_t count)
{
    struct lease_group leases = {.count = count};

    for (size_t i = 0; i < count; i++) {
        made_up[i].fence = 100 + i;
        made_up[i].slot = -1;
        leases.lease[i] = (hf_lease *)((char *)made_up + i);
    }
    return leases;
}

static void expect(const char *variable, const char *value)
{
    if (value)
        assert_string_equal(getenv(variable) ? getenv(variable) : "(unset)", value);
    else
        assert_null(getenv(variable));
}

/* As of a job of a set of three counted locks, with an agent of its own. */
static void run_around(void)
{
    static const char *const names[] = {
        "HOLDFAST_NAME",    "HOLDFAST_NAME_2",   "HOLDFAST_NAME_64",    "HOLDFAST_FENCE",
        "HOLDFAST_FENCE_2", "HOLDFAST_FENCE_64", "HOLDFAST_SLOT",       "HOLDFAST_SLOTS",
        "HOLDFAST_AGENT",   "HOLDFAST_MODE",     "HOLDFAST_SLOT_FENCES"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        setenv(names[i], "outer", 1);
}

static void of_one_lock_nothing_of_others_is_left(void **state)
{
    struct run_options wanted = {.names = {"db/migrate"}, .count = 1};
    struct lease_group leases = leases_of(1);

    (void)state;
    run_around();
    environment_set(&wanted, &leases);
    expect("HOLDFAST_NAME", "db/migrate");
    expect("HOLDFAST_FENCE", "100");
    expect("HOLDFAST_NAME_2", NULL);
    expect("HOLDFAST_FENCE_2", NULL);
    expect("HOLDFAST_NAME_64", NULL);
    expect("HOLDFAST_FENCE_64", NULL);
    expect("HOLDFAST_SLOT", NULL);
    expect("HOLDFAST_SLOTS", NULL);
    expect("HOLDFAST_MODE", NULL);
    expect("HOLDFAST_SLOT_FENCES", NULL);
    expect("HOLDFAST_AGENT", "outer"); /* that is where this one was asked, too */
}

static void of_a_set_each_has_its_number(void **state)
{
    struct run_options wanted = {.names = {"c", "a", "b"}, .count = 3, .agent = "mine"};
    struct lease_group leases = leases_of(3);

    (void)state;
    run_around();
    environment_set(&wanted, &leases);
    expect("HOLDFAST_NAME", "c"); /* in the order of the command line */
    expect("HOLDFAST_FENCE", "100");
    expect("HOLDFAST_NAME_2", "a");
    expect("HOLDFAST_FENCE_2", "101");
    expect("HOLDFAST_NAME_3", "b");
    expect("HOLDFAST_FENCE_3", "102");
    expect("HOLDFAST_NAME_4", NULL);
    expect("HOLDFAST_AGENT", "mine");
}

static void of_a_counted_lock_the_slot_is_told(void **state)
{
    struct run_options wanted = {.names = {"gpu"}, .count = 1, .slots = 4};
    struct lease_group leases = leases_of(1);

    (void)state;
    made_up[0].slot = 3;
    environment_set(&wanted, &leases);
    expect("HOLDFAST_NAME", "gpu#3");
    expect("HOLDFAST_SLOT", "3");
    expect("HOLDFAST_SLOTS", "4");
    expect("HOLDFAST_NAME_2", NULL);
}

static void who_shares_has_a_slot_and_who_is_alone_all_fences(void **state)
{
    struct run_options shared = {.names = {"db"}, .count = 1, .mode = RUN_SHARED};
    struct run_options exclusive = {.names = {"db"}, .count = 1, .mode = RUN_EXCLUSIVE};
    struct lease_group one = leases_of(1), all = leases_of(HF_EXCLUSIVE_LEASES);
    const char *fences;

    (void)state;
    run_around();
    made_up[0].slot = 7;
    environment_set(&shared, &one);
    expect("HOLDFAST_MODE", "shared");
    expect("HOLDFAST_NAME", "db#7");
    expect("HOLDFAST_FENCE", "100");
    expect("HOLDFAST_SLOT", "7");
    expect("HOLDFAST_SLOTS", "64");
    expect("HOLDFAST_SLOT_FENCES", NULL);

    for (int i = 0; i < HF_SET_MAX; i++)
        made_up[i].slot = i;
    environment_set(&exclusive, &all);
    expect("HOLDFAST_MODE", "exclusive");
    expect("HOLDFAST_NAME", "db");
    expect("HOLDFAST_FENCE", "164");
    expect("HOLDFAST_NAME_2", NULL);
    expect("HOLDFAST_SLOT", NULL);
    expect("HOLDFAST_SLOTS", NULL);
    fences = getenv("HOLDFAST_SLOT_FENCES");
    assert_non_null(fences);
    assert_memory_equal(fences, "100 101 102 ", 12);
    assert_string_equal(fences + strlen(fences) - 8, " 162 163");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_one_lock_nothing_of_others_is_left),
        cmocka_unit_test(of_a_set_each_has_its_number),
        cmocka_unit_test(of_a_counted_lock_the_slot_is_told),
        cmocka_unit_test(who_shares_has_a_slot_and_who_is_alone_all_fences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
