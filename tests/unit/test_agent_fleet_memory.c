/* agent/state/fleet_memory.h: the fleet's record comes back to the next agent of this boot, or nothing does; and
 * agent/state/fleet_shown.h. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/base/log.h"
#include "agent/state/state_file.h"
#include "agent/state/fleet_memory.h"
#include "agent/state/fleet_shown.h"
#include "shm/compiler.h"
#include "shm/status.h"
#include "tests/support/copied.h"
#include "tests/support/scratch.h"

#define TEST(name) static void name(void **state HF_UNUSED)

#define MAGIC      UINT64_C(0x315445454c464648)

static const struct boot_clock this_boot[1] = {{{1, 2, 3}, 0}}, other_boot[1] = {{{1, 2, 4}, 0}};
static const char record[] = "holdfast-fleet 1\nseat a 10.0.0.1:6379\n";

static char dir[64], path[80], why[400];
static struct fleet_memory memory;
static const char *const text = memory.text;

static int set_up(void **state HF_UNUSED)
{
    log_init(LOG_LEVEL_ERROR);
    scratch_path_tmpfs(dir, sizeof(dir));
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof(path), "%s/fleet", dir);
    return 0;
}

static int tear_down(void **state HF_UNUSED)
{
    if (unlink(path) < 0)
        (void)rmdir(path); /* of a test that failed */
    return rmdir(dir);     /* fails when anything else was left */
}

/* Into `memory`; the text's length. */
static size_t found(const struct boot_clock *boot)
{
    memset(&memory, 'x', sizeof(memory));
    fleet_memory_read(path, boot, &memory);
    assert_int_equal(strnlen(text, FLEET_TEXT_SIZE), memory.length);
    if (memory.length == 0) {
        assert_int_equal(memory.list_count, 0);
        assert_int_equal(memory.from.ns, HF_TIME_PAST.ns);
    }
    return memory.length;
}

static const struct fleet_memory *with_text(const char *what, size_t length)
{
    static struct fleet_memory m;

    memset(&m, 0, sizeof(m));
    memcpy(m.text, what, length);
    m.length = length;
    m.from = (hf_time){77};
    m.list_count = 2;
    for (int i = 0; i < m.list_count; i++) {
        snprintf(m.list[i].id, sizeof(m.list[i].id), "node-%d", i);
        memset(m.list[i].address, 'a' + i, HF_NODE_TEXT_MAX);
    }
    return &m;
}

static void assert_list(void)
{
    const struct fleet_memory *m = with_text("", 0);

    assert_int_equal(memory.from.ns, 77);
    assert_int_equal(memory.list_count, m->list_count);
    for (int i = 0; i < m->list_count; i++) {
        assert_string_equal(memory.list[i].id, m->list[i].id);
        assert_string_equal(memory.list[i].address, m->list[i].address);
    }
}

static void keep(const char *what, size_t length)
{
    assert_int_equal(fleet_memory_keep(path, this_boot, with_text(what, length), why, sizeof(why)),
                     HF_OK);
}

static void keep_none(void)
{
    assert_int_equal(fleet_memory_keep(path, this_boot, NULL, why, sizeof(why)), HF_OK);
}

static void keep_it(void)
{
    keep(record, strlen(record));
    assert_int_equal(found(this_boot), strlen(record));
}

TEST(a_copy_tells_nothing)
{
    keep_it();
    assert_true(copied(path));
    assert_int_equal(found(this_boot), 0);
}

TEST(a_record_comes_back)
{
    struct stat st;

    assert_int_equal(found(this_boot), 0);
    keep_it();
    assert_string_equal(text, record);
    assert_list();
    assert_int_equal(found(this_boot), strlen(record)); /* and again */
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
}

TEST(the_last_one_counts)
{
    char longest[FLEET_TEXT_SIZE];

    memset(longest, 'l', sizeof(longest));
    keep_it();
    keep(longest, sizeof(longest) - 1);
    assert_int_equal(found(this_boot), sizeof(longest) - 1);
    assert_memory_equal(text, longest, sizeof(longest) - 1);
    keep_it();
    assert_string_equal(text, record);
}

TEST(its_end_does_too)
{
    keep_it();
    keep_none();
    assert_int_equal(found(this_boot), 0);
    assert_int_not_equal(access(path, F_OK), 0);
    keep_none();
}

/* (!) */
TEST(it_is_of_one_boot_and_one_time_namespace)
{
    const struct boot_clock elsewhere = {{1, 2, 3}, 1};

    keep_it();
    assert_int_equal(found(other_boot), 0);
    assert_int_equal(found(&elsewhere), 0);
    assert_int_equal(found(this_boot), strlen(record)); /* who looks changes nothing */
}

