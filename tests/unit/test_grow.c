/* A table in which memory is taken while others look: shm/table.h, shm/index.h. Readers use the one mapping that the writer has
 * too, so that a race detector sees both. */
#include "table_fixture.h"

#include <pthread.h>

#include "shm/compiler.h"
#include "shm/index.h"
#include "shm/status.h"
#include "shm/row.h"

#define NAMES   8
#define ROUNDS  12
#define READERS 2

static struct hf_table reader; /* as it was opened before anything grew */
static _Atomic bool over;
static _Atomic uint32_t newest; /* slot of the last name; 0: none yet */

static void name_of(uint32_t slot, char name[16])
{
    (void)snprintf(name, 16, "lease %u", slot);
}

static void put(struct hf_table *table, uint32_t slot, uint32_t text_off)
{
    struct hf_slot_identity id = {.generation = slot + 1, .text_off = text_off};
    char name[16] = {0};

    name_of(slot, name);
    id.name_len = (uint8_t)strlen(name);
    hf_words_store(table->text + (size_t)id.text_off * HF_TEXT_UNIT, name, sizeof(name));
    hf_slot_publish(&table->slots[slot], &id, FIXTURE_DEADLINE, 2);
    assert_int_equal(hf_index_add(table, name, id.name_len, slot), 0);
}

static const char *look_for(uint32_t slot)
{
    struct hf_slot_view view;
    char name[16] = {0};

    name_of(slot, name);
    switch (hf_index_find(&reader, name, strlen(name), &view)) {
    case HF_OK:
        break;
    case HF_ENOTHELD:
        return "a name that stands was not found";
    default:
        return NULL; /* could not be read for now */
    }
    if (view.slot != slot || view.generation != slot + 1)
        return "another lease was found under a name";
    return hf_slot_read(&reader, slot, &view) == 0 ? NULL : "a slot that stands cannot be read";
}

static void *look(void *arg)
{
    struct hf_slot_view view;

    (void)arg;
    while (!atomic_load(&over)) {
        uint32_t slot = atomic_load(&newest), there = hf_table_slots(&reader), used;
        const char *wrong = NULL;

        for (uint32_t i = 0; i < NAMES && !wrong; i++)
            wrong = look_for(i);
        if (slot && !wrong)
            wrong = look_for(slot);
        if (hf_index_find(&reader, "nobody's", 8, &view) == 0)
            wrong = "a name was found that nobody has";
        used = atomic_load(&reader.header->slots_used);
        if (used > hf_table_slots(&reader) || there > hf_table_slots(&reader))
            wrong = "more slots are used than there are";
        if (wrong)
            return (void *)(uintptr_t)wrong;
    }
    return NULL;
}

static void who_looks_meanwhile_sees_all_that_stands(void **state)
{
    struct fixture f = fixture_new();
    struct hf_table table = create_alive(&f);
    pthread_t thread[READERS];

    (void)state;
    reader = table;
    reader.writable = false;
    reader.slots_there = reader.index_size = 0;
    for (uint32_t i = 0; i < NAMES; i++)
        put(&table, i, i);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, look, NULL), 0);
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        assert_int_equal(hf_table_take_slots(&table, UINT32_C(16) << i), 0);
        put(&table, table.slots_there - 1, NAMES + i);
        atomic_store(&newest, table.slots_there - 1);
        if (i % 3 == 0)
            hf_index_rebuild(&table);
    }
    assert_int_equal(table.slots_there, FIXTURE_ROOM);
    atomic_store(&over, true);
    for (int i = 0; i < READERS; i++) {
        void *wrong;

        assert_int_equal(pthread_join(thread[i], &wrong), 0);
        if (wrong)
            fail_msg("race: %s", (const char *)wrong);
    }
    hf_table_close(&table);
    shm_unlink(f.name);
}

/* --- other terms ------------------------------------------------------------------------------- */

static _Atomic bool seen_whole;

