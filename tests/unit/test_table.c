/* shm/table.h: making, taking over and opening the object, its node rows and counters. */
#include "table_fixture.h"

#include "shm/table_notes.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include "shm/compiler.h"
#include "shm/history.h"
#include "shm/index.h"

/* --- names ------------------------------------------------------------------------------------ */

static void names_of_system_and_user_agents_differ(void **state)
{
    char name[HF_TABLE_NAME_MAX];

    (void)state;
    assert_int_equal(hf_table_name("default", true, 1000, name), 0);
    assert_string_equal(name, "/holdfast.default");
    assert_int_equal(hf_table_name("default", false, 0, name), 0);
    assert_string_equal(name, "/holdfast.default");
    assert_int_equal(hf_table_name("a-B_9.x", false, 4294967294u, name), 0);
    assert_string_equal(name, "/holdfast-4294967294.a-B_9.x");
}

static void bad_agent_names_are_refused(void **state)
{
    static const char *const bad[] = {"", ".", "..", ".x", "a/b", "a b", "a\n", "\xc3\xa4"};
    char longest[HF_AGENT_NAME_MAX + 2], name[HF_TABLE_NAME_MAX];

    (void)state;
    for (size_t i = 0; i < HF_LENGTH(bad); i++)
        assert_int_equal(hf_table_name(bad[i], true, 0, name), HF_EINVAL);
    memset(longest, 'a', sizeof(longest));
    longest[HF_AGENT_NAME_MAX + 1] = '\0';
    assert_int_equal(hf_table_name(longest, false, 4294967294u, name), HF_EINVAL);
    longest[HF_AGENT_NAME_MAX] = '\0';
    assert_int_equal(hf_table_name(longest, false, 4294967294u, name), 0);
}

/* --- making and opening ----------------------------------------------------------------------- */

