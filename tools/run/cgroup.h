/* A control group (v2) for one job, below the caller's own, if one can be made. Its cgroup.kill
 * reaches every process at once, also one that forks faster than /proc can be read, one of another
 * user (set-uid), and one whose reaper is in another PID namespace. One whose main thread has ended is killed by its
 * number. What may not be killed so is frozen, for good. A job is over when the group and the tree are both empty. */
#ifndef HOLDFAST_TOOLS_RUN_CGROUP_H
#define HOLDFAST_TOOLS_RUN_CGROUP_H

#include <stdbool.h>

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

#endif
