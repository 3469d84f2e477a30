/* Starting the job, or the on-lost hook, as a child of the calling guardian. */
#ifndef HOLDFAST_TOOLS_RUN_JOB_H
#define HOLDFAST_TOOLS_RUN_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "tools/run/lease_group.h"
#include "tools/run/run_options.h"
#include "tools/run/signals.h"

/* A control group (v2) for one job, below the caller's own, if one can be made. Its cgroup.kill
 * reaches every process at once, also one that forks faster than /proc can be read, one of another
 * user (set-uid), and one whose reaper is in another PID namespace. One whose main thread has ended is killed by its
 * number. What may not be killed so is frozen, for good. A job is over when the group and the tree are both empty. */

struct cgroup {
    int parent_fd; /* -1: none can be made */
    int fd;        /* -1: not made or not opened here */
    int events_fd; /* POLLPRI: cgroup_is_empty() may have changed; -1: not opened, or the group is gone */
    char name[48];
};

/* Chooses a name and a place; makes nothing. Never fails: without cgroup v2 there is no group. */
void cgroup_plan(struct cgroup *cgroup);

/* Makes the planned group, and locks it for as long as `fd` is open anywhere. Without permission there is none. */
void cgroup_make(struct cgroup *cgroup);

/* Removes empty groups of runs that were killed: nobody has them locked. */
void cgroup_sweep(const struct cgroup *cgroup);

/* Moves the calling process into the group. Async-signal-safe. */
void cgroup_enter(const struct cgroup *cgroup);

/* Sends SIGKILL to all processes inside, and freezes what does not die. Works also if another process made the planned group. */
void cgroup_kill(struct cgroup *cgroup);

/* Whether no process is inside, or there is no group. Zombies do not count. */
bool cgroup_is_empty(struct cgroup *cgroup);

/* Removes it and the empty groups that the job made in it. */
void cgroup_remove(struct cgroup *cgroup);

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

/* The job's environment: HOLDFAST_NAME, HOLDFAST_FENCE and the like. */

/* Sets this run's variables and removes others: this run may be a job of another run. */
void environment_set(const struct run_options *wanted, const struct lease_group *leases);

/* Sees which of stdin and stdout have an end that somebody may wait for. Call once, before the lock is asked for: it asks their file
 * systems, which may hang. */
void streams_look(void);
/* Closes those, which are the job's. (!) What waits for nobody: a file stays open. */
void streams_let_go(void);
/* Closes both, once there is no lock. What the job could not write is no failure of this process. */
void streams_give_up(void);

#endif
