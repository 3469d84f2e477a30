/* shm/slot.h: the check word, and what observers see of a slot while it changes. */
#include "shm_fixture.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include "shm/compiler.h"

static uint32_t put_name(struct hf_text_pool *pool, const char *name)
{
    uint32_t off;

    assert_int_equal(hf_text_put(pool, name, strlen(name), NULL, 0, NULL, 0, &off), 0);
    return off;
}

/* --- the check word --------------------------------------------------------------------------- */

static void the_word_holds_until_the_deadline_rounded_down(void **state)
{
    const hf_time deadline = {1000 * TICK + TICK - 1};
    uint64_t word = hf_check_pack(7, deadline);

    (void)state;
    assert_int_equal(word, UINT64_C(7) << 40 | 1000);
    assert_true(hf_check_holds(word, 7, (hf_time){0}));
    assert_true(hf_check_holds(word, 7, (hf_time){1000 * TICK - 1}));
    assert_false(hf_check_holds(word, 7, (hf_time){1000 * TICK}));
    assert_false(hf_check_holds(word, 7, deadline));
    assert_false(hf_check_holds(word, 7, HF_TIME_NEVER));
}

static void the_word_holds_for_its_generation_only(void **state)
{
    (void)state;
    assert_false(hf_check_holds(hf_check_pack(7, FIXTURE_DEADLINE), 6, (hf_time){0}));
    assert_true(
        hf_check_holds(hf_check_pack(HF_GEN_MAX, FIXTURE_DEADLINE), HF_GEN_MAX, (hf_time){0}));
    assert_false(hf_check_holds(0, 0, (hf_time){0}));
    assert_false(hf_check_holds(1000, 0, (hf_time){0}));
}

static void a_deadline_that_is_none_makes_no_word(void **state)
{
    (void)state;
    assert_int_equal(hf_check_pack(7, (hf_time){0}), 0);
    assert_int_equal(hf_check_pack(7, (hf_time){-1}), 0);
    assert_int_equal(hf_check_pack(7, HF_TIME_PAST), 0);
}

static void a_deadline_out_of_range_leaves_the_generation_alone(void **state)
{
    uint64_t word = hf_check_pack(7, HF_TIME_NEVER);

    (void)state;
    assert_int_equal(word, UINT64_C(7) << 40 | HF_CHECK_TIME_MASK);
}

/* --- one thread ------------------------------------------------------------------------------- */

static void a_lease_can_be_read_back(void **state)
{
    static const uint8_t name[] = {'a', 0, '\n', 0xff, 'b'};
    struct hf_table table = fixture_table(4);
    struct hf_text_pool *pool;
    struct hf_slot_view view;
    struct hf_slot_identity id = {.generation = 9,
                                  .pid = 10,
                                  .uid = 11,
                                  .ttl_ms = 12,
                                  .flags = HF_SLOT_F_JOB,
                                  .name_len = sizeof(name),
                                  .note_len = 4,
                                  .comm_len = 3,
                                  .fence = UINT64_C(0x123456789abc0000),
                                  .since = {77}};

    (void)state;
    assert_int_equal(hf_text_pool_create(&table, &pool), 0);
    assert_int_equal(hf_text_put(pool, name, sizeof(name), "note", 4, "cmd", 3, &id.text_off), 0);
    hf_slot_publish(&table.slots[2], &id, FIXTURE_DEADLINE, 3);

    assert_int_equal(hf_slot_read(&table, 2, &view), 0);
    assert_int_equal(view.slot, 2);
    assert_int_equal(view.generation, 9);
    assert_int_equal(view.state, HF_SLOT_HELD);
    assert_int_equal(view.flags, HF_SLOT_F_JOB);
    assert_int_equal(view.reason, HF_LOSS_NONE);
    assert_int_equal(view.votes, 3);
    assert_int_equal(view.deadline.ns, FIXTURE_DEADLINE.ns);
    assert_int_equal(view.since.ns, 77);
    assert_int_equal(view.fence, UINT64_C(0x123456789abc0000));
    assert_int_equal(view.pid, 10);
    assert_int_equal(view.uid, 11);
    assert_int_equal(view.ttl_ms, 12);
    assert_int_equal(view.name_len, sizeof(name));
    assert_memory_equal(view.name, name, sizeof(name));
    assert_string_equal(view.note, "note");
    assert_string_equal(view.comm, "cmd");
    assert_true(hf_check_holds(atomic_load(&table.slots[2].check), 9, (hf_time){0}));

    hf_text_pool_destroy(pool);
    hf_table_close(&table);
}

