/* The control group (v2) of a job, from two descriptors that a guardian handed over.
 *
 * The agent may be root and the guardian anybody, so nothing is believed. (!) Before anything is
 * asked of a file that might answer late or never (FUSE), its device is compared with that of the
 * hierarchy, which is one for all of the host's mounts and namespaces. What kills must be the very
 * file cgroup.kill of the directory, told by its inode and not by a path that whoever mounts can
 * choose, and be open for writing: the kernel has judged then who may kill, and every write to it
 * is judged as the opener's. What is read is opened anew: on a description that is shared a reader
 * that never ends would hold up the agent.
 */
#ifndef HOLDFAST_AGENT_BROKER_JOBS_JOB_GROUP_H
#define HOLDFAST_AGENT_BROKER_JOBS_JOB_GROUP_H

#include <stdbool.h>
#include <sys/types.h>

struct job_group {
    int kill_fd;
    int events_fd; /* EPOLLPRI: to be read again */
    bool removed;  /* and empty for good; `events_fd` is never quiet again */
};

/* The device of this host's hierarchy. False: there is none to be seen. */
bool job_group_hierarchy(dev_t *ret_device);

/* HF_OK: `kill_fd` is the group's from then on. HF_EINVAL: it is none, and why; both stay the
 * caller's. The directory does in either case. */
int job_group_open(dev_t hierarchy, int directory, int kill_fd, struct job_group *ret_group,
                   const char **ret_why);
void job_group_close(struct job_group *group);

/* SIGKILL to all that is inside, at one instant. */
void job_group_kill(const struct job_group *group);

/* Whether nobody is inside; a zombie is not. Makes `events_fd` quiet until that changes. */
bool job_group_is_empty(struct job_group *group);

#endif
