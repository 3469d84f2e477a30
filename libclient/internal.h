/* The structures that the library's files share. Internal names begin with hfc_, so that the static
 * library does not collide with its user's names.
 *
 * One mutex per client guards everything reachable from it except the leases' handles, which are
 * read without it (hf_held, hf_state ... are async-signal-safe). No thread sleeps or runs a
 * callback under it.
 *
 *   client --- session (one attach: socket, rings) --- map (a mapped table, outlives
 * sessions)
 *      |--- ops     requests that wait for a place in the ring, for an answer, or for their caller
 *      '--- leases  handles in pages that fork() empties; each keeps the map of its slot alive
 *
 * libclient/calls.h has the functions.
 */
#ifndef HOLDFAST_LIBCLIENT_INTERNAL_H
#define HOLDFAST_LIBCLIENT_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "shm/status.h"
#include "shm/bases.h"
#include "shm/compiler.h"
#include "shm/nstime.h"
#include "shm/ring.h"
#include "shm/table.h"
#include "shm/wire.h"
#include "libclient/holdfast.h"
#include "libclient/holdfast_admin.h"
#include "libclient/holdfast_sets.h"
#include "libclient/holdfast_run.h"

#define HFC_PATH_MAX   108 /* sun_path */
#define HFC_PLACES_MAX HF_BASES_MAX

/* The longest sleep without a look at CLOCK_BOOTTIME and the socket: futex timeouts stop in
 * suspend. */
#define HFC_SLICE_NS      (500 * HF_NS_PER_MS)
#define HFC_UNWATCHED_NS  (20 * HF_NS_PER_MS) /* between two looks at a socket that epoll refused */
#define HFC_SLICE_FULL_NS (5 * HF_NS_PER_MS)  /* the same, while the ring has no room */
#define HFC_WELCOME_NS    (5 * HF_NS_PER_SEC) /* a welcome takes no longer, or the agent hangs */
/* A thread of the agent gives a sign of life ten times a second, unless it hangs (agent/loop.h): an agent
 * silent for so long is not waited for. */
#define HFC_HANG_NS          (1 * HF_NS_PER_SEC)
#define HFC_GONE_NS          (500 * HF_NS_PER_MS) /* the same for judging a lease's state */
#define HFC_GRACE_NS         (1 * HF_NS_PER_SEC) /* a living agent answers so soon after a deadline */
#define HFC_ASK_NS           (5 * HF_NS_PER_SEC) /* patience with requests that involve no node */
#define HFC_BACKOFF_FIRST_NS (20 * HF_NS_PER_MS)
#define HFC_BACKOFF_MAX_NS   (500 * HF_NS_PER_MS)

#define HFC_NEVER            INT64_MAX

/* --- message.c: the last failure of this thread ----------------------------------------------- */

/* Keeps the sentence for hf_last_message() and returns `status`; NULL: the code's own text. Keeps
 * errno. */
int hfc_fail(int status, const char *format, ...) HF_PRINTF(2, 3);
/* Keeps the conflicting holder, for hf_conflict(); NULL: none known. */
void hfc_keep_conflict(const struct hf_wire_holder *holder);
/* Keeps the index of the conflicting name or slot, for hf_conflict_index(); -1: none. */
void hfc_keep_index(int index);
/* Keeps how many hold it, for hf_conflict_count(). hfc_keep_index() forgets it. */
void hfc_keep_count(unsigned count);
void hfc_holder(const struct hf_wire_holder *wire, struct hf_holder *ret_holder);

/* --- where an agent can be -------------------------------------------------------------------- */

struct hfc_place {
    char path[HFC_PATH_MAX];       /* of the attach socket */
    char table[HF_TABLE_NAME_MAX]; /* shm name, "" when the path does not say */
    uid_t owner;       /* the agent's user; only this user, root and our own are trusted */
    uid_t table_owner; /* the user who must own the table */
    char others
        [HFC_PATH_MAX]; /* of a user's agent that was named: where the host's agent of that name would be; "" */
};

/* The places to try for `agent` (as of hf_connect), in order. HF_EINVAL with the message set. */
int hfc_places(const char *agent, struct hfc_place ret_places[HFC_PLACES_MAX], int *ret_count);

/* --- client ----------------------------------------------------------------------------------- */

