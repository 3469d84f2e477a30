/* A guardian's signals: read from a descriptor, but for those that the caller ignores or that are the process's own. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
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
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    if (sigismember(&blocked, SIGSEGV) || sigismember(&blocked, SIGABRT)) /* a fault ends it */
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
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ignored_signal_stays_ignored),
        cmocka_unit_test(the_end_of_a_child_is_heard_of),
        cmocka_unit_test(only_some_signals_end_a_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
