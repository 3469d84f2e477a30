/* libholdfast: take locks through the Holdfast agent of this host, and ask "do I still hold it?"
 * for the price of one load and one clock read.
 *
 *     hf_client *client = NULL;
 *     hf_lease *lease;
 *     if (hf_connect(NULL, &client) == HF_OK &&                          // the default agent
 *         hf_acquire(client, "db/migrate", 10000, -1, &lease) == HF_OK) { // 10 s TTL, wait for ever
 *         while (work_left() && hf_held(lease))
 *             do_a_little_work(hf_fence(lease));
 *         hf_release(lease);
 *     }
 *     hf_disconnect(client);
 *
 * The agent renews the lease until it is released or this process ends. So the TTL does not limit
 * the work: it limits how long the lock stays taken when this host is gone. docs/examples/example.c
 * shows the calls. holdfast_sets.h takes several locks at once, and counted locks; holdfast_run.h has
 * what only guardians of jobs need; holdfast_admin.h shows holders on any host, and the agent's table.
 *
 * Results. Functions return HF_OK (0) or a negative HF_E* code, and hf_last_message() explains it;
 * `ret_` parameters are written only on HF_OK unless said otherwise. HF_ESYS leaves errno. Structs
 * that may grow begin with `size`, set by their init macro or by the library; `reserved` is 0.
 * Times are milliseconds, and their names end in _ms. Only instants of CLOCK_BOOTTIME, to be
 * compared with that clock, are nanoseconds: their names end in _ns.
 *
 * Threads. Every function may be called from any thread; the library serialises calls on one client
 * where needed. Many threads may use one lease, but none may use it after hf_release() or
 * hf_lease_free() was called on it. The library starts no threads.
 *
 * Signals. Only hf_held(), hf_held_all(), hf_beat(), hf_remaining_ms(), hf_fence() and hf_state() may be
 * called from a signal handler. The library installs none.
 *
 * Blocking. hf_connect(), the acquiring calls, hf_wait() and the calls that ask nodes end with HF_EINTR
 * when a signal handler without SA_RESTART has run in their thread while they slept; the request is then
 * cancelled, and nothing is held. A grant that was on its way is given back by the next call on the
 * client: a program that makes none for long calls hf_dispatch(). (If all handlers of the process,
 * except those of faults, have SA_RESTART, they sleep on.) A handler that runs just before the sleep is
 * not noticed, as with flock(2): a program that must not miss one uses hf_fd() and ppoll(). The
 * releasing calls, hf_disconnect(), hf_ask() and hf_force() sleep on: what they have begun is done
 * whether they wait for it or not.
 *
 * Fork and exec. A child holds nothing: hf_held() is false in it at once, and every other call on
 * an inherited client or lease returns HF_EFORKED. The child may free them, which does not touch
 * the parent's leases, and may connect for itself. All descriptors are close-on-exec. A program that closes
 * them, as daemons do, ends the connection, which releases its locks; files that get their numbers stay
 * untouched.
 *
 * Assertions. Where going on could make hf_held() true of a lock that is not held (a handle in use that is
 * given out again, a table that is unmapped under a lease), the library prints one line on stderr and calls
 * abort(). It asserts nothing else.
 *
 * docs/SAFETY.md says what a lease promises, and what it does not. In short: while hf_held() is
 * true nobody else on any host has the lock. It is true at the moment of the clock read, and a
 * paused process can act on it late: so pass hf_fence() to every resource that can compare it.
 */
#ifndef HOLDFAST_H
#define HOLDFAST_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HF_VERSION_MAJOR 0
#define HF_VERSION_MINOR 1

#if defined(__GNUC__)
#define HF_EXPORT __attribute__((visibility("default")))
#else
#define HF_EXPORT
#endif

/* Inline functions are also exported, for other languages and for compilers that do not inline. */
#ifndef HF_INLINE
#define HF_INLINE extern __inline __attribute__((__gnu_inline__))
#endif

