/* shm/history.h: rings of events and renewals, read while they are written and overwritten. */
#include "shm_fixture.h"

#include <pthread.h>

#include "shm/compiler.h"
#include "shm/history.h"
#include "shm/index.h"
#include "shm/row.h"
#include "tools/reader/events.h"

#define OFTEN 1024 /* entries of HF_EVENTS_GRANTS */

static struct hf_event event_of(uint64_t number, uint32_t slot)
{
    /* Every member tells the number, so that a torn copy shows. */
    struct hf_event event = {.kind = HF_EVENT_GRANTED,
                             .node = HF_EVENT_NO_NODE,
                             .number = number,
                             .at_ns = (int64_t)number,
                             .valid_ns = (int64_t)number,
                             .fence = number,
                             .value = (int64_t)number,
                             .slot = slot,
                             .generation = 1,
                             .text_len = HF_EVENT_TEXT};

    memset(event.text, (int)(number & 0x7f), HF_EVENT_TEXT);
    return event;
}

static bool is_whole(const struct hf_event *event)
{
    uint64_t number = event->number;

    for (size_t i = 0; i < HF_EVENT_TEXT; i++)
        if (event->text[i] != (number & 0x7f))
            return false;
    return (uint64_t)event->at_ns == number && (uint64_t)event->valid_ns == number &&
           event->fence == number && (uint64_t)event->value == number;
}

static struct hf_table new_table(void)
{
    struct hf_table table = fixture_table(16);

    assert_int_equal(hf_history_begin(&table), 0);
    return table;
}

static void put(struct hf_table *table, enum hf_event_ring ring, uint64_t number)
{
    struct hf_event event = event_of(number, 0);

    hf_event_put(table, ring, &event);
}

/* --- one thread ------------------------------------------------------------------------------- */

static void an_event_comes_back_as_it_was_put(void **state)
{
    struct hf_table table = new_table();
    struct hf_event event;

    (void)state;
    assert_int_equal(hf_event_read(&table, HF_EVENTS_GRANTS, 0, &event), HF_EINVAL);
    put(&table, HF_EVENTS_GRANTS, 7);
    assert_int_equal(hf_events_written(&table, HF_EVENTS_GRANTS), 1);
    assert_int_equal(hf_event_read(&table, HF_EVENTS_GRANTS, 0, &event), 0);
    assert_true(is_whole(&event) && event.index == 0 && event.number == 7);
    assert_int_equal(hf_event_read(&table, HF_EVENTS_GRANTS, 1, &event), HF_EINVAL);
    assert_int_equal(hf_events_written(&table, HF_EVENTS_LOSSES), 0);
    hf_table_close(&table);
}

static void the_oldest_is_overwritten_and_the_reader_is_told(void **state)
{
    struct hf_table table = new_table();
    struct hf_event event;
    struct events_cursor cursor = events_from_oldest(&table);
    struct events events = {0};

    (void)state;
    for (uint64_t i = 0; i < OFTEN + 10; i++)
        put(&table, HF_EVENTS_GRANTS, i + 1);
    assert_int_equal(hf_events_oldest(&table, HF_EVENTS_GRANTS), 10);
    assert_int_equal(hf_event_read(&table, HF_EVENTS_GRANTS, 9, &event), HF_ELOST);
    assert_int_equal(hf_event_read(&table, HF_EVENTS_GRANTS, 10, &event), 0);
    events_read(&table, &cursor, &events);
    assert_int_equal(events.count, OFTEN);
    assert_int_equal(cursor.overwritten, 10);
    /* What happens often does not push out what does not. */
    put(&table, HF_EVENTS_LOSSES, 5000);
    for (uint64_t i = 0; i < 3 * OFTEN; i++)
        put(&table, HF_EVENTS_GRANTS, 6000 + i);
    assert_int_equal(hf_event_read(&table, HF_EVENTS_LOSSES, 0, &event), 0);
    assert_int_equal(events_from_oldest(&table).overwritten, 10 + 3 * OFTEN);
    events_free(&events);
    hf_table_close(&table);
}

static void put_at(struct hf_table *table, enum hf_event_ring ring, uint64_t number,
                   int64_t wall_ms)
{
    struct hf_event event = event_of(number, 0);

    event.wall_ms = wall_ms;
    hf_event_put(table, ring, &event);
}

static void what_was_overwritten_before_a_time_is_not_missing_since_then(void **state)
{
    struct hf_table table = new_table();
    struct events_filter filter = {.since_wall_ms = 5000};
    struct hf_event event = event_of(1, 0);

    (void)state;
    for (uint64_t i = 1; i <= OFTEN + 10; i++)
        put_at(&table, HF_EVENTS_GRANTS, i, 4000);
    assert_int_equal(events_from_oldest(&table).overwritten, 10);
    assert_int_equal(events_from_since(&table, 4001).overwritten, 0);
    assert_int_equal(events_from_since(&table, 4000).overwritten, 10);
    assert_int_equal(events_from_since(&table, 0).overwritten, 10);
    assert_int_equal(events_from_since(&table, 4001).next[HF_EVENTS_GRANTS], 10);
    event.wall_ms = 4999;
    assert_false(events_match(&filter, &event));
    event.wall_ms = 5000;
    assert_true(events_match(&filter, &event));
    hf_table_close(&table);
}

