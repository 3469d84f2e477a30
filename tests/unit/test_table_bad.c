/* shm/table.h: names that somebody squats, damaged objects, and a full /dev/shm. */
#include "table_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "shm/compiler.h"
#include "shm/history.h"
#include "shm/index.h"
#include "shm/row.h"

/* --- squatted names --------------------------------------------------------------------------- */

static void assert_refused(struct fixture *f, const char *because)
{
    struct hf_table table;
    bool warm;

    assert_int_equal(create(f, &table, &warm), HF_ETABLE);
    assert_says(f, because);
    assert_says(f, f->name);
    assert_true(exists(f));
    assert_int_equal(open_it(f, &table), HF_ETABLE);
    assert_says(f, f->name);
}

static void another_users_object_is_refused_naming_the_owner(void **state)
{
    static const mode_t modes[] = {0600, 0644, 0666};

    (void)state;
    if (geteuid() != 0)
        skip();
    for (size_t i = 0; i < HF_LENGTH(modes); i++) {
        struct fixture f = fixture_new();
        pid_t child = fork();

        if (child == 0) {
            int fd;

            CHILD_CHECK(setgid(65534) == 0 && setuid(65534) == 0);
            fd = shm_open(f.name, O_RDWR | O_CREAT | O_EXCL, 0600);
            CHILD_CHECK(fd >= 0 && fchmod(fd, modes[i]) == 0 && ftruncate(fd, 1 << 20) == 0);
            _exit(0);
        }
        assert_int_equal(fixture_wait(child), 0);
        assert_refused(&f, "uid 65534");
        unlink(f.path);
    }
}

/* The other way round: an ordinary user's agent meets what root put there. */
static void a_user_meets_roots_object(void **state)
{
    struct fixture f = fixture_new();
    pid_t child;

    (void)state;
    if (geteuid() != 0)
        skip();
    f.spec.mode = 0640;
    leave_behind(&f);
    child = fork();
    if (child == 0) {
        struct hf_table table;
        bool warm;

        CHILD_CHECK(setgid(65534) == 0 && setuid(65534) == 0);
        CHILD_CHECK(create(&f, &table, &warm) == HF_ETABLE);
        CHILD_CHECK(strstr(f.why, "belongs to uid 0") != NULL);
        CHILD_CHECK(hf_table_open(f.name, 0, &table, f.why, sizeof(f.why)) == HF_EPERM);
        _exit(0);
    }
    assert_int_equal(fixture_wait(child), 0);
    unlink(f.path);
}

static void a_link_is_not_followed(void **state)
{
    struct fixture f = fixture_new(), target = fixture_new();

    (void)state;
    leave_behind(&target);
    assert_int_equal(symlink(target.path, f.path), 0);
    assert_refused(&f, "symbolic link");
    unlink(f.path);
    assert_int_equal(symlink("/nonexistent", f.path), 0);
    struct hf_table table;
    bool warm;
    assert_int_equal(create(&f, &table, &warm), HF_ETABLE);
    unlink(f.path);
    unlink(target.path);
}

static void a_pipe_does_not_hold_us_up(void **state)
{
    struct fixture f = fixture_new();

    (void)state;
    assert_int_equal(mkfifo(f.path, 0600), 0);
    assert_refused(&f, "named pipe");
    unlink(f.path);
}

static void a_directory_is_refused(void **state)
{
    struct fixture f = fixture_new();

    (void)state;
    assert_int_equal(mkdir(f.path, 0700), 0);
    assert_refused(&f, "a directory");
    rmdir(f.path);
}

static void a_second_link_is_refused(void **state)
{
    struct fixture f = fixture_new();
    char other[sizeof(f.path) + 2];

    (void)state;
    leave_behind(&f);
    snprintf(other, sizeof(other), "%s.2", f.path);
    assert_int_equal(link(f.path, other), 0);
    assert_refused(&f, "2 links");
    unlink(other);
    unlink(f.path);
}