struct hfc_map { /* a mapped table */
    LIST_ENTRY(hfc_map) link;
    struct hf_table table;
    uint64_t epoch;
    _Atomic bool
        replaced;  /* a later agent made another, which says nothing of leases in this one */
    unsigned refs; /* the session's and one per lease */
};

struct hfc_file { /* a descriptor that is kept; file.c */
    int fd;       /* -1: none */
    dev_t dev;
    ino_t inode;
};

#define HFC_NO_FILE ((struct hfc_file){.fd = -1})

struct hfc_session { /* from a welcome to the end of its socket */
    unsigned refs;   /* the client's and one per thread asleep on it */
    struct hfc_file sock;
    bool has_ring;
    struct hf_ring_client ring;
    struct hfc_map *map;
};

enum hfc_link {
    HFC_LINK_DOWN,  /* no socket; the next try is at next_try_ns */
    HFC_LINK_HELLO, /* hello is sent, the welcome awaited */
    HFC_LINK_UP,
};

enum hfc_op_place {
    HFC_OP_NOWHERE,
    HFC_OP_QUEUED, /* not in the present session's ring */
    HFC_OP_FLYING, /* in the ring or taken by the agent */
    HFC_OP_PARKED, /* answered, its caller has not asked yet */
    HFC_OP_WHOLE,  /* of several requests, and none itself */
};

/* The differences between kinds of ops. All functions run with the client's lock; NULL: as for any request. */
struct hfc_kind {
    enum hf_wire_op wire_op;
    bool one_way;   /* the agent answers nothing: freed once it is in the ring */
    bool revocable; /* the agent can be told to forget it (HF_OP_CANCEL) */
    bool leaseless; /* its result is only a code */
    bool steady;    /* a signal handler does not end the wait for it */
    /* The agent's final answer came, not an item or progress. */
    void (*answered)(hf_op *op, const struct hf_completion_entry *entry);
    /* Time passed, or something changed: ends the op if that is due. */
    void (*expire)(hf_op *op, int64_t now_ns);
    int64_t (*next)(const hf_op *op); /* when `expire` may have something to do */
    void (*cancel)(hf_op *op);        /* nobody wants it: releases its lease */
    /* The leases or the failure of a done op, with message and conflict set. Frees it. NULL:
     * hf_op_result() is not used for it. */
    int (*result)(hf_op *op, hf_lease **ret_leases);
};

/* One request: an acquire of the API or anything else that goes through the ring. */
struct hf_op {
    TAILQ_ENTRY(hf_op) link;
    hf_client *client;
    const struct hfc_kind *kind;
    enum hfc_op_place place;
    struct hf_request_entry entry;
    int64_t start_ns;
    int64_t deadline_ns; /* the agent should have answered by then; no agent is waited for
                            afterwards */
    int64_t give_up_ns;  /* nor an answer after this */
    bool sent;           /* was in a ring at some time: the agent may know of it */
    bool cancelled;      /* nobody wants the grant any more: release it */
    bool abandoned;      /* nobody will collect it: free it with its answer */
    bool done;           /* `status` is final for the caller */
    bool has_holder;
    bool progress_due;
    bool told_no_agent;
    bool relayed; /* the whole reports its progress */
    int status;
    hf_lease *lease; /* granted */
    uint64_t thread; /* that asked for it */
    void (*progress)(const struct hf_progress *progress, void *arg);
    void *arg;
    struct hf_progress progress_now;
    struct hf_wire_holder holder;
    char text[184];
    /* For a caller that waits in a call, until the op is abandoned; NULL: not wanted. */
    struct hf_completion_entry *found; /* gets the whole answer */
    /* Of a listing, before the answer. */
    void (*item)(const struct hf_listing_item *item, void *arg);
};
TAILQ_HEAD(hfc_ops, hf_op);

/* A handle and what belongs to it. It lies in a page that fork() empties: `client` is NULL in a
 * child. */
