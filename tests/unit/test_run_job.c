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

#include "tools/common/args.h"
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

static void take_a_file_as_input(void)
{
    int fd = open("/proc/self/status", O_RDONLY);

    if (dup2(fd, STDIN_FILENO) < 0)
        _exit(99);
}

/* What the job reads is not the hook's, though the guardian may still have it. */
static void a_hook_has_no_input(void **state)
{
    (void)state;
    assert_int_equal(run(take_a_file_as_input, true, false, SH("! grep -q .")), 0);
    assert_int_equal(run(take_a_file_as_input, false, false, SH("grep -q .")), 0);
}

/* Files stay open; of what has another end nothing does. */
static void a_guardian_lets_go_of_what_has_another_end(void **state)
{
    int ends[2], kept = dup(STDOUT_FILENO), input = dup(STDIN_FILENO);
    char byte;

    (void)state;
    take_a_file_as_input();
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[1]);
    streams_look();
    streams_let_go();
    assert_int_equal(read(ends[0], &byte, 1), 0);
    assert_int_equal(read(STDIN_FILENO, &byte, 1), 1);
    streams_give_up();
    assert_int_equal(read(STDIN_FILENO, &byte, 1), 0);
    dup2(kept, STDOUT_FILENO);
    dup2(input, STDIN_FILENO);
    close(kept);
    close(input);
    close(ends[0]);
}

static void no_new_privs_is_for_good(void **state)
{
    (void)state;
    assert_int_equal(run(NULL, false, true, STATUS("^NoNewPrivs:.1")), 0);
}

/* -1 if it cannot be read. */
static int own_score(void)
{
    FILE *file = fopen("/proc/self/oom_score_adj", "re");
    int score = -1;

    if (file && fscanf(file, "%d", &score) != 1) /* NOLINT(cert-err34-c): a line of the kernel's */
        score = -1;
    return file && fclose(file) == 0 ? score : -1;
}

static void most_likely_to_be_killed(void)
{
    FILE *file = fopen("/proc/self/oom_score_adj", "we");

    if (file && (fputs("900", file) < 0 || fclose(file) != 0))
        _exit(98);
}

/* For want of memory, before its guardians. */
static void the_kernel_kills_the_job_first(void **state)
{
    char test[64];
    int score = own_score();

    (void)state;
    if (score < 0 || score > 800)
        skip();
    snprintf(test, sizeof(test), "test $(cat /proc/self/oom_score_adj) = %d", score + 200);
    assert_int_equal(run(NULL, false, false, SH(test)), 0);
    assert_int_equal(run(NULL, true, false, SH(test)), 0);
    assert_int_equal(own_score(), score);
    assert_int_equal(run(most_likely_to_be_killed, false, false,
                         SH("test $(cat /proc/self/oom_score_adj) = 1000")),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_exit_code_is_the_jobs),
        cmocka_unit_test(an_exec_that_fails_is_told_before_the_end),
        cmocka_unit_test(signals_are_as_the_caller_had_them),
        cmocka_unit_test(a_hook_writes_to_stderr),
        cmocka_unit_test(a_hook_has_no_input),
        cmocka_unit_test(a_guardian_lets_go_of_what_has_another_end),
        cmocka_unit_test(no_new_privs_is_for_good),
        cmocka_unit_test(the_kernel_kills_the_job_first),
    };

    failed = mmap(NULL, sizeof(*failed), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return failed == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
