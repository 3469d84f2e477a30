/* libholdfast for programs that take several locks at once, and locks that several programs may hold: counted
 * ones, and shared ones that somebody may want alone. What
 * holdfast.h says of results, threads, signals, blocking and fork holds here, too. */
#ifndef HOLDFAST_SETS_H
#define HOLDFAST_SETS_H

#include "holdfast.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- several at once -----------------------------------------------------------------------------
 * A set of locks is acquired as a whole: hf_acquire_all() gives a lease on each of them, or none.
 *
 * All are tried at once, in one round trip. If some are not free, the call keeps those before the
 * first of them, in the order of their bytes, and waits for that first one; then it tries the rest
 * again. So a waiter holds only names that come before the one it waits for, and no deadlock arises,
 * whatever sets overlap and whatever single locks others take. Waiting while locks of earlier calls
 * are held breaks that order: acquire all that is needed in one call, or bound the wait. */
#define HF_SET_MAX 64

struct hf_name { /* in arrays, so its size stays */
    const void *bytes;
    size_t len; /* 1..255 */
};
/* const struct hf_name names[] = {hf_str("a"), hf_str("b")}; */
static inline struct hf_name hf_str(const char *text)
{
    struct hf_name name = {text, text ? __builtin_strlen(text) : 0};

    return name;
}

/* As hf_acquire_with() for 1 to HF_SET_MAX `names`, no two of them alike (HF_EINVAL); `options->name`
 * is NULL, and the other options are for each lease. `ret_leases` has room for `count` and is
 * written, in the order of `names`, only on HF_OK; then all were held at once, each with half its TTL
 * left. `wait_ms` is for the whole call. When one is lost, or asked to stop, while the call waits for
 * another, the call does not fail: it releases all and begins anew (with wait_ms 0: HF_ELOST). The
 * library beats for leases with a heartbeat until the call is over. On failure all are released,
 * without waiting for that, and hf_conflict_index() has the name that was not free; when the process
 * ends during the call the agent releases all. A lock that the process already holds is waited for
 * like anybody's. */
HF_EXPORT int hf_acquire_all(hf_client *client, const struct hf_acquire_options *options,
                             const struct hf_name *names, size_t count, hf_lease **ret_leases);

/* Nonzero while hf_held() is true for each; 0 for `count` 0. Once it has returned 0 it always
 * returns 0; async-signal-safe. */
HF_EXPORT int hf_held_all(hf_lease *const *leases, size_t count);

HF_INLINE int hf_held_all(hf_lease *const *leases, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!hf_held(leases[i]))
            return 0;
    return count > 0;
}

/* hf_release() of each of `count` (1 to HF_EXCLUSIVE_LEASES, HF_EINVAL) leases, of any clients. All requests
 * are sent before the first answer is waited for. The result is that of the first failure; all are
 * released and freed in every case. */
HF_EXPORT int hf_release_all(hf_lease *const *leases, size_t count);

/* --- counted locks -------------------------------------------------------------------------------
 * A lock that up to K may hold is K locks, its slots, named NAME#0 to NAME#(K-1). A plain lock with
 * such a name is that slot; NAME itself is another lock. All programs must use the same K: of
 * several the largest is the limit. A slot is a lock like any other, with its own fence, which
 * cannot be compared with another slot's. The nodes do not count holders: a count of two on each of
 * three nodes would admit three holders, each with a majority (on nodes a and b, b and c, a and c). */

/* As hf_acquire_with() for one of `slots` (1 to HF_SET_MAX) slots of `options->name`, whose length
 * must leave room for "#" and a number (HF_ENAME). Tries one after the other from a random one on;
 * if all are taken it waits for all, and keeps the first that is granted. Waiters of one host are
 * served first come first served, except when two slots become free at once. The wait for each slot
 * counts towards the limit of waiters per user (HF_ELIMIT). */
HF_EXPORT int hf_acquire_slot(hf_client *client, const struct hf_acquire_options *options,
                              unsigned slots, hf_lease **ret_lease, unsigned *ret_slot);
/* The number of the lease's slot, from 0; HF_ENOTHELD for a lease that was acquired otherwise. */
HF_EXPORT int hf_slot_number(const hf_lease *lease);