static void the_longest_texts_fit(void **state)
{
    struct hf_table table = fixture_table(8);
    struct hf_text_pool *pool;
    struct hf_slot_view view;
    char name[HF_NAME_MAX], note[HF_NOTE_MAX], comm[HF_COMM_MAX];
    struct hf_slot_identity id = {.generation = 1,
                                  .name_len = sizeof(name),
                                  .note_len = sizeof(note),
                                  .comm_len = sizeof(comm)};

    (void)state;
    memset(name, 'n', sizeof(name));
    memset(note, 'o', sizeof(note));
    memset(comm, 'c', sizeof(comm));
    assert_int_equal(hf_text_pool_create(&table, &pool), 0);
    assert_int_equal(
        hf_text_put(pool, name, sizeof(name), note, sizeof(note), comm, sizeof(comm), &id.text_off),
        0);
    hf_slot_publish(&table.slots[0], &id, FIXTURE_DEADLINE, 2);
    assert_int_equal(hf_slot_read(&table, 0, &view), 0);
    assert_memory_equal(view.name, name, sizeof(name));
    assert_memory_equal(view.note, note, sizeof(note));
    assert_memory_equal(view.comm, comm, sizeof(comm));
    assert_int_equal(view.note[HF_NOTE_MAX], 0);
    assert_int_equal(view.comm[HF_COMM_MAX], 0);
    hf_text_pool_destroy(pool);
    hf_table_close(&table);
}

static void a_lease_goes_through_its_states(void **state)
{
    struct hf_table table = fixture_table(1);
    struct hf_slot *slot = &table.slots[0];
    struct hf_text_pool *pool;
    struct hf_slot_view view;

    (void)state;
    assert_int_equal(hf_text_pool_create(&table, &pool), 0);
    fixture_publish(&table, 0, put_name(pool, "name"), "name", 5, FIXTURE_DEADLINE);

    hf_slot_mark(slot, HF_SLOT_LATE, HF_SLOT_F_JOB, HF_LOSS_NONE);
    assert_int_equal(hf_slot_read(&table, 0, &view), 0);
    assert_int_equal(view.state, HF_SLOT_LATE);
    assert_int_equal(view.flags, HF_SLOT_F_JOB);
    assert_int_equal(view.votes, 2);
    assert_true(hf_check_holds(atomic_load(&slot->check), 5, (hf_time){0}));

    hf_slot_extend(slot, (hf_time){2000 * TICK}, 3);
    assert_int_equal(hf_slot_read(&table, 0, &view), 0);
    assert_int_equal(view.state, HF_SLOT_LATE);
    assert_int_equal(view.votes, 3);
    assert_int_equal(view.deadline.ns, 2000 * TICK);
    assert_true(hf_check_holds(atomic_load(&slot->check), 5, (hf_time){1999 * TICK}));

    hf_slot_extend(slot, (hf_time){500 * TICK}, 2); /* a voided vote */
    assert_false(hf_check_holds(atomic_load(&slot->check), 5, (hf_time){500 * TICK}));
    hf_slot_extend(slot, HF_TIME_PAST, 0); /* so many that nothing is left */
    assert_int_equal(atomic_load(&slot->check), 0);

    hf_slot_extend(slot, FIXTURE_DEADLINE, 2);
    hf_slot_mark(slot, HF_SLOT_LOSING, 0, HF_LOSS_QUORUM);
    hf_slot_withdraw(slot);
    assert_int_equal(atomic_load(&slot->check), 0);
    hf_slot_end(slot, HF_SLOT_LOST, HF_LOSS_QUORUM);
    assert_int_equal(hf_slot_read(&table, 0, &view), 0);
    assert_int_equal(view.state, HF_SLOT_LOST);
    assert_int_equal(view.reason, HF_LOSS_QUORUM);
    assert_int_equal(view.deadline.ns, 0);
    assert_int_equal(view.generation, 5);
    assert_memory_equal(view.name, "name", 4);

    hf_slot_clear(slot);
    assert_int_equal(hf_slot_read(&table, 0, &view), HF_ENOTHELD);
    hf_text_pool_destroy(pool);
    hf_table_close(&table);
}

/* A warm restart writes the lease of a living holder again. */
static void publishing_again_never_passes_through_not_held(void **state)
{
    struct hf_table table = fixture_table(1);
    struct hf_slot *slot = &table.slots[0];

    (void)state;
    fixture_publish(&table, 0, 0, "n", 5, FIXTURE_DEADLINE);
    fixture_publish(&table, 0, 0, "n", 5, (hf_time){2000 * TICK});
    assert_true(hf_check_holds(atomic_load(&slot->check), 5, (hf_time){1999 * TICK}));
    hf_table_close(&table);
}

