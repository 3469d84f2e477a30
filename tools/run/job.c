#include "tools/run/job.h"

#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/common/exit_code.h"

/* Forks a child directly into the group: to move it in later, the kernel would wait for every fork and exit
 * on the host. Returns as fork(); `ret_inside`: whether that was possible. */
static pid_t job_fork_into(const struct cgroup *cgroup, bool *ret_inside)
{
    struct clone_args args = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD};
    pid_t pid = -1;

    if (cgroup->fd >= 0) {
        args.cgroup = (uint64_t)cgroup->fd;
        pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    }
    *ret_inside = pid >= 0;
    return pid < 0 ? fork() : pid; /* Linux before 5.7, or a sandbox that knows no clone3 */
}

/* What the service manager meant for the process that it started, by its number, is the job's. */
static void job_take_manager_words(pid_t run)
{
    static const char *const variables[] = {"LISTEN_PID", "WATCHDOG_PID", "SYSTEMD_EXEC_PID"};
    char theirs[16], own[16];

    snprintf(theirs, sizeof(theirs), "%d", (int)run);
    snprintf(own, sizeof(own), "%d", (int)getpid());
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *value = getenv(variables[i]);

        if (!value || strcmp(value, theirs) != 0)
            continue;
        setenv(variables[i], own, 1);
        if (i == 0)
            unsetenv("LISTEN_PIDFDID"); /* says the same of the process that was meant first */
    }
}

/* The new process waits at the gate until the caller is in a session of its own: a process of the job must never see both guardians in
 * one process group. */
static int job_make_gate(const struct job_start *start)
{
    return start->leave_session ? eventfd(0, EFD_CLOEXEC) : -1;
}

static void job_open_gate(int gate)
{
    static const uint64_t one = 1;
    ssize_t written;

    if (gate < 0)
        return;
    (void)setsid(); /* never fails: who was forked leads no group */
    written = write(gate, &one, sizeof(one));
    (void)written;
    close(gate);
}

static void job_pass_gate(int gate)
{
    uint64_t one;
    ssize_t got = gate < 0 ? 0 : read(gate, &one, sizeof(one));

    (void)got; /* without the parent there is PDEATHSIG */
}

int job_start(const struct job_start *start, pid_t *ret_pid, bool *ret_inside)
{
    int gate = job_make_gate(start);
    pid_t parent = getpid(), run = getppid();
    bool inside;
    pid_t pid;

    if (start->leave_session && gate < 0)
        return -1;
    pid = job_fork_into(start->cgroup, &inside);
    if (pid != 0) {
        if (pid > 0 && start->own_group)
            (void)setpgid(pid, pid); /* both do it: neither may rely on the other to be first */
        job_open_gate(gate);
    }
    if (pid < 0)
        return -1;
    if (pid > 0) {
        *ret_pid = pid;
        *ret_inside = inside;
        return 0;
    }
    if (start->own_group)
        (void)setpgid(0, 0);
    /* Set first, then compared: otherwise a parent that died before would go unnoticed. */
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != parent)
        _exit(EXIT_FAILED);
    job_pass_gate(gate);
    if (!inside)
        cgroup_enter(start->cgroup);
    if (start->output_to_stderr)
        dup2(STDERR_FILENO, STDOUT_FILENO);
    else
        job_take_manager_words(run);
    signals_give_back(start->signals);
    if (start->no_new_privs)
        (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); /* never fails (Linux 3.5) */
    execvp(start->argv[0], start->argv);
    atomic_store(start->failed, errno);
    _exit(job_exec_exit_code(errno));
}

int job_exec_exit_code(int error)
{
    return error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

int job_exit_code(int status)
{
    return WIFSIGNALED(status) ? EXIT_BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}