static const char *look_at_terms(void)
{
    struct hf_table_terms terms = hf_table_terms(&reader);

    if (!terms.mixed)
        atomic_store_explicit(&seen_whole, true, memory_order_relaxed);
    if (!terms.mixed &&
        (terms.quorum != terms.nodes / 2 + 1 || terms.ttl_ms != terms.nodes * 1000 ||
         terms.ttl_max_ms != terms.nodes * 2000))
        return "the terms are of two starts";
    return NULL;
}

static const char *look_at_rows(void)
{
    for (uint32_t i = 0; i < reader.node_count; i++) {
        struct hf_node_row row;
        size_t length;

        if (hf_node_read(&reader, i, &row) != HF_OK)
            continue;
        length = strlen(row.id);
        for (size_t k = 1; k < length; k++)
            if (row.id[k] != row.id[0])
                return "a row is of two nodes";
        if (length != 0 && row.replies != (uint64_t)row.id[0])
            return "a row is half another's";
    }
    return NULL;
}

static void *look_all_the_time(void *arg)
{
    const char *(*const *look_at)(void) = arg;
    const char *wrong = NULL;

    while (!atomic_load_explicit(&over, memory_order_relaxed) && !wrong)
        wrong = (*look_at)();
    return (void *)(uintptr_t)wrong;
}

static void publish_nodes(struct hf_table *table, uint32_t nodes, char letter)
{
    for (uint32_t i = 0; i < nodes; i++) {
        struct hf_node_row row = {.replies = (uint64_t)letter};

        memset(row.id, letter, HF_NODE_TEXT_MAX);
        hf_node_publish(table, i, &row);
    }
}

/* The next agent has more nodes, or fewer, and the table stays. */
static void another_list_keeps_the_table(void **state)
{
    static const char *(*const looks[READERS])(void) = {look_at_terms, look_at_rows};
    struct fixture f = fixture_new();
    struct hf_table table, first;
    struct hf_node_row row;
    pthread_t thread[READERS];

    (void)state;
    atomic_store(&over, false);
    f.spec.ttl_ms = 3000;
    f.spec.ttl_max_ms = 6000;
    first = create_alive(&f);
    reader = first;
    reader.writable = false;
    reader.slots_there = reader.index_size = 0;
    for (uint32_t i = 0; i < NAMES; i++)
        put(&first, i, i);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(
            pthread_create(&thread[i], NULL, look_all_the_time, (void *)(uintptr_t)&looks[i]), 0);
    for (uint32_t k = 0; k < 1500; k++) {
        static const uint32_t counts[] = {3, 5, 9, 1, 4};
        uint32_t nodes = counts[k % HF_LENGTH(counts)];
        bool warm = false;

        f.spec.nodes = nodes;
        f.spec.quorum = nodes / 2 + 1;
        f.spec.ttl_ms = nodes * 1000;
        f.spec.ttl_max_ms = nodes * 2000;
        f.spec.slots_live = NAMES;
        its_agent_ends(&first);
        assert_int_equal(create(&f, &table, &warm), 0);
        assert_true(warm);
        publish_nodes(&first, nodes, (char)('a' + k % 26)); /* the mapping that readers have */
        hf_table_set_state(&first, HF_TABLE_ALIVE);
        for (uint32_t i = 0; i < HF_NODES_MAX; i++) {
            assert_int_equal(hf_node_read(&table, i, &row), HF_OK);
            assert_int_equal(row.id[0], i < nodes ? 'a' + k % 26 : 0);
        }
        assert_int_equal(hf_table_terms(&table).nodes, nodes);
        hf_table_close(&table);
    }
    atomic_store(&over, true);
    for (int i = 0; i < READERS; i++) {
        void *wrong;

        assert_int_equal(pthread_join(thread[i], &wrong), 0);
        if (wrong)
            fail_msg("race: %s", (const char *)wrong);
    }
    assert_true(atomic_load(&seen_whole));
    for (uint32_t i = 0; i < NAMES; i++) {
        struct hf_slot_view view;

        assert_int_equal(hf_slot_read(&first, i, &view), 0);
    }
    hf_table_close(&first);
    shm_unlink(f.name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_looks_meanwhile_sees_all_that_stands),
        cmocka_unit_test(another_list_keeps_the_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
