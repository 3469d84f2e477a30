/* Rows of the table (nodes, events, renewals), killed after any store of their writer: whoever reads
 * one reads all of it, as it was or as it is now, or knows that it cannot; the next agent goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/history.h"
#include "tests/torture/world.h"

static uint64_t number; /* of what is written */
static unsigned points;

/* --- rows whose every field follows from a number --------------------------------------------- */

static struct hf_event event_of(uint64_t n)
{
    struct hf_event event = {.kind = HF_EVENT_GRANTED,
                             .number = n,
                             .fence = n * 3,
                             .slot = (uint32_t)n * 5,
                             .value = -(int64_t)n};

    event.text_len = (uint8_t)snprintf((char *)event.text, sizeof(event.text), "event %llu",
                                       (unsigned long long)n);
    return event;
}

static bool is_event(const struct hf_event *event, uint64_t n)
{
    struct hf_event want = event_of(n);

    return event->number == n && event->fence == want.fence && event->slot == want.slot &&
           event->value == want.value && event->text_len == want.text_len &&
           memcmp(event->text, want.text, sizeof(want.text)) == 0;
}

static void put_event(void *arg)
{
    struct hf_event event = event_of(number);

    (void)arg;
    hf_event_put(&table, HF_EVENTS_NODES, &event);
}

static void put_renewal(void *arg)
{
    struct hf_renewal renewal = {.at_ns = (int64_t)number, .latency_us = (uint32_t)number * 7};

    (void)arg;
    hf_renewal_put(&table, 2, &renewal);
}

static void put_node(void *arg)
{
    struct hf_node_row row = {
        .rtt_ns = (int64_t)number, .replies = number, .flags = (uint32_t)number};

    (void)arg;
    snprintf(row.id, sizeof(row.id), "node %llu", (unsigned long long)number);
    snprintf(row.error, sizeof(row.error), "error %llu", (unsigned long long)number);
    hf_node_publish(&table, 1, &row);
}

/* --- events ----------------------------------------------------------------------------------- */

/* All that are there, `newest` the last that may be. Returns the last that is. */
static uint64_t judge_events(uint64_t newest)
{
    uint64_t written = hf_events_written(&reader, HF_EVENTS_NODES);
    uint64_t oldest = hf_events_oldest(&reader, HF_EVENTS_NODES), last = 0;

    assert_true(written == newest || written + 1 == newest);
    for (uint64_t i = oldest; i < written; i++) {
        struct hf_event event;
        int status = hf_event_read(&reader, HF_EVENTS_NODES, i, &event);

        if (status == HF_ELOST && i == oldest)
            continue; /* about to be overwritten */
        assert_int_equal(status, 0);
        assert_true(is_event(&event, i + 1));
        last = i + 1;
    }
    return last;
}

static void killed_in_an_event(uint64_t before)
{
    struct store_log *log;

    for (number = 1; number <= before; number++)
        put_event(NULL);
    log = stores_of(put_event, NULL, &whole, 1, NULL);
    assert_non_null(log);
    for (uint32_t i = 0; i < log->count; i++) {
        store_log_restore(log, i);
        (void)judge_events(number);
        /* The next agent. */
        (void)hf_history_begin(&table);
        number = table.events_written[HF_EVENTS_NODES] + 1;
        put_event(NULL);
        assert_int_equal(judge_events(number), number);
        number = before + 1;
    }
    points += log->count;
    stores_free(log);
}

static void an_event_is_whole_or_not_there(void **state)
{
    (void)state;
    make_world();
    killed_in_an_event(3);
    end_world();
    make_world();
    killed_in_an_event(reader.event_count[HF_EVENTS_NODES] + 5);
    end_world();
    print_message("# %u fault points, 0 violations\n", points);
}

/* --- renewals and nodes ----------------------------------------------------------------------- */

static void a_renewal_is_whole_or_not_there(void **state)
{
    struct hf_renewal seen[HF_RENEWALS_KEPT];
    struct store_log *log;
    size_t full;

    (void)state;
    make_world();
    for (number = 1; number <= HF_RENEWALS_KEPT + 3; number++)
        put_renewal(NULL);
    full = hf_renewals_read(&reader, 2, seen, HF_LENGTH(seen));
    log = stores_of(put_renewal, NULL, &whole, 1, NULL);
    assert_non_null(log);
    for (uint32_t i = 0; i < log->count; i++) {
        size_t count;

        store_log_restore(log, i);
        count = hf_renewals_read(&reader, 2, seen, HF_LENGTH(seen));
        assert_true(count == full || count + 1 == full);
        for (size_t k = 0; k < count; k++) {
            assert_int_equal(seen[k].at_ns, seen[k].index);
            assert_int_equal(seen[k].latency_us, seen[k].index * 7);
        }
    }
    print_message("# %u fault points, 0 violations\n", log->count);
    stores_free(log);
    end_world();
}

static void a_node_is_whole_or_not_there(void **state)
{
    struct hf_node_row row;
    struct store_log *log;
    unsigned unreadable = 0;

    (void)state;
    make_world();
    number = 1;
    put_node(NULL);
    number = 2;
    log = stores_of(put_node, NULL, &whole, 1, NULL);
    assert_non_null(log);
    for (uint32_t i = 0; i < log->count; i++) {
        char id[32], error[32];

        store_log_restore(log, i);
        if (hf_node_read(&reader, 1, &row) != 0) {
            unreadable++;
            continue;
        }
        snprintf(id, sizeof(id), "node %llu", (unsigned long long)row.replies);
        snprintf(error, sizeof(error), "error %llu", (unsigned long long)row.replies);
        assert_true(row.rtt_ns == (int64_t)row.replies && row.flags == row.replies);
        assert_string_equal(row.id, id);
        assert_string_equal(row.error, error);
    }
    assert_int_equal(unreadable + 2, log->count); /* before the first store, and after the last */
    store_log_restore(log, log->count / 2);
    put_node(NULL);
    assert_int_equal(hf_node_read(&reader, 1, &row), 0);
    print_message("# %u fault points, 0 violations\n", log->count);
    stores_free(log);
    end_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_is_whole_or_not_there),
        cmocka_unit_test(a_renewal_is_whole_or_not_there),
        cmocka_unit_test(a_node_is_whole_or_not_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
