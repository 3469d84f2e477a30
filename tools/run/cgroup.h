/* A control group (v2) for one job, below the caller's own, where one can be made. Its cgroup.kill
 * reaches every process at one instant: one that forks faster than /proc can be read, one of
 * another user (set-uid), one that was given to a reaper of another PID namespace. A job is over
 * when both are empty, this and the tree. */
#ifndef HOLDFAST_TOOLS_RUN_CGROUP_H
#define HOLDFAST_TOOLS_RUN_CGROUP_H

#include <stdbool.h>

struct cgroup {
    int parent_fd; /* -1: none can be made */
    int fd;        /* -1: not made or not opened here */
    int events_fd; /* POLLPRI: cgroup_is_empty() may have changed; -1: not opened, or the group is gone */
    char name[48];
};

/* Chooses a name and a place; makes nothing. Never fails: without cgroup v2
 * there is just no group. */
void cgroup_plan(struct cgroup *cgroup);

/* Makes the planned group. Without the right to, there is none. */
void cgroup_make(struct cgroup *cgroup);

/* Removes empty groups of runs that were killed. */
void cgroup_sweep(const struct cgroup *cgroup);

/* Moves the calling process in. Async-signal-safe. */
void cgroup_enter(const struct cgroup *cgroup);

/* SIGKILL to all that is inside. Works too where another process made the planned group. */
void cgroup_kill(struct cgroup *cgroup);

/* Whether nobody is inside, also where there is none. Zombies are not. */
bool cgroup_is_empty(struct cgroup *cgroup);

/* Removes it and the empty groups that the job made in it. */
void cgroup_remove(struct cgroup *cgroup);

#endif