/* Inside the project shm/status.h has the same list (and a test compares them). */
#ifndef HF_STATUS_TABLE
enum {
    HF_OK = 0,
    HF_EINVAL = -101,    /* an argument is not valid */
    HF_ENAME = -102,     /* name empty, over 255 bytes, or with the prefix "holdfast:" */
    HF_ETTL = -103,      /* TTL below what the timing allows or above the agent's ttl_max */
    HF_EPERM = -104,     /* not allowed: not yours, or kept for others by a rule of the agent */
    HF_EBUSY = -201,     /* held by another, and waiting was not asked for */
    HF_ETIMEDOUT = -202, /* the wait ended */
    HF_ECANCELED = -203, /* cancelled */
    HF_EPENDING = -204,  /* not decided yet */
    HF_EINTR = -205,     /* a signal handler ended the wait */
    HF_EDONE = -206,     /* the job has run in this period */
    HF_EDEADLK = -207,   /* this thread holds the lock by this client, and would wait for itself */
    HF_ENOAGENT = -301,  /* no agent answers */
    HF_ESHUTDOWN = -302, /* the agent is going away */
    HF_ENOQUORUM = -303, /* too few nodes may vote (down, or in quarantine) */
    HF_EFLEET = -304,    /* ttl_max, N or the node list differ from the fleet's */
    HF_EFULL = -305,     /* the agent's capacity is used up */
    HF_ELIMIT = -306,    /* this user's limit is used up */
    HF_EVERSION = -307,  /* client and agent are of different versions */
    HF_ETIMENS = -308,   /* client and agent are in different time namespaces */
    HF_EPROTO = -309,    /* the other side broke the protocol */
    HF_ETABLE = -310,    /* the table is not usable: squatted, truncated, corrupt */
    HF_EDRAINED = -311,  /* an operator drained this host's agent: it grants nothing new */
    HF_ELOST = -401,     /* the lease is lost */
    HF_ENOTHELD = -402,  /* nothing is held by that name or handle */
    HF_EFORKED = -403,   /* the handle belongs to the process before fork() */
    HF_ENOMEM = -501,
    HF_ESYS = -502 /* a system call failed; see errno */
};
#endif

/* One sentence for a code; static storage. */
HF_EXPORT const char *hf_strerror(int code);

/* The message of the last failed call of this thread, with names and numbers if the agent sent
 * some; never NULL; valid until the next call of this thread. */
HF_EXPORT const char *hf_last_message(void);

typedef struct hf_client hf_client; /* a session with one agent */
typedef struct hf_op hf_op;         /* a call that was started without waiting for it */

/* --- connecting ----------------------------------------------------------------------------------
 * `agent`: an agent's NAME; a path (with a '/') of its attach socket; or NULL: $HOLDFAST_AGENT if
 * set, else "default". A NAME is looked for as the user's own agent first
 * ($XDG_RUNTIME_DIR/holdfast/NAME/sock), then as the system's (/run/holdfast/NAME/sock).
 * A $XDG_RUNTIME_DIR of another user, as after su or "sudo -E", is ignored. Where
 * $HOLDFAST_RUNTIME_DIR is set, at $HOLDFAST_RUNTIME_DIR/NAME/sock instead of both.
 * The agent must run as root, as the caller's user, or as the system agent's account, else
 * HF_EPERM. Other errors: HF_ENOAGENT, HF_EVERSION, HF_ETIMENS, HF_ELIMIT, HF_ETABLE, HF_EINTR. */
HF_EXPORT int hf_connect(const char *agent, hf_client **ret_client);
/* The same without blocking, for event loops. The client is there at once; hf_connect_result() is
 * HF_EPENDING until it is decided (poll hf_fd(), and call hf_dispatch()), and then what hf_connect()
 * would have returned. Calls that block may be made only after HF_OK; hf_disconnect() frees the
 * client in every case. An agent that hangs is given up after a second, by its sign of life in
 * shared memory; when many programs connect at once both calls take up to 5 s. */
HF_EXPORT int hf_connect_start(const char *agent, hf_client **ret_client);
HF_EXPORT int hf_connect_result(hf_client *client);

/* Makes the agent release every lease of this client, without waiting for that, and frees the
 * client. Its leases and ops must not be used afterwards. NULL is fine. When a process ends without
 * this call the agent does the same. Without an agent it waits up to 1 s for one, if a lease is
 * still valid: an agent that starts later keeps such a lease until this process ends. */
