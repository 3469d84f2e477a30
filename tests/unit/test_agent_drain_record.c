/* agent/state/drain_record.h: a drain comes back to the next agent of this boot, whatever became of its file. */
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
#include "agent/state/drain_record.h"
#include "shm/compiler.h"
#include "shm/status.h"
#include "tests/support/copied.h"
#include "tests/support/scratch.h"

#define TEST(name) static void name(void **state HF_UNUSED)

static const struct boot_clock this_boot[1] = {{{1, 2, 3}, 0}}, other_boot[1] = {{{1, 2, 4}, 0}};
static const struct hf_drained order = {
    .stands = true, .since_wall_ms = 1772366400000, .uid = 1000, .pid = 4121};
static const struct hf_drained none = {.stands = false};

static char dir[64], path[80], why[400];

static int set_up(void **state HF_UNUSED)
{
    log_init(LOG_LEVEL_ERROR);
    scratch_path_tmpfs(dir, sizeof(dir));
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof(path), "%s/drain", dir);
    return 0;
}

static int tear_down(void **state HF_UNUSED)
{
    if (unlink(path) < 0)
        (void)rmdir(path); /* of a test that failed */
    return rmdir(dir);     /* fails when anything else was left */
}

static struct hf_drained found(const struct boot_clock *boot)
{
    struct hf_drained drained;

    drain_record_read(path, boot, &drained);
    return drained;
}

static void keep(const struct hf_drained *drained)
{
    assert_int_equal(drain_record_keep(path, this_boot, drained, why, sizeof(why)), HF_OK);
}

/* Drained, but nothing is known of it. */
static void assert_unknown(void)
{
    const struct hf_drained drained = found(this_boot);

    assert_true(drained.stands);
    assert_int_equal(drained.since_wall_ms, 0);
}

static void write_at(off_t at, uint8_t byte)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);

    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

TEST(a_drain_comes_back)
{
    struct hf_drained drained;

    assert_false(found(this_boot).stands);
    keep(&order);
    drained = found(this_boot);
    assert_true(drained.stands);
    assert_int_equal(drained.since_wall_ms, order.since_wall_ms);
    assert_int_equal(drained.uid, order.uid);
    assert_int_equal(drained.pid, order.pid);
    assert_true(found(this_boot).stands); /* and again */
}

TEST(its_end_does_too)
{
    keep(&order);
    keep(&none);
    assert_false(found(this_boot).stands);
    assert_int_not_equal(access(path, F_OK), 0);
    keep(&none);
}

TEST(it_stands_in_every_time_namespace)
{
    const struct boot_clock elsewhere = {{1, 2, 3}, HF_NS_PER_SEC};

    keep(&order);
    assert_true(found(&elsewhere).stands);
    assert_true(found(&elsewhere).since_wall_ms == order.since_wall_ms);
}

TEST(it_stands_in_a_copy)
{
    keep(&order);
    assert_true(copied(path));
    assert_true(found(this_boot).stands);
    assert_true(found(this_boot).since_wall_ms == order.since_wall_ms);
}

TEST(it_ends_with_the_boot)
{
    keep(&order);
    assert_false(found(other_boot).stands);
    assert_int_not_equal(access(path, F_OK), 0);
}

/* (!) */
TEST(what_cannot_be_read_is_a_drain)
{
    keep(&order);
    write_at(0, 0xff); /* the header */
    assert_unknown();
    keep(&order);
    assert_int_equal(chmod(path, 0644), 0); /* not as we make it */
    assert_unknown();
    assert_int_equal(unlink(path), 0);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)); /* somebody's touch(1) */
    assert_unknown();
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("nowhere", path), 0);
    assert_unknown();
    keep(&none);
    assert_false(found(this_boot).stands);
}

TEST(a_later_version_is_a_drain)
{
    const struct state_file_header later = {.magic = UINT64_C(0x314e4941524446),
                                            .fingerprint = 2,
                                            .size = 8192,
                                            .clock.boot_id = {1, 2, 3}};
    int fd;

    assert_int_equal(state_file_make(path, "it", &later, &fd, why, sizeof(why)), HF_OK);
    close(fd);
    assert_unknown();
    keep(&none);
}

TEST(what_cannot_be_kept_is_told)
{
    char nowhere[96];

    snprintf(nowhere, sizeof(nowhere), "%s/no/drain", dir);
    assert_int_equal(drain_record_keep(nowhere, this_boot, &order, why, sizeof(why)), HF_ESYS);
    assert_non_null(strstr(why, nowhere));
    assert_int_equal(mkdir(path, 0700), 0);
    assert_unknown();
    assert_int_equal(drain_record_keep(path, this_boot, &none, why, sizeof(why)), HF_ESYS);
    assert_non_null(strstr(why, "cannot remove"));
    assert_int_equal(drain_record_keep(path, this_boot, &order, why, sizeof(why)), HF_ESYS);
    assert_int_equal(rmdir(path), 0);
}

TEST(an_ephemeral_agent_keeps_none)
{
    struct hf_drained drained;

    assert_int_equal(drain_record_keep("", this_boot, &order, why, sizeof(why)), HF_OK);
    assert_int_equal(drain_record_keep("", this_boot, &none, why, sizeof(why)), HF_OK);
    drain_record_read("", this_boot, &drained);
    assert_false(drained.stands);
}

TEST(the_sentence_has_since_who_and_the_remedy)
{
    const struct hf_drained unknown = {.stands = true}, longest = {.stands = true,
                                                                   .since_wall_ms = 1772366400000,
                                                                   .uid = UINT32_MAX,
                                                                   .pid = UINT32_MAX};
    char text[DRAIN_RECORD_TEXT], name[64];

    drain_record_say(&order, "default", text);
    assert_string_equal(text, "this host is drained since 2026-03-01T12:00:00Z by user 1000: it "
                              "grants no lock until holdfast undrain");
    drain_record_say(&unknown, "b", text);
    assert_string_equal(text, "this host is drained: it grants no lock until holdfast undrain "
                              "--agent b");
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    drain_record_say(&longest, name, text);
    assert_true(strlen(text) > strlen(name));
    assert_string_equal(text + strlen(text) - strlen(name), name); /* nothing is cut */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_drain_comes_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(its_end_does_too, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_stands_in_every_time_namespace, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_stands_in_a_copy, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_ends_with_the_boot, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_read_is_a_drain, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_later_version_is_a_drain, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_kept_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_ephemeral_agent_keeps_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_sentence_has_since_who_and_the_remedy, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
