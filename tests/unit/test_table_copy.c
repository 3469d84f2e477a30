/* shm/table_open.c: a table whose owner is not trusted. */
#include "table_fixture.h"

#include <inttypes.h>
#include <pthread.h>

#include "shm/index.h"

static struct hf_table copy_of(struct fixture *f)
{
    struct hf_table copy;

    if (hf_table_open_copy(f->name, geteuid(), &copy, f->why, sizeof(f->why)) != 0)
        fail_msg("%s", f->why);
    return copy;
}

/* The text of the lease before stays, as in an agent. */
static void publish(struct hf_table *table, uint32_t slot, const char *name, uint64_t number)
{
    const struct hf_slot_identity id = {.generation = (uint32_t)(number & 0xffffff) | 1,
                                        .pid = (uint32_t)number,
                                        .uid = (uint32_t)number,
                                        .fence = number,
                                        .text_off = slot * 4 + (number >> 1 & 1) * 2,
                                        .name_len = (uint8_t)strlen(name),
                                        .since = {(int64_t)number}};

    memcpy(table->text + id.text_off * HF_TEXT_UNIT, name, strlen(name));
    hf_slot_publish(&table->slots[slot], &id, FIXTURE_DEADLINE, 3);
    if (slot >= atomic_load(&table->header->slots_used))
        atomic_store(&table->header->slots_used, slot + 1);
}

static void a_copy_shows_one_moment_and_then_the_next(void **state)
{
    struct fixture f = fixture_new();
    struct hf_table table = create_alive(&f), copy;
    struct hf_slot_view view;

    (void)state;
    publish(&table, 0, "one", 1);
    assert_int_equal(hf_index_add(&table, "one", 3, 0), 0);
    copy = copy_of(&f);
    assert_int_equal(hf_index_find(&copy, "one", 3, &view), 0);
    assert_int_equal(view.fence, 1);
    publish(&table, 1, "two", 2);
    assert_int_equal(hf_index_add(&table, "two", 3, 1), 0);
    assert_int_equal(hf_index_find(&copy, "two", 3, &view), HF_ENOTHELD);
    assert_int_equal(hf_table_refresh(&copy), 0);
    assert_int_equal(hf_index_find(&copy, "two", 3, &view), 0);
    assert_int_equal(view.fence, 2);
    hf_table_close(&copy);
    hf_table_close(&table);
    shm_unlink(f.name);
}

/* (!) A mapping would end this program by SIGBUS. */
static void a_truncated_table_can_still_be_looked_at(void **state)
{
    struct fixture f = fixture_new();
    struct hf_table table = create_alive(&f), copy;
    struct hf_slot_view view;
    struct hf_table_header header;

    (void)state;
    publish(&table, 0, "one", 1);
    assert_int_equal(hf_index_add(&table, "one", 3, 0), 0);
    copy = copy_of(&f);
    assert_int_equal(hf_table_peek(f.name, geteuid(), &header), 0);
    assert_int_equal(truncate(f.path, 0), 0);
    assert_int_equal(hf_table_peek(f.name, geteuid(), &header), HF_ETABLE);
    assert_int_equal(hf_index_find(&copy, "one", 3, &view), 0);
    assert_int_equal(hf_table_refresh(&copy), HF_ETABLE);
    assert_int_equal(hf_slot_read(&copy, 0, &view), 0);
    assert_int_equal(truncate(f.path, (off_t)table.size), 0);
    assert_int_equal(hf_table_open_copy(f.name, geteuid(), &copy, f.why, sizeof(f.why)), HF_ETABLE);
    hf_table_close(&copy);
    hf_table_close(&table);
    shm_unlink(f.name);
}

struct race {
    struct hf_table table;
    _Atomic bool stop;
};

static void *write_slots(void *arg)
{
    struct race *race = arg;

    for (uint64_t i = 2; !atomic_load(&race->stop); i++) {
        char name[17];

        snprintf(name, sizeof(name), "%016" PRIx64, i);
        publish(&race->table, i & 1, name, i);
    }
    return NULL;
}

static void slots_are_never_mixed(void **state)
{
    struct fixture f = fixture_new();
    struct race race = {.table = create_alive(&f)};
    struct hf_table copy;
    unsigned read = 0;
    pthread_t writer;

    (void)state;
    publish(&race.table, 1, "0000000000000001", 1);
    publish(&race.table, 0, "0000000000000000", 0);
    copy = copy_of(&f);
    assert_int_equal(pthread_create(&writer, NULL, write_slots, &race), 0);
    for (int i = 0; i < 2000; i++) {
        struct hf_slot_view view;
        int status = hf_table_refresh(&copy);
        char name[17];

        assert_true(status == 0);
        for (uint32_t slot = 0; slot < 2; slot++) {
            if (hf_slot_read(&copy, slot, &view) != 0)
                continue;
            read++;
            assert_int_equal(view.pid, (uint32_t)view.fence);
            assert_int_equal(view.uid, (uint32_t)view.fence);
            assert_int_equal(view.since.ns, view.fence);
            assert_int_equal(view.fence & 1, slot);
            snprintf(name, sizeof(name), "%016" PRIx64, view.fence);
            assert_memory_equal(view.name, name, 16);
        }
    }
    atomic_store(&race.stop, true);
    pthread_join(writer, NULL);
    assert_true(read > 0);
    hf_table_close(&copy);
    hf_table_close(&race.table);
    shm_unlink(f.name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_shows_one_moment_and_then_the_next),
        cmocka_unit_test(a_truncated_table_can_still_be_looked_at),
        cmocka_unit_test(slots_are_never_mixed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
