/* shm/index.h: finding names, also while they come and go. */
#include "shm_fixture.h"

#include <pthread.h>
#include <time.h>

#include "shm/compiler.h"
#include "shm/index.h"

struct fixture {
    struct hf_table table;
    struct hf_text_pool *pool;
};

static void set_up(struct fixture *f, uint32_t capacity)
{
    f->table = fixture_table(capacity);
    assert_int_equal(hf_text_pool_create(&f->table, &f->pool), 0);
}

static void tear_down(struct fixture *f)
{
    hf_text_pool_destroy(f->pool);
    hf_table_close(&f->table);
}

static int add(struct fixture *f, const char *name, uint32_t slot, uint32_t generation)
{
    uint32_t off;

    assert_int_equal(hf_text_put(f->pool, name, strlen(name), NULL, 0, NULL, 0, &off), 0);
    fixture_publish(&f->table, slot, off, name, generation, FIXTURE_DEADLINE);
    return hf_index_add(&f->table, name, strlen(name), slot);
}

static void drop(struct fixture *f, const char *name, uint32_t slot)
{
    uint32_t off = atomic_load(&f->table.slots[slot].text_off);

    hf_index_remove(&f->table, name, strlen(name), slot);
    hf_slot_clear(&f->table.slots[slot]);
    hf_text_drop(f->pool, off, strlen(name), 0, 0);
}

static int find(struct fixture *f, const char *name, struct hf_slot_view *view)
{
    return hf_index_find(&f->table, name, strlen(name), view);
}

/* The reference vectors of SipHash-2-4, low 32 bits. */
static void the_hash_is_siphash(void **state)
{
    uint8_t key[16], text[16];

    (void)state;
    for (uint8_t i = 0; i < 16; i++)
        key[i] = text[i] = i;
    assert_int_equal(hf_name_hash(key, text, 0), 0xdd0e0e31);
    assert_int_equal(hf_name_hash(key, text, 15), 0x49be45e5);
}

static void a_name_is_found_and_lost(void **state)
{
    struct fixture f;
    struct hf_slot_view view;

    (void)state;
    set_up(&f, 8);
    assert_int_equal(find(&f, "a", &view), HF_ENOTHELD);
    assert_int_equal(add(&f, "a", 3, 5), 0);
    assert_int_equal(add(&f, "ab", 4, 6), 0);
    assert_int_equal(find(&f, "a", &view), 0);
    assert_int_equal(view.slot, 3);
    assert_int_equal(view.generation, 5);
    assert_int_equal(find(&f, "ab", &view), 0);
    assert_int_equal(view.slot, 4);
    assert_int_equal(atomic_load(&f.table.header->slots_used), 5);
    drop(&f, "a", 3);
    assert_int_equal(find(&f, "a", &view), HF_ENOTHELD);
    assert_int_equal(find(&f, "ab", &view), 0);
    tear_down(&f);
}

static void adding_again_changes_nothing(void **state)
{
    struct fixture f;
    struct hf_slot_view view;
    uint32_t entries = 0;

    (void)state;
    set_up(&f, 8);
    assert_int_equal(add(&f, "a", 3, 5), 0);
    assert_int_equal(hf_index_add(&f.table, "a", 1, 3), 0);
    for (uint32_t i = 0; i < 2 * f.table.index_size; i++)
        entries += atomic_load(&f.table.index[i]) != 0;
    assert_int_equal(entries, 1);
    drop(&f, "a", 3);
    assert_int_equal(find(&f, "a", &view), HF_ENOTHELD);
    tear_down(&f);
}

static void names_are_bytes(void **state)
{
    static const uint8_t name[] = {'x', 0, '\n'};
    struct hf_slot_identity id = {.generation = 1, .name_len = sizeof(name)};
    struct fixture f;
    struct hf_slot_view view;

    (void)state;
    set_up(&f, 8);
    assert_int_equal(hf_text_put(f.pool, name, sizeof(name), NULL, 0, NULL, 0, &id.text_off), 0);
    hf_slot_publish(&f.table.slots[0], &id, FIXTURE_DEADLINE, 2);
    assert_int_equal(hf_index_add(&f.table, name, sizeof(name), 0), 0);
    assert_int_equal(hf_index_find(&f.table, name, sizeof(name), &view), 0);
    assert_int_equal(hf_index_find(&f.table, name, 1, &view), HF_ENOTHELD);
    tear_down(&f);
}

