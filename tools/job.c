#include "tools/job.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/exitcodes.h"

int job_start(const struct job_start *start, pid_t *ret_pid)
{
    pid_t parent = getpid();
    pid_t pid = fork();

    if (pid < 0)
        return -1;
    if (pid > 0) {
        *ret_pid = pid;
        return 0;
    }
    /* Set first, then compared: a parent that died before the setting would not be noticed. */
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != parent)
        _exit(EXIT_FAILED);
    cgroup_enter(start->cgroup);
    if (start->output_to_stderr)
        dup2(STDERR_FILENO, STDOUT_FILENO);
    signals_give_back(start->signals);
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
