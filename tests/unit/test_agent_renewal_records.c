/* The renewal thread on real nodes: what it makes of the nodes' fence records. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/renewal_fixture.h"

#define X       "1111111111111111111111111111111111111111"
#define Y       "2222222222222222222222222222222222222222"
#define KEPT_MS INT64_C(691200000) /* agent/scripts/common.lua */

static void put_record(int node, const char *key, const char *tag, uint64_t fence)
{
    ask(node, "HSET holdfast:fence:%s fence %llu tag %s", key, (unsigned long long)fence, tag);
}

static void delete_and_heal(int node, const char *key)
{
    ask(node, "DEL %s", key);
    assert_true(becomes(key, TOKEN, 1u << node));
}

static void test_a_split_is_no_loss(void **state)
{
    struct lease *lease = granted("split", ALL, false);

    (void)state;
    /* None of the others has all. */
    put_record(0, "split", X, FENCE + 5);
    put_record(1, "split", Y, FENCE + 6);
    put_record(2, "split", X, FENCE + 7);
    for (int i = 0; i < NODES; i++)
        delete_and_heal(i, "split");
    stays_held(lease, TTL_MS / 2);
    release(lease);
    assert_true(becomes("split", "", ALL));
}

/* (!) One node has the fence of a try that another host gave up, and one says that it has, too. */
static void test_a_try_and_a_lie_are_no_loss(void **state)
{
    struct lease *lease = granted("lied", ALL, false);

    (void)state;
    put_record(0, "lied", X, FENCE + 5);
    put_record(2, "lied", X, FENCE + 5);
    delete_and_heal(0, "lied");
    delete_and_heal(2, "lied");
    stays_held(lease, TTL_MS / 2);
    release(lease);
    assert_true(becomes("lied", "", ALL));
}

/* (!) The nodes gave the lock to another since. */
static void test_a_later_grant_is_not_healed_over(void **state)
{
    struct lease *lease = granted("later", ALL, false);
    struct message *message;

    (void)state;
    for (int i = 0; i < NODES; i++)
        put_record(i, "later", X, FENCE + 5);
    delete_and_heal(0, "later");
    delete_and_heal(1, "later");
    stays_held(lease, 50);
    ask(2, "DEL later");
    while ((message = told(FAR_MS)) && atomic_load(&lease->state) != HF_SLOT_LOST)
        free(message); /* V moved back */
    assert_non_null(message);
    assert_int_equal(message->reason, HF_LOSS_FENCE);
    free(message);
    assert_false(holds(lease->slot));
    assert_int_equal(view_of(lease->slot).reason, HF_LOSS_FENCE);
    is_ended(lease);
    assert_true(becomes("later", "", ALL));
}

/* Granted, and handed over since by an earlier agent: its records are written with its first renewals. */
static struct lease *to_be_described(const char *name, bool is_job)
{
    hf_time a = clock_now();
    struct lease *lease;

    put_key(name, ALL);
    lease = made(name, generation % CAPACITY, ALL, is_job, a);
    lease->fence++;
    hand_over(lease);
    return lease;
}

static void test_records_that_are_gone_are_written(void **state)
{
    struct lease *lease;
    char fence[24];

    (void)state;
    snprintf(fence, sizeof(fence), "%llu", (unsigned long long)FENCE);
    lease = to_be_described("gone", false);
    for (int i = 0; i < NODES; i++) {
        hf_time give_up = hf_time_add(clock_now(), hf_ms(FAR_MS));

        while (ask_number(i, "EXISTS", "holdfast:fence:gone") == 0 &&
               hf_time_before(clock_now(), give_up))
            sleep_ms(10);
        assert_in_range(ask_number(i, "PTTL", "holdfast:fence:gone"), KEPT_MS - 60000, KEPT_MS);
    }
    stays_held(lease, 50);
    release(lease);
}

static void test_a_later_grant_is_seen_in_the_records(void **state)
{
    struct lease *lease;

    (void)state;
    for (int i = 0; i < NODES; i++)
        put_record(i, "seen", Y, FENCE + 1);
    lease = to_be_described("seen", false);
    is_changed(lease, HF_SLOT_LOST, HF_LOSS_FENCE);
    is_ended(lease);
    assert_true(becomes("seen", "", ALL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_split_is_no_loss, start_afresh),
        cmocka_unit_test_setup(test_a_try_and_a_lie_are_no_loss, start_afresh),
        cmocka_unit_test_setup(test_a_later_grant_is_not_healed_over, start_afresh),
        cmocka_unit_test_setup(test_records_that_are_gone_are_written, start_afresh),
        cmocka_unit_test_setup(test_a_later_grant_is_seen_in_the_records, start_afresh),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
