/* agent/process/singleton.h: the lock is one agent's, and a child shares it with the process that took it. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fcntl.h>

#include <cmocka.h>

#include "agent/process/singleton.h"
#include "shm/compiler.h"
#include "shm/status.h"
#include "tests/support/scratch.h"

#define TEST(name) static void name(void **state HF_UNUSED)

static struct config config;
static struct singleton singleton;
static char why[1024];

static int set_up(void **state HF_UNUSED)
{
    memset(&config, 0, sizeof(config));
    config.group = (gid_t)-1;
    snprintf(config.name, sizeof(config.name), "a");
    scratch_path(config.runtime_dir, sizeof(config.runtime_dir));
    return mkdtemp(config.runtime_dir) ? 0 : -1;
}

static int tear_down(void **state HF_UNUSED)
{
    char path[sizeof(config.runtime_dir) + 8];

    /* There only after a failure. */
    snprintf(path, sizeof(path), "%s/a/lock", config.runtime_dir);
    (void)unlink(path);
    snprintf(path, sizeof(path), "%s/a", config.runtime_dir);
    (void)rmdir(path);
    return rmdir(config.runtime_dir);
}

static int take(struct singleton *ret)
{
    why[0] = '\0';
    return singleton_take(&config, ret, why, sizeof(why));
}

/* Takes the lock in a process with a child that lives until `until` is closed. Returns that process' pid once it is
 * taken; it ends then if `ends`. */
static pid_t take_elsewhere(int until[2], bool ends)
{
    int taken[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe(until), 0);
    assert_int_equal(pipe(taken), 0);
    pid = fork();
    if (pid == 0) {
        if (take(&singleton) < 0)
            _exit(1);
        close(until[1]);
        if (fork() == 0) {
            close(taken[0]);
            close(taken[1]);
            _exit(read(until[0], &byte, 1) == 0 ? 0 : 1);
        }
        (void)!write(taken[1], "", 1);
        if (!ends)
            (void)!read(until[0], &byte, 1);
        _exit(0);
    }
    assert_true(pid > 0);
    close(until[0]);
    assert_int_equal(read(taken[0], &byte, 1), 1);
    close(taken[0]);
    close(taken[1]);
    return pid;
}

/* The type of the lock that a reader is told of; it takes none. */
static int shown(void)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    char path[sizeof(config.runtime_dir) + 8];
    int fd;

    snprintf(path, sizeof(path), "%s/a/lock", config.runtime_dir);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_OFD_GETLK, &lock), 0);
    close(fd);
    return lock.l_type;
}

TEST(a_reader_sees_the_lock_without_taking_it)
{
    assert_int_equal(take(&singleton), HF_OK);
    assert_int_equal(shown(), F_WRLCK);
    singleton_release(&singleton, false);
    assert_int_equal(shown(), F_UNLCK);
}

static bool is_there(const char *name, struct stat *ret)
{
    char path[sizeof(config.runtime_dir) + 16];

    snprintf(path, sizeof(path), "%s/a/%s", config.runtime_dir, name);
    return lstat(path, ret) == 0;
}

static void make(const char *name)
{
    char path[sizeof(config.runtime_dir) + 16];
    int fd;

    snprintf(path, sizeof(path), "%s/a/%s", config.runtime_dir, name);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
}

TEST(a_release_keeps_each_byte_and_inode_or_all_goes)
{
    static const char *const names[] = {"lock", "sock", "control"};
    struct stat before[3], after;

    assert_int_equal(take(&singleton), HF_OK);
    assert_false(singleton.found);
    make("sock");
    make("control");
    for (int i = 0; i < 3; i++)
        assert_true(is_there(names[i], &before[i]));
    assert_true(before[0].st_size > 0);
    singleton_release(&singleton, false);
    for (int i = 0; i < 3; i++) {
        assert_true(is_there(names[i], &after));
        assert_int_equal(after.st_ino, before[i].st_ino);
        assert_int_equal(after.st_size, before[i].st_size);
    }
    assert_int_equal(take(&singleton), HF_OK);
    assert_true(singleton.found);
    assert_true(is_there("lock", &after));
    assert_int_equal(after.st_size, before[0].st_size);
    singleton_release(&singleton, true);
    for (int i = 0; i < 3; i++)
        assert_false(is_there(names[i], &after));
}

TEST(a_pid_that_has_no_room_keeps_no_agent_from_its_start)
{
    struct rlimit before, none;
    struct stat st;
    int rc;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    rc = take(&singleton);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(rc, HF_OK);
    assert_true(is_there("lock", &st));
    assert_int_equal(st.st_size, 0);
    assert_int_equal(shown(), F_WRLCK);
    singleton_release(&singleton, true);
}

TEST(whoever_has_it_is_named)
{
    char name[48];
    int until[2];
    pid_t pid = take_elsewhere(until, false);

    assert_int_equal(take(&singleton), HF_EBUSY);
    snprintf(name, sizeof(name), "pid %ld,", (long)pid);
    assert_non_null(strstr(why, name));
    close(until[1]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(take(&singleton), HF_OK);
    singleton_release(&singleton, true);
}

TEST(a_child_that_outlives_its_process_is_waited_for)
{
    int until[2];
    pid_t pid = take_elsewhere(until, true), closer;

    assert_int_equal(waitpid(pid, NULL, 0), pid);
    closer = fork();
    if (closer == 0) {
        (void)usleep(200 * 1000);
        _exit(0); /* and closes the last end of `until` */
    }
    assert_true(closer > 0);
    close(until[1]);
    assert_int_equal(take(&singleton), HF_OK);
    singleton_release(&singleton, true);
    assert_int_equal(waitpid(closer, NULL, 0), closer);
}

/* What it says must be what singleton_take() does, and nothing is made. */
TEST(a_look_makes_nothing_and_says_what_is_refused)
{
    char dir[600], path[sizeof(config.runtime_dir) + 8], looked[1024] = "";

    snprintf(path, sizeof(path), "%s/a", config.runtime_dir);
    assert_int_equal(singleton_dry_run(&config, dir, looked, sizeof(looked)), HF_OK);
    assert_string_equal(dir, path);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(singleton_dry_run(&config, dir, looked, sizeof(looked)), HF_OK);
    assert_int_equal(chmod(path, 0770), 0);
    assert_int_equal(singleton_dry_run(&config, dir, looked, sizeof(looked)), HF_EPERM);
    assert_int_equal(take(&singleton), HF_EPERM);
    assert_string_equal(looked, why);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(symlink("/tmp", path), 0);
    assert_int_equal(singleton_dry_run(&config, dir, looked, sizeof(looked)), HF_EPERM);
    assert_int_equal(take(&singleton), HF_EPERM);
    assert_string_equal(looked, why);
    assert_int_equal(unlink(path), 0);
    /* Of another's directory only the base may be: an operator's choice, unless it serves the system. */
    config.system = true;
    assert_int_equal(chmod(config.runtime_dir, 0777), 0);
    assert_int_equal(singleton_dry_run(&config, dir, looked, sizeof(looked)), HF_EPERM);
    config.system = false;
    assert_int_equal(singleton_dry_run(&config, dir, looked, sizeof(looked)), HF_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_reader_sees_the_lock_without_taking_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_release_keeps_each_byte_and_inode_or_all_goes, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_pid_that_has_no_room_keeps_no_agent_from_its_start,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(whoever_has_it_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_look_makes_nothing_and_says_what_is_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_child_that_outlives_its_process_is_waited_for, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