HF_EXPORT void hf_disconnect(hf_client *client);

/* The agent as it is now. HF_ENOAGENT when it is away. */
struct hf_agent_info {
    size_t size; /* HF_AGENT_INFO_INIT */
    uint32_t ttl_ms, ttl_max_ms, ttl_min_ms;
    uint32_t nodes, quorum;
    uint32_t agent_pid;
    char agent_name[64];
    char version[16];
    /* The attach socket of the host's agent, when it runs too and the caller's own agent with private nodes
     * (--dev) was found first under the same name. "" otherwise. */
    char shadowed[128];
    /* st_ino of the agent's /proc/self/ns/pid: `agent_pid` and a holder's pid on this host are numbers of that PID namespace. */
    uint64_t agent_pidns;
};
#define HF_AGENT_INFO_INIT                                                                         \
    {                                                                                              \
        sizeof(struct hf_agent_info), 0, 0, 0, 0, 0, 0, "", "", "", 0                              \
    }
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* a function named as its struct, like stat() */
#endif
HF_EXPORT int hf_agent_info(hf_client *client, struct hf_agent_info *ret_info);
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/* --- a lease and its check -----------------------------------------------------------------------
 * The struct lives in a page that fork() empties; its fields are the library's. */
typedef struct hf_lease {
    const uint64_t *hf_private_word; /* the slot's check word, read-only mapping */
    uint64_t hf_private_generation;  /* 0: holds nothing, for ever */
    uint32_t *hf_private_beat;       /* NULL: no heartbeat was asked for */
    const uint32_t *hf_private_agent, *hf_private_known; /* the agent that runs, the one we know */
} hf_lease;

#define HF_PRIVATE_GEN_SHIFT  40
#define HF_PRIVATE_TIME_SHIFT 20

/* Nonzero while the lease is held. One acquire load, one clock read, no loop, no system call; never torn;
 * async-signal-safe; needs no agent. Once it has returned 0 it always returns 0. 0 for NULL. It is
 * inlined if <time.h> has CLOCK_BOOTTIME (-std=gnu11, -D_POSIX_C_SOURCE=200809L), else a call. */
HF_EXPORT int hf_held(hf_lease *lease);

#ifdef CLOCK_BOOTTIME
HF_INLINE int hf_held(hf_lease *lease)
{
    uint64_t generation, word;
    struct timespec now;

    if (!lease)
        return 0;
    generation = __atomic_load_n(&lease->hf_private_generation, __ATOMIC_ACQUIRE);
    if (!generation)
        return 0;
    word = __atomic_load_n(lease->hf_private_word, __ATOMIC_ACQUIRE);
    /* The clock is read after the load: what the word promised is judged by a later time. */
    if (word >> HF_PRIVATE_GEN_SHIFT == generation && clock_gettime(CLOCK_BOOTTIME, &now) == 0 &&
        (now.tv_sec * UINT64_C(1000000000) + now.tv_nsec) >> HF_PRIVATE_TIME_SHIFT <
            (word & ((UINT64_C(1) << HF_PRIVATE_GEN_SHIFT) - 1)))
        return 1;
    __atomic_store_n(&lease->hf_private_generation, 0, __ATOMIC_RELEASE);
    return 0;
}
#endif

enum hf_lease_state {
    HF_STATE_HELD = 1,
    HF_STATE_LATE = 2, /* still held, but renewals are failing: less than half the TTL is left */
    /* still held, but it will be lost: stop now. When the agent says so, the lease never goes back to
     * HELD. When the agent is gone or hangs, the library says so with 3/10 of the TTL left: an agent
     * that comes back in time and extends the lease makes it HELD again, except the lease of a job,
     * which has stopped. */
    HF_STATE_LOSING = 3,
    HF_STATE_LOST = 4,
    HF_STATE_RELEASED = 5
};

/* Milliseconds until the validity ends, rounded down; 0 when not held (then the handle is dead, as
 * after hf_held()), and in the last millisecond. */
HF_EXPORT int64_t hf_remaining_ms(hf_lease *lease);