/* --- shared and exclusive ------------------------------------------------------------------------
 * NAME may be held by many who share it, or by one alone, as with flock -s and -x. Who shares it has one
 * slot of the counted NAME; who is alone has NAME itself and all HF_SET_MAX slots that NAME can have. So
 * no number has to be agreed on: an exclusive holder excludes whoever has a slot, through these functions
 * or as a counted lock of any K, and whoever has the plain lock NAME. The plain lock NAME excludes
 * exclusive holders only, not who shares it.
 *
 * Who waits for NAME alone takes NAME first, which one at a time can have, and then every slot as it
 * becomes free; who comes to share it then waits for NAME too, in one queue with the others of its
 * host. In the calm sharing costs what a plain lock costs.
 *
 * A hold cannot be made one of the other kind. From alone to shared: release all leases but slot 0's,
 * which then is a shared hold. From shared to alone: release, acquire, and look at what changed in
 * between. (flock's conversion does no better. Two that both waited for it would wait for ever.) A set
 * must not name slots of a lock that somebody takes exclusively: these two could wait for each other. */
#define HF_EXCLUSIVE_NAME   HF_SET_MAX /* the index of NAME's own lease in an exclusive hold */
#define HF_EXCLUSIVE_LEASES (HF_SET_MAX + 1) /* how many it has */

/* As hf_acquire_with(). At most `slots` (1 to HF_SET_MAX; 0: HF_SET_MAX) share `options->name` at a time,
 * as far as all give the same number; exclusion does not depend on it. hf_slot_number() has the slot.
 * HF_ENAME: as hf_acquire_slot(). */
HF_EXPORT int hf_acquire_shared(hf_client *client, const struct hf_acquire_options *options,
                                unsigned slots, hf_lease **ret_lease);

/* As hf_acquire_all(), for all locks of `options->name`: `ret_leases` has room for HF_EXCLUSIVE_LEASES; [i]
 * is slot i's and [HF_EXCLUSIVE_NAME] that of NAME itself. They are one hold: work while hf_held_all() is
 * true, stop when one is lost or asked to stop, release all with hf_release_all(). While the call waits
 * for those who share NAME it keeps others from joining them. `max_hold_ms` counts from the grant of each
 * lease, so it includes that wait.
 *
 * Fences. A resource that only exclusive holders write to compares the fence of NAME's lease. One that is
 * told by who shares as well keeps the highest fence of each slot: who shares gives slot and fence, who
 * is alone gives all, and one that is lower than its slot's refuses. Fences of two slots do not compare. */
HF_EXPORT int hf_acquire_exclusive(hf_client *client, const struct hf_acquire_options *options,
                                   hf_lease **ret_leases);

/* --- all of them --------------------------------------------------------------------------------- */

/* As hf_acquire_start() for hf_acquire_all() (`names` are copied) and its like. Between its steps such an
 * op needs hf_dispatch() or hf_op_result(). */
HF_EXPORT int hf_acquire_all_start(hf_client *client, const struct hf_acquire_options *options,
                                   const struct hf_name *names, size_t count, hf_op **ret_op);
HF_EXPORT int hf_acquire_slot_start(hf_client *client, const struct hf_acquire_options *options,
                                    unsigned slots, hf_op **ret_op);
HF_EXPORT int hf_acquire_shared_start(hf_client *client, const struct hf_acquire_options *options,
                                      unsigned slots, hf_op **ret_op);
HF_EXPORT int hf_acquire_exclusive_start(hf_client *client,
                                         const struct hf_acquire_options *options, hf_op **ret_op);
/* After an acquire of several names or slots that failed in this thread: the one that was not free,
 * as an index into `names` or the number of a slot; HF_EXCLUSIVE_NAME: NAME itself. HF_ENOTHELD: none of
 * them, or there was only one. */
HF_EXPORT int hf_conflict_index(void);
/* After hf_acquire_exclusive() failed in this thread because others share the lock: how many, as far as
 * is known; else 0. */
HF_EXPORT int hf_conflict_count(void);

#ifdef __cplusplus
}
#endif

#endif
