/* shm/'s writers, killed between any two of their stores.
 *
 * Each case is a list of calls as the agent makes them. The states at the calls' boundaries say what
 * may be seen; then the whole list is run in a child that keeps the state after every store, and each
 * of them is looked at by readers, recovered from as agent/broker/locks/readopt.c does it, and looked at again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/torture/world.h"

#define CALLS_MAX 6

/* A call, and what it needs. */
typedef void call_fn(void);

struct torture {
    const char *title;
    void (*prepare)(void);
    call_fn *call[CALLS_MAX];
    uint32_t slot;         /* the one that the calls are about */
    void (*recover)(void); /* rewrites that slot, as the journal says */
};

static uint32_t off_a, off_b, off_new;

/* --- calls ------------------------------------------------------------------------------------ */

static void put_b(void)
{
    off_b = put_text(22, "b");
}

static void publish_b(void)
{
    publish(2, 22, "b", off_b);
}

static void add_b(void)
{
    assert_int_equal(hf_index_add(&table, "b", 1, 2), 0);
}

static void put_a_again(void)
{
    off_new = put_text(12, "a");
}

static void publish_a_again(void)
{
    publish(1, 12, "a", off_new);
}

static void drop_old_text_of_a(void)
{
    hf_text_drop(pool, off_a, 1, strlen("note 11"), 4);
}

static void publish_a_as_it_was(void)
{
    publish(1, 11, "a", off_a);
}

static void extend_a(void)
{
    hf_slot_extend(&table.slots[1], deadline_of(500), 3);
}

static void cut_a(void)
{
    hf_slot_extend(&table.slots[1], deadline_of(2), 1);
}

static void mark_a(void)
{
    hf_slot_mark(&table.slots[1], HF_SLOT_LOSING, HF_SLOT_F_ORPHAN, HF_LOSS_FOREIGN);
}

static void withdraw_a(void)
{
    hf_slot_withdraw(&table.slots[1]);
}

static void end_a(void)
{
    hf_slot_end(&table.slots[1], HF_SLOT_LOST, HF_LOSS_QUORUM);
}

static void remove_a(void)
{
    hf_index_remove(&table, "a", 1, 1);
}

static void clear_a(void)
{
    hf_slot_clear(&table.slots[1]);
}

static void put_c_in_place_of_a(void)
{
    off_new = put_text(12, "c");
}

static void publish_c_in_place_of_a(void)
{
    publish(1, 12, "c", off_new);
}

static void add_c_in_place_of_a(void)
{
    assert_int_equal(hf_index_add(&table, "c", 1, 1), 0);
}

static void rebuild(void)
{
    hf_index_rebuild(&table);
}

/* --- before and after ------------------------------------------------------------------------- */

static void know(const char *name)
{
    snprintf(names[name_count++], sizeof(names[0]), "%s", name);
}

/* "a" in slot 1, and two others that nothing is done to. */
static void prepare_a(void)
{
    know("a");
    know("kept");
    know("kept too");
    know("b");
    know("c");
    know("never there");
    hold(0, 31, "kept");
    off_a = hold(1, 11, "a");
    hold(3, 41, "kept too");
}

/* The next removal compacts the index. */
static void prepare_tombs(void)
{
    prepare_a();
    for (uint32_t i = 0; table.index_tombs + 1 < table.index_size / 4; i++) {
        char name[32];
        int len = snprintf(name, sizeof(name), "gone %u", i);

        assert_int_equal(hf_index_add(&table, name, (size_t)len, 5), 0);
        hf_index_remove(&table, name, (size_t)len, 5);
    }
}

/* All of them at the same place of the index, and two with one hash: "a" behind all. */
static void prepare_collisions(void)
{
    uint32_t mask = table.index_size - 1, place, slot = 2;
    char name[32];

    know("a");
    place = hf_name_hash(reader.header->index_key, "a", 1) & mask;
    for (uint32_t i = 0; slot < CAPACITY; i++) {
        int len = snprintf(name, sizeof(name), "same place %u", i);

        if ((hf_name_hash(reader.header->index_key, name, (size_t)len) & mask) != place)
            continue;
        know(name);
        hold(slot, 30 + slot, name);
        slot++;
    }
    know("c");
    off_a = hold(1, 11, "a");
}