static void a_new_table_is_what_was_asked_for(void **state)
{
    struct fixture f = fixture_new();
    struct hf_table table = create_alive(&f);
    struct stat st;

    (void)state;
    assert_int_equal(stat(f.path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
    assert_int_equal(st.st_uid, geteuid());
    assert_int_equal(st.st_size, table.size);
    assert_int_equal(table.capacity, 16);
    assert_int_equal(table.slot_room, FIXTURE_ROOM);
    assert_int_equal(table.node_count, HF_NODES_MAX);
    assert_int_equal(table.text_units, 16 * HF_TEXT_MOST / HF_TEXT_UNIT);
    assert_int_equal(table.counter_count, HF_COUNTERS);
    assert_true(table.writable);
    assert_int_equal(table.header->nodes, 3);
    assert_int_equal(table.header->quorum, 2);
    assert_int_equal(table.header->incarnation, 0);
    assert_int_equal(table.header->pid, getpid());
    assert_string_equal(table.header->agent_name, "test");
    assert_string_equal(table.header->version, "0.1.0");
    hf_table_close(&table);
    hf_table_close(&table); /* once more is fine */
    shm_unlink(f.name);
}

/* The bytes of slots, index and text that have memory. */
static uint64_t in_use(const struct hf_table *table)
{
    return table->slots_there * sizeof(struct hf_slot) +
           2 * (uint64_t)table->index_there * sizeof(hf_index_entry) +
           table->text_there * HF_TEXT_UNIT;
}

static uint64_t memory_of(const struct hf_table *table)
{
    struct stat st;

    assert_int_equal(fstat(table->fd, &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

/* It is laid out for the largest capacity, whatever is configured; there is memory for the first slots, and for more as they
 * are asked for. */
static void a_table_takes_memory_as_it_is_needed(void **state)
{
    enum { STEP = HF_SLOTS_STEP, ROUNDING = 5 * 4096 };
    struct fixture f = fixture_new();
    struct hf_table table;
    uint64_t others;

    (void)state;
    f.spec.capacity = HF_SLOTS_MAX;
    f.spec.slot_room = 0;
    table = create_alive(&f);
    assert_int_equal(table.slot_room, HF_SLOTS_MAX);
    assert_int_equal(table.text_units, (uint64_t)HF_SLOTS_MAX * (HF_TEXT_MOST / HF_TEXT_UNIT));
    assert_int_equal(table.slots_there, HF_SLOTS_FIRST);
    assert_int_equal(table.index_there, 2 * HF_SLOTS_FIRST);
    assert_int_equal(table.text_there, HF_SLOTS_FIRST * (HF_TEXT_FIRST / HF_TEXT_UNIT));
    assert_int_equal(table.header->text_there, table.text_there);
    others = table.size - table.slot_room * sizeof(struct hf_slot) -
             2 * (uint64_t)table.index_room * sizeof(hf_index_entry) -
             table.text_room * HF_TEXT_UNIT;
    for (uint32_t slots = HF_SLOTS_FIRST; slots <= 20 * STEP; slots += STEP) {
        assert_int_equal(hf_table_take_slots(&table, slots), 0);
        assert_int_equal(table.slots_there, slots);
        assert_int_equal(table.header->slots_there, slots);
        assert_int_equal(table.header->index_size, hf_index_size_for(slots));
        assert_in_range(memory_of(&table), in_use(&table) + others - 2 * 4096,
                        in_use(&table) + others + ROUNDING);
    }
    assert_int_equal(hf_table_take_slots(&table, STEP), 0); /* it has them */
    assert_int_equal(table.slots_there, 20 * STEP);
    assert_int_equal(hf_table_take_slots(&table, HF_SLOTS_MAX + 1), HF_EFULL);
    hf_table_close(&table);
    shm_unlink(f.name);
}

static void the_mode_does_not_depend_on_the_umask(void **state)
{
    struct fixture f = fixture_new();
    struct hf_table table;
    mode_t mask = umask(0777);
    struct stat st;

    (void)state;
    f.spec.mode = 0640;
    table = create_alive(&f);
    umask(mask);
    assert_int_equal(stat(f.path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    hf_table_close(&table);
    shm_unlink(f.name);
}

static void a_reader_sees_what_the_agent_writes(void **state)
{
    struct fixture f = fixture_new();
    struct hf_table table = create_alive(&f), reader;
    struct hf_slot_view view;

    (void)state;
    assert_int_equal(open_it(&f, &reader), 0);
    assert_false(reader.writable);
    assert_int_equal(reader.capacity, 0); /* to be looked at each time */
    assert_int_equal(hf_table_capacity(&reader), table.capacity);
    assert_int_equal(hf_table_nodes(&reader), 3);
    fixture_publish(&table, 5, 0, "n", 3, FIXTURE_DEADLINE);
    assert_int_equal(hf_slot_read(&reader, 5, &view), 0);
    assert_int_equal(view.generation, 3);
    hf_counter_add(&table, HF_COUNTER_GRANTS, 2);
    hf_counter_add(&table, HF_COUNTER_GRANTS, -1);
    assert_int_equal(hf_counter_read(&reader, HF_COUNTER_GRANTS), 1);
    hf_table_close(&reader);
    hf_table_close(&table);
    shm_unlink(f.name);
}

static void a_holder_gets_a_descriptor_that_cannot_write(void **state)
{
    struct fixture f = fixture_new();
    struct hf_table table = create_alive(&f), holder;
    int fd;

    (void)state;
    assert_int_equal(hf_table_readonly_fd(&table, &fd), 0);
    assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
    assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(hf_table_open_fd(fd, &holder, f.why, sizeof(f.why)), 0);
    assert_int_equal(fcntl(fd, F_GETFD), -1); /* closed */
    assert_int_equal(holder.header->epoch, table.header->epoch);
    hf_table_close(&holder);
    hf_table_close(&table);
    shm_unlink(f.name);
}

static void descriptors_that_are_no_table_are_refused(void **state)
{
    struct hf_table table;
    char why[WHY_SIZE];
    int fds[2], fd;

    (void)state;
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(hf_table_open_fd(fds[0], &table, why, sizeof(why)), HF_ETABLE);
    assert_int_equal(fcntl(fds[0], F_GETFD), -1);
    close(fds[1]);
    fd = memfd_create("test", MFD_CLOEXEC);
    assert_int_equal(hf_table_open_fd(fd, &table, why, sizeof(why)), HF_ETABLE);
    assert_int_equal(hf_table_open_fd(-1, &table, why, sizeof(why)), HF_ESYS);
}

static void a_table_is_not_ready_before_it_is_alive(void **state)
{
    struct fixture f = fixture_new();
    struct hf_table table, reader;
    bool warm;

    (void)state;
    assert_int_equal(create(&f, &table, &warm), 0);
    assert_int_equal(open_it(&f, &reader), HF_ETABLE);
    assert_says(&f, "not ready");
    hf_table_set_state(&table, HF_TABLE_STOPPED); /* of an agent that ended: can be read */
    assert_int_equal(open_it(&f, &reader), 0);
    hf_table_close(&reader);
    hf_table_set_state(&table, HF_TABLE_RETIRED);
    assert_int_equal(open_it(&f, &reader), HF_ETABLE);
    assert_says(&f, "replaced");
    hf_table_close(&table);
    shm_unlink(f.name);
}

static void no_object_means_no_agent(void **state)
{
    struct fixture f = fixture_new();
    struct hf_table reader;

    (void)state;
    assert_int_equal(open_it(&f, &reader), HF_ENOAGENT);
    assert_says(&f, f.name);
}

static void a_removed_or_replaced_object_is_noticed(void **state)
{
    struct fixture f = fixture_new();
    struct hf_table table = create_alive(&f), other, holder;
    int fd;

    (void)state;
    assert_true(hf_table_is_linked(&table, f.name));
    shm_unlink(f.name);
    assert_false(hf_table_is_linked(&table, f.name));
    other = create_alive(&f);
    assert_false(hf_table_is_linked(&table, f.name));
    assert_true(hf_table_is_linked(&other, f.name));
    /* Holders are given the one that is written to, whatever the name leads to. */
    assert_int_equal(hf_table_readonly_fd(&table, &fd), 0);
    assert_int_equal(hf_table_open_fd(fd, &holder, f.why, sizeof(f.why)), 0);
    assert_int_equal(holder.header->epoch, table.header->epoch);
    hf_table_close(&holder);
    hf_table_close(&table);
    hf_table_close(&other);
    shm_unlink(f.name);
}

static void what_cannot_be_made_is_refused_with_the_limits(void **state)
{
    struct fixture f = fixture_new();
    struct hf_table table;
    bool warm;
    static const struct {
        uint32_t capacity, nodes;
        mode_t mode;
    } bad[] = {
        {0, 3, 0644},  {(1 << 20) + 1, 3, 0644}, {16, 0, 0644}, {16, HF_NODES_MAX + 1, 0644},
        {16, 3, 0666}, {16, 3, 04644},
    };

    (void)state;
    for (size_t i = 0; i < HF_LENGTH(bad); i++) {
        f.spec.capacity = bad[i].capacity;
        f.spec.nodes = bad[i].nodes;
        f.spec.mode = bad[i].mode;
        assert_int_equal(create(&f, &table, &warm), HF_EINVAL);
        assert_says(&f, "1048576");
        assert_false(exists(&f));
    }
}

/* --- taking over ------------------------------------------------------------------------------ */

static void an_earlier_agents_table_is_kept(void **state)
{
    struct fixture f = fixture_new();
    struct hf_table first = create_alive(&f), second, reader;
    struct hf_node_row row = {.state = HF_NODE_UP};
    struct hf_slot_view view;
    uint64_t epoch = first.header->epoch;
    bool warm = false;

    (void)state;
    fixture_publish(&first, 7, 0, "n", 3, FIXTURE_DEADLINE);
    hf_counter_add(&first, HF_COUNTER_GRANTS, 5);
    hf_node_publish(&first, 0, &row);
    atomic_fetch_add(&first.nodes[1].seq, 1); /* killed inside */
    hf_table_close(&first);

    f.spec.nodes = 5; /* the list may have changed */
    assert_int_equal(create(&f, &second, &warm), 0);
    assert_true(warm);
    assert_int_equal(second.header->epoch, epoch);
    assert_int_equal(second.header->incarnation, 1);
    assert_int_equal(second.header->state, HF_TABLE_INIT);
    assert_int_equal(second.header->nodes, 5);
    assert_int_equal(hf_counter_read(&second, HF_COUNTER_GRANTS), 0);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(hf_node_read(&second, i, &row), 0);
        assert_int_equal(row.state, HF_NODE_CONNECTING);
    }
    assert_int_equal(hf_slot_read(&second, 7, &view), 0);
    assert_int_equal(view.generation, 3);
    assert_true(hf_check_holds(atomic_load(&second.slots[7].check), 3, (hf_time){0}));

    hf_table_set_state(&second, HF_TABLE_ALIVE);
    assert_int_equal(open_it(&f, &reader), 0);
    assert_int_equal(hf_table_nodes(&reader), 5);
    hf_table_close(&reader);
    hf_table_close(&second);
    shm_unlink(f.name);
}

static void a_table_with_more_text_is_kept(void **state)
{
    struct fixture f = fixture_new();
    struct hf_table table;
    bool warm = true;

    (void)state;
    f.spec.text_units = 200;
    table = create_alive(&f);
    atomic_store(&table.header->text_there, 190);
    hf_table_close(&table);
    f.spec.text_units = 0;
    assert_int_equal(create(&f, &table, &warm), 0);
    assert_true(warm);
    assert_int_equal(table.text_there, 190);
    assert_int_equal(table.text_units, 190);
    hf_table_close(&table);
    shm_unlink(f.name);
}

/* --- capacity --------------------------------------------------------------------------------- */

/* As an agent that starts again with leases of the first slots. */
static struct hf_table start_again_with(struct fixture *f, uint32_t capacity)
{
    struct hf_table table;
    bool warm = false;

    f->spec.capacity = capacity;
    f->spec.slots_live = 8;
    assert_int_equal(create(f, &table, &warm), 0);
    assert_true(warm);
    assert_string_equal(f->why, "");
    hf_index_rebuild(&table);
    hf_table_set_state(&table, HF_TABLE_ALIVE);
    return table;
}

static void hold_name(struct hf_table *table, uint32_t slot, const char *name, uint32_t generation)
{
    struct hf_slot_identity id = {.generation = generation, .name_len = (uint8_t)strlen(name)};
    struct hf_text_pool *pool;
    struct hf_slot_view view;

    assert_int_equal(hf_text_pool_create(table, &pool), 0);
    for (uint32_t i = 0; i < table->slots_there; i++)
        if (hf_slot_read(table, i, &view) == 0)
            assert_int_equal(hf_text_pool_reserve(pool, atomic_load(&table->slots[i].text_off),
                                                  view.name_len, 0, 0),
                             0);
    assert_int_equal(hf_text_put(pool, name, strlen(name), "", 0, "", 0, &id.text_off), 0);
    hf_slot_publish(&table->slots[slot], &id, FIXTURE_DEADLINE, 2);
    assert_int_equal(hf_index_add(table, name, strlen(name), slot), 0);
    hf_text_pool_destroy(pool);
}

static void sees(const struct hf_table *reader, const char *name, uint32_t slot)
{
    struct hf_slot_view view;

    assert_int_equal(hf_index_find(reader, name, strlen(name), &view), 0);
    assert_int_equal(view.slot, slot);
    assert_int_equal(hf_slot_read(reader, slot, &view), 0);
}

/* Whoever has it mapped sees the same words, and all that is put where there was nothing when it was mapped. */
static void more_slots_come_in_their_place(void **state)
{
    static const uint32_t steps[] = {16, 40000, FIXTURE_ROOM};
    struct fixture f = fixture_new();
    struct hf_table table = create_alive(&f), reader, later;
    struct hf_slot_view view;
    uint64_t epoch = table.header->epoch;

    (void)state;
    hold_name(&table, 7, "first", 3);
    assert_int_equal(open_it(&f, &reader), 0);
    sees(&reader, "first", 7);
    for (uint32_t i = 1; i < HF_LENGTH(steps); i++) {
        uint32_t before = steps[i - 1], now = steps[i];
        char name[16];

        hf_table_close(&table);
        table = start_again_with(&f, now);
        assert_int_equal(table.header->epoch, epoch);
        assert_int_equal(table.header->incarnation, i);
        assert_int_equal(table.capacity, now);
        assert_int_equal(hf_table_capacity(&reader), now);
        assert_int_equal(hf_table_slots(&reader), before);
        assert_int_equal(hf_slot_read(&reader, before, &view), HF_EINVAL);
        assert_int_equal(hf_index_add(&table, "x", 1, before), HF_EINVAL);
        assert_int_equal(hf_table_take_slots(&table, now), 0);
        assert_int_equal(hf_table_slots(&reader), now);
        assert_int_equal(hf_slot_read(&reader, now - 1, &view), HF_ENOTHELD);
        assert_int_equal(hf_slot_read(&reader, now, &view), HF_EINVAL);
        assert_true(hf_check_holds(atomic_load(&reader.slots[7].check), 3, (hf_time){0}));
        sees(&reader, "first", 7);

        snprintf(name, sizeof(name), "lease %u", i);
        hold_name(&table, now - 1, name, 1);
        assert_int_equal(table.index_size, hf_index_size_for(now));
        sees(&reader, name, now - 1);
        sees(&reader, "first", 7);
        assert_true(memory_of(&table) >= in_use(&table));
        assert_int_equal(open_it(&f, &later), 0);
        sees(&later, name, now - 1);
        hf_table_close(&later);
    }
    hf_table_close(&reader);
    hf_table_close(&table);
    shm_unlink(f.name);
}

/* Killed before the index was made anew: the next agent makes it. */
static void an_index_that_was_not_made_larger_is(void **state)
{
    struct fixture f = fixture_new();
    struct hf_table table = create_alive(&f), reader;

    (void)state;
    hold_name(&table, 7, "first", 3);
    assert_int_equal(hf_table_take_slots(&table, 5000), 0);
    assert_true(table.index_size < hf_index_size_for(5000)); /* the one in use */
    hf_table_close(&table);
    table = start_again_with(&f, 16);
    assert_int_equal(table.slots_there, 5000);
    assert_int_equal(table.index_size, hf_index_size_for(5000));
    assert_int_equal(open_it(&f, &reader), 0);
    sees(&reader, "first", 7);
    hf_table_close(&reader);
    hf_table_close(&table);
    shm_unlink(f.name);
}

/* A larger index in which an entry finds no place is not tried at each name anew. */
static void an_index_that_cannot_be_made_larger_stays(void **state)
{
    struct fixture f = fixture_new();
    struct hf_table table = create_alive(&f);
    uint32_t size = table.index_size, fakes = 0;

    (void)state;
    hold_name(&table, 7, "first", 3);
    /* Of one hash, and more than there are probes. */
    for (uint32_t i = 0; fakes < HF_INDEX_PROBES + 1; i++)
        if (atomic_load(&table.index[i]) == 0)
            atomic_store(&table.index[i], (uint64_t)99 << 32 | ++fakes);
    assert_int_equal(hf_table_take_slots(&table, 5000), 0);
    hold_name(&table, 8, "second", 1);
    assert_int_equal(table.index_size, size);
    for (uint32_t i = 0; i < size; i++)
        if (atomic_load(&table.index[i]) >> 32 == 99)
            atomic_store(&table.index[i], 0);
    hold_name(&table, 9, "third", 1);
    assert_int_equal(table.index_size, size);
    sees(&table, "first", 7);
    sees(&table, "third", 9);
    hf_table_close(&table);
    shm_unlink(f.name);
}

static void a_smaller_capacity_keeps_all_slots(void **state)
{
    struct fixture f = fixture_new();
    struct hf_table table = create_alive(&f), reader;

    (void)state;
    hold_name(&table, 15, "last", 3);
    hf_table_close(&table);
    table = start_again_with(&f, 3);
    assert_int_equal(table.capacity, 8); /* as many as the journal has leases */
    assert_int_equal(table.header->capacity, 3);
    assert_int_equal(table.slots_there, 16);
    assert_int_equal(open_it(&f, &reader), 0);
    sees(&reader, "last", 15);
    hf_table_close(&reader);
    hf_table_close(&table);
    shm_unlink(f.name);
}

static void a_new_one_has_room_for_what_is_held(void **state)
{
    struct fixture f = fixture_new();
    struct hf_table table;

    (void)state;
    f.spec.slots_live = 50;
    table = create_alive(&f);
    assert_int_equal(table.capacity, 50);
    assert_int_equal(table.slots_there, 50);
    hf_table_close(&table);
    shm_unlink(f.name);
}

/* --- another one ------------------------------------------------------------------------------ */

/* An upgrade finds less than it would make, a way back finds more: leases are kept either way. */
static void a_table_of_another_minor_version_is_kept(void **state)
{
    enum { FEWER = 5, COUNTERS_SECTION = 2 };

    (void)state;
    for (int later = 0; later < 2; later++) {
        struct fixture f = fixture_new();
        struct hf_table first = create_alive(&f), second, reader;
        struct hf_section *s = first.header->sections;
        bool warm = false;
        uint8_t *behind;

        fixture_publish(&first, 7, 0, "n", 3, FIXTURE_DEADLINE);
        first.header->minor = later ? HF_TABLE_MINOR + 1 : 0;
        if (later)
            s[HF_SECTIONS_MAX - 1] = (struct hf_section){.type = 77, .offset = 64, .length = 1};
        else
            s[COUNTERS_SECTION].elem_count = FEWER;
        hf_table_close(&first);

        assert_int_equal(create(&f, &second, &warm), 0);
        assert_true(warm);
        assert_string_equal(f.why, "");
        assert_int_equal(second.header->minor, HF_TABLE_MINOR);
        assert_true(hf_check_holds(atomic_load(&second.slots[7].check), 3, (hf_time){0}));
        assert_int_equal(second.counter_count, later ? HF_COUNTERS : FEWER);
        assert_int_equal(hf_history_begin(&second), 0);
        behind = (uint8_t *)&second.counters[FEWER];
        for (int i = FEWER; i < HF_COUNTERS; i++) {
            hf_counter_set(&second, (enum hf_counter)i, UINT64_MAX);
            hf_counter_add(&second, (enum hf_counter)i, 1);
        }
        if (!later)
            assert_int_equal(*behind, 0); /* another section's bytes, for all that it knows */
        hf_table_set_state(&second, HF_TABLE_ALIVE);
        assert_int_equal(open_it(&f, &reader), 0);
        assert_int_equal(hf_counter_read(&reader, HF_COUNTERS - 1), 0);
        hf_table_close(&reader);
        hf_table_close(&second);
        shm_unlink(f.name);
    }
}

/* Changes the spec, or the header of the object that was left, so that it cannot be kept. */
enum unfit {
    FRESH,
    LARGER_THAN_ITS_ROOM,
    MORE_TEXT,
    FEWER_THAN_LIVE,
    INDEX,
    BOOT,
    TIMENS,
    TIMENS_OFFSET,
    RETIRED,
    COPY,
    COPY_ELSEWHERE,
    COPY_LATER,
    ANOTHER,
    MAJOR,
    FINGERPRINT,
    TOTAL,
    MAGIC,
    UNFITS
};

static void make_unfit(enum unfit how, struct fixture *f, struct hf_table_header *header)
{
    switch (how) {
    case FRESH:
        f->spec.fresh = true;
        break;
    case LARGER_THAN_ITS_ROOM:
        f->spec.capacity = FIXTURE_ROOM + 1;
        f->spec.slot_room = 0;
        break;
    case MORE_TEXT:
        f->spec.text_units = (uint64_t)FIXTURE_ROOM * HF_TEXT_MOST / HF_TEXT_UNIT + 1;
        break;
    case FEWER_THAN_LIVE:
        f->spec.slots_live = 17;
        break;
    case INDEX:
        atomic_store(&header->slots_there, 1000); /* its index is for 16 */
        break;
    case BOOT:
        f->spec.boot_id[15] ^= 1;
        break;
    case TIMENS:
        f->spec.timens_inode++;
        break;
    case TIMENS_OFFSET:
        f->spec.timens_offset_ns++;
        break;
    case RETIRED:
        atomic_store(&header->state, HF_TABLE_RETIRED);
        break;
    case COPY:
        header->file.inode++;
        break;
    case COPY_ELSEWHERE:
        header->file.device++;
        break;
    case COPY_LATER:
        header->file.born_ns++;
        break;
    case ANOTHER:
        f->spec.id ^= 1;
        break;
    case MAJOR:
        header->major++;
        break;
    case FINGERPRINT:
        header->fingerprint ^= 1;
        break;
    case TOTAL:
        header->total_size += 4096;
        break;
    case MAGIC:
    case UNFITS:
        header->magic = 0;
        break;
    }
}

static void a_table_that_cannot_be_kept_is_replaced(void **state)
{
    (void)state;
    for (int how = 0; how < UNFITS; how++) {
        struct fixture f = fixture_new();
        struct hf_table old = create_alive(&f), table;
        uint64_t epoch = old.header->epoch;
        bool warm = true;

        f.spec.id = hf_table_id(&old);
        make_unfit((enum unfit)how, &f, old.header);
        its_agent_ends(&old);
        if (create(&f, &table, &warm) != 0)
            fail_msg("case %d: %s", how, f.why);
        assert_false(warm);
        assert_says(&f, f.name); /* why it was not kept */
        assert_int_not_equal(table.header->epoch, epoch);
        assert_int_equal(table.header->incarnation, 0);
        /* Whoever still maps the old one is told, where its layout is known. */
        if (how != MAJOR && how != MAGIC)
            assert_int_equal(old.header->state, HF_TABLE_RETIRED);
        hf_table_close(&old);
        hf_table_close(&table);
        shm_unlink(f.name);
    }
}

/* (!) By a lock that ends with its process, and that no reader can have. */
static void a_table_of_a_living_agent_is_refused_whatever_it_is(void **state)
{
    const struct flock readers = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    struct fixture f = fixture_new();
    struct hf_table_living living;
    struct hf_table old, table;
    bool warm;
    int reader;

    (void)state;
    f.spec.dir = "/run/elsewhere/one";
    assert_int_equal(create(&f, &old, &warm), 0);
    assert_true(hf_table_find_living(f.name, geteuid(), &living));
    assert_true(hf_table_may_live(f.name, geteuid()));
    assert_false(hf_table_may_live(f.name, geteuid() + 1));
    assert_int_equal(living.pid, getpid());
    assert_string_equal(living.dir, "/run/elsewhere/one");
    for (int how = 0; how < 2; how++) {
        f.spec.fresh = how;
        assert_int_equal(create(&f, &table, &warm), HF_EBUSY);
        assert_says(&f, "/run/elsewhere/one");
        assert_int_equal(hf_table_drop(f.name, "one", f.why, sizeof(f.why)), HF_EBUSY);
        assert_true(hf_table_is_linked(&old, f.name));
        assert_int_equal(old.header->state, HF_TABLE_INIT);
    }
    f.spec.fresh = false;
    hf_table_close(&old);
    assert_false(hf_table_may_live(f.name, geteuid()));
    reader = shm_open(f.name, O_RDONLY | O_CLOEXEC, 0);
    assert_int_equal(fcntl(reader, F_OFD_SETLK, &readers), 0);
    assert_false(hf_table_find_living(f.name, geteuid(), &living));
    assert_true(hf_table_may_live(f.name, geteuid())); /* an agent would not have got its lock */
    assert_int_equal(create(&f, &table, &warm), 0);
    assert_true(warm);
    close(reader);
    hf_table_close(&table);
    shm_unlink(f.name);
}

/* --- nodes and counters ----------------------------------------------------------------------- */

static void a_node_row_can_be_read_back(void **state)
{
    struct hf_table table = fixture_table(4);
    struct hf_node_row row = {.state = HF_NODE_UP, .rtt_ns = 123456, .replies = 7}, back;

    (void)state;
    strcpy(row.id, "a");
    strcpy(row.address, "127.0.0.1:6379");
    memset(row.error, 'e', sizeof(row.error)); /* not ended: the reader ends it */
    hf_node_publish(&table, 2, &row);
    assert_int_equal(hf_node_read(&table, 2, &back), 0);
    assert_int_equal(back.state, HF_NODE_UP);
    assert_int_equal(back.rtt_ns, 123456);
    assert_int_equal(back.replies, 7);
    assert_string_equal(back.address, "127.0.0.1:6379");
    assert_int_equal(strlen(back.error), sizeof(back.error) - 1);
    assert_int_equal(hf_node_read(&table, HF_NODES_MAX, &back), HF_EINVAL);
    hf_node_publish(&table, HF_NODES_MAX, &row);
    hf_table_close(&table);
}

struct race {
    struct hf_table table;
    _Atomic bool stop;
};

static void *write_row(void *arg)
{
    struct race *race = arg;

    for (uint64_t i = 0; !atomic_load(&race->stop); i++) {
        struct hf_node_row row = {.replies = i, .timeouts = i, .clock_offset_us = (int64_t)i};

        memset(row.id, 'a' + (int)(i % 26), 20);
        memset(row.error, 'a' + (int)(i % 26), 20);
        hf_node_publish(&race->table, 0, &row);
    }
    return NULL;
}

static void node_rows_are_never_mixed(void **state)
{
    struct race race = {.table = fixture_table(4)};
    struct hf_node_row row;
    pthread_t writer;
    int whole = 0;

    (void)state;
    assert_int_equal(pthread_create(&writer, NULL, write_row, &race), 0);
    for (int i = 0; i < 200000 && whole < 20000; i++) {
        if (hf_node_read(&race.table, 0, &row) != 0)
            continue;
        assert_int_equal(row.replies, row.timeouts);
        assert_int_equal(row.replies, row.clock_offset_us);
        assert_string_equal(row.id, row.error);
        whole++;
    }
    atomic_store(&race.stop, true);
    pthread_join(writer, NULL);
    assert_true(whole > 0);
    hf_table_close(&race.table);
}

static void counters_have_names(void **state)
{
    (void)state;
    assert_string_equal(hf_counter_name(HF_COUNTER_GRANTS), "grants");
    assert_string_equal(hf_counter_name(HF_COUNTERS), "unknown_counter");
    for (int i = 0; i < HF_COUNTERS; i++)
        assert_true(strlen(hf_counter_name((enum hf_counter)i)) > 0);
}

/* A table of an earlier minor version may have fewer. */
static void counters_that_are_not_there_read_as_zero(void **state)
{
    struct hf_table table = fixture_table(4);

    (void)state;
    hf_counter_set(&table, HF_COUNTER_GRANTS, 5);
    assert_int_equal(hf_counter_read(&table, HF_COUNTER_GRANTS), 5);
    table.counter_count = HF_COUNTER_GRANTS;
    assert_int_equal(hf_counter_read(&table, HF_COUNTER_GRANTS), 0);
    hf_table_close(&table);
}

static void a_drain_is_read(void **state)
{
    const struct hf_drained order = {.stands = true, .since_wall_ms = 7, .uid = 8, .pid = 9};
    struct fixture f = fixture_new();
    struct hf_table table = create_alive(&f);
    struct hf_drained seen;

    (void)state;
    hf_drained_read(&table, &seen);
    assert_false(seen.stands);
    hf_drained_publish(&table, &order);
    hf_drained_read(&table, &seen);
    assert_true(seen.stands);
    assert_int_equal(seen.since_wall_ms, 7);
    assert_int_equal(seen.uid, 8);
    assert_int_equal(seen.pid, 9);
    hf_drained_publish(&table, &(struct hf_drained){.stands = true});
    hf_drained_read(&table, &seen);
    assert_true(seen.stands);
    assert_int_equal(seen.since_wall_ms, 0);
    hf_drained_publish(&table, &(struct hf_drained){.stands = false, .since_wall_ms = 7});
    hf_drained_read(&table, &seen);
    assert_false(seen.stands);
    hf_table_close(&table);
    shm_unlink(f.name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_drain_is_read),
        cmocka_unit_test(names_of_system_and_user_agents_differ),
        cmocka_unit_test(bad_agent_names_are_refused),
        cmocka_unit_test(a_new_table_is_what_was_asked_for),
        cmocka_unit_test(a_table_takes_memory_as_it_is_needed),
        cmocka_unit_test(the_mode_does_not_depend_on_the_umask),
        cmocka_unit_test(a_reader_sees_what_the_agent_writes),
        cmocka_unit_test(a_holder_gets_a_descriptor_that_cannot_write),
        cmocka_unit_test(descriptors_that_are_no_table_are_refused),
        cmocka_unit_test(a_table_is_not_ready_before_it_is_alive),
        cmocka_unit_test(no_object_means_no_agent),
        cmocka_unit_test(a_removed_or_replaced_object_is_noticed),
        cmocka_unit_test(what_cannot_be_made_is_refused_with_the_limits),
        cmocka_unit_test(an_earlier_agents_table_is_kept),
        cmocka_unit_test(a_table_with_more_text_is_kept),
        cmocka_unit_test(more_slots_come_in_their_place),
        cmocka_unit_test(an_index_that_was_not_made_larger_is),
        cmocka_unit_test(an_index_that_cannot_be_made_larger_stays),
        cmocka_unit_test(a_smaller_capacity_keeps_all_slots),
        cmocka_unit_test(a_new_one_has_room_for_what_is_held),
        cmocka_unit_test(a_table_of_another_minor_version_is_kept),
        cmocka_unit_test(a_table_that_cannot_be_kept_is_replaced),
        cmocka_unit_test(a_table_of_a_living_agent_is_refused_whatever_it_is),
        cmocka_unit_test(a_node_row_can_be_read_back),
        cmocka_unit_test(node_rows_are_never_mixed),
        cmocka_unit_test(counters_have_names),
        cmocka_unit_test(counters_that_are_not_there_read_as_zero),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
