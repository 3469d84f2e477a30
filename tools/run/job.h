/* Starting the job, or the on-lost hook, as a child of the calling guardian. */
#ifndef HOLDFAST_TOOLS_RUN_JOB_H
#define HOLDFAST_TOOLS_RUN_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "tools/run/cgroup.h"
#include "tools/run/signals.h"

struct job_start {
    char *const *argv;
    const struct signals *signals; /* restored in the child */
    const struct cgroup *cgroup;   /* entered by the child */
    bool output_to_stderr;         /* for the hook: stdout is the job's */
    bool no_new_privs;             /* set-uid programs give it no rights */
    bool own_group;                /* a process group, which it leads */
    bool leave_session;            /* the caller does so, before the command is executed */
    atomic_int *failed;            /* in shared memory: errno of an exec that failed */
};

/* Forks and executes; the new process dies with the caller (PDEATHSIG), so the caller must have
 * only one thread. Does not wait for the exec: when it fails, `failed` is set before the child ends
 * with 126 or 127. `ret_inside`: it started in the control group; else it may still be outside. 0,
 * or -1 with errno when there is no new process. */
int job_start(const struct job_start *start, pid_t *ret_pid, bool *ret_inside);

/* The exit code for a failed exec: EXIT_NOT_FOUND or EXIT_CANNOT_RUN. */
int job_exec_exit_code(int error);

/* The exit code for a wait status. */
int job_exit_code(int status);

#endif
