/* libholdfast for guardians: programs that run a job under a lock and make sure that it ends, as
 * `holdfast run` does. Programs that do the work themselves need only holdfast.h. */
#ifndef HOLDFAST_RUN_H
#define HOLDFAST_RUN_H

#include "holdfast.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- acquiring ---------------------------------------------------------------------------------- */

/* For `flags` of struct hf_acquire_options. */
enum {
    HF_ACQUIRE_JOB = 1, /* the lease ends only when hf_release_reaped() says that the job is gone */
    /* with it: no job starts before a second process has joined (hf_join()), so until then the
     * lease ends with this process */
    HF_ACQUIRE_SECOND_GUARDIAN = 2,
    /* hf_acquire_start(), hf_acquire_all_start(): this thread does nothing but wait for it, so HF_EDEADLK as for
     * hf_acquire() */
    HF_ACQUIRE_BLOCKS = 4
};

/* --- the end of a job ---------------------------------------------------------------------------- */

/* Tells the agent that the holder has begun to stop its job: the lease becomes LOSING, permanently. */
HF_EXPORT int hf_begin_losing(hf_lease *lease);
/* The same when it kills its job; also for a lease that is over. The agent's history shows it. */
HF_EXPORT int hf_begin_killing(hf_lease *lease);

/* hf_release() of a lease acquired with HF_ACQUIRE_JOB: says that the job and all its descendants
 * are reaped. */
HF_EXPORT int hf_release_reaped(hf_lease *lease);
/* The same for a job under several leases, like hf_release_all(). */
HF_EXPORT int hf_release_all_reaped(hf_lease *const *leases, size_t count);

/* How the job ended that hf_once() let start, for people: hf_once_last(). Under the same lock. `end`: enum hf_once_end; `code`: its exit code, or the signal. */
HF_EXPORT int hf_once_ended(hf_lease *lease, int64_t period_ms, int end, int code);

/* --- guardians -----------------------------------------------------------------------------------
 * `holdfast run` watches a job with two processes. The second one, forked from the first, joins the
 * lease with a ticket; the lease is then released only when one of them says that the job is
 * reaped. */
struct hf_ticket {
    uint8_t cookie[16];
    uint32_t slot, generation;
    uint64_t fence;
    char path[128]; /* of the attach socket */
    uint64_t reserved[4];
};
/* A process with the ticket controls the lease: pass it only to your own processes, by inheritance
 * or a pipe. */
HF_EXPORT int hf_lease_ticket(hf_lease *lease, struct hf_ticket *ret_ticket);
/* Connects and joins; at the end free the lease and disconnect as usual. HF_ELOST: the lease is
 * over; other errors as for hf_connect(). */
HF_EXPORT int hf_join(const struct hf_ticket *ticket, hf_client **ret_client, hf_lease **ret_lease);
/* The same for a job under `count` (1 to HF_EXCLUSIVE_LEASES, HF_EINVAL) leases of one client; `ret_leases`
 * has room for `count`. HF_ELOST: one of them is over. */
HF_EXPORT int hf_join_all(const struct hf_ticket *tickets, size_t count, hf_client **ret_client,
                          hf_lease **ret_leases);

/* Tells the agent the control group (v2) in which the job runs, once, on a client that hf_join()
 * made and whose leases are all of one job. `directory` is a descriptor of the group's directory
 * and stays the caller's. The agent, and a later agent, kills all processes in the group at V - 0.1
 * T, or as soon as the guardians are gone, and releases the leases once the group is empty.
 * What does not die is frozen, for good, and its lease lapses. HF_EINVAL: it is no control group, or has no
 * cgroup.kill (Linux before 5.14) or cgroup.freeze that the caller may write to. */
HF_EXPORT int hf_job_group(hf_client *client, int directory);

/* --- a job's heartbeat --------------------------------------------------------------------------- */

/* The memory of hf_job_beat(), also for programs that do not link the library: a memfd, open in the job as
 * descriptor $HOLDFAST_BEAT_FD; children that did not inherit it open $HOLDFAST_BEAT_PATH. Any change of `beats`
 * is a beat. */
#define HF_JOB_MAGIC UINT32_C(0x424a4648) /* "HFJB" */
struct hf_job_memory {                    /* this layout never changes */
    uint32_t magic, beats;
};

#ifdef __cplusplus
}
#endif

#endif