static void recover_as_free(void)
{
    hf_slot_clear(&table.slots[1]);
}

static void recover_as_a(void)
{
    publish(1, 11, "a", off_a);
}

static void recover_as_a_again(void)
{
    publish(1, 12, "a", put_text(12, "a"));
}

static void recover_as_b(void)
{
    publish(2, 22, "b", put_text(22, "b"));
}

static void recover_as_c(void)
{
    publish(1, 12, "c", put_text(12, "c"));
}

static void take_slots(void)
{
    assert_int_equal(hf_table_take_slots(&table, ROOM), 0);
}

static const struct torture cases[] = {
    {"a name that never had a slot", prepare_a, {put_b, publish_b, add_b}, 2, recover_as_b},
    {"the next lease of a name",
     prepare_a,
     {withdraw_a, end_a, put_a_again, publish_a_again, drop_old_text_of_a},
     1,
     recover_as_a_again},
    {"a lease readopted", prepare_a, {publish_a_as_it_was}, 1, recover_as_a},
    {"an extension", prepare_a, {extend_a}, 1, recover_as_a},
    {"V moves back", prepare_a, {cut_a}, 1, recover_as_a},
    {"a state", prepare_a, {mark_a}, 1, recover_as_a},
    {"an end", prepare_a, {withdraw_a, end_a}, 1, recover_as_free},
    {"a name leaves its slot",
     prepare_a,
     {withdraw_a, end_a, remove_a, clear_a},
     1,
     recover_as_free},
    {"a slot for another name",
     prepare_a,
     {remove_a, clear_a, put_c_in_place_of_a, publish_c_in_place_of_a, add_c_in_place_of_a},
     1,
     recover_as_c},
    {"a removal that compacts the index", prepare_tombs, {remove_a, clear_a}, 1, recover_as_free},
    {"a rebuilt index", prepare_tombs, {rebuild}, 1, recover_as_a},
    {"an index for more slots", prepare_tombs, {take_slots, rebuild}, 1, recover_as_a},
    {"the first name with more slots",
     prepare_a,
     {take_slots, put_b, publish_b, add_b},
     2,
     recover_as_b},
    {"names that collide",
     prepare_collisions,
     {remove_a, clear_a, put_c_in_place_of_a, publish_c_in_place_of_a, add_c_in_place_of_a},
     1,
     recover_as_c},
};

/* --- judging ---------------------------------------------------------------------------------- */

static char wrong[400];

/* The first counts. */
static HF_PRINTF(1, 2) void is_wrong(const char *format, ...)
{
    va_list args;

    if (*wrong)
        return;
    va_start(args, format);
    vsnprintf(wrong, sizeof(wrong), format, args);
    va_end(args);
}

/* `now` against what stands at the boundaries of the calls, `count` of them with the first. */
static void judge(const struct sight *now, const struct sight *at, int count, uint32_t slot)
{
    for (uint32_t i = 0; i < CAPACITY; i++) {
        bool view_fine = now->status[i] == HF_ETABLE && now->odd[i], check_fine = false;
        uint32_t generation = (uint32_t)(now->check[i] >> HF_CHECK_GEN_SHIFT);

        for (int c = 0; c < count; c++) {
            view_fine |= same_view(now, &at[c], i);
            check_fine |= now->check[i] == at[c].check[i];
        }
        if (!view_fine)
            is_wrong("slot %u: status %d, generation %u, name %.*s: never published", i,
                     now->status[i], now->view[i].generation, now->view[i].name_len,
                     (const char *)now->view[i].name);
        if (!check_fine)
            is_wrong("slot %u: check word %#llx: never stored", i,
                     (unsigned long long)now->check[i]);
        if (i != slot && now->odd[i])
            is_wrong("slot %u is odd: nobody wrote it", i);
        /* A lease's first word is its last store: its observers see it by then. */
        if (generation != at[0].check[i] >> HF_CHECK_GEN_SHIFT && generation != 0 &&
            (now->status[i] != 0 || now->view[i].generation != generation))
            is_wrong("slot %u: the check word is ahead of what it is about", i);
    }
    for (int n = 0; n < name_count; n++) {
        bool fine = false, always = true;

        for (int c = 0; c < count; c++) {
            fine |= now->found[n] == at[c].found[n] && now->found_slot[n] == at[c].found_slot[n];
            always &= at[c].found[n] == 0;
        }
        /* Not to know is allowed only where nobody can: never of a name that nothing is done to. */
        if (now->found[n] == HF_ETABLE && (now->index_odd || now->odd[slot]))
            fine = !always || at[0].found_slot[n] == slot;
        if (!fine)
            is_wrong("%s: found %d in slot %d", names[n], now->found[n], (int)now->found_slot[n]);
    }
}