static void numbers_out_of_range_and_free_slots_are_told_apart(void **state)
{
    struct hf_table table = fixture_table(3);
    struct hf_slot_view view;

    (void)state;
    assert_int_equal(hf_slot_read(&table, 2, &view), HF_ENOTHELD);
    assert_int_equal(hf_slot_read(&table, 3, &view), HF_EINVAL);
    assert_int_equal(hf_slot_read(&table, HF_SLOT_NONE, &view), HF_EINVAL);
    hf_table_close(&table);
}

static void lengths_and_offsets_that_cannot_be_right_are_not_followed(void **state)
{
    struct hf_table table = fixture_table(2);
    struct hf_slot *slot = &table.slots[0];
    struct hf_slot_view view;
    static const struct {
        uint32_t text_off, lengths;
    } bad[] = {
        {UINT32_MAX, 1 | HF_SLOT_HELD << 24},   {6, 1 | HF_SLOT_HELD << 24}, /* 6 are there */
        {5, 17 | HF_SLOT_HELD << 24},           {0, 1 | 128 << 8 | HF_SLOT_HELD << 24},
        {0, 1 | 16 << 16 | HF_SLOT_HELD << 24}, {0, 1 | UINT32_C(6) << 24},
    };

    (void)state;
    fixture_publish(&table, 0, 0, "n", 1, FIXTURE_DEADLINE);
    for (size_t i = 0; i < HF_LENGTH(bad); i++) {
        atomic_store(&slot->text_off, bad[i].text_off);
        atomic_store(&slot->lengths, bad[i].lengths);
        memset(&view, 0x55, sizeof(view));
        assert_int_equal(hf_slot_read(&table, 0, &view), HF_ETABLE);
        assert_int_equal(view.generation, 0x55555555); /* written only on success */
    }
    hf_table_close(&table);
}

/* --- readers beside a writer ------------------------------------------------------------------ */

#define NAMES 5

struct race {
    struct hf_table table;
    uint32_t offs[NAMES];
    _Atomic bool stop;
    _Atomic uint64_t reads;
};

/* The name of a generation; lengths differ, so a mixture of two shows. */
static void name_of(uint32_t generation, char name[80])
{
    unsigned kind = generation % NAMES;

    memset(name, 'a' + (int)kind, kind * 15 + 1);
    name[kind * 15 + 1] = '\0';
}

static void *write_slot(void *arg)
{
    struct race *race = arg;
    struct hf_slot *slot = &race->table.slots[0];

    for (uint32_t generation = 1; !atomic_load(&race->stop); generation++) {
        const hf_time deadline = {(int64_t)generation * TICK};
        char name[80];

        name_of(generation, name);
        fixture_publish(&race->table, 0, race->offs[generation % NAMES], name, generation,
                        deadline);
        hf_slot_mark(slot, HF_SLOT_LATE, 0, HF_LOSS_NONE);
        hf_slot_extend(slot, deadline, 3);
        hf_slot_withdraw(slot);
        hf_slot_end(slot, HF_SLOT_ENDED, HF_LOSS_NONE);
        hf_slot_clear(slot);
    }
    return NULL;
}

/* True if the copy is of one moment of one lease. */
static bool is_whole(const struct hf_slot_view *view)
{
    uint32_t generation = view->generation;
    char name[80];

    name_of(generation, name);
    return view->pid == generation * 3 && view->uid == generation * 5 &&
           view->ttl_ms == generation * 7 && view->fence == (uint64_t)generation << 16 &&
           view->since.ns == (int64_t)generation * 11 && view->name_len == strlen(name) &&
           memcmp(view->name, name, view->name_len) == 0 &&
           (view->state == HF_SLOT_ENDED) == (view->deadline.ns == 0);
}

static void *slot_read(void *arg)
{
    struct race *race = arg;

    while (!atomic_load(&race->stop)) {
        struct hf_slot_view view;
        uint64_t word = atomic_load_explicit(&race->table.slots[0].check, memory_order_acquire);

        /* The word is never torn: both halves are of one generation. */
        if (word != 0 && word >> HF_CHECK_GEN_SHIFT != (word & HF_GEN_MAX))
            return "a torn check word";
        if (hf_slot_read(&race->table, 0, &view) != 0)
            continue;
        if (!is_whole(&view))
            return "a mixture of two leases";
        atomic_fetch_add(&race->reads, 1);
    }
    return NULL;
}

