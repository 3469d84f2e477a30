/* A guardian's signals: read from a descriptor, but for those that the caller ignores. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/run/signals.h"

/* In a process of its own: what it takes it keeps. */
static void run_apart(int (*test)(void))
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(60);
        _exit(test());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static int take_and_read(void)
{
    struct signalfd_siginfo info;
    struct signals signals;
    sigset_t blocked;

    signal(SIGHUP, SIG_IGN); /* nohup */
    if (signals_take(&signals) < 0 || signals_next(&signals, &info))
        return 1;
    kill(getpid(), SIGHUP);
    kill(getpid(), SIGUSR1);
    if (!signals_next(&signals, &info) || info.ssi_signo != SIGUSR1 || signals_from_terminal(&info))
        return 2;
    if (signals_next(&signals, &info)) /* not the other one */
        return 3;
    kill(getpid(), SIGABRT); /* as any other, from wherever it comes */
    if (!signals_next(&signals, &info) || info.ssi_signo != SIGABRT)
        return 4;
    signals_give_back(&signals);
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    return sigismember(&blocked, SIGUSR1) ? 5 : 0;
}

static void an_ignored_signal_stays_ignored(void **state)
{
    (void)state;
    run_apart(take_and_read);
}

/* What another process sends, or the kernel for what we did ourselves. */
static bool is_read(const struct signals *signals, int signal)
{
    struct signalfd_siginfo info;
    bool found = false;

    while (signals_next(signals, &info))
        found |= info.ssi_signo == (uint32_t)signal;
    return found;
}

static bool is_read_from_another(const struct signals *signals, int signal)
{
    int status;
    pid_t child = fork();

    if (child == 0)
        _exit(kill(getppid(), signal));
    return waitpid(child, &status, 0) == child && is_read(signals, signal);
}

/* The reader of our words is gone, a file is too large, our time is used up: that is nothing for the job. Somebody else's such signal is. */
static int own_signals(void)
{
    static const struct rlimit small = {1, RLIM_INFINITY};
    static const int own[] = {SIGPIPE, SIGXFSZ, SIGXCPU};
    siginfo_t by_kernel = {.si_signo = SIGXCPU, .si_code = SI_KERNEL};
    struct signals signals;
    int ends[2], file = memfd_create("own", MFD_CLOEXEC);

    if (file < 0 || setrlimit(RLIMIT_FSIZE, &small) < 0 || signals_take(&signals) < 0 ||
        pipe(ends) < 0)
        return 1;
    close(ends[0]);
    if (write(ends[1], "x", 1) != -1 || is_read(&signals, SIGPIPE))
        return 2;
    if (pwrite(file, "x", 1, 1) != -1 || is_read(&signals, SIGXFSZ))
        return 3;
    if (syscall(SYS_rt_sigqueueinfo, getpid(), SIGXCPU, &by_kernel) < 0 ||
        is_read(&signals, SIGXCPU))
        return 4;
    for (int i = 0; i < 3; i++)
        if (!is_read_from_another(&signals, own[i]))
            return 5;
    return 0;
}

static void only_anothers_signals_are_read(void **state)
{
    (void)state;
    run_apart(own_signals);
}

static bool cpu_limit_is(rlim_t soft, rlim_t hard)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_CPU, &limit) == 0 && limit.rlim_cur == soft && limit.rlim_max == hard;
}

/* Whoever may raise the hard limit has none. */
static int take_time(void)
{
    const struct rlimit limit = {1000, 2000};
    struct signals signals;

    if (setrlimit(RLIMIT_CPU, &limit) < 0 || signals_take(&signals) < 0)
        return 1;
    if (!cpu_limit_is(2000, 2000) && !cpu_limit_is(RLIM_INFINITY, RLIM_INFINITY))
        return 2;
    signals_give_back(&signals);
    return cpu_limit_is(1000, 2000) ? 0 : 3;
}

static void the_jobs_processor_time_is_no_limit_of_ours(void **state)
{
    (void)state;
    run_apart(take_time);
}

/* A fault of our own ends us though its signal is blocked. */
static void a_fault_ends_the_process(void **state)
{
    struct signals signals;
    int status;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        if (signals_take(&signals) == 0)
            abort();
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
}

/* Ignored children are reaped without a word: the guardian would not hear of the job's end. */
static int children_are_heard_of(void)
{
    struct sigaction action;
    struct signalfd_siginfo info;
    struct signals signals;
    pid_t child;

    signal(SIGCHLD, SIG_IGN);
    if (signals_take(&signals) < 0)
        return 1;
    child = fork();
    if (child == 0)
        _exit(0);
    if (waitpid(child, NULL, 0) != child)
        return 2;
    if (!signals_next(&signals, &info) || info.ssi_signo != SIGCHLD)
        return 3;
    signals_give_back(&signals);
    sigaction(SIGCHLD, NULL, &action);
    return action.sa_handler == SIG_IGN ? 0 : 4;
}

static void the_end_of_a_child_is_heard_of(void **state)
{
    (void)state;
    run_apart(children_are_heard_of);
}

static void only_some_signals_end_a_process(void **state)
{
    (void)state;
    assert_true(signals_ends(SIGTERM));
    assert_true(signals_ends(SIGINT));
    assert_true(signals_ends(SIGRTMIN));
    assert_false(signals_ends(SIGCHLD));
    assert_false(signals_ends(SIGCONT));
    assert_false(signals_ends(SIGWINCH));
    assert_false(signals_ends(SIGTSTP));
    assert_false(signals_ends(SIGTTIN));
    assert_true(signals_ends(SIGPIPE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ignored_signal_stays_ignored),
        cmocka_unit_test(only_anothers_signals_are_read),
        cmocka_unit_test(the_jobs_processor_time_is_no_limit_of_ours),
        cmocka_unit_test(a_fault_ends_the_process),
        cmocka_unit_test(the_end_of_a_child_is_heard_of),
        cmocka_unit_test(only_some_signals_end_a_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