static void an_object_that_others_can_write_is_refused(void **state)
{
    static const mode_t modes[] = {0664, 0646, 0622};

    (void)state;
    for (size_t i = 0; i < HF_LENGTH(modes); i++) {
        struct fixture f = fixture_new();

        leave_behind(&f);
        assert_int_equal(chmod(f.path, modes[i]), 0);
        assert_refused(&f, "others could have written");
        unlink(f.path);
    }
}

/* --- damaged objects -------------------------------------------------------------------------- */

/* Writes `value` over a field of the header. */
struct poke {
    size_t offset, width;
    uint64_t value;
    int status;
    const char *says;
};

#define FIELD(member, value, status, says)                                                         \
    {                                                                                              \
        offsetof(struct hf_table_header, member), sizeof(((struct hf_table_header *)0)->member),   \
            value, status, says                                                                    \
    }

/* In the order in which hf_table_create() lays them out. */
enum {
    SLOTS,
    NODES,
    COUNTERS,
    INDEX,
    TEXT,
    EVENTS,
    RENEWALS = EVENTS + HF_EVENT_RINGS,
    MEASURES,
    WAITERS
};

static const struct poke pokes[] = {
    FIELD(minor, HF_TABLE_MINOR + 1, 0, ""), /* a later minor version that we may read */
    FIELD(sections[15].type, 77, 0, ""),
    FIELD(major, 3, HF_EVERSION, "version 3."),
    FIELD(min_minor, HF_TABLE_MINOR + 1, HF_EVERSION, "0.1.0"),
    FIELD(fingerprint, 1, HF_EVERSION, "layout"),
    FIELD(magic, 1, HF_ETABLE, "not a Holdfast table"),
    FIELD(magic, 0, HF_ETABLE, "no header yet"),
    FIELD(total_size, 4096, HF_ETABLE, "truncated or damaged"),
    FIELD(capacity, 0, 0, ""),                            /* nobody goes by it */
    FIELD(slots_there, FIXTURE_ROOM, HF_ETABLE, "holes"), /* has no memory */
    FIELD(slots_there, FIXTURE_ROOM + 1, HF_ETABLE, "section"),
    FIELD(slots_there, 0, HF_ETABLE, "section"),
    FIELD(slots_there, UINT32_MAX, HF_ETABLE, "section"),
    FIELD(nodes, HF_NODES_MAX + 1, HF_ETABLE, "section"),
    FIELD(text_there, 0, 0, ""), /* no text can be read */
    FIELD(index_size, 0, HF_ETABLE, "section"),
    FIELD(index_size, 3, HF_ETABLE, "section"),
    FIELD(index_size, 2 * FIXTURE_ROOM, HF_ETABLE, "holes"),
    FIELD(index_size, 4 * FIXTURE_ROOM, HF_ETABLE, "section"),
    FIELD(index_size, UINT32_C(1) << 31, HF_ETABLE, "section"),
    FIELD(sections[TEXT].type, 99, HF_ETABLE, "section"),
    FIELD(sections[TEXT].offset, 1 << 30, HF_ETABLE, "section"),
    FIELD(sections[SLOTS].offset, UINT64_MAX - 63, HF_ETABLE, "section"),
    FIELD(sections[SLOTS].offset, HF_TABLE_HEADER + 8, HF_ETABLE, "section"),
    FIELD(sections[SLOTS].offset, 0, HF_ETABLE, "section"),
    FIELD(sections[TEXT].length, UINT64_MAX, HF_ETABLE, "section"),
    FIELD(sections[TEXT].elem_count, UINT64_MAX / 64 + 2, HF_ETABLE, "section"),
    FIELD(sections[TEXT].elem_count, 0, HF_ETABLE, "section"),
    FIELD(sections[SLOTS].elem_size, 0, HF_ETABLE, "section"),
    FIELD(sections[NODES].elem_size, 511, HF_ETABLE, "section"),
    FIELD(sections[INDEX].elem_count, 255, HF_ETABLE, "section"),
    FIELD(sections[COUNTERS].length, 7, HF_ETABLE, "section"),
    FIELD(sections[EVENTS].type, 0, HF_ETABLE, "section"),
    FIELD(sections[RENEWALS].type, 0, HF_ETABLE, "section"),
    FIELD(sections[EVENTS].elem_size, 191, HF_ETABLE, "section"),
    FIELD(sections[EVENTS].elem_count, 1000, HF_ETABLE, "section"),
    FIELD(sections[EVENTS].elem_count, 0, HF_ETABLE, "section"),
    FIELD(sections[EVENTS + 3].offset, 1 << 30, HF_ETABLE, "section"),
    FIELD(sections[RENEWALS].elem_count, HF_NODES_MAX - 1, HF_ETABLE, "section"),
    FIELD(sections[RENEWALS].length, UINT64_MAX, HF_ETABLE, "section"),
    FIELD(sections[MEASURES].type, 0, HF_ETABLE, "section"),
    FIELD(sections[MEASURES].elem_size, sizeof(struct hf_measures) - 8, HF_ETABLE, "section"),
    FIELD(sections[MEASURES].elem_count, 0, HF_ETABLE, "section"),
    FIELD(sections[MEASURES].offset, UINT64_MAX - 63, HF_ETABLE, "section"),
    FIELD(sections[WAITERS].type, 0, HF_ETABLE, "section"),
    FIELD(sections[WAITERS].elem_size, sizeof(struct hf_waiter_row) - 8, HF_ETABLE, "section"),
    FIELD(sections[WAITERS].elem_count, HF_WAITERS_SHOWN + 1, HF_ETABLE, "section"),
    FIELD(sections[WAITERS].elem_count, 0, HF_ETABLE, "section"),
    FIELD(sections[WAITERS].offset, UINT64_MAX - 63, HF_ETABLE, "section"),
};