struct hfc_lease {
    hf_lease handle; /* first: hf_lease * and struct hfc_lease * are the same address */
    hf_client *client;
    struct hfc_map *map;
    uint64_t fence;
    uint64_t thread; /* that asked for it; 0: nobody is refused for it */
    uint32_t slot, generation, ttl_ms;
    uint32_t beat_word; /* 0: none */
    int number;         /* of a counted lock's slot; HF_ENOTHELD: it is none */
    bool is_job;
    int reported;        /* the state last reported to `fn` */
    uint64_t once_asker; /* of a call that failed, so that the next one finds its own record; 0 */
    _Atomic uint32_t final; /* terminal enum hf_lease_state once seen, for ever */
    _Atomic uint32_t reason;
    hf_change_fn *fn;
    void *arg;
    TAILQ_ENTRY(hfc_lease) link; /* in use, or free */
};
TAILQ_HEAD(hfc_leases, hfc_lease);

struct hfc_chunk { /* pages of the pool; the list itself survives a fork */
    struct hfc_chunk *next;
    void *memory;
    size_t bytes;
};

/* Stands for "the mutex of the client at hand is held" in clang's analysis, which cannot follow
 * op->client and lease->client to the same mutex. Never defined. */
extern struct CAPABILITY("mutex") hfc_any_lock {
    char none;
} hfc_locked;

struct hf_client {
    pthread_mutex_t lock;
    const uint64_t *life; /* 1; 0 in a forked child */
    struct hfc_chunk *chunks;
    struct hfc_place place;
    uint32_t role; /* enum hf_hello_role */
    uint8_t cookie[HF_COOKIE_LEN];

    enum hfc_link link GUARDED_BY(hfc_locked);
    struct hfc_session *session GUARDED_BY(hfc_locked); /* NULL when the link is down */
    LIST_HEAD(, hfc_map) maps GUARDED_BY(hfc_locked);
    struct hf_welcome welcome GUARDED_BY(hfc_locked); /* the last good one */
    int64_t next_try_ns GUARDED_BY(hfc_locked);
    int64_t last_try_ns GUARDED_BY(hfc_locked); /* of the last try that failed */
    int64_t hello_until_ns GUARDED_BY(hfc_locked);
    /* of hf_connect_start(), until it is decided: the places still to be tried */
    struct hfc_place places[HFC_PLACES_MAX] GUARDED_BY(hfc_locked);
    int places_left GUARDED_BY(hfc_locked);
    int connect_status GUARDED_BY(hfc_locked); /* HF_EPENDING until then */
    int64_t started_ns GUARDED_BY(hfc_locked);
    int64_t
        connect_until_ns GUARDED_BY(hfc_locked); /* a try may wait for its turn; 0: it may not */
    int64_t backoff_ns GUARDED_BY(hfc_locked);
    int link_status GUARDED_BY(hfc_locked);                     /* why the last try failed */
    struct hfc_file group[HF_GROUP_FDS] GUARDED_BY(hfc_locked); /* of a job, sent to each agent */
    bool crowded GUARDED_BY(hfc_locked); /* it failed because too many others connected */
    char link_text[256] GUARDED_BY(hfc_locked);

    uint32_t
        *beats; /* where leases beat, always at this address; each session maps its words there */
    uint64_t beats_used[HF_BEATS / 64] GUARDED_BY(hfc_locked);
    uint32_t known; /* `incarnation` of the agent that has these words */

    uint64_t next_id GUARDED_BY(hfc_locked);
    struct hfc_ops queued GUARDED_BY(hfc_locked), flying GUARDED_BY(hfc_locked),
        parked GUARDED_BY(hfc_locked), wholes GUARDED_BY(hfc_locked);
    bool ring_full GUARDED_BY(hfc_locked);           /* at the last look */
    struct hfc_leases leases GUARDED_BY(hfc_locked); /* those with a callback stand first */
    struct hfc_leases free_leases GUARDED_BY(hfc_locked);

    struct hfc_file epoll GUARDED_BY(hfc_locked), timer GUARDED_BY(hfc_locked); /* since hf_fd() */
    bool unwatched GUARDED_BY(hfc_locked);   /* epoll refused the session's socket */
    int64_t timer_ns GUARDED_BY(hfc_locked); /* the instant the timer is set to */
    int64_t until_ns GUARDED_BY(hfc_locked); /* no lease is over before this, when last looked at */
    int64_t look_ns GUARDED_BY(hfc_locked);  /* not looked at again before */
    bool nudged GUARDED_BY(hfc_locked);      /* since then */
};

#include "libclient/calls.h"

#endif
