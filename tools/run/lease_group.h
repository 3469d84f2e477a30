/* The leases of a job: one, or several acquired together. The worst one decides: the job is stopped
 * as soon as one is being lost, and is dead before the earliest V. */
#ifndef HOLDFAST_TOOLS_RUN_LEASE_GROUP_H
#define HOLDFAST_TOOLS_RUN_LEASE_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libclient/holdfast_run.h"
#include "libclient/holdfast_sets.h"

struct lease_group {
    hf_client *client;
    hf_lease *lease[HF_EXCLUSIVE_LEASES];
    const char *names[HF_EXCLUSIVE_LEASES]; /* escaped, for messages; kept by the caller */
    size_t count;                           /* 0: over, or not acquired yet */
};

/* CLOCK_BOOTTIME: the earliest V; 0 when one is lost, or there is none. */
int64_t lease_group_valid_until_ns(const struct lease_group *leases);

/* The lease in the worst state, or with the earliest V. There is at least one. */
size_t lease_group_worst(const struct lease_group *leases);

/* The worst state of them, a positive enum hf_lease_state; RELEASED is worst. */
int lease_group_state(const struct lease_group *leases);

/* The reason of that lease's loss, "" if unknown, and its name. */
const char *lease_group_reason(const struct lease_group *leases, const char **ret_name);

/* Like the functions of the library, on each. */
void lease_group_begin_losing(const struct lease_group *leases);
void lease_group_begin_killing(const struct lease_group *leases);
void lease_group_beat(const struct lease_group *leases);

/* Releases all as reaped, in a bounded time. Frees the leases. Returns the first failure. */
int lease_group_release(struct lease_group *leases);
/* Frees the leases without telling the agent. */
void lease_group_free(struct lease_group *leases);

/* Tells the agent the job's control group, so that the agent can kill the job too. Only for leases that were joined. */
void lease_group_tell_cgroup(const struct lease_group *leases, int directory);

/* For the second guardian; `ret_tickets` has room for all. Negative with hf_last_message(). */
int lease_group_tickets(const struct lease_group *leases, struct hf_ticket *ret_tickets);
/* Joins the same leases with a client of its own, whose hf_fd() is there. */
int lease_group_join(const struct lease_group *leases, const struct hf_ticket *tickets,
                     struct lease_group *ret_leases);
/* The same; waits so long for an agent that is just restarting, unless `ended_fd` becomes readable. */
int lease_group_join_patiently(const struct lease_group *leases, const struct hf_ticket *tickets,
                               int64_t patience_ns, int ended_fd, struct lease_group *ret_leases);

/* hf_once() for NAME's lease, and hf_once_take_back(). */
int lease_group_once(const struct lease_group *leases, int64_t period_ms, int64_t *ret_before);
int lease_group_once_ended(const struct lease_group *leases, int64_t period_ms, int end, int code);
int lease_group_once_take_back(const struct lease_group *leases, int64_t period_ms, int64_t before);

#endif
