/* Nothing of a program comes from a file any more, and the program goes on as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps))
        if (strchr(line, '/') && !strstr(line, "/memfd:") && sscanf(line, "%*s %4s", mode) == 1 &&
            mode[3] == 'p' && mode[0] == 'r')
            count++;
    assert_int_equal(fclose(maps), 0);
    return count;
}

static void what_was_there_goes_on(void **state)
{
    char *text = malloc(64), *env;

    (void)state;
    if (SKIPPED) {
        free(text);
        skip();
    }
    assert_non_null(text);
    assert_true(of_files() > 3);
    counted = 7;
    assert_int_equal(setenv("HOLDFAST_TEST_PAGES", "before", 1), 0);
    assert_int_equal(own_pages(), 0);
    assert_int_equal(of_files(), 0);
    assert_int_equal(counted, 7);
    assert_string_equal(constant, "as it was");
    env = getenv("HOLDFAST_TEST_PAGES");
    assert_non_null(env);
    assert_string_equal(env, "before");
    assert_int_equal(snprintf(text, 64, "%d %s", ++counted, constant), 11);
    assert_string_equal(text, "8 as it was");
    free(text);
}

static void a_forked_process_has_them_and_so_has_one_that_asks_again(void **state)
{
    int status;
    pid_t pid;

    (void)state;
    if (SKIPPED)
        skip();
    assert_int_equal(own_pages(), 0);
    assert_int_equal(own_pages(), 0);
    pid = fork();
    if (pid == 0)
        _exit(of_files() == 0 && counted >= 5 ? 0 : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_there_goes_on),
        cmocka_unit_test(a_forked_process_has_them_and_so_has_one_that_asks_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
