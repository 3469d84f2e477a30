/* A program whose pages nothing can take away goes on as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/scratch.h"
#include "tools/run/guardian.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SKIPPED true
#else
#define SKIPPED false
#endif

static volatile int counted = 5;
static const char constant[] = "as it was";

/* Private mappings of files, other than memory. */
static int of_files(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[4352], mode[5];
    int count = 0;

    if (!maps)
        return -1;
    while (fgets(line, sizeof(line), maps))
        count += strchr(line, '/') && !strstr(line, "/memfd:") &&
                 sscanf(line, "%*s %4s", mode) == 1 && mode[0] == 'r' && mode[3] == 'p';
    return fclose(maps) == 0 ? count : -1;
}

static long locked_kib(void)
{
    FILE *status = fopen("/proc/self/status", "re");
    char line[256];
    long kib = -1;

    if (!status)
        return -1;
    while (fgets(line, sizeof(line), status))
        (void)sscanf(line, "VmLck: %ld kB", &kib);
    return fclose(status) == 0 ? kib : -1;
}

/* What was there goes on as it was. */
static bool goes_on(void)
{
    char *text = malloc(64), *env = getenv("HOLDFAST_TEST_PAGES");
    bool good = text && env && strcmp(env, "before") == 0 && strcmp(constant, "as it was") == 0 &&
                counted == 7 && snprintf(text, 64, "%d %s", counted + 1, constant) == 11 &&
                strcmp(text, "8 as it was") == 0;

    free(text);
    return good;
}

/* In a process of its own: its exit code. */
static int in_a_child(int (*what)(void))
{
    int status;
    pid_t pid;

    counted = 7;
    assert_int_equal(setenv("HOLDFAST_TEST_PAGES", "before", 1), 0);
    pid = fork();
    if (pid == 0)
        _exit(what());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int keeps(void)
{
    own_pages();
    return locked_kib() < 1000 ? 1 : !goes_on();
}

static void the_kernel_keeps_them(void **state)
{
    struct rlimit limit;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
    if (SKIPPED || (geteuid() != 0 && limit.rlim_cur < (8 << 20)))
        skip();
    assert_int_equal(in_a_child(keeps), 0);
}

static int moves(void)
{
    static const struct rlimit none = {0, 0};
    int status;
    pid_t pid;

    if (setrlimit(RLIMIT_MEMLOCK, &none) < 0 || (geteuid() == 0 && setuid(65534) < 0))
        return 1;
    if (of_files() < 4)
        return 2;
    own_pages();
    if (of_files() != 0)
        return 3;
    if (!goes_on())
        return 4;
    own_pages(); /* again */
    if (of_files() != 0 || !goes_on())
        return 5;
    pid = fork();
    if (pid == 0)
        _exit(of_files() != 0 || !goes_on());
    return waitpid(pid, &status, 0) != pid || status != 0 ? 6 : 0;
}

static void without_leave_to_lock_memory_they_are_moved(void **state)
{
    (void)state;
    if (SKIPPED)
        skip();
    assert_int_equal(in_a_child(moves), 0);
}

/* The largest of a program's parts is a library's code. */
static int moves_small_ones(void)
{
    static const struct rlimit none = {0, 0}, some = {1 << 16, RLIM_INFINITY};
    int all = of_files();

    if (setrlimit(RLIMIT_FSIZE, &some) < 0 || setrlimit(RLIMIT_MEMLOCK, &none) < 0 ||
        (geteuid() == 0 && setuid(65534) < 0))
        return 1;
    own_pages(); /* a write beyond the limit would end this process: SIGXFSZ */
    if (of_files() == 0 || of_files() >= all)
        return 2;
    return goes_on() ? 0 : 3;
}

static void what_is_larger_than_a_file_may_be_stays(void **state)
{
    (void)state;
    if (SKIPPED)
        skip();
    assert_int_equal(in_a_child(moves_small_ones), 0);
}

static int moves_all_of_them(void)
{
    static const struct rlimit some = {2 << 20, 2 << 20}; /* for each, and not for all together */

    return setrlimit(RLIMIT_FSIZE, &some) < 0 ? 9 : moves();
}

static void a_files_limit_is_for_each_of_them(void **state)
{
    (void)state;
    if (SKIPPED)
        skip();
    assert_int_equal(in_a_child(moves_all_of_them), 0);
}

/* --- groups without an OOM killer ------------------------------------------------------------- */

static char folder[64];

static void put(const char *path, const char *text)
{
    char name[256];
    FILE *file;

    snprintf(name, sizeof(name), "%s/%s", folder, path);
    file = fopen(name, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static bool at_once(const char *groups)
{
    char name[256];

    snprintf(name, sizeof(name), "%s/groups", folder);
    put("groups", groups);
    return own_pages_at_once(name, folder);
}

static void without_an_oom_killer_they_are_asked_for_at_once(void **state)
{
    static const char killed[] = "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n";
    static const char unkilled[] = "oom_kill_disable 1\nunder_oom 0\noom_kill 0\n";
    static const char in_b[] = "5:cpu:/a/b\n4:hugetlb,memory:/a/b\n0::/\n";
    char command[128];

    (void)state;
    scratch_path(folder, sizeof(folder));
    assert_non_null(mkdtemp(folder));
    snprintf(command, sizeof(command), "mkdir -p %s/a/b", folder);
    assert_int_equal(system(command), 0);
    assert_false(at_once("0::/user.slice\n")); /* v2 always has one */
    assert_false(at_once("4:cpuset:/memory\n0::/\n"));
    assert_true(at_once(in_b)); /* nothing can be read */
    put("memory.oom_control", killed);
    assert_false(at_once(in_b)); /* a container's hierarchy begins here */
    put("a/memory.oom_control", killed);
    put("a/b/memory.oom_control", killed);
    assert_false(at_once(in_b));
    assert_false(at_once("4:memory:/\n"));
    put("a/b/memory.oom_control", unkilled);
    assert_true(at_once(in_b));
    assert_false(at_once("4:memory:/a\n"));
    put("a/b/memory.oom_control", killed);
    put("a/memory.oom_control", unkilled);
    assert_true(at_once(in_b)); /* what is above bounds it, too */
    snprintf(command, sizeof(command), "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_kernel_keeps_them),
        cmocka_unit_test(without_leave_to_lock_memory_they_are_moved),
        cmocka_unit_test(what_is_larger_than_a_file_may_be_stays),
        cmocka_unit_test(a_files_limit_is_for_each_of_them),
        cmocka_unit_test(without_an_oom_killer_they_are_asked_for_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