/* The instant of CLOCK_BOOTTIME, in nanoseconds, at which the validity now ends; 0 when not held.
 * Renewals move it later. */
HF_EXPORT int64_t hf_valid_until_ns(hf_lease *lease);

/* A positive enum hf_lease_state, or HF_EINVAL for NULL, or HF_EFORKED. */
HF_EXPORT int hf_state(hf_lease *lease);

/* The fence: rises with every grant of the name, on all hosts. Kept after a loss; 0 for NULL. */
HF_EXPORT uint64_t hf_fence(const hf_lease *lease);

/* Why a lease is LOSING or LOST, a short sentence; "" otherwise. Static storage. */
HF_EXPORT const char *hf_reason(hf_lease *lease);

/* --- acquiring -----------------------------------------------------------------------------------
 * Names are 1..255 bytes of any value; calls with `const char *name` take C strings. */

struct hf_holder {
    uint64_t fence;        /* 0: unknown */
    int64_t since_wall_ms; /* Unix time; 0: unknown */
    int64_t pttl_ms;       /* until its key expires; -1: no expiry, -2: unknown */
    uint32_t pid, uid;
    char host[64], command[16], note[128]; /* "": unknown */
    uint64_t reserved[4];                  /* it is part of other structs, so its size stays */
};
#define HF_HOLDER_INIT                                                                             \
    {                                                                                              \
        0, 0, 0, 0, 0, "", "", "",                                                                 \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }

/* What an undecided acquire waits for. */
struct hf_progress {
    size_t size; /* as the library has it */
    /* HF_EBUSY: another holds it; HF_ENOQUORUM: too few nodes may vote; HF_EDRAINED: an operator drained this
     * host's agent; HF_ENOAGENT */
    int reason;
    uint32_t nodes_voting, nodes_up;
    struct hf_holder holder;
    char text[184]; /* the same as a sentence; "" with HF_EBUSY, where `holder` says it */
    size_t index;   /* of several names or slots, which one; else 0 */
    /* Its place among the waiters of this host: 1 is next; 0: not known. Updated with the rest, at
     * most twice a second. */
    uint32_t place;
    uint32_t holders; /* of hf_acquire_exclusive(): how many hold it shared; else 0 */
};

struct hf_acquire_options {
    size_t size; /* HF_ACQUIRE_OPTIONS_INIT */
    const void *name;
    size_t name_len;       /* 1..255 */
    uint32_t ttl_ms;       /* 0: the agent's default */
    uint32_t max_hold_ms;  /* it is LOSING after so long, and lost within a TTL; 0: no limit */
    int64_t wait_ms;       /* 0: try once; -1: no limit */
    unsigned flags;        /* 0; holdfast_run.h has some */
    const char *note;      /* up to 127 bytes for people to read; NULL: none */
    uint32_t heartbeat_ms; /* the same after so long without hf_beat(); at least 100; 0: none */
    /* Called in the calling thread when the progress changes; may be NULL. */
    void (*progress)(const struct hf_progress *progress, void *arg);
    void *arg;
};
/* A try with the agent's default TTL; the name is missing. */
#define HF_ACQUIRE_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(struct hf_acquire_options), NULL, 0, 0, 0, 0, 0, NULL, 0, NULL, NULL                \
    }

/* Blocks until granted, refused, or the wait is over. `ttl_ms` 0 takes the agent's default;
 * `wait_ms` 0 tries once (HF_EBUSY), -1 waits without limit. The agent queues the waiters of this
 * host, first come first served. A thread that holds the lock by this client, and would wait for itself, is refused at
 * once (HF_EDEADLK). While no agent answers, a wait keeps trying to attach until its end.
 * Errors: HF_EBUSY, HF_ETIMEDOUT, HF_EINTR, HF_ENOQUORUM, HF_ENAME, HF_EPERM (a rule of this host's
 * agent keeps the name for others), HF_ETTL, HF_EFLEET, HF_EFULL, HF_ELIMIT, HF_ESHUTDOWN, HF_ENOAGENT (also when the agent hangs: a second after the end of the wait or
 * try), HF_ELOST (granted, and lost before it could be used). */
