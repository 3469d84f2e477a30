/* agent/state/node_records.h: what is known of the nodes comes back to the next agent of this boot, or nothing
 * does; whenever the one before was killed. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/base/log.h"
#include "agent/state/node_records.h"
#include "shm/compiler.h"
#include "shm/status.h"
#include "tests/support/copied.h"
#include "tests/support/scratch.h"

#define TEST(name) static void name(void **state HF_UNUSED)

#define NODES      3
#define LIST       "0123456789abcdef0123456789abcdef01234567"
#define KILLS      200

static const struct boot_clock this_boot[1] = {{{1, 2, 3}, 0}}, other_boot[1] = {{{1, 2, 4}, 0}};

static char dir[64], path[80], why[400];
static struct node_records *records;

static int open_as(int nodes, const char *list, const struct boot_clock *boot)
{
    why[0] = '\0';
    return node_records_open(dir, nodes, list, boot, &records, why, sizeof(why));
}

static void reopen(void)
{
    node_records_close(records);
    assert_int_equal(open_as(NODES, LIST, this_boot), HF_OK);
}

static int set_up(void **state HF_UNUSED)
{
    log_init(LOG_LEVEL_ERROR);
    scratch_path_tmpfs(dir, sizeof(dir));
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof(path), "%s/nodes", dir);
    return open_as(NODES, LIST, this_boot);
}

static int tear_down(void **state HF_UNUSED)
{
    node_records_remove(records);
    records = NULL;
    return rmdir(dir); /* fails when anything else was left */
}

/* Every field can be told from `number`. */
static struct node_trust numbered(uint32_t number)
{
    struct node_trust trust;

    memset(&trust, 0, sizeof(trust));
    trust.contacted = trust.clock_known = true;
    snprintf(trust.facts.run_id, sizeof(trust.facts.run_id), "%040u", number);
    snprintf(trust.nonce, sizeof(trust.nonce), "%032u", number);
    snprintf(trust.step_nonce, sizeof(trust.step_nonce), "%032u", number + 1);
    snprintf(trust.trace, sizeof(trust.trace), "%032u", number + 2);
    trust.mark = number;
    trust.until = (hf_time){number + INT64_C(1)};
    trust.low_us = -(int64_t)number;
    trust.high_us = number;
    return trust;
}

static void put(int node, uint32_t number)
{
    struct node_trust trust = numbered(number);

    node_records_put(records, node, &trust);
}

static void assert_has(int node, uint32_t number)
{
    struct node_trust got, want = numbered(number);

    assert_int_equal(node_records_get(records, node, &got), HF_OK);
    assert_memory_equal(&got, &want, sizeof(want));
}

static void assert_empty(int nodes)
{
    struct node_trust trust;

    for (int i = 0; i < nodes; i++)
        assert_int_equal(node_records_get(records, i, &trust), HF_ENOTHELD);
}

/* Turns a bit at each place where these bytes stand. */
static void spoil(const char *bytes)
{
    char image[65536], *at = image;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    ssize_t size = pread(fd, image, sizeof(image), 0);

    assert_true(fd >= 0 && size > 0 && size < (ssize_t)sizeof(image));
    while ((at = memmem(at, (size_t)(image + size - at), bytes, strlen(bytes))))
        *at++ ^= 4;
    assert_int_equal(pwrite(fd, image, (size_t)size, 0), size);
    close(fd);
}

TEST(the_newest_comes_back)
{
    struct stat st;

    assert_empty(NODES);
    for (uint32_t number = 1; number <= 5; number++)
        put(2, number);
    put(0, 9);
    reopen();
    assert_has(2, 5);
    assert_has(0, 9);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_true(st.st_blocks * 512 >= st.st_size); /* no holes */
}

TEST(another_boot_time_namespace_or_list_begins_anew)
{
    const struct boot_clock other_namespace = {{1, 2, 3}, 1};
    const struct {
        int nodes;
        const char *list;
        const struct boot_clock *boot;
    } others[] = {{NODES, LIST, other_boot},
                  {NODES, LIST, &other_namespace},
                  {NODES, "another", this_boot},
                  {5, LIST, this_boot}};

    for (size_t i = 0; i < HF_LENGTH(others); i++) {
        put(0, 1);
        node_records_close(records);
        assert_int_equal(open_as(others[i].nodes, others[i].list, others[i].boot), HF_OK);
        assert_empty(others[i].nodes);
        reopen();
        assert_empty(NODES);
    }
}

TEST(a_copy_begins_anew)
{
    put(0, 1);
    assert_true(copied(path));
    reopen();
    assert_empty(NODES);
}

TEST(a_damaged_file_begins_anew)
{
    put(0, 1);
    spoil(LIST);
    reopen();
    assert_empty(NODES);
    put(0, 2);
    node_records_close(records);
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(open_as(NODES, LIST, this_boot), HF_OK);
    assert_empty(NODES);
}

TEST(a_file_that_is_not_ours_alone_is_refused)
{
    node_records_close(records);
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(open_as(NODES, LIST, this_boot), HF_ETABLE);
    assert_non_null(strstr(why, path));
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(open_as(NODES, LIST, this_boot), HF_OK);
}

/* (!) Wherever it lies by then. */
TEST(one_that_a_living_agent_writes_is_left_to_it)
{
    struct node_records *owner;

    put(0, 7);
    for (int again = 0; again < 2; again++) { /* made by its owner, and then kept by it */
        owner = records;
        records = NULL;
        assert_int_equal(open_as(NODES, LIST, this_boot), HF_EBUSY);
        assert_null(records);
        assert_non_null(strstr(why, path));
        records = owner;
        reopen();
        assert_has(0, 7);
    }
}

static _Noreturn void write_until_killed(_Atomic uint32_t *progress)
{
    for (uint32_t number = atomic_load(progress) + 1;; number++) {
        put(1, number);
        atomic_store(progress, number);
    }
}

TEST(a_kill_at_any_moment_leaves_the_last_put_or_the_one_before)
{
    _Atomic uint32_t *progress =
        mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(progress != MAP_FAILED);
    put(1, 0);
    srandom((unsigned)getpid());
    for (int i = 0; i < KILLS; i++) {
        struct node_trust got;
        pid_t pid = fork();
        uint32_t last;

        if (pid == 0)
            write_until_killed(progress);
        assert_true(pid > 0);
        usleep((useconds_t)(random() % 2000));
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        reopen();
        last = atomic_load(progress);
        assert_int_equal(node_records_get(records, 1, &got), HF_OK);
        assert_in_range(got.mark, last, last + 1);
        assert_has(1, got.mark);
        atomic_store(progress, got.mark);
    }
    munmap((void *)progress, sizeof(*progress));
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(the_newest_comes_back),
        ROW(another_boot_time_namespace_or_list_begins_anew),
        ROW(a_copy_begins_anew),
        ROW(a_damaged_file_begins_anew),
        ROW(a_file_that_is_not_ours_alone_is_refused),
        ROW(one_that_a_living_agent_writes_is_left_to_it),
        ROW(a_kill_at_any_moment_leaves_the_last_put_or_the_one_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