/* What agent/broker/locks/readopt.c does, with a pool that knows nothing: the slot from the journal, the index
 * from the slots. */
static void recover(const struct torture *t)
{
    table.index_tombs = 0;
    /* As hf_table_create() finds it. */
    table.slots_there = atomic_load(&table.header->slots_there);
    table.index_there = atomic_load(&table.header->index_size);
    table.index_tried = 0;
    table.index_size = hf_index_size_in(atomic_load(&table.header->index_area));
    hf_text_pool_destroy(pool);
    assert_int_equal(hf_text_pool_create(&table, &pool), 0);
    for (uint32_t i = 0; i < CAPACITY; i++) {
        struct hf_slot_view view;

        if (i != t->slot && hf_slot_read(&table, i, &view) == 0 &&
            hf_text_pool_reserve(pool, atomic_load(&table.slots[i].text_off), view.name_len,
                                 view.note_len, view.comm_len) != 0)
            is_wrong("recovered: slot %u: its text lies in another's", i);
    }
    if (t->recover == recover_as_a &&
        hf_text_pool_reserve(pool, off_a, 1, strlen("note 11"), 4) != 0)
        is_wrong("recovered: the text of a lies in another's");
    t->recover();
    atomic_store(&table.header->slots_used, CAPACITY);
    hf_index_rebuild(&table);
}

/* After recovery: all as in `wanted`, nothing odd, and the index has each name once. */
static void judge_recovered(const struct sight *now, const struct sight *wanted)
{
    uint32_t used = 0, entries = 0;
    uint32_t area = atomic_load(&table.header->index_area) & 1;

    for (uint32_t i = 0; i < CAPACITY; i++) {
        if (now->odd[i] || !same_view(now, wanted, i))
            is_wrong("recovered: slot %u: status %d, generation %u", i, now->status[i],
                     now->view[i].generation);
        if (now->check[i] != wanted->check[i])
            is_wrong("recovered: slot %u: check word %#llx", i, (unsigned long long)now->check[i]);
        used += now->status[i] == 0;
    }
    for (int n = 0; n < name_count; n++)
        if (now->found[n] != wanted->found[n] || now->found_slot[n] != wanted->found_slot[n])
            is_wrong("recovered: %s: found %d", names[n], now->found[n]);
    for (uint32_t i = 0; i < table.index_size; i++) {
        uint64_t entry = atomic_load(&table.index[(size_t)area * table.index_room + i]);

        entries += entry != 0 && hf_index_slot_of(entry) != HF_INDEX_TOMB;
    }
    if (now->index_odd || entries != used)
        is_wrong("recovered: %u index entries for %u names", entries, used);
}

static void run_calls(void *arg)
{
    call_fn *const *call = arg;

    for (int c = 0; c < CALLS_MAX && call[c]; c++)
        call[c]();
}

