/* The text section's allocator of shm/table.h. */
#include "shm_fixture.h"

static struct hf_table table_of_units(uint64_t units)
{
    struct hf_table_spec spec = fixture_spec(4);
    char name[HF_TABLE_NAME_MAX], why[WHY_SIZE] = "";
    struct hf_table table;
    bool warm;

    spec.text_units = units;
    fixture_name(name);
    if (hf_table_create(name, &spec, &table, &warm, why, sizeof(why)) != 0)
        fail_msg("%s", why);
    shm_unlink(name);
    return table;
}

struct fixture {
    struct hf_table table;
    struct hf_text_pool *pool;
};

static void set_up(struct fixture *f, uint64_t units)
{
    f->table = table_of_units(units);
    assert_int_equal(f->table.text_units, units);
    assert_int_equal(hf_text_pool_create(&f->table, &f->pool), 0);
}

static void tear_down(struct fixture *f)
{
    hf_text_pool_destroy(f->pool);
    hf_table_close(&f->table);
}

static char filler[HF_NAME_MAX];

static int put(struct fixture *f, size_t len, uint32_t *ret_off)
{
    memset(filler, 'x', sizeof(filler));
    return hf_text_put(f->pool, filler, len, NULL, 0, NULL, 0, ret_off);
}

static void name_note_and_command_stand_behind_each_other(void **state)
{
    struct fixture f;
    uint32_t off;

    (void)state;
    set_up(&f, 16);
    assert_int_equal(hf_text_put(f.pool, "name", 4, "note", 4, "comm", 4, &off), 0);
    assert_memory_equal(f.table.text + (size_t)off * HF_TEXT_UNIT, "namenotecomm\0\0\0\0", 16);
    tear_down(&f);
}

static void texts_do_not_overlap_and_fill_the_section(void **state)
{
    struct fixture f;
    uint32_t off;
    bool taken[16] = {false};

    (void)state;
    set_up(&f, 16);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(put(&f, HF_TEXT_UNIT + 1, &off), 0);
        assert_true(off + 2 <= 16 && !taken[off] && !taken[off + 1]);
        taken[off] = taken[off + 1] = true;
    }
    assert_int_equal(put(&f, 1, &off), HF_EFULL);
    tear_down(&f);
}

static void what_is_dropped_is_joined_and_used_again(void **state)
{
    struct fixture f;
    uint32_t off, offs[8];

    (void)state;
    set_up(&f, 8);
    for (int i = 0; i < 8; i++)
        assert_int_equal(put(&f, 1, &offs[i]), 0);
    hf_text_drop(f.pool, offs[3], 1, 0, 0);
    hf_text_drop(f.pool, offs[5], 1, 0, 0);
    assert_int_equal(put(&f, 3 * HF_TEXT_UNIT, &off), HF_EFULL);
    hf_text_drop(f.pool, offs[4], 1, 0, 0);
    assert_int_equal(put(&f, 3 * HF_TEXT_UNIT, &off), 0);
    assert_int_equal(off, offs[3]);
    tear_down(&f);
}

/* An observer that still copies an ended lease's name is not given another's. */
static void a_place_is_not_used_again_at_once(void **state)
{
    struct fixture f;
    uint32_t first, second;

    (void)state;
    set_up(&f, 64);
    assert_int_equal(put(&f, 1, &first), 0);
    hf_text_drop(f.pool, first, 1, 0, 0);
    assert_int_equal(put(&f, 1, &second), 0);
    assert_int_not_equal(first, second);
    tear_down(&f);
}

static void room_over_the_seam_is_found(void **state)
{
    struct fixture f;
    uint32_t off, offs[6];

    (void)state;
    set_up(&f, 6);
    for (int i = 0; i < 6; i++)
        assert_int_equal(put(&f, 1, &offs[i]), 0);
    hf_text_drop(f.pool, offs[2], 1, 0, 0);
    assert_int_equal(put(&f, 1, &off), 0); /* the next search begins at 3 */
    hf_text_drop(f.pool, offs[2], 1, 0, 0);
    hf_text_drop(f.pool, offs[3], 1, 0, 0);
    assert_int_equal(put(&f, 2 * HF_TEXT_UNIT, &off), 0);
    assert_int_equal(off, 2);
    tear_down(&f);
}