static void every_damage_is_refused_with_a_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < HF_LENGTH(pokes); i++) {
        struct fixture f = fixture_new();
        struct hf_table table = create_alive(&f), reader;

        memcpy((char *)table.header + pokes[i].offset, &pokes[i].value, pokes[i].width);
        if (open_it(&f, &reader) != pokes[i].status)
            fail_msg("poke %zu: %s", i, f.why);
        if (pokes[i].status == 0)
            hf_table_close(&reader);
        assert_says(&f, pokes[i].says);
        hf_table_close(&table);
        shm_unlink(f.name);
    }
}

static void a_truncated_object_of_our_own_is_replaced(void **state)
{
    static const off_t sizes[] = {0, 1, 100, 960, 4095, 4096, 5000};

    (void)state;
    for (size_t i = 0; i < HF_LENGTH(sizes); i++) {
        struct fixture f = fixture_new();
        struct hf_table table;
        bool warm = true;

        leave_behind(&f);
        assert_int_equal(truncate(f.path, sizes[i]), 0);
        assert_int_equal(open_it(&f, &table), HF_ETABLE);
        assert_int_equal(create(&f, &table, &warm), 0);
        assert_false(warm);
        memset(table.text, 1, table.text_units * HF_TEXT_UNIT);
        hf_table_close(&table);
        shm_unlink(f.name);
    }
}

/* Grown again after a truncation: the right size, and nothing in it. */
static void holes_are_refused(void **state)
{
    struct fixture f = fixture_new();
    struct hf_table table = create_alive(&f), reader;
    off_t size = (off_t)table.size;

    (void)state;
    hf_table_close(&table);
    assert_int_equal(truncate(f.path, 4096), 0);
    assert_int_equal(truncate(f.path, size), 0);
    assert_int_equal(open_it(&f, &reader), HF_ETABLE);
    assert_says(&f, "holes");
    shm_unlink(f.name);
}