/* Returns the number of states; `wrong` says what is wrong with the first that is. */
static unsigned long torture(const struct torture *t, bool tells)
{
    struct sight at[CALLS_MAX + 1], now, wanted;
    struct store_log *log;
    int count = 0;
    unsigned long states;

    *wrong = '\0';
    make_world();
    t->prepare();
    /* First in the child: what it does to its own memory is not seen here. */
    log = stores_of(run_calls, (void *)t->call, &whole, 1, NULL);
    assert_non_null(log);
    store_log_restore(log, 0);
    look(&at[count++]);
    for (int c = 0; c < CALLS_MAX && t->call[c]; c++) {
        t->call[c]();
        look(&at[count++]);
    }
    recover(t);
    look(&wanted);

    for (uint32_t i = 0; i < log->count && !*wrong; i++) {
        store_log_restore(log, i);
        look(&now);
        judge(&now, at, count, t->slot);
        recover(t);
        look(&now);
        judge_recovered(&now, &wanted);
        if (*wrong && tells)
            fprintf(stderr, "%s: killed after store %u of %u, at %#llx: %s\n", t->title, i,
                    log->count - 1, (unsigned long long)store_log_moment(log, i)->ip, wrong);
    }
    states = log->count;
    stores_free(log);
    end_world();
    return states;
}

static void every_store_of_every_writer(void **state)
{
    unsigned long points = 0;

    (void)state;
    for (size_t i = 0; i < HF_LENGTH(cases); i++) {
        unsigned long n = torture(&cases[i], true);

        print_message("# %4lu fault points: %s\n", n, cases[i].title);
        points += n;
        assert_string_equal(wrong, "");
    }
    print_message("# %lu fault points, 0 violations\n", points);
    assert_true(points > 150);
}

/* --- writers that do it wrong: each must be caught -------------------------------------------- */

static void raise_the_word_first(void)
{
    atomic_store(&table.slots[2].check, hf_check_pack(22, deadline_of(22)));
    publish_b();
}

static void publish_without_the_count(void)
{
    struct hf_slot *slot = &table.slots[1];

    atomic_store(&slot->generation, 12);
    atomic_store(&slot->pid, 36);
    publish_a_again();
}

static void put_text_over_another(void)
{
    memcpy(table.text + (size_t)off_a * HF_TEXT_UNIT, "ccccccccccccc", 13);
    publish(1, 12, "c", off_a);
}

static void publish_through_zero(void)
{
    hf_slot_withdraw(&table.slots[1]);
    publish_a_as_it_was();
}

static void compact_in_place(void)
{
    for (uint32_t i = 0; i < table.index_size; i++)
        atomic_store(&table.index[i], 0);
    assert_int_equal(hf_index_add(&table, "kept", 4, 0), 0);
    assert_int_equal(hf_index_add(&table, "kept too", 8, 3), 0);
    assert_int_equal(hf_index_add(&table, "a", 1, 1), 0);
}

static void flip_before_it_is_filled(void)
{
    uint32_t area = !(atomic_load(&table.header->index_area) & 1);

    memset((void *)(table.index + (size_t)area * table.index_room), 0,
           table.index_size * sizeof(*table.index));
    atomic_store(&table.header->index_area, hf_index_area_word(area, table.index_size));
    compact_in_place();
}

static const struct torture controls[] = {
    {"the word before the rest", prepare_a, {put_b, raise_the_word_first, add_b}, 2, recover_as_b},
    {"fields outside the count",
     prepare_a,
     {put_a_again, publish_without_the_count},
     1,
     recover_as_a_again},
    {"text over a text in use", prepare_a, {put_text_over_another}, 1, recover_as_c},
    {"a lease readopted through 0", prepare_a, {publish_through_zero}, 1, recover_as_a},
    {"a removal in the area in use", prepare_a, {compact_in_place}, 1, recover_as_a},
    {"an index flipped too early", prepare_a, {flip_before_it_is_filled}, 1, recover_as_a},
};

static void writers_that_do_it_wrong_are_caught(void **state)
{
    (void)state;
    for (size_t i = 0; i < HF_LENGTH(controls); i++) {
        (void)torture(&controls[i], false);
        print_message("# %s: %s\n", controls[i].title, *wrong ? wrong : "nothing was found");
        assert_string_not_equal(wrong, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_store_of_every_writer),
        cmocka_unit_test(writers_that_do_it_wrong_are_caught),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
