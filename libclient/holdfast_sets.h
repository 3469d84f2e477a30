/* libholdfast for programs that take several locks at once, and locks that several programs may hold. What
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

/* hf_release() of each of `count` (1 to HF_SET_MAX, HF_EINVAL) leases, of any clients. All requests
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

/* --- both ---------------------------------------------------------------------------------------- */

/* As hf_acquire_start() for hf_acquire_all() (`names` are copied) and hf_acquire_slot(). Between its steps
 * such an op needs hf_dispatch() or hf_op_result(). */
HF_EXPORT int hf_acquire_all_start(hf_client *client, const struct hf_acquire_options *options,
                                   const struct hf_name *names, size_t count, hf_op **ret_op);
HF_EXPORT int hf_acquire_slot_start(hf_client *client, const struct hf_acquire_options *options,
                                    unsigned slots, hf_op **ret_op);
/* After an acquire of several names or slots that failed in this thread: the one that was not free,
 * as an index into `names` or the number of a slot. HF_ENOTHELD: none of them, or there was only one. */
HF_EXPORT int hf_conflict_index(void);

#ifdef __cplusplus
}
#endif

#endif
