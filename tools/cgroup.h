/* A control group (v2) for one job, below the caller's own, where one can be made. It is an
 * accelerator: its cgroup.kill reaches every process at one instant, even one that forks faster
 * than /proc can be read. Whether a tree is empty is never judged by it. */
#ifndef HOLDFAST_TOOLS_CGROUP_H
#define HOLDFAST_TOOLS_CGROUP_H

struct cgroup {
    int parent_fd, fd; /* -1: none could be made */
    char name[48];
};

/* Never fails: without the right, or without cgroup v2, the group is just not there. */
void cgroup_make(struct cgroup *cgroup);

/* Moves the calling process in. Async-signal-safe. */
void cgroup_enter(const struct cgroup *cgroup);

/* SIGKILL to all that is inside. */
void cgroup_kill(const struct cgroup *cgroup);

/* Removes it and the empty groups that the job made in it. */
void cgroup_remove(struct cgroup *cgroup);

#endif
