/* Starting a job: what the new process has of its caller's, and what tells how it ended. No control group here, which
 * tests/integration/test_groups.py has. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/common/exit_code.h"
#include "tools/run/job.h"

static const struct cgroup no_group = {.parent_fd = -1, .fd = -1, .events_fd = -1};
static atomic_int *failed;

/* Signals are taken in a process of the test's own; the exit code of `command` started there. */
static int run(void (*before)(void), bool output_to_stderr, bool no_new_privs,
               char *const command[])
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        struct signals signals;
        struct job_start start = {.argv = command,
                                  .signals = &signals,
                                  .cgroup = &no_group,
                                  .output_to_stderr = output_to_stderr,
                                  .no_new_privs = no_new_privs,
                                  .failed = failed};
        bool inside = true;
        pid_t job;

        alarm(60);
        if (before)
            before();
        if (signals_take(&signals) < 0 || job_start(&start, &job, &inside) < 0 || inside ||
            waitpid(job, &status, 0) != job)
            _exit(99);
        _exit(job_exit_code(status));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

#define SH(...)      ((char *const[]){"sh", "-c", __VA_ARGS__, NULL})
#define STATUS(LINE) ((char *const[]){"grep", "-q", LINE, "/proc/self/status", NULL})

static void the_exit_code_is_the_jobs(void **state)
{
    (void)state;
    atomic_store(failed, 0);
    assert_int_equal(run(NULL, false, false, SH("exit 0")), 0);
    assert_int_equal(run(NULL, false, false, SH("exit 7")), 7);
    assert_int_equal(run(NULL, false, false, SH("kill -TERM $$")), EXIT_BY_SIGNAL + SIGTERM);
    assert_int_equal(atomic_load(failed), 0);
}

static void an_exec_that_fails_is_told_before_the_end(void **state)
{
    (void)state;
    assert_int_equal(run(NULL, false, false, (char *const[]){"/nowhere/at-all", NULL}),
                     EXIT_NOT_FOUND);
    assert_int_equal(atomic_load(failed), ENOENT);
    assert_int_equal(run(NULL, false, false, (char *const[]){"/dev/null", NULL}), EXIT_CANNOT_RUN);
    assert_int_equal(atomic_load(failed), EACCES);
}

static void ignore_hangups(void)
{
    sigset_t usr1;

    signal(SIGHUP, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_SETMASK, &usr1, NULL);
}

/* SigBlk and SigIgn have a bit for each. Everything is blocked in a guardian, and SIGCHLD never ignored. */
static void signals_are_as_the_caller_had_them(void **state)
{
    (void)state;
    assert_int_equal(run(ignore_hangups, false, false, STATUS("^SigBlk:.0*200$")), 0);
    assert_int_equal(
        run(ignore_hangups, false, false, STATUS("^SigIgn:.*[13579bdf]...[13579bdf]$")), 0);
    assert_int_equal(run(NULL, false, false, STATUS("^SigBlk:.0*$")), 0);
}

static void a_hook_writes_to_stderr(void **state)
{
    (void)state;
    assert_int_equal(run(NULL, true, false, SH("test /proc/self/fd/1 -ef /proc/self/fd/2")), 0);
}

static void no_new_privs_is_for_good(void **state)
{
    (void)state;
    assert_int_equal(run(NULL, false, true, STATUS("^NoNewPrivs:.1")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_exit_code_is_the_jobs),
        cmocka_unit_test(an_exec_that_fails_is_told_before_the_end),
        cmocka_unit_test(signals_are_as_the_caller_had_them),
        cmocka_unit_test(a_hook_writes_to_stderr),
        cmocka_unit_test(no_new_privs_is_for_good),
    };

    failed = mmap(NULL, sizeof(*failed), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return failed == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
