/* The agent as the third killer of a job, by the job's control group. Belongs to the broker's thread. */
#ifndef HOLDFAST_AGENT_BROKER_JOBS_GROUPS_H
#define HOLDFAST_AGENT_BROKER_JOBS_GROUPS_H

#include <stdbool.h>
#include <sys/types.h>

#include "agent/agent.h"
#include "agent/base/log.h"
#include "agent/base/loop.h"
#include "agent/base/thread.h"

struct client;
struct session;

struct groups;

int groups_create(struct agent *agent, struct loop *loop, struct groups **ret_groups);
/* A reload: groups that are kept already stay. */
void groups_configure(struct groups *groups, const struct config *config) IN_BROKER_THREAD;
/* A datagram after the hello: true if it was a job's group, which has been dealt with. */
bool groups_take(struct groups *groups, struct session *s) IN_BROKER_THREAD;
/* A lease of this client changed, or its last session ended. */
void groups_review(struct client *c) IN_BROKER_THREAD;
/* One of its leases is over: without any lease of a job the group is of no use. */
void groups_lease_over(struct client *c) IN_BROKER_THREAD;
void groups_drop(struct client *c) IN_BROKER_THREAD;
void groups_destroy(struct groups *groups); /* after the clients; NULL is fine */

/* The control group (v2) of a job, from descriptors that a guardian handed over.
 *
 * The agent may be root and the guardian anybody, so nothing is believed. (!) Before anything is
 * asked of a file that might answer late or never (FUSE), its device is compared with the
 * hierarchy's, which is one for all mounts and namespaces of the host. The file that kills must be
 * cgroup.kill of that very directory, by its inode and not by a path, which mounts can change. It
 * must be open for writing: then the kernel has judged who may kill, and judges every write as the
 * opener's. So must cgroup.freeze. The file that is read is opened anew: on a shared description a
 * reader that never ends would hold up the agent.
 */

struct job_group {
    int kill_fd;
    int freeze_fd;
    int events_fd; /* EPOLLPRI: to be read again */
    bool removed;  /* it stays empty; `events_fd` is never quiet again */
};

/* The device of this host's hierarchy. False: none is visible here. */
bool job_group_hierarchy(dev_t *ret_device);

/* HF_OK: `kill_fd` and `freeze_fd` are the group's from then on. HF_EINVAL: it is no group, and
 * why; they stay the caller's. The directory's descriptor does in either case. */
int job_group_open(dev_t hierarchy, int directory, int kill_fd, int freeze_fd,
                   struct job_group *ret_group, const char **ret_why);
void job_group_close(struct job_group *group);

/* SIGKILL to all processes inside, at one instant; and what it does not end is stopped for good. (!) The kernel's kill
 * does not reach a process whose main thread has ended while others run; the freezer stops every thread. */
void job_group_kill(const struct job_group *group);

/* The path of its directory, in the agent's view; "?" where it cannot be told. */
#define JOB_GROUP_PATH_MAX 512
void job_group_path(const struct job_group *group, char path[JOB_GROUP_PATH_MAX]);

/* Whether no process is inside; zombies do not count. Makes `events_fd` quiet until that changes. */
bool job_group_is_empty(struct job_group *group);

#endif
