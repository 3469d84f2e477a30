/* The renewal thread on real nodes: what it hands over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/renewal_fixture.h"

#include "agent/state/lease.h"

#define NEXT_PID 4711

static struct handoff *to_next(const struct lease *from)
{
    struct handoff *h = calloc(1, sizeof(*h));
    struct lease *to =
        lease_new(NODES, &(struct lease_words){.name = lease_name(from),
                                               .name_len = from->name_len,
                                               .key = lease_key(from),
                                               .key_len = from->key_len,
                                               .holder = &(struct holder){.pid = NEXT_PID},
                                               .extra = true});

    assert_true(h && to);
    to->slot = from->slot;
    to->generation = ++generation;
    to->ttl_ms = from->ttl_ms;
    to->fence = from->fence + 1;
    to->since = clock_now();
    lease_set_token(to, to->since, HF_TIME_NEVER);
    to->token = from->token;
    h->slot = from->slot;
    h->generation = from->generation;
    h->to = to;
    h->owner.pid = NEXT_PID;
    h->max_hold = HF_TIME_NEVER;
    return h;
}

static void ask_for(struct handoff *h)
{
    struct message *message = message_new(MSG_HAND_OVER);

    message->handoff = h;
    mailbox_post(&agent.to_renewal, message);
}

/* The answer, for which `from` is freed if it was handed over: nobody else knows it. */
static enum handoff_verdict answered(struct handoff *h, struct lease *from)
{
    struct message *message;
    enum handoff_verdict verdict;

    while ((message = told(FAR_MS)) && message->kind == MSG_CHANGED)
        free(message); /* V moved */
    assert_non_null(message);
    assert_int_equal(message->kind, MSG_HANDED_OVER);
    assert_ptr_equal(message->handoff, h);
    free(message);
    verdict = h->verdict;
    if (verdict == HANDOFF_YES)
        lease_free(from);
    return verdict;
}

static struct lease *handed_over(struct lease *from)
{
    struct handoff *h = to_next(from);
    struct lease *to = h->to;

    ask_for(h);
    assert_int_equal(answered(h, from), HANDOFF_YES);
    free(h);
    return to;
}

/* Handed over so often already. All is written before the thread has it. */
static struct lease *fresh_after(const char *name, bool is_job, unsigned handoffs)
{
    hf_time a = clock_now();
    struct lease *lease;

    put_key(name, ALL);
    lease = made(name, generation % CAPACITY, ALL, is_job, a);
    lease->fence += handoffs;
    hand_over(lease);
    return lease;
}

static struct lease *fresh(const char *name, bool is_job)
{
    return fresh_after(name, is_job, 0);
}

static void test_handed_over_and_renewed_on(void **state)
{
    struct lease *lease = fresh("handed", false), *to;
    uint32_t slot = lease->slot, before = lease->generation;
    uint64_t word, fence = lease->fence;
    struct hf_slot_view view;

    (void)state;
    to = handed_over(lease);
    word = atomic_load(&agent.table.slots[slot].check);
    assert_false(hf_check_holds(word, before, clock_now()));
    assert_true(hf_check_holds(word, before + 1, clock_now()));
    view = view_of(slot);
    assert_int_equal(view.generation, before + 1);
    assert_int_equal(view.fence, fence + 1);
    assert_int_equal(view.pid, NEXT_PID);
    assert_int_equal(journal_of(slot).state, JOURNAL_HANDOFF);
    assert_int_equal(journal_of(slot).generation, before + 1);
    stays_renewed(to, "handed", ALL, 2 * TTL_MS);
    assert_int_equal(journal_of(slot).state, JOURNAL_HELD);
    release(to);
    assert_true(becomes("handed", "", ALL));
}

