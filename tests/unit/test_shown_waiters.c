/* shm/waiters.h and tools/reader/waiting.h: who waits, as it stands in the table. */
#include "reader_fixture.h"

#include "shm/waiters.h"
#include "tools/reader/waiting.h"

static const struct life alive = {.verdict = LIFE_ALIVE};

static struct hf_waiter_row row_of(const char *name, uint64_t number, int64_t asked_ns)
{
    struct hf_waiter_row row = {.flags = HF_WAITER_F_USED,
                                .pid = (uint32_t)number,
                                .number = number,
                                .asked_ns = asked_ns,
                                .deadline_ns = INT64_MAX,
                                .name_len = (uint8_t)strlen(name),
                                .comm = "comm"};

    memcpy(row.name, name, strlen(name));
    return row;
}

static void put(struct hf_table *table, uint32_t index, const char *name, uint64_t number,
                int64_t asked_ns)
{
    struct hf_waiter_row row = row_of(name, number, asked_ns);

    hf_waiter_publish(table, index, &row);
}

static void a_row_comes_back_until_it_is_cleared(void **state)
{
    struct hf_table table = fixture_table(16);
    struct hf_waiter_row row;

    (void)state;
    assert_int_equal(hf_waiters_room(&table), HF_WAITERS_SHOWN);
    assert_int_equal(hf_waiter_read(&table, 7, &row), HF_ENOTHELD);
    put(&table, 7, "job", 3, 5);
    assert_int_equal(hf_waiter_read(&table, 7, &row), HF_OK);
    assert_int_equal(row.pid, 3);
    assert_memory_equal(row.name, "job", 3);
    assert_int_equal(hf_waiter_read(&table, HF_WAITERS_SHOWN, &row), HF_EINVAL);
    hf_waiter_clear(&table, 7);
    assert_int_equal(hf_waiter_read(&table, 7, &row), HF_ENOTHELD);
    hf_table_close(&table);
}

static void a_damaged_row_is_refused_and_hides_no_other(void **state)
{
    struct hf_table table = fixture_table(16);
    struct hf_waiter_row row;
    struct waiting waiting;

    (void)state;
    put(&table, 0, "a", 1, 1);
    put(&table, 1, "b", 2, 2);
    atomic_store(&table.waiters[0].seq, 1); /* a writer killed inside */
    assert_int_equal(hf_waiter_read(&table, 0, &row), HF_ETABLE);
    waiting_read(&table, &alive, "", 0, false, &waiting);
    assert_int_equal(waiting.count, 1);
    waiting_free(&waiting);
    /* The next writer makes it even again. */
    put(&table, 0, "a", 1, 1);
    assert_int_equal(hf_waiter_read(&table, 0, &row), HF_OK);
    memset(table.waiters[0].comm, 'x', sizeof(table.waiters[0].comm));
    assert_int_equal(hf_waiter_read(&table, 0, &row), HF_OK);
    assert_int_equal(strlen(row.comm), sizeof(row.comm) - 1);
    hf_table_close(&table);
}

static void a_start_begins_with_none(void **state)
{
    struct hf_table_spec spec = fixture_spec(16);
    char name[HF_TABLE_NAME_MAX], why[WHY_SIZE] = "";
    struct hf_waiter_row row;
    struct hf_table table;
    bool warm;

    (void)state;
    fixture_name(name);
    assert_int_equal(hf_table_create(name, &spec, &table, &warm, why, sizeof(why)), 0);
    hf_table_set_state(&table, HF_TABLE_ALIVE);
    put(&table, 500, "a", 1, 1);
    hf_table_close(&table);
    spec.slots_live = 1;
    assert_int_equal(hf_table_create(name, &spec, &table, &warm, why, sizeof(why)), 0);
    shm_unlink(name);
    assert_true(warm);
    assert_int_equal(hf_waiter_read(&table, 500, &row), HF_ENOTHELD);
    hf_table_close(&table);
}

static void places_are_by_name_in_the_order_of_the_requests(void **state)
{
    struct hf_table table = fixture_table(16);
    struct waiting waiting;

    (void)state;
    put(&table, 3, "job", 10, 700);
    put(&table, 0, "job", 12, 700);
    put(&table, 9, "job", 13, 600); /* it came back from an earlier agent */
    put(&table, 4, "jo", 9, 900);
    put(&table, 5, "job/x", 1, 1);
    hf_counter_set(&table, HF_COUNTER_WAITERS, 8);
    waiting_read(&table, &alive, "jo", 2, false, &waiting);
    assert_true(waiting.known);
    assert_int_equal(waiting.count, 5);
    assert_int_equal(waiting.all, 8);
    assert_int_equal(waiting.items[0].row.number, 9);
    assert_int_equal(waiting.items[0].place, 1);
    assert_int_equal(waiting.items[1].row.number, 13);
    assert_int_equal(waiting.items[1].place, 1);
    assert_int_equal(waiting.items[2].row.number, 10);
    assert_int_equal(waiting.items[2].place, 2);
    assert_int_equal(waiting.items[3].row.number, 12);
    assert_int_equal(waiting.items[3].place, 3);
    assert_int_equal(waiting.items[4].place, 1);
    waiting_free(&waiting);
    waiting_read(&table, &alive, "job", 3, true, &waiting);
    assert_int_equal(waiting.count, 3);
    waiting_free(&waiting);
    waiting_read(&table, &alive, "none", 4, true, &waiting);
    assert_true(waiting.known && waiting.count == 0);
    waiting_free(&waiting);
    hf_table_close(&table);
}

static void nobody_waits_for_an_agent_that_is_gone(void **state)
{
    static const enum life_verdict verdicts[] = {LIFE_ALIVE, LIFE_HUNG, LIFE_DEAD, LIFE_ENDED};
    struct hf_table table = fixture_table(16);

    (void)state;
    put(&table, 0, "a", 1, 1);
    for (size_t i = 0; i < sizeof(verdicts) / sizeof(verdicts[0]); i++) {
        const struct life life = {.verdict = verdicts[i]};
        struct waiting waiting;

        waiting_read(&table, &life, "", 0, false, &waiting);
        assert_int_equal(waiting.known, i < 2);
        assert_int_equal(waiting.count, i < 2);
        waiting_free(&waiting);
    }
    hf_table_close(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_comes_back_until_it_is_cleared),
        cmocka_unit_test(a_damaged_row_is_refused_and_hides_no_other),
        cmocka_unit_test(a_start_begins_with_none),
        cmocka_unit_test(places_are_by_name_in_the_order_of_the_requests),
        cmocka_unit_test(nobody_waits_for_an_agent_that_is_gone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