static void readers_see_whole_leases_only(void **state)
{
    struct race race = {.table = fixture_table(16)};
    struct hf_text_pool *pool;
    pthread_t writer, readers[2];
    const char *wrong = NULL;

    (void)state;
    assert_int_equal(hf_text_pool_create(&race.table, &pool), 0);
    for (uint32_t i = 0; i < NAMES; i++) {
        char name[80];

        name_of(i, name);
        race.offs[i] = put_name(pool, name);
    }
    assert_int_equal(pthread_create(&writer, NULL, write_slot, &race), 0);
    for (size_t i = 0; i < HF_LENGTH(readers); i++)
        assert_int_equal(pthread_create(&readers[i], NULL, slot_read, &race), 0);
    for (int slices = 0; slices < 100 && (slices < 5 || atomic_load(&race.reads) < 1000); slices++)
        usleep(100000);
    atomic_store(&race.stop, true);
    pthread_join(writer, NULL);
    for (size_t i = 0; i < HF_LENGTH(readers); i++) {
        void *said;

        pthread_join(readers[i], &said);
        wrong = said ? said : wrong;
    }
    if (wrong)
        fail_msg("race: %s", wrong);
    assert_true(atomic_load(&race.reads) >= 100);
    hf_text_pool_destroy(pool);
    hf_table_close(&race.table);
}

/* --- a writer killed inside ------------------------------------------------------------------- */

/* kill -9 until one dies inside; each time the slot is as the dead left it. */
static bool kill_a_writer_inside(struct hf_table *table)
{
    for (int i = 0; i < 300; i++) {
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0)
            for (uint32_t votes = 0;; votes++)
                hf_slot_extend(&table->slots[0], FIXTURE_DEADLINE, votes & 7);
        usleep(1000 + (useconds_t)(i % 7) * 100);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        if (atomic_load(&table->slots[0].seq) & 1)
            return true;
    }
    return false;
}

static void a_writer_killed_inside_stops_observers_but_not_the_owner(void **state)
{
    struct hf_table table = fixture_table(1);
    struct hf_slot *slot = &table.slots[0];
    struct hf_slot_view view;
    bool odd = false;

    (void)state;
    fixture_publish(&table, 0, 0, "n", 4, FIXTURE_DEADLINE);
    assert_true(kill_a_writer_inside(&table));
    assert_int_equal(hf_slot_read(&table, 0, &view), HF_ETABLE);
    assert_true(hf_check_holds(atomic_load(&slot->check), 4, (hf_time){0}));

    /* The next agent can look, and sees that it was inside. */
    assert_int_equal(hf_slot_peek(&table, 0, &view, &odd), 0);
    assert_true(odd);
    assert_int_equal(view.generation, 4);
    fixture_publish(&table, 0, 0, "n", 4, FIXTURE_DEADLINE);
    assert_int_equal(hf_slot_peek(&table, 0, &view, &odd), 0);
    assert_false(odd);
    assert_int_equal(hf_slot_read(&table, 0, &view), 0);
    assert_int_equal(view.generation, 4);
    hf_table_close(&table);
}

static void the_next_edit_repairs_an_odd_slot(void **state)
{
    struct hf_table table = fixture_table(1);
    struct hf_slot_view view;

    (void)state;
    fixture_publish(&table, 0, 0, "n", 4, FIXTURE_DEADLINE);
    atomic_fetch_add(&table.slots[0].seq, 1);
    assert_int_equal(hf_slot_read(&table, 0, &view), HF_ETABLE);
    fixture_publish(&table, 0, 0, "n", 5, FIXTURE_DEADLINE);
    assert_int_equal(hf_slot_read(&table, 0, &view), 0);
    assert_int_equal(view.generation, 5);
    hf_table_close(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_word_holds_until_the_deadline_rounded_down),
        cmocka_unit_test(the_word_holds_for_its_generation_only),
        cmocka_unit_test(a_deadline_that_is_none_makes_no_word),
        cmocka_unit_test(a_deadline_out_of_range_leaves_the_generation_alone),
        cmocka_unit_test(a_lease_can_be_read_back),
        cmocka_unit_test(the_longest_texts_fit),
        cmocka_unit_test(a_lease_goes_through_its_states),
        cmocka_unit_test(publishing_again_never_passes_through_not_held),
        cmocka_unit_test(numbers_out_of_range_and_free_slots_are_told_apart),
        cmocka_unit_test(lengths_and_offsets_that_cannot_be_right_are_not_followed),
        cmocka_unit_test(readers_see_whole_leases_only),
        cmocka_unit_test(a_writer_killed_inside_stops_observers_but_not_the_owner),
        cmocka_unit_test(the_next_edit_repairs_an_odd_slot),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