static void lengths_out_of_range_are_refused(void **state)
{
    struct fixture f;
    uint32_t off = 99;

    (void)state;
    set_up(&f, 64);
    assert_int_equal(put(&f, 0, &off), HF_EINVAL);
    assert_int_equal(hf_text_put(f.pool, filler, HF_NAME_MAX + 1, NULL, 0, NULL, 0, &off),
                     HF_EINVAL);
    assert_int_equal(hf_text_put(f.pool, filler, 1, filler, HF_NOTE_MAX + 1, NULL, 0, &off),
                     HF_EINVAL);
    assert_int_equal(hf_text_put(f.pool, filler, 1, NULL, 0, filler, HF_COMM_MAX + 1, &off),
                     HF_EINVAL);
    assert_int_equal(off, 99);
    hf_text_drop(f.pool, 63, HF_NAME_MAX, 0, 0); /* over the end: ignored */
    hf_text_drop(f.pool, UINT32_MAX, 1, 0, 0);
    tear_down(&f);
}

static void reserved_places_are_not_given_out(void **state)
{
    struct fixture f;
    uint32_t off;

    (void)state;
    set_up(&f, 4);
    assert_int_equal(hf_text_pool_reserve(f.pool, 1, HF_TEXT_UNIT, 1, 0), 0); /* 1 and 2 */
    assert_int_equal(put(&f, 2 * HF_TEXT_UNIT, &off), HF_EFULL);
    assert_int_equal(put(&f, 1, &off), 0);
    assert_int_equal(off, 0);
    assert_int_equal(put(&f, 1, &off), 0);
    assert_int_equal(off, 3);
    hf_text_drop(f.pool, 1, HF_TEXT_UNIT, 1, 0);
    assert_int_equal(put(&f, 2 * HF_TEXT_UNIT, &off), 0);
    assert_int_equal(off, 1);
    tear_down(&f);
}

static void a_reservation_that_cannot_be_right_takes_nothing(void **state)
{
    struct fixture f;
    uint32_t off;

    (void)state;
    set_up(&f, 4);
    assert_int_equal(hf_text_pool_reserve(f.pool, 1, 1, 0, 0), 0);
    assert_int_equal(hf_text_pool_reserve(f.pool, 0, 2 * HF_TEXT_UNIT, 0, 0), HF_EINVAL);
    assert_int_equal(hf_text_pool_reserve(f.pool, 3, 2 * HF_TEXT_UNIT, 0, 0), HF_EINVAL);
    assert_int_equal(hf_text_pool_reserve(f.pool, 4, 1, 0, 0), HF_EINVAL);
    assert_int_equal(hf_text_pool_reserve(f.pool, UINT32_MAX, 1, 0, 0), HF_EINVAL);
    assert_int_equal(hf_text_pool_reserve(f.pool, 0, 0, 0, 0), HF_EINVAL);
    for (int i = 0; i < 3; i++)
        assert_int_equal(put(&f, 1, &off), 0);
    assert_int_equal(put(&f, 1, &off), HF_EFULL);
    tear_down(&f);
}

static void names_of_32_bytes_with_a_command_take_48(void **state)
{
    enum { CAPACITY = 1000 };
    struct fixture f = {.table = fixture_table(CAPACITY)};
    uint32_t off;

    (void)state;
    assert_int_equal(hf_text_pool_create(&f.table, &f.pool), 0);
    for (int i = 0; i < CAPACITY; i++) {
        assert_int_equal(hf_text_put(f.pool, filler, 32, "", 0, filler, HF_COMM_MAX, &off), 0);
        assert_int_equal(off, i * 3);
    }
    assert_int_equal(f.table.text_there, CAPACITY * 3);
    tear_down(&f);
}

