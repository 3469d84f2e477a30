/* What the tests of process trees share. Behind <cmocka.h>. */
#ifndef HOLDFAST_TESTS_TREE_FIXTURE_H
#define HOLDFAST_TESTS_TREE_FIXTURE_H

#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* In a child, where cmocka's assertions would end up in the parent's report. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* In a child of its own: a subreaper takes in every orphan. */
static void run_apart(void (*test)(void), unsigned patience_s)
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(patience_s);
        test();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

#endif