/* Handed over while its renewals are on their way to all nodes, is it extended by their answers? */
static bool is_extended_by_what_left_before(void)
{
    struct lease *lease = fresh("on-its-way", false), *to;
    uint64_t calls = counter(HF_COUNTER_RENEW_CALLS);
    hf_time before;
    int64_t valid;
    bool is;

    for (int i = 0; i < NODES; i++)
        redis_server_pause(&nodes[i]);
    for (int i = 0; i < FAR_MS && counter(HF_COUNTER_RENEW_CALLS) < calls + NODES; i++)
        sleep_ms(1);
    assert_true(counter(HF_COUNTER_RENEW_CALLS) >=
                calls + NODES); /* else the machine stood still for a TTL */
    before = hf_time_add(clock_now(), timing.span);
    to = handed_over(lease);
    valid = atomic_load(&to->valid_ns);
    for (int i = 0; i < NODES; i++)
        redis_server_resume(&nodes[i]);
    for (int i = 0; i < TTL_MS / 4 && atomic_load(&to->valid_ns) == valid; i++)
        sleep_ms(1);
    is = atomic_load(&to->valid_ns) > valid && atomic_load(&to->valid_ns) <= before.ns;
    stays_renewed(to, "on-its-way", ALL, TTL_MS / 2);
    release(to);
    assert_true(becomes("on-its-way", "", ALL));
    return is;
}

/* (!) What was sent for the token before is answered for whoever has it now: else its node would seem
 * to owe an answer for ever. On a machine that stands still for long a retry may be answered first. */
static void test_answers_of_before_count(void **state)
{
    bool is = false;

    (void)state;
    for (int i = 0; i < 4 && !is; i++)
        is = is_extended_by_what_left_before();
    assert_true(is);
}

static void test_orders_of_before_do_not_count(void **state)
{
    struct lease *lease = fresh("ordered", false), *to;
    struct lease old = {.slot = lease->slot, .generation = lease->generation};

    (void)state;
    to = handed_over(lease);
    post(MSG_RELEASE, &old, HF_LOSS_NONE);
    post(MSG_LOSE, &old, HF_LOSS_ASKED);
    post(MSG_ABANDON, &old, HF_LOSS_HOLDER);
    stays_held(to, 50);
    release(to);
}

/* (!) Refused, it is released. */
static void is_refused(struct lease *lease, const char *key)
{
    struct handoff *h = to_next(lease);

    ask_for(h);
    assert_int_not_equal(answered(h, lease), HANDOFF_YES);
    for (int i = 0; i < NODES; i++)
        redis_server_resume(&nodes[i]);
    is_changed(lease, HF_SLOT_ENDED, HF_LOSS_NONE);
    is_ended(lease);
    lease_free(h->to);
    free(h);
    assert_true(becomes(key, "", ALL));
}

static void test_too_late_to_be_handed_over(void **state)
{
    struct lease *lease = fresh("late", false);

    (void)state;
    for (int i = 0; i < NODES; i++)
        redis_server_pause(&nodes[i]);
    sleep_ms(TTL_MS * 55 / 100);
    is_refused(lease, "late");
}

static void test_too_often_to_be_handed_over(void **state)
{
    struct lease *lease = fresh_after("often", false, HANDOFF_IN_A_ROW);

    (void)state;
    is_refused(lease, "often");
}

static void test_abandoned_is_not_handed_over(void **state)
{
    struct lease *lease = fresh("abandoned", true);
    struct handoff *h = to_next(lease);

    (void)state;
    post(MSG_ABANDON, lease, HF_LOSS_HOLDER);
    ask_for(h);
    assert_int_equal(answered(h, lease), HANDOFF_NOT_HELD);
    is_changed(lease, HF_SLOT_ENDED, HF_LOSS_NONE);
    is_ended(lease);
    lease_free(h->to);
    free(h);
    assert_true(becomes("abandoned", "", ALL));
}

static void test_of_another_generation_nothing_is_handed_over(void **state)
{
    struct lease *lease = fresh("another", false);
    struct handoff *h = to_next(lease);

    (void)state;
    h->generation--;
    ask_for(h);
    assert_int_equal(answered(h, lease), HANDOFF_NOT_HELD);
    stays_held(lease, 50);
    lease_free(h->to);
    free(h);
    release(lease);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_handed_over_and_renewed_on, start_afresh),
        cmocka_unit_test_setup(test_answers_of_before_count, start_afresh),
        cmocka_unit_test_setup(test_orders_of_before_do_not_count, start_afresh),
        cmocka_unit_test_setup(test_too_late_to_be_handed_over, start_afresh),
        cmocka_unit_test_setup(test_too_often_to_be_handed_over, start_afresh),
        cmocka_unit_test_setup(test_abandoned_is_not_handed_over, start_afresh),
        cmocka_unit_test_setup(test_of_another_generation_nothing_is_handed_over, start_afresh),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
