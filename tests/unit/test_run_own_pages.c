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

#include "tools/run/own_pages.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_kernel_keeps_them),
        cmocka_unit_test(without_leave_to_lock_memory_they_are_moved),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