static void arguments_out_of_range_are_refused(void **state)
{
    struct fixture f;
    struct hf_slot_view view;
    char name[HF_NAME_MAX + 1] = {0};

    (void)state;
    set_up(&f, 8);
    assert_int_equal(hf_index_add(&f.table, name, 0, 0), HF_EINVAL);
    assert_int_equal(hf_index_add(&f.table, name, sizeof(name), 0), HF_EINVAL);
    assert_int_equal(hf_index_add(&f.table, name, 1, 8), HF_EINVAL);
    assert_int_equal(hf_index_find(&f.table, name, 0, &view), HF_ENOTHELD);
    assert_int_equal(hf_index_find(&f.table, name, sizeof(name), &view), HF_ENOTHELD);
    hf_index_remove(&f.table, name, 0, 0);
    hf_index_remove(&f.table, "never", 5, 0);
    tear_down(&f);
}

static void a_full_table_finds_all_its_names(void **state)
{
    enum { CAPACITY = 4096 };
    struct fixture f;
    struct hf_slot_view view;
    char name[32];

    (void)state;
    set_up(&f, CAPACITY);
    for (uint32_t i = 0; i < CAPACITY; i++) {
        snprintf(name, sizeof(name), "name/%u", i);
        assert_int_equal(add(&f, name, i, i + 1), 0);
    }
    for (uint32_t i = 0; i < CAPACITY; i++) {
        snprintf(name, sizeof(name), "name/%u", i);
        assert_int_equal(find(&f, name, &view), 0);
        assert_int_equal(view.slot, i);
    }
    tear_down(&f);
}

static void tombstones_are_swept(void **state)
{
    struct fixture f;
    struct hf_slot_view view;
    uint32_t before, after;
    char name[32];

    (void)state;
    set_up(&f, 64);
    assert_int_equal(add(&f, "stays", 63, 1), 0);
    before = atomic_load(&f.table.header->index_seq);
    for (uint32_t i = 0; i < 10000; i++) {
        snprintf(name, sizeof(name), "comes and goes %u", i);
        assert_int_equal(add(&f, name, i % 60, i + 1), 0);
        assert_int_equal(find(&f, name, &view), 0);
        drop(&f, name, i % 60);
        assert_int_equal(find(&f, name, &view), HF_ENOTHELD);
        assert_int_equal(find(&f, "stays", &view), 0);
    }
    after = atomic_load(&f.table.header->index_seq);
    assert_true(after - before >= 2 * 50);
    assert_int_equal(after % 2, 0);
    tear_down(&f);
}

/* What a local user who read the key can do, and all that it gets: its own names refused. */
static void names_that_collide_are_found(void **state)
{
    enum { CAPACITY = 1000, COLLIDING = HF_INDEX_PROBES };
    struct fixture f;
    struct hf_slot_view view;
    uint32_t mask, added = 0, last = 0;
    char name[32];

    (void)state;
    set_up(&f, CAPACITY);
    mask = f.table.index_size - 1;
    for (uint32_t i = 0; added <= COLLIDING; i++) {
        snprintf(name, sizeof(name), "c%u", i);
        if ((hf_name_hash(f.table.header->index_key, name, strlen(name)) & mask) != 0)
            continue;
        assert_int_equal(add(&f, name, added, added + 1), added < COLLIDING ? 0 : HF_EFULL);
        last = added < COLLIDING ? i : last;
        added++;
    }
    assert_int_equal(find(&f, name, &view), HF_ENOTHELD);
    hf_index_unindexed(&f.table, 1);
    assert_int_equal(find(&f, name, &view), 0);
    assert_int_equal(view.generation, COLLIDING + 1);
    assert_int_equal(find(&f, "nobody's", &view), HF_ENOTHELD);
    hf_index_unindexed(&f.table, -1);
    assert_int_equal(find(&f, name, &view), HF_ENOTHELD);
    hf_index_rebuild(&f.table);
    assert_int_equal(atomic_load(&f.table.header->unindexed), 1);
    assert_int_equal(find(&f, name, &view), 0);
    snprintf(name, sizeof(name), "c%u", last);
    assert_int_equal(find(&f, name, &view), 0);
    assert_int_equal(add(&f, "another", CAPACITY - 1, 1), 0);
    assert_int_equal(find(&f, "another", &view), 0);
    tear_down(&f);
}

static void entries_that_lead_nowhere_are_passed_over(void **state)
{
    struct fixture f;
    struct hf_slot_view view;
    uint32_t hash;

    (void)state;
    set_up(&f, 8);
    hash = hf_name_hash(f.table.header->index_key, "a", 1);
    atomic_store(&f.table.index[hash & (f.table.index_size - 1)], (uint64_t)hash << 32 | 1000000);
    assert_int_equal(find(&f, "a", &view), HF_ENOTHELD);
    assert_int_equal(add(&f, "a", 1, 1), 0);
    assert_int_equal(find(&f, "a", &view), 0);
    tear_down(&f);
}