HF_EXPORT int hf_acquire(hf_client *client, const char *name, int64_t ttl_ms, int64_t wait_ms,
                         hf_lease **ret_lease);
HF_EXPORT int hf_acquire_with(hf_client *client, const struct hf_acquire_options *options,
                              hf_lease **ret_lease);
/* hf_acquire() with wait_ms 0 and the default TTL. */
HF_EXPORT int hf_try(hf_client *client, const char *name, hf_lease **ret_lease);

/* After HF_EBUSY or HF_ETIMEDOUT in this thread: the holder. HF_ENOTHELD when it is not known. */
HF_EXPORT int hf_conflict(struct hf_holder *ret_holder);

/* --- without blocking ----------------------------------------------------------------------------
 * hf_fd() becomes readable when hf_dispatch() has something to do: a completion, a change of a
 * lease, the end of a validity (also without an agent). Level-triggered; owned by the client; only
 * poll it. HF_ESYS: no file descriptor or epoll watch is left. Check the result before an acquire:
 * poll() ignores a negative descriptor, and would sleep with the lock held. */
HF_EXPORT int hf_fd(hf_client *client);

/* Handles all that is due, runs callbacks in the calling thread, never blocks. */
HF_EXPORT int hf_dispatch(hf_client *client);

/* Starts an acquire. The op is freed by hf_op_result() (unless HF_EPENDING) or hf_op_cancel(). */
HF_EXPORT int hf_acquire_start(hf_client *client, const struct hf_acquire_options *options,
                               hf_op **ret_op);
/* HF_EPENDING while undecided; otherwise the op is freed and the result is that of
 * hf_acquire_with(). For a set `ret_lease` has room for all its leases. */
HF_EXPORT int hf_op_result(hf_op *op, hf_lease **ret_lease);
/* Cancels the request and frees the op; a grant that still comes is released. NULL is fine. */
HF_EXPORT void hf_op_cancel(hf_op *op);

/* --- once in a period -----------------------------------------------------------------------------
 * A job that several hosts start, to run once in a period: under its lock ask hf_once(), and run it on HF_OK only. The nodes
 * keep for each name when its job was started last, for two periods and a day. hf_once_last() shows it. docs/SAFETY.md says what that promises. */

/* HF_OK: it has not run in this period, and a majority of the nodes has it by now that it starts: the job counts as run,
 * whatever becomes of it. HF_EDONE: its last start is less than nine tenths of `period_ms` ago by the nodes' clocks.
 * `period_ms` 1 to UINT32_MAX. `ret_before` (may be NULL) is for hf_once_take_back(). HF_ENOQUORUM: do not run it (too few nodes
 * answer, or agree on the time); so is any other failure. The next call with the same lease goes on where this one failed. An agent that starts again, or asks late nodes, is
 * waited for, up to a third of its TTL and at least five seconds. Start the job as soon as the call is back: the next start counts
 * from a moment that the nodes have by then. Where this process slept beyond it, the call asks again, three times in all. HF_ELOST: the lock is not held any more. */
HF_EXPORT int hf_once(hf_lease *lease, int64_t period_ms, int64_t *ret_before);
/* The job failed, and is to run again in this period: what hf_once() wrote is taken back, while the lock is held. The agent
 * itself remembers which start stood before, so `before` is not used. HF_ENOTHELD: the agent knows of no run that began under
 * this lease (it has started again since); the run counts. */
HF_EXPORT int hf_once_take_back(hf_lease *lease, int64_t period_ms, int64_t before);

/* The last run that counts, on any host, for people. */
enum hf_once_end {
    HF_ONCE_OPEN = 0,   /* it runs, or nobody could say how it ended */
    HF_ONCE_EXITED = 1, /* with `code` */
    HF_ONCE_KILLED = 2, /* by the signal `code` */
    HF_ONCE_LOST = 3    /* it was stopped, because its lock was lost */
};
struct hf_once_info {
    size_t size;             /* HF_ONCE_INFO_INIT */
    int64_t started_wall_ms; /* Unix time, by the nodes' clocks */
    struct hf_holder by;     /* host, process and user; "" and 0 where they are unknown */
    int end, code;           /* enum hf_once_end */
};
#define HF_ONCE_INFO_INIT                                                                          \
    {                                                                                              \
        sizeof(struct hf_once_info), 0, HF_HOLDER_INIT, 0, 0                                       \
    }