/* Longer names take memory when they come; who mapped the table before sees them. */
static void text_grows_to_the_most_that_there_may_be(void **state)
{
    enum { CAPACITY = 10000, MOST = HF_TEXT_MOST / HF_TEXT_UNIT };
    struct hf_table_spec spec = fixture_spec(CAPACITY);
    char name[HF_TABLE_NAME_MAX], why[WHY_SIZE] = "";
    struct hf_table reader;
    struct hf_slot_view view;
    struct fixture f;
    uint32_t off;
    bool warm;

    (void)state;
    fixture_name(name);
    assert_int_equal(hf_table_create(name, &spec, &f.table, &warm, why, sizeof(why)), 0);
    hf_table_set_state(&f.table, HF_TABLE_ALIVE);
    assert_int_equal(hf_table_open(name, geteuid(), &reader, why, sizeof(why)), 0);
    assert_int_equal(hf_text_pool_create(&f.table, &f.pool), 0);
    assert_int_equal(hf_table_take_slots(&f.table, CAPACITY), 0);
    for (uint32_t i = 0; i < CAPACITY; i++) {
        assert_int_equal(put(&f, HF_TEXT_MOST, &off), 0);
        assert_int_equal(off, i * MOST);
        fixture_publish(&f.table, i, off, "x", 1, FIXTURE_DEADLINE);
        assert_int_equal(hf_slot_read(&reader, i, &view), 0);
        assert_int_equal(view.name[0], 'x');
    }
    assert_int_equal(put(&f, 1, &off), HF_EFULL);
    assert_int_equal(f.table.text_there, f.table.text_units);
    hf_text_drop(f.pool, 5 * MOST, HF_TEXT_MOST, 0, 0);
    assert_int_equal(put(&f, 1, &off), 0);
    hf_table_close(&reader);
    tear_down(&f);

    /* The next agent has as much at once. */
    assert_int_equal(hf_table_create(name, &spec, &f.table, &warm, why, sizeof(why)), 0);
    assert_true(warm);
    assert_int_equal(f.table.text_there, f.table.text_units);
    hf_table_close(&f.table);
    shm_unlink(name);
}

/* Against a plain map of what is taken. */
static void random_use_keeps_the_books(void **state)
{
    enum { UNITS = 333, HELD = 64 };
    struct fixture f;
    struct {
        uint32_t off;
        size_t len;
    } held[HELD] = {{0, 0}};
    bool taken[UNITS] = {false};

    (void)state;
    set_up(&f, UNITS);
    srand(7);
    for (int i = 0; i < 50000; i++) {
        unsigned k = (unsigned)rand() % HELD;
        unsigned n = (unsigned)((held[k].len + HF_TEXT_UNIT - 1) / HF_TEXT_UNIT);

        if (held[k].len) {
            hf_text_drop(f.pool, held[k].off, held[k].len, 0, 0);
            memset(taken + held[k].off, 0, n);
            held[k].len = 0;
            continue;
        }
        held[k].len = 1 + (size_t)rand() % HF_NAME_MAX;
        n = (unsigned)((held[k].len + HF_TEXT_UNIT - 1) / HF_TEXT_UNIT);
        if (put(&f, held[k].len, &held[k].off) != 0) {
            unsigned run = 0;

            for (unsigned u = 0; u < UNITS && run < n; u++)
                run = taken[u] ? 0 : run + 1;
            assert_true(run < n);
            held[k].len = 0;
            continue;
        }
        for (unsigned u = 0; u < n; u++) {
            assert_false(taken[held[k].off + u]);
            taken[held[k].off + u] = true;
        }
    }
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(name_note_and_command_stand_behind_each_other),
        cmocka_unit_test(texts_do_not_overlap_and_fill_the_section),
        cmocka_unit_test(what_is_dropped_is_joined_and_used_again),
        cmocka_unit_test(a_place_is_not_used_again_at_once),
        cmocka_unit_test(room_over_the_seam_is_found),
        cmocka_unit_test(lengths_out_of_range_are_refused),
        cmocka_unit_test(reserved_places_are_not_given_out),
        cmocka_unit_test(a_reservation_that_cannot_be_right_takes_nothing),
        cmocka_unit_test(names_of_32_bytes_with_a_command_take_48),
        cmocka_unit_test(text_grows_to_the_most_that_there_may_be),
        cmocka_unit_test(random_use_keeps_the_books),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