static void readers_merge_the_rings_by_number(void **state)
{
    struct hf_table table = new_table();
    struct events_cursor cursor = events_from_oldest(&table);
    struct events events = {0};

    (void)state;
    for (uint64_t number = 1; number <= 100; number++)
        put(&table, (enum hf_event_ring)(number * 7 % HF_EVENT_RINGS), number);
    events_read(&table, &cursor, &events);
    assert_int_equal(events.count, 100);
    for (size_t i = 0; i < events.count; i++)
        assert_int_equal(events.items[i].number, i + 1);
    events_read(&table, &cursor, &events);
    assert_int_equal(events.count, 0);
    cursor = events_after(&table, 100);
    put(&table, HF_EVENTS_ENDS, 101);
    events_read(&table, &cursor, &events);
    assert_true(events.count == 1 && events.items[0].number == 101 && cursor.overwritten == 0);
    events_free(&events);
    hf_table_close(&table);
}

static void a_later_agent_goes_on_where_the_rings_stand(void **state)
{
    struct hf_table table = new_table();
    struct hf_renewal renewal = {.keys = 1}, newest;

    (void)state;
    for (uint64_t number = 1; number <= OFTEN + 5; number++)
        put(&table, number % 2 ? HF_EVENTS_GRANTS : HF_EVENTS_ENDS, number);
    hf_renewal_put(&table, 2, &renewal);
    memset(table.events_written, 0, sizeof(table.events_written));
    memset(table.renewals_written, 0, sizeof(table.renewals_written));
    assert_int_equal(hf_history_begin(&table), OFTEN + 5);
    put(&table, HF_EVENTS_GRANTS, OFTEN + 6);
    assert_int_equal(hf_events_written(&table, HF_EVENTS_GRANTS), (OFTEN + 6) / 2 + 1);
    hf_renewal_put(&table, 2, &renewal);
    assert_int_equal(hf_renewals_read(&table, 2, &newest, 1), 1);
    assert_int_equal(newest.index, 2);
    hf_table_close(&table);
}

static void an_entry_whose_writer_was_killed_inside_hides_no_other(void **state)
{
    struct hf_table table = new_table();
    struct events_cursor cursor;
    struct events events = {0};

    (void)state;
    for (uint64_t i = 0; i < OFTEN; i++)
        put(&table, HF_EVENTS_GRANTS, i + 1);
    hf_seq_enter(&table.events[HF_EVENTS_GRANTS][0].seq); /* about to overwrite the oldest */
    cursor = events_from_oldest(&table);
    events_read(&table, &cursor, &events);
    assert_int_equal(events.count, OFTEN - 1);
    assert_int_equal(cursor.overwritten, 1);
    hf_history_begin(&table);
    put(&table, HF_EVENTS_GRANTS, OFTEN + 1);
    cursor = events_from_oldest(&table);
    events_read(&table, &cursor, &events);
    assert_int_equal(events.count, OFTEN);
    events_free(&events);
    hf_table_close(&table);
}

static void whatever_the_header_says_the_reader_stays_inside(void **state)
{
    static const uint64_t counts[] = {UINT64_MAX, UINT64_C(1) << 63, UINT32_MAX, 77777, 1};
    struct hf_table table = new_table();

    (void)state;
    for (size_t i = 0; i < HF_LENGTH(counts); i++) {
        struct events_cursor cursor;
        struct events events = {0};

        for (int ring = 0; ring < HF_EVENT_RINGS; ring++)
            atomic_store(&table.header->events_written[ring], counts[i]);
        cursor = events_from_oldest(&table);
        events_read(&table, &cursor, &events);
        assert_true(events.count <= 4 * 1024);
        events_free(&events);
    }
    hf_table_close(&table);
}

static void names_are_found_by_hash_where_they_are_cut(void **state)
{
    struct hf_table table = new_table();
    char name[255], other[255];
    struct events_filter filter = {.name = name, .name_len = sizeof(name)};
    struct hf_event event = event_of(1, 0);

    (void)state;
    memset(name, 'n', sizeof(name));
    memset(other, 'n', sizeof(other));
    other[254] = 'x';
    filter.name_hash = hf_name_hash(table.header->index_key, name, sizeof(name));
    hf_event_name(&table, &event, other, sizeof(other));
    assert_false(events_match(&filter, &event));
    hf_event_name(&table, &event, name, sizeof(name));
    assert_true(events_match(&filter, &event));
    hf_event_name(&table, &event, name, sizeof(name) - 1);
    assert_false(events_match(&filter, &event));
    filter = (struct events_filter){.name = "nn", .name_len = 2, .prefix = true};
    assert_true(events_match(&filter, &event));
    hf_event_name(&table, &event, "n", 1);
    assert_false(events_match(&filter, &event));
    /* An event of a node has text, and no name. */
    event = (struct hf_event){.kind = HF_EVENT_NODE_UP, .text_len = 1, .text = "n"};
    filter = (struct events_filter){.name = "n", .name_len = 1, .prefix = true};
    assert_false(events_match(&filter, &event));
    hf_table_close(&table);
}

