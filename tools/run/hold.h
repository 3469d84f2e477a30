/* The leases of a job: one, or several acquired together. The worst one decides: the job is stopped
 * as soon as one is being lost, and is dead before the earliest V. */
#ifndef HOLDFAST_TOOLS_RUN_HOLD_H
#define HOLDFAST_TOOLS_RUN_HOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libclient/holdfast_run.h"
#include "libclient/holdfast_sets.h"

struct hold {
    hf_client *client;
    hf_lease *leases[HF_EXCLUSIVE_LEASES];
    const char *names[HF_EXCLUSIVE_LEASES]; /* escaped, for messages; kept by the caller */
    size_t count;                           /* 0: over, or not acquired yet */
};

/* CLOCK_BOOTTIME: the earliest V; 0 when one is lost, or there is none. */
int64_t hold_valid_until_ns(const struct hold *hold);

/* The lease in the worst state, or with the earliest V. There is at least one. */
size_t hold_worst(const struct hold *hold);

/* The worst state of them, a positive enum hf_lease_state; RELEASED is worst. */
int hold_state(const struct hold *hold);

/* The reason of that lease's loss, "" if unknown, and its name. */
const char *hold_reason(const struct hold *hold, const char **ret_name);

/* Like the functions of the library, on each. */
void hold_begin_losing(const struct hold *hold);
void hold_begin_killing(const struct hold *hold);
void hold_beat(const struct hold *hold);

/* Releases all as reaped, in a bounded time. Frees the leases. Returns the first failure. */
int hold_release(struct hold *hold);
/* Frees the leases without telling the agent. */
void hold_free(struct hold *hold);

/* Tells the agent the job's control group, so that the agent can kill the job too. Only for a hold that was joined. */
void hold_group(const struct hold *hold, int directory);

/* For the second guardian; `ret_tickets` has room for all. Negative with hf_last_message(). */
int hold_tickets(const struct hold *hold, struct hf_ticket *ret_tickets);
/* Joins the same leases with a client of its own, whose hf_fd() is there. */
int hold_join(const struct hold *hold, const struct hf_ticket *tickets, struct hold *ret_hold);
/* The same; waits so long for an agent that is just restarting, unless `ended_fd` becomes readable. */
int hold_join_patiently(const struct hold *hold, const struct hf_ticket *tickets,
                        int64_t patience_ns, int ended_fd, struct hold *ret_hold);

/* hf_once() for NAME's lease, and hf_once_take_back(). */
int hold_once(const struct hold *hold, int64_t period_ms, int64_t *ret_before);
int hold_once_ended(const struct hold *hold, int64_t period_ms, int end, int code);
int hold_once_take_back(const struct hold *hold, int64_t period_ms, int64_t before);

#endif