static void a_slot_that_cannot_be_read_is_no_miss(void **state)
{
    struct fixture f;
    struct hf_slot_view view;

    (void)state;
    set_up(&f, 8);
    assert_int_equal(add(&f, "a", 1, 1), 0);
    atomic_fetch_add(&f.table.slots[1].seq, 1);
    assert_int_equal(find(&f, "a", &view), HF_ETABLE);
    tear_down(&f);
}

static void a_warm_restart_rebuilds_from_the_slots(void **state)
{
    struct fixture f;
    struct hf_slot_view view;

    (void)state;
    set_up(&f, 8);
    assert_int_equal(add(&f, "a", 1, 1), 0);
    assert_int_equal(add(&f, "b", 6, 2), 0);
    /* As an agent killed in the midst of a flip leaves it. */
    atomic_fetch_add(&f.table.header->index_seq, 1);
    atomic_store(&f.table.header->slots_used, 0);
    for (uint32_t i = 0; i < 2 * f.table.index_size; i++)
        atomic_store(&f.table.index[i], i % 3 ? UINT64_MAX : 0);
    assert_int_equal(find(&f, "a", &view), HF_ETABLE);

    hf_index_rebuild(&f.table);
    assert_int_equal(find(&f, "a", &view), 0);
    assert_int_equal(find(&f, "b", &view), 0);
    assert_int_equal(find(&f, "c", &view), HF_ENOTHELD);
    assert_int_equal(atomic_load(&f.table.header->slots_used), 7);
    assert_int_equal(atomic_load(&f.table.header->index_seq) % 2, 0);
    tear_down(&f);
}

/* --- readers beside rebuilds ------------------------------------------------------------------ */

#define STABLE 16

struct race {
    struct fixture f;
    _Atomic bool stop;
    _Atomic uint64_t finds;
};

static void *look_up(void *arg)
{
    struct race *race = arg;
    struct hf_slot_view view;
    char name[32];

    for (uint32_t i = 0; !atomic_load(&race->stop); i++) {
        int status;

        snprintf(name, sizeof(name), "stable %u", i % STABLE);
        status = find(&race->f, name, &view);
        if (status == HF_ENOTHELD)
            return "a name that is there was not found";
        if (status == 0 && view.slot != i % STABLE)
            return "a name was found in another's slot";
        atomic_fetch_add(&race->finds, status == 0);
    }
    return NULL;
}

static void readers_miss_nothing_while_the_index_is_rebuilt(void **state)
{
    struct race race = {.stop = false};
    pthread_t readers[2];
    const char *wrong = NULL;
    char name[32];
    uint32_t flips;
    time_t end = time(NULL) + 20;

    (void)state;
    set_up(&race.f, 64);
    for (uint32_t i = 0; i < STABLE; i++) {
        snprintf(name, sizeof(name), "stable %u", i);
        assert_int_equal(add(&race.f, name, i, i + 1), 0);
    }
    for (size_t i = 0; i < HF_LENGTH(readers); i++)
        assert_int_equal(pthread_create(&readers[i], NULL, look_up, &race), 0);
    for (uint32_t i = 0; time(NULL) < end && (i < 50000 || atomic_load(&race.finds) < 1000); i++) {
        snprintf(name, sizeof(name), "short-lived %u", i);
        assert_int_equal(add(&race.f, name, STABLE + i % 40, i % HF_GEN_MAX + 1), 0);
        drop(&race.f, name, STABLE + i % 40);
    }
    atomic_store(&race.stop, true);
    for (size_t i = 0; i < HF_LENGTH(readers); i++) {
        void *said;

        pthread_join(readers[i], &said);
        wrong = said ? said : wrong;
    }
    flips = atomic_load(&race.f.table.header->index_seq) / 2;
    if (wrong)
        fail_msg("race: %s", wrong);
    assert_true(flips > 20);
    assert_true(atomic_load(&race.finds) > 0);
    tear_down(&race.f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_hash_is_siphash),
        cmocka_unit_test(a_name_is_found_and_lost),
        cmocka_unit_test(adding_again_changes_nothing),
        cmocka_unit_test(names_are_bytes),
        cmocka_unit_test(arguments_out_of_range_are_refused),
        cmocka_unit_test(a_full_table_finds_all_its_names),
        cmocka_unit_test(tombstones_are_swept),
        cmocka_unit_test(names_that_collide_are_found),
        cmocka_unit_test(entries_that_lead_nowhere_are_passed_over),
        cmocka_unit_test(a_slot_that_cannot_be_read_is_no_miss),
        cmocka_unit_test(a_warm_restart_rebuilds_from_the_slots),
        cmocka_unit_test(readers_miss_nothing_while_the_index_is_rebuilt),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
