/* libholdfast for guardians: programs that run a job under a lock and answer for its end, as
 * `holdfast run` does. Programs that work themselves need holdfast.h only. */
#ifndef HOLDFAST_RUN_H
#define HOLDFAST_RUN_H

#include "holdfast.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- acquiring ---------------------------------------------------------------------------------- */

/* For `flags` of struct hf_acquire_options. */
enum {
    HF_ACQUIRE_RUN = 1, /* the lease ends only when hf_release_reaped() says that the job is gone */
    /* with it: no job is started before a second process has joined (hf_join()), so that until then
     * the lease ends with this process */
    HF_ACQUIRE_GUARDED = 2
};

/* --- the end of a job ---------------------------------------------------------------------------- */

/* Tells the agent that the holder has begun to stop its job: the lease becomes LOSING, for good. */
HF_EXPORT int hf_begin_losing(hf_lease *lease);
/* The same when it kills its job; also for a lease that is over. The agent's history tells it. */
HF_EXPORT int hf_begin_killing(hf_lease *lease);

/* hf_release() of a lease that was taken with HF_ACQUIRE_RUN: says that the job and all its
 * descendants are reaped. */
HF_EXPORT int hf_release_reaped(hf_lease *lease);
/* The same for a job under several, as hf_release_all(). */
HF_EXPORT int hf_release_all_reaped(hf_lease *const *leases, size_t count);

/* --- guardians -----------------------------------------------------------------------------------
 * `holdfast run` watches a job with two processes. The second one, forked from the first, joins the
 * lease with a ticket; the lease is then released only when either says that the job is reaped. */
struct hf_ticket {
    uint8_t cookie[16];
    uint32_t slot, generation;
    uint64_t fence;
    char path[128]; /* of the attach socket */
    uint64_t reserved[4];
};
/* A ticket is as good as the lease: it is for processes of one's own, by inheritance or a pipe. */
HF_EXPORT int hf_lease_ticket(hf_lease *lease, struct hf_ticket *ret_ticket);
/* Connects and joins; in the end free the lease and disconnect as usual. HF_ELOST: the lease is
 * over; else as hf_connect(). */
HF_EXPORT int hf_join(const struct hf_ticket *ticket, hf_client **ret_client, hf_lease **ret_lease);
/* The same for a job under `count` (1 to HF_SET_MAX) leases of one client (HF_EINVAL), with room for
 * as many in `ret_leases`. HF_ELOST: one of them is over. */
HF_EXPORT int hf_join_all(const struct hf_ticket *tickets, size_t count, hf_client **ret_client,
                          hf_lease **ret_leases);

/* Of a client that hf_join() made, once, and whose leases are all of one job: the control group
 * (v2) in which the job runs, by a descriptor of its directory, which stays the caller's. The
 * agent, and the one after it, kills what is in it at V - 0.1 T, or as soon as the processes that
 * watch the job are gone, and then releases its leases when nobody is in it any more. HF_EINVAL: it
 * is no control group, or has no cgroup.kill (Linux before 5.14) that the caller may write to. */
HF_EXPORT int hf_job_group(hf_client *client, int directory);

/* --- a job's heartbeat --------------------------------------------------------------------------- */

/* What hf_job_beat() finds, also for programs that do not link the library: a memfd, open in the job as descriptor
 * $HOLDFAST_BEAT_FD, and for children that it was not passed on to at $HOLDFAST_BEAT_PATH. Any change
 * of `beats` is a beat. */
#define HF_JOB_MAGIC UINT32_C(0x424a4648) /* "HFJB" */
struct hf_job_memory {                    /* stays as it is */
    uint32_t magic, beats;
};

#ifdef __cplusplus
}
#endif

#endif
