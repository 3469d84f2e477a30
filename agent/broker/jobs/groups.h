/* The agent as the third killer of a job, by the job's control group. Belongs to the broker's thread. */
#ifndef HOLDFAST_AGENT_BROKER_JOBS_GROUPS_H
#define HOLDFAST_AGENT_BROKER_JOBS_GROUPS_H

#include <stdbool.h>

#include "agent/agent.h"
#include "agent/base/log_limit.h"
#include "agent/base/loop.h"
#include "agent/base/thread_role.h"

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

#endif