static void the_newest_renewals_come_first(void **state)
{
    struct hf_table table = new_table();
    struct hf_renewal read[HF_RENEWALS_KEPT + 1];

    (void)state;
    assert_int_equal(hf_renewals_read(&table, 3, read, 10), 0);
    for (uint16_t i = 1; i <= HF_RENEWALS_KEPT + 50; i++) {
        struct hf_renewal renewal = {.at_ns = i, .keys = i};

        hf_renewal_put(&table, 3, &renewal);
    }
    assert_int_equal(hf_renewals_read(&table, 3, read, HF_LENGTH(read)), HF_RENEWALS_KEPT);
    for (uint32_t i = 0; i < HF_RENEWALS_KEPT; i++)
        assert_int_equal(read[i].index, HF_RENEWALS_KEPT + 50 - i);
    assert_int_equal(hf_renewals_read(&table, 3, read, 5), 5);
    assert_int_equal(read[4].keys, HF_RENEWALS_KEPT + 46);
    assert_int_equal(hf_renewals_read(&table, 2, read, 5), 0);
    assert_int_equal(hf_renewals_read(&table, HF_NODES_MAX, read, 5), 0);
    hf_table_close(&table);
}

/* --- two writers and a reader ----------------------------------------------------------------- */

#define EACH 300000

struct writer {
    struct hf_table *table;
    _Atomic uint64_t *number;
    enum hf_event_ring ring;
};

static void *write_many(void *arg)
{
    struct writer *w = arg;

    for (uint32_t i = 0; i < EACH; i++) {
        struct hf_event event = event_of(atomic_fetch_add(w->number, 1) + 1, i);

        hf_event_put(w->table, w->ring, &event);
    }
    return NULL;
}

static void two_writers_and_a_reader_that_is_overrun(void **state)
{
    struct hf_table table = new_table();
    _Atomic uint64_t number = 0;
    struct writer writers[] = {{&table, &number, HF_EVENTS_GRANTS},
                               {&table, &number, HF_EVENTS_LOSSES}};
    struct events_cursor cursor = events_from_oldest(&table);
    struct events events = {0};
    uint64_t taken = 0;
    pthread_t threads[2];

    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, &writers[i]), 0);
    while (taken + cursor.overwritten < 2 * EACH) {
        events_read(&table, &cursor, &events);
        for (size_t i = 0; i < events.count; i++) {
            const struct hf_event *event = &events.items[i];

            if (!is_whole(event))
                fail_msg("race: event %llu is torn", (unsigned long long)event->number);
            if (i && event->number <= events.items[i - 1].number)
                fail_msg("race: event %llu is out of order", (unsigned long long)event->number);
        }
        taken += events.count;
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(taken + cursor.overwritten, 2 * EACH);
    assert_true(taken > 0);
    events_free(&events);
    hf_table_close(&table);
}

/* The oldest entry is the one that is written next: there a copy and a write meet. */
static void what_is_read_while_it_is_overwritten_is_whole_or_refused(void **state)
{
    struct hf_table table = new_table();
    _Atomic uint64_t number = 0;
    struct writer writer = {&table, &number, HF_EVENTS_GRANTS};
    uint64_t whole = 0, refused = 0;
    struct hf_event event;
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, write_many, &writer), 0);
    while (hf_events_written(&table, HF_EVENTS_GRANTS) < EACH) {
        uint64_t oldest = hf_events_oldest(&table, HF_EVENTS_GRANTS);

        for (uint64_t i = oldest; i < oldest + 4; i++)
            switch (hf_event_read(&table, HF_EVENTS_GRANTS, i, &event)) {
            case 0:
                whole++;
                if (event.number != i + 1 || !is_whole(&event))
                    fail_msg("race: event %llu is torn", (unsigned long long)event.number);
                break;
            case HF_ELOST:
                refused++;
            }
    }
    pthread_join(thread, NULL);
    printf("# read %llu, refused %llu\n", (unsigned long long)whole, (unsigned long long)refused);
    hf_table_close(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_comes_back_as_it_was_put),
        cmocka_unit_test(the_oldest_is_overwritten_and_the_reader_is_told),
        cmocka_unit_test(what_was_overwritten_before_a_time_is_not_missing_since_then),
        cmocka_unit_test(readers_merge_the_rings_by_number),
        cmocka_unit_test(a_later_agent_goes_on_where_the_rings_stand),
        cmocka_unit_test(an_entry_whose_writer_was_killed_inside_hides_no_other),
        cmocka_unit_test(whatever_the_header_says_the_reader_stays_inside),
        cmocka_unit_test(names_are_found_by_hash_where_they_are_cut),
        cmocka_unit_test(the_newest_renewals_come_first),
        cmocka_unit_test(two_writers_and_a_reader_that_is_overrun),
        cmocka_unit_test(what_is_read_while_it_is_overwritten_is_whole_or_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