/* HF_OK, and `info` has the last run that counts. HF_ENOTHELD: there is none. HF_ENOQUORUM: too few nodes answered. HF_EPERM: a rule of
 * this host's agent lets others see the name. */
HF_EXPORT int hf_once_last(hf_client *client, const void *name, size_t name_len,
                           struct hf_once_info *info);

/* --- releasing, waiting, noticing a loss ---------------------------------------------------- */

/* The handle holds nothing from the first instruction on; then the agent deletes the key on all
 * nodes. HF_OK when a majority answered; HF_ELOST when the lease had been lost before, or a majority did
 * not have its key any more; HF_ETIMEDOUT
 * or HF_ENOAGENT when there was no answer in time: the key then expires by its TTL. (The call waits
 * for the agent's answer until a second after the validity.) Frees the lease in every case.
 * HF_ENOTHELD for NULL. */
HF_EXPORT int hf_release(hf_lease *lease);

/* The same without waiting for the answer, for event loops: the lease is over and freed at once, and
 * hf_op_result(op, NULL) returns HF_EPENDING until it can return what hf_release() would have
 * returned; hf_op_cancel() does not undo the release. A negative code is already that result, and
 * there is no op. */
HF_EXPORT int hf_release_start(hf_lease *lease, hf_op **ret_op);

/* Only frees the handle: the agent keeps a lease that is still held until the client ends. For
 * handles that are lost. NULL is fine. */
HF_EXPORT void hf_lease_free(hf_lease *lease);

/* Sleeps until the state differs from `state`, the lease is over, or `timeout_ms` has passed (-1:
 * no limit). Returns the new state (a positive enum hf_lease_state), or a negative code:
 * HF_ETIMEDOUT, HF_EINTR, HF_EFORKED. */
HF_EXPORT int hf_wait(hf_lease *lease, int state, int64_t timeout_ms);

/* hf_dispatch() calls `fn` after each change of state, and once for the end. NULL turns it off.
 * `fn` must not free or release the lease that it is called for, nor disconnect. */
typedef void hf_change_fn(hf_lease *lease, int state, void *arg);
HF_EXPORT int hf_on_change(hf_lease *lease, hf_change_fn *fn, void *arg);

/* --- heartbeats ----------------------------------------------------------------------------------
 * A lease is renewed for as long as its process lives, even if the process hangs. A lease acquired
 * with `heartbeat_ms` is renewed only while the program shows progress: after so long without
 * hf_beat() (counted from the grant; up to a quarter longer) it becomes LOSING, and others get the
 * lock when its validity ends. Beat where the work is done, at least three times as often, and not
 * from a thread or timer that goes on when the work hangs. Up to 1023 leases of a client can have a
 * heartbeat at a time (HF_ELIMIT). */

/* A store to shared memory: no loop, no system call, async-signal-safe, any thread. Nonzero when the
 * agent has restarted and must learn which leases beat: call hf_dispatch() until it is 0 again, not
 * from a signal handler. For a lease without a heartbeat it does nothing. */
HF_EXPORT int hf_beat(hf_lease *lease);

HF_INLINE int hf_beat(hf_lease *lease)
{
    if (!lease || !__atomic_load_n(&lease->hf_private_generation, __ATOMIC_ACQUIRE) ||
        !lease->hf_private_beat)
        return 0;
    (void)__atomic_fetch_add(lease->hf_private_beat, 1, __ATOMIC_RELAXED);
    return __atomic_load_n(lease->hf_private_agent, __ATOMIC_RELAXED) !=
           __atomic_load_n(lease->hf_private_known, __ATOMIC_RELAXED);
}

/* The same for the job of `holdfast run --heartbeat`, from any of its processes. 1: it beat; 0:
 * there is no such `run`, or its memory cannot be reached. The first call looks for the memory; all
 * others are a store, async-signal-safe. Any thread, no client. */
HF_EXPORT int hf_job_beat(void);

#ifdef __cplusplus
}
#endif

#endif