/* Text that has no memory yet is none of these, unless the header says that it has. */
static void a_hole_where_text_should_be_is_refused(void **state)
{
    struct fixture f = fixture_new();
    struct hf_table table, reader;

    (void)state;
    f.spec.capacity = 4096;
    table = create_alive(&f);
    assert_int_equal(open_it(&f, &reader), 0);
    hf_table_close(&reader);
    atomic_store(&table.header->text_there, UINT64_MAX);
    assert_int_equal(open_it(&f, &reader), HF_ETABLE);
    assert_says(&f, "holes");
    hf_table_close(&table);
    shm_unlink(f.name);
}

/* Reads everything a reader can; what comes out does not matter. */
static void read_all(const struct hf_table *table)
{
    struct hf_slot_view view;
    struct hf_node_row row;
    struct hf_renewal renewal;

    for (uint32_t i = 0; i < hf_table_slots(table); i++)
        (void)hf_slot_read(table, i, &view);
    for (uint32_t i = 0; i < HF_NODES_MAX; i++)
        (void)hf_node_read(table, i, &row);
    for (int i = 0; i < HF_COUNTERS; i++)
        (void)hf_counter_read(table, (enum hf_counter)i);
    (void)hf_index_find(table, "name", 4, &view);
    for (int i = 0; i < HF_EVENT_RINGS; i++) {
        enum hf_event_ring ring = (enum hf_event_ring)i;
        uint64_t oldest = hf_events_oldest(table, ring);
        struct hf_event event;

        for (uint64_t index = oldest; index < oldest + 40; index++)
            (void)hf_event_read(table, ring, index, &event);
    }
    (void)hf_renewals_read(table, 0, &renewal, 1);
}

static void random_damage_never_crashes_a_reader(void **state)
{
    struct fixture f = fixture_new();
    struct hf_table table = create_alive(&f), reader, before;
    char *bytes = (char *)table.header;
    char *saved = malloc(table.size);
    unsigned opened = 0;

    (void)state;
    fixture_publish(&table, 3, 0, "name", 1, FIXTURE_DEADLINE);
    assert_int_equal(hf_index_add(&table, "name", 4, 3), 0);
    memcpy(saved, bytes, table.size);
    assert_int_equal(open_it(&f, &before), 0);
    srand(11);
    for (int i = 0; i < 3000; i++) {
        size_t range = i % 2 ? sizeof(struct hf_table_header) : table.size;

        for (int n = rand() % 8; n >= 0; n--) {
            size_t at = (size_t)rand() % range;

            bytes[at] = (char)(i % 3 ? rand() : bytes[at] ^ 1 << rand() % 8);
        }
        if (open_it(&f, &reader) == 0) {
            read_all(&reader);
            hf_table_close(&reader);
            opened++;
        }
        read_all(&before); /* one that was good when it was opened */
        memcpy(bytes, saved, table.size);
    }
    assert_true(opened > 0);
    hf_table_close(&before);
    hf_table_close(&table);
    free(saved);
    shm_unlink(f.name);
}

/* --- a full /dev/shm -------------------------------------------------------------------------- */

static void in_a_small_shm(struct fixture *f)
{
    struct hf_table table;
    bool warm;

    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1m,mode=1777") != 0)
        _exit(CHILD_SKIPS);
    f->spec.capacity = 100000;
    CHILD_CHECK(create(f, &table, &warm) == HF_ESYS && errno == ENOSPC);
    CHILD_CHECK(strstr(f->why, "/dev/shm is full") && strstr(f->why, "8192 leases"));
    CHILD_CHECK(!exists(f));
    f->spec.capacity = 16;
    CHILD_CHECK(create(f, &table, &warm) == 0);
    memset(table.text, 1, table.text_units * HF_TEXT_UNIT);
    _exit(0);
}

