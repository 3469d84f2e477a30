/* Where agents are looked for, and what the kernel tells of a process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "shm/bases.h"
#include "shm/process.h"
#include "shm/status.h"
#include "tests/support/scratch.h"

static void test_agent_or_default(void **state)
{
    (void)state;
    unsetenv("HOLDFAST_AGENT");
    assert_string_equal(hf_agent_or_default(NULL), "default");
    assert_string_equal(hf_agent_or_default(""), "default");
    assert_string_equal(hf_agent_or_default("x"), "x");
    setenv("HOLDFAST_AGENT", "y", 1);
    assert_string_equal(hf_agent_or_default(NULL), "y");
    assert_string_equal(hf_agent_or_default("x"), "x");
    unsetenv("HOLDFAST_AGENT");
}

static void test_own_runtime_directory_alone(void **state)
{
    struct hf_base bases[HF_BASES_MAX];

    (void)state;
    setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
    setenv("HOLDFAST_RUNTIME_DIR", "/somewhere", 1);
    assert_int_equal(hf_bases(bases), 1);
    assert_string_equal(bases[0].dir, "/somewhere");
    assert_false(bases[0].system);
    assert_int_equal(bases[0].owner, geteuid());
    unsetenv("HOLDFAST_RUNTIME_DIR");
}

static void test_the_users_then_the_systems(void **state)
{
    struct hf_base bases[HF_BASES_MAX];

    (void)state;
    unsetenv("HOLDFAST_RUNTIME_DIR");
    setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
    assert_int_equal(hf_bases(bases), 2);
    assert_string_equal(bases[0].dir, "/run/user/7/holdfast");
    assert_false(bases[0].system);
    assert_string_equal(bases[1].dir, "/run/holdfast");
    assert_true(bases[1].system);
}

/* Also while no agent runs in it. */
static void test_the_users_alone_where_it_has_a_directory(void **state)
{
    struct hf_base bases[HF_BASES_MAX];
    char dir[128], holdfast[160], own[192];

    (void)state;
    scratch_path(dir, sizeof(dir));
    assert_non_null(mkdtemp(dir));
    snprintf(holdfast, sizeof(holdfast), "%s/holdfast", dir);
    snprintf(own, sizeof(own), "%s/mine", holdfast);
    assert_int_equal(mkdir(holdfast, 0700), 0);
    assert_int_equal(mkdir(own, 0700), 0);
    setenv("XDG_RUNTIME_DIR", dir, 1);
    assert_int_equal(hf_bases_of("mine", bases), 1);
    assert_string_equal(bases[0].dir, holdfast);
    assert_int_equal(hf_bases_of("other", bases), 2);
    assert_int_equal(rmdir(own), 0);
    assert_int_equal(hf_bases_of("mine", bases), 2);
    assert_int_equal(rmdir(holdfast), 0);
    assert_int_equal(rmdir(dir), 0);
    unsetenv("XDG_RUNTIME_DIR");
}

/* As after su, and "sudo -E". */
static void test_a_directory_of_another_user_is_ignored(void **state)
{
    struct hf_base bases[HF_BASES_MAX];
    char dir[128], room[HF_USER_DIR_SIZE], own[64];
    bool root = geteuid() == 0;

    (void)state;
    scratch_path(dir, sizeof(dir));
    assert_non_null(mkdtemp(dir));
    setenv("XDG_RUNTIME_DIR", dir, 1);
    assert_string_equal(hf_user_dir(room), dir);
    if (root)
        assert_int_equal(chown(dir, 65534, 65534), 0);
    else
        setenv("XDG_RUNTIME_DIR", "/", 1);
    assert_int_equal(hf_bases(bases), root ? 1 : 2);
    snprintf(own, sizeof(own), "/run/user/%u/holdfast", (unsigned)geteuid());
    assert_string_equal(bases[0].dir, root ? "/run/holdfast" : own);
    assert_true(root ? !hf_user_dir(room) : hf_user_dir(room) == room);
    unsetenv("XDG_RUNTIME_DIR");
    assert_int_equal(rmdir(dir), 0);
}

static void test_a_path_that_is_too_long(void **state)
{
    char text[HF_BASE_SIZE + 1];
    struct hf_base bases[HF_BASES_MAX];

    (void)state;
    memset(text, 'x', HF_BASE_SIZE);
    text[HF_BASE_SIZE] = '\0';
    text[0] = '/';
    setenv("XDG_RUNTIME_DIR", text, 1);
    assert_int_equal(hf_bases(bases), HF_EINVAL);
    unsetenv("XDG_RUNTIME_DIR");
    setenv("HOLDFAST_RUNTIME_DIR", text, 1);
    assert_int_equal(hf_bases(bases), HF_EINVAL);
    unsetenv("HOLDFAST_RUNTIME_DIR");
}

static void test_paths_of_the_system(void **state)
{
    (void)state;
    assert_true(hf_path_is_system("/run/holdfast/x/sock"));
    assert_false(hf_path_is_system("/run/holdfastx/sock"));
    assert_false(hf_path_is_system("/run/holdfast"));
}

static void test_start_time(void **state)
{
    pid_t pid = fork();

    (void)state;
    if (pid == 0)
        _exit(0);
    assert_true(hf_process_start_time(0) > 0);
    assert_int_equal(hf_process_start_time(0), hf_process_start_time(getpid()));
    assert_true(hf_process_start_time(pid) >= hf_process_start_time(0)); /* a zombie has one, too */
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(hf_process_start_time(pid), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agent_or_default),
        cmocka_unit_test(test_own_runtime_directory_alone),
        cmocka_unit_test(test_the_users_then_the_systems),
        cmocka_unit_test(test_the_users_alone_where_it_has_a_directory),
        cmocka_unit_test(test_a_directory_of_another_user_is_ignored),
        cmocka_unit_test(test_a_path_that_is_too_long),
        cmocka_unit_test(test_paths_of_the_system),
        cmocka_unit_test(test_start_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