static void write_at(off_t at, uint64_t value)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);

    assert_int_equal(pwrite(fd, &value, sizeof(value), at), sizeof(value));
    close(fd);
}

TEST(what_no_agent_writes_is_none)
{
    static const off_t length_at = STATE_FILE_HEADER + offsetof(struct fleet_memory, length);
    static const uint64_t lengths[] = {0, FLEET_TEXT_SIZE, UINT64_MAX};

    keep_it();
    write_at(0, MAGIC + 1);
    assert_int_equal(found(this_boot), 0);
    keep_it();
    write_at(16, UINT32_MAX); /* a size that the file does not have */
    assert_int_equal(found(this_boot), 0);
    for (size_t i = 0; i < HF_LENGTH(lengths); i++) {
        keep_it();
        write_at(length_at, lengths[i]);
        assert_int_equal(found(this_boot), 0);
    }
    keep_it();
    write_at(STATE_FILE_HEADER + offsetof(struct fleet_memory, list_count), HF_NODES_MAX + 1);
    assert_int_equal(found(this_boot), 0);
    keep_it();
    assert_int_equal(truncate(path, STATE_FILE_HEADER + sizeof(memory) - 1), 0);
    assert_int_equal(found(this_boot), 0);
    keep_it();
    assert_int_equal(chmod(path, 0644), 0); /* not as we make it */
    assert_int_equal(found(this_boot), 0);
    assert_int_equal(unlink(path), 0);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)); /* somebody's touch(1) */
    assert_int_equal(found(this_boot), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("nowhere", path), 0);
    assert_int_equal(found(this_boot), 0);
    keep_it(); /* whatever was there */
}

TEST(a_file_of_zeros_is_none)
{
    keep_it();
    assert_int_equal(truncate(path, STATE_FILE_HEADER), 0);
    assert_int_equal(truncate(path, STATE_FILE_HEADER + sizeof(memory)), 0);
    assert_int_equal(found(this_boot), 0);
}

TEST(a_later_version_is_none)
{
    const struct state_file_header later = {
        .magic = MAGIC, .fingerprint = 3, .size = 8192, .clock.boot_id = {1, 2, 3}};
    int fd;

    assert_int_equal(state_file_make(path, "it", &later, &fd, why, sizeof(why)), HF_OK);
    close(fd);
    assert_int_equal(found(this_boot), 0);
    keep_it();
}

TEST(what_cannot_be_kept_is_told)
{
    const struct fleet_memory *m = with_text(record, strlen(record));
    char nowhere[96];

    snprintf(nowhere, sizeof(nowhere), "%s/no/fleet", dir);
    assert_int_equal(fleet_memory_keep(nowhere, this_boot, m, why, sizeof(why)), HF_ESYS);
    assert_non_null(strstr(why, nowhere));
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(found(this_boot), 0);
    assert_int_equal(fleet_memory_keep(path, this_boot, NULL, why, sizeof(why)), HF_ESYS);
    assert_non_null(strstr(why, "cannot remove"));
    assert_int_equal(fleet_memory_keep(path, this_boot, m, why, sizeof(why)), HF_ESYS);
    assert_int_equal(rmdir(path), 0);
}

TEST(an_ephemeral_agent_keeps_none)
{
    const struct fleet_memory *m = with_text(record, strlen(record));

    memory.length = 1;
    assert_int_equal(fleet_memory_keep("", this_boot, m, why, sizeof(why)), HF_OK);
    assert_int_equal(fleet_memory_keep("", this_boot, NULL, why, sizeof(why)), HF_OK);
    fleet_memory_read("", this_boot, &memory);
    assert_int_equal(memory.length, 0);
}

TEST(the_board_shows_what_was_shown_last)
{
    static struct fleet_board board;
    static struct fleet_shown shown, seen;

    fleet_board_init(&board);
    seen.count = 7;
    fleet_board_look(&board, &seen);
    assert_false(seen.known);
    assert_int_equal(seen.count, 0);
    shown.known = true;
    shown.count = 3;
    strcpy(shown.node[2].peer, "10.0.0.3:6379");
    strcpy(shown.differs, "it does");
    fleet_board_show(&board, &shown);
    fleet_board_look(&board, &seen);
    assert_memory_equal(&seen, &shown, sizeof(seen));
    shown.known = false;
    fleet_board_show(&board, &shown);
    fleet_board_look(&board, &seen);
    assert_false(seen.known);
    fleet_board_fini(&board);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_copy_tells_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_record_comes_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_last_one_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(its_end_does_too, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_is_of_one_boot_and_one_time_namespace, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_no_agent_writes_is_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_of_zeros_is_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_later_version_is_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_kept_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_ephemeral_agent_keeps_none, set_up, tear_down),
        cmocka_unit_test(the_board_shows_what_was_shown_last),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