/* A table in a /dev/shm of which it leaves nothing: the descriptor of a file of all the rest. */
static int fill_a_small_shm(struct fixture *f, struct hf_table *ret_table)
{
    static const char rest[4096];
    int fd;

    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=4m,mode=1777") != 0)
        _exit(CHILD_SKIPS);
    *ret_table = create_alive(f);
    fd = open("/dev/shm/rest", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    while (write(fd, rest, sizeof(rest)) > 0)
        ;
    return fd;
}

/* The text has no memory for the longest names: who wants one is told, and nobody gets a signal. */
static void text_in_a_full_shm(struct fixture *f)
{
    static char name[HF_NAME_MAX];
    struct hf_table table, reader;
    struct hf_text_pool *pool;
    struct hf_slot_view view;
    uint32_t off = 0, last;
    int fd, rc;

    f->spec.capacity = 4000;
    fd = fill_a_small_shm(f, &table);
    CHILD_CHECK(open_it(f, &reader) == 0);
    CHILD_CHECK(hf_text_pool_create(&table, &pool) == 0);
    memset(name, 'x', sizeof(name));
    while ((rc = hf_text_put(pool, name, sizeof(name), "", 0, "", 0, &last)) == 0)
        off = last;
    CHILD_CHECK(rc == HF_EFULL && table.text_there < table.text_units);
    fixture_publish(&table, 3, off, "x", 1, FIXTURE_DEADLINE);
    CHILD_CHECK(hf_slot_read(&reader, 3, &view) == 0 && view.name[0] == 'x');
    fixture_publish(&table, 4, (uint32_t)table.text_room - 1, "x", 1, FIXTURE_DEADLINE);
    CHILD_CHECK(hf_slot_read(&reader, 4, &view) == HF_ETABLE);
    CHILD_CHECK(ftruncate(fd, 0) == 0);
    CHILD_CHECK(hf_text_put(pool, name, sizeof(name), "", 0, "", 0, &off) == 0);
    fixture_publish(&table, 4, off, "x", 1, FIXTURE_DEADLINE);
    CHILD_CHECK(hf_slot_read(&reader, 4, &view) == 0);
    _exit(0);
}

static void in_a_child(void (*fn)(struct fixture *f))
{
    struct fixture f = fixture_new();
    pid_t child = fork();
    int code;

    if (child == 0)
        fn(&f);
    code = fixture_wait(child);
    if (code == CHILD_SKIPS)
        skip();
    assert_int_equal(code, 0);
}

static void text_that_finds_no_memory_is_an_error_and_no_signal(void **state)
{
    (void)state;
    in_a_child(text_in_a_full_shm);
}

/* There is no memory for more slots: all goes on as it was, until there is. */
static void slots_in_a_full_shm(struct fixture *f)
{
    struct hf_table table, reader;
    struct hf_slot_view view;
    int fd = fill_a_small_shm(f, &table);

    CHILD_CHECK(open_it(f, &reader) == 0);
    fixture_publish(&table, 3, 0, "x", 1, FIXTURE_DEADLINE);
    CHILD_CHECK(ftruncate(fd, (4 << 20) - (2 << 20)) == 0);
    CHILD_CHECK(hf_table_take_slots(&table, 60000) == HF_EFULL);
    CHILD_CHECK(table.slots_there == 16 && hf_table_slots(&reader) == 16);
    CHILD_CHECK(table.index_there == atomic_load(&table.header->index_size) &&
                table.index_there == hf_index_size_for(16));
    CHILD_CHECK(hf_slot_read(&reader, 3, &view) == 0);
    CHILD_CHECK(hf_slot_read(&reader, 16, &view) == HF_EINVAL);
    CHILD_CHECK(hf_table_take_slots(&table, 2000) == 0); /* for that there is enough */
    (void)posix_fallocate(fd, 0, 4 << 20);
    hf_index_rebuild(&table);
    for (uint32_t i = 0; i < 2000; i++)
        atomic_store(&table.slots[i].check, 7);
    CHILD_CHECK(hf_slot_read(&reader, 3, &view) == 0);
    CHILD_CHECK(hf_slot_read(&reader, 1999, &view) == HF_ENOTHELD);
    _exit(0);
}

static void slots_that_find_no_memory_are_an_error_and_no_signal(void **state)
{
    (void)state;
    in_a_child(slots_in_a_full_shm);
}

static void churn(struct hf_table *table, uint32_t base)
{
    for (uint32_t i = 0; i < table->index_size; i++) {
        char name[16];

        CHILD_CHECK(hf_index_add(table, name, (size_t)snprintf(name, 16, "%u", base + i), 7) == 0);
        hf_index_remove(table, name, strlen(name), 7);
    }
}

/* It is made anew in memory that it has. */
static void index_in_a_full_shm(struct fixture *f)
{
    struct hf_table table, reader;
    struct hf_slot_view view;

    f->spec.capacity = 4000;
    (void)fill_a_small_shm(f, &table);
    CHILD_CHECK(open_it(f, &reader) == 0);
    fixture_publish(&table, 3, 0, "x", 1, FIXTURE_DEADLINE);
    hf_words_store(table.text, "x\0\0\0\0\0\0", 8);
    CHILD_CHECK(hf_index_add(&table, "x", 1, 3) == 0);
    churn(&table, 0);
    CHILD_CHECK(hf_index_find(&reader, "x", 1, &view) == 0);
    CHILD_CHECK(hf_index_find(&reader, "y", 1, &view) == HF_ENOTHELD);
    hf_index_rebuild(&table);
    CHILD_CHECK(hf_index_find(&reader, "x", 1, &view) == 0);
    CHILD_CHECK(hf_index_find(&reader, "y", 1, &view) == HF_ENOTHELD);
    CHILD_CHECK(atomic_load(&table.header->index_seq) >= 4);
    /* No reader looks beyond it, whatever stands there. */
    atomic_store(&table.header->index_area, hf_index_area_word(1, 2 * table.index_there));
    CHILD_CHECK(hf_index_find(&reader, "x", 1, &view) == HF_ETABLE);
    _exit(0);
}

static void an_index_needs_no_memory_to_be_made_anew(void **state)
{
    (void)state;
    in_a_child(index_in_a_full_shm);
}

static void a_full_dev_shm_is_an_error_and_no_signal(void **state)
{
    struct fixture f = fixture_new();
    pid_t child = fork();
    int code;

    (void)state;
    if (child == 0)
        in_a_small_shm(&f);
    code = fixture_wait(child);
    if (code == CHILD_SKIPS)
        skip(); /* not allowed to make a mount namespace here */
    assert_int_equal(code, 0);
    assert_false(exists(&f));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_truncated_object_of_our_own_is_replaced),
        cmocka_unit_test(another_users_object_is_refused_naming_the_owner),
        cmocka_unit_test(a_user_meets_roots_object),
        cmocka_unit_test(a_link_is_not_followed),
        cmocka_unit_test(a_pipe_does_not_hold_us_up),
        cmocka_unit_test(a_directory_is_refused),
        cmocka_unit_test(a_second_link_is_refused),
        cmocka_unit_test(an_object_that_others_can_write_is_refused),
        cmocka_unit_test(every_damage_is_refused_with_a_reason),
        cmocka_unit_test(holes_are_refused),
        cmocka_unit_test(a_hole_where_text_should_be_is_refused),
        cmocka_unit_test(random_damage_never_crashes_a_reader),
        cmocka_unit_test(a_full_dev_shm_is_an_error_and_no_signal),
        cmocka_unit_test(text_that_finds_no_memory_is_an_error_and_no_signal),
        cmocka_unit_test(slots_that_find_no_memory_are_an_error_and_no_signal),
        cmocka_unit_test(an_index_needs_no_memory_to_be_made_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
