/* What the files of the library share. Internal names begin with hfc_, so that an archive of the
 * library does not meet its user's names.
 *
 * One mutex per client guards everything reachable from it except the leases' handles, which are
 * read without it (hf_held, hf_state ... are async-signal-safe). Nobody sleeps or runs a callback
 * under it.
 *
 *   client --- session (one attach: socket, rings, doorbell) --- map (a mapped table, outlives
 * sessions)
 *      |--- ops     requests that wait for a place in the ring, for an answer, or for their caller
 *      '--- leases  handles in pages that fork() empties; each keeps the map of its slot alive
 *
 * A file calls only those whose section here comes before its own; what is below one, such as what an
 * op's kind does, is reached by a pointer. tests/include_rules.py looks for call circles.
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
#include "libclient/holdfast_run.h"

#define HFC_PATH_MAX   108 /* sun_path */
#define HFC_PLACES_MAX HF_BASES_MAX

/* Nobody sleeps longer without looking at CLOCK_BOOTTIME and the socket: futex timeouts stop in
 * suspend. */
#define HFC_SLICE_NS      (500 * HF_NS_PER_MS)
#define HFC_SLICE_FULL_NS (5 * HF_NS_PER_MS)  /* the same, while the ring has no room */
#define HFC_WELCOME_NS    (5 * HF_NS_PER_SEC) /* a welcome takes no longer, or the agent hangs */
/* A thread of the agent gives a sign of life ten times a second, unless it hangs (agent/loop.h): one that gave
 * none for so long is not waited for. */
#define HFC_HANG_NS (1 * HF_NS_PER_SEC)
#define HFC_GONE_NS (500 * HF_NS_PER_MS) /* the same for what a lease's state is to be */
#define HFC_GRACE_NS                                                                               \
    (1 *                                                                                           \
     HF_NS_PER_SEC) /* an agent that lives answers so soon after a deadline                    \
                         */
#define HFC_ASK_NS           (5 * HF_NS_PER_SEC) /* patience with requests that no node takes part in */
#define HFC_BACKOFF_FIRST_NS (20 * HF_NS_PER_MS)
#define HFC_BACKOFF_MAX_NS   (500 * HF_NS_PER_MS)

#define HFC_NEVER            INT64_MAX

/* --- message.c: the last failure of this thread ----------------------------------------------- */

/* Keeps the sentence for hf_last_message() and returns `status`; NULL: the code's own text. Keeps
 * errno. */
int hfc_fail(int status, const char *format, ...) HF_PRINTF(2, 3);
/* Keeps who was in the way, for hf_conflict(); NULL: nobody known. */
void hfc_keep_conflict(const struct hf_wire_holder *holder);
/* Keeps which of several it was, for hf_conflict_index(); -1: none. */
void hfc_keep_index(int index);
void hfc_holder(const struct hf_wire_holder *wire, struct hf_holder *ret_holder);

/* --- agent_path.c: where an agent can be ------------------------------------------------------ */

struct hfc_place {
    char path[HFC_PATH_MAX];       /* of the attach socket */
    char table[HF_TABLE_NAME_MAX]; /* shm name, "" when the path does not tell */
    uid_t owner;       /* whose agent it is; with root and ourselves the only ones trusted */
    uid_t table_owner; /* whose table it must be */
};

/* The places to try for `agent` (as of hf_connect), in order. HF_EINVAL with the message set. */
int hfc_places(const char *agent, struct hfc_place ret_places[HFC_PLACES_MAX], int *ret_count);

/* --- client ----------------------------------------------------------------------------------- */

struct hfc_map { /* a mapped table */
    LIST_ENTRY(hfc_map) link;
    struct hf_table table;
    uint64_t epoch;
    _Atomic bool replaced; /* a later agent made another: it says nothing of leases in this one */
    unsigned refs;         /* the session's and one per lease */
};

struct hfc_session { /* from a welcome to the end of its socket */
    unsigned refs;   /* the client's and one per thread asleep on it */
    int sock, doorbell;
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

/* What differs from one kind of op to another. All run with the client's lock; NULL: as of any request. */
struct hfc_kind {
    enum hf_wire_op wire_op;
    bool one_way;   /* the agent answers nothing: freed once it is in the ring */
    bool revocable; /* the agent can be told to forget it (HF_OP_CANCEL) */
    bool leaseless; /* its result is a code alone */
    bool steady;    /* a signal handler does not end the wait for it */
    /* The agent's answer came, which is not that of an item or of progress. */
    void (*answered)(hf_op *op, const struct hf_completion_entry *entry);
    /* Time passed, or something moved: ends the op if that is due. */
    void (*expire)(hf_op *op, int64_t now_ns);
    int64_t (*next)(const hf_op *op); /* when `expire` may have something to do */
    void (*cancel)(hf_op *op);        /* nobody wants it: gives back what it was granted */
    /* Of a done op: its leases or its failure, with message and conflict set. Frees it. NULL: nobody
     * asks by hf_op_result(). */
    int (*result)(hf_op *op, hf_lease **ret_leases);
};

/* One request: acquires of the API and everything else that goes through the ring. */
struct hf_op {
    TAILQ_ENTRY(hf_op) link;
    hf_client *client;
    const struct hfc_kind *kind;
    enum hfc_op_place place;
    struct hf_request_entry entry;
    int64_t start_ns;
    int64_t deadline_ns; /* the agent should have answered by then; then no more waiting for one to
                            come */
    int64_t give_up_ns;  /* and then for an answer */
    bool sent;           /* was in a ring at some time: the agent may know of it */
    bool cancelled;      /* nobody wants the grant any more: release it */
    bool abandoned;      /* nobody will collect it: free it with its answer */
    bool done;           /* `status` is final for the caller */
    bool has_holder;
    bool progress_due;
    bool told_no_agent;
    bool relayed; /* somebody else passes its progress on */
    int status;
    hf_lease *lease; /* granted */
    void (*progress)(const struct hf_progress *progress, void *arg);
    void *arg;
    struct hf_progress progress_now;
    struct hf_wire_holder holder;
    char text[184];
    /* For who waits for it in a call, until it is abandoned; NULL: not wanted. */
    struct hf_completion_entry *found;                        /* gets the whole answer */
    void (*item)(const struct hf_scan_item *item, void *arg); /* of a scan, before the answer */
};
TAILQ_HEAD(hfc_ops, hf_op);

/* A handle and what belongs to it. It lies in a page that fork() empties: `client` is NULL in a
 * child. */
struct hfc_lease {
    hf_lease handle; /* first: hf_lease * and struct hfc_lease * are the same address */
    hf_client *client;
    struct hfc_map *map;
    uint64_t fence;
    uint32_t slot, generation, ttl_ms;
    uint32_t beat_word; /* 0: none */
    int number;         /* of a counted lock's slot; HF_ENOTHELD: it is none */
    bool run;
    int reported;           /* the state last told to `fn` */
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
    char next_path
        [HFC_PATH_MAX]; /* where the host's agent of that name would be; "": not by a name */
    uint32_t role;      /* enum hf_hello_role */
    uint8_t cookie[HF_COOKIE_LEN];

    enum hfc_link link GUARDED_BY(hfc_locked);
    struct hfc_session *session GUARDED_BY(hfc_locked); /* NULL when the link is down */
    LIST_HEAD(, hfc_map) maps GUARDED_BY(hfc_locked);
    struct hf_welcome welcome GUARDED_BY(hfc_locked); /* the last good one */
    int64_t next_try_ns GUARDED_BY(hfc_locked);
    int64_t last_try_ns GUARDED_BY(hfc_locked); /* of the last try that failed */
    int64_t hello_until_ns GUARDED_BY(hfc_locked);
    /* of hf_connect_start(), until it is decided: the places that are left to be tried */
    struct hfc_place places[HFC_PLACES_MAX] GUARDED_BY(hfc_locked);
    int places_left GUARDED_BY(hfc_locked);
    int connect_status GUARDED_BY(hfc_locked); /* HF_EPENDING until then */
    int64_t started_ns GUARDED_BY(hfc_locked);
    int64_t
        connect_until_ns GUARDED_BY(hfc_locked); /* a try may wait for its turn; 0: it may not */
    int64_t backoff_ns GUARDED_BY(hfc_locked);
    int link_status GUARDED_BY(hfc_locked);             /* why the last try failed */
    int group_fds[HF_GROUP_FDS] GUARDED_BY(hfc_locked); /* of a job: each agent is told; -1 none */
    bool crowded GUARDED_BY(hfc_locked); /* it did because too many others wanted in */
    char link_text[256] GUARDED_BY(hfc_locked);

    uint32_t
        *beats; /* where leases beat, at this address for good; a session's words are under it */
    uint64_t beats_used[HF_BEATS / 64] GUARDED_BY(hfc_locked);
    uint32_t known; /* `incarnation` of the agent that has these words */

    uint64_t next_id GUARDED_BY(hfc_locked);
    struct hfc_ops queued GUARDED_BY(hfc_locked), flying GUARDED_BY(hfc_locked),
        parked GUARDED_BY(hfc_locked), wholes GUARDED_BY(hfc_locked);
    bool ring_full GUARDED_BY(hfc_locked);           /* at the last look */
    struct hfc_leases leases GUARDED_BY(hfc_locked); /* those with a callback stand first */
    struct hfc_leases free_leases GUARDED_BY(hfc_locked);

    int epoll_fd GUARDED_BY(hfc_locked), timer_fd GUARDED_BY(hfc_locked); /* -1 until hf_fd() */
    int64_t timer_ns GUARDED_BY(hfc_locked); /* what the timer is set to */
    int64_t until_ns GUARDED_BY(hfc_locked); /* no lease is over before this, when last looked at */
    int64_t look_ns GUARDED_BY(hfc_locked);  /* not looked at again before */
    bool nudged GUARDED_BY(hfc_locked);      /* since then */
};

/* --- clock.c ---------------------------------------------------------------------------------- */

int64_t hfc_now(void);

static inline int64_t hfc_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* t + span for span >= 0, HFC_NEVER when that is too far. */
static inline int64_t hfc_after(int64_t t_ns, int64_t span_ns)
{
    return span_ns > HFC_NEVER - t_ns ? HFC_NEVER : t_ns + span_ns;
}

/* --- lock.c ----------------------------------------------------------------------------------- */

/* HF_EINVAL or HF_EFORKED with the message set. */
int hfc_client_check(const hf_client *client);
int hfc_lease_check(const hf_lease *lease);
bool hfc_is_forked(const hf_client *client);

void hfc_lock(hf_client *client) ACQUIRES(hfc_locked);
void hfc_unlock(hf_client *client) RELEASES(hfc_locked);

/* --- hang.c: whether the agent is there at all ------------------------------------------------- */

/* It gave no sign of life for `span_ns`. Async-signal-safe. An agent that never gave one is not judged. */
bool hfc_table_is_silent(const struct hf_table *table, int64_t now_ns, int64_t span_ns);
/* The agent that serves the session hangs. */
bool hfc_agent_hangs(hf_client *client, int64_t now_ns) REQUIRES(hfc_locked);
/* The same of one that has not welcomed us: by its table's name. One that has none hangs, too. */
bool hfc_stranger_hangs(const struct hfc_place *place, int64_t now_ns);

/* --- hello.c: the datagrams of the attach ------------------------------------------------- */

/* A connected socket with the hello sent. Negative with `why`. While too many want in it waits for its turn, for
 * `wait_ns` at most; 0: it does not block. */
int hfc_hello(const struct hfc_place *place, uint32_t role, const uint8_t *cookie, int64_t wait_ns,
              int *ret_sock, char *why, size_t why_size);
/* Whether an agent listens there. */
bool hfc_is_served(const char *path);
/* HF_EPENDING while there is none. Descriptors are the caller's on HF_OK only. */
int hfc_welcome(int sock, struct hf_welcome *ret_welcome, int ret_fds[HF_WELCOME_FDS], char *why,
                size_t why_size);

/* Hands the client's group over, which the agent does not answer. False: it could not be sent. */
bool hfc_send_group(int sock, const int fds[HF_GROUP_FDS]);

/* --- fd.c: what hf_fd() is -------------------------------------------------------------------- */

/* Has hf_fd(), which was called, readable at `at_ns`. */
void hfc_timer_set(hf_client *client, int64_t at_ns) REQUIRES(hfc_locked);
/* The same at the latest; nothing before hf_fd() was called. So do the others. */
void hfc_timer_pull(hf_client *client, int64_t at_ns) REQUIRES(hfc_locked);
void hfc_poll_add(hf_client *client, int sock) REQUIRES(hfc_locked);
void hfc_poll_del(hf_client *client, int sock) REQUIRES(hfc_locked);

/* --- beats.c ---------------------------------------------------------------------------------- */

/* Memory for the words, not shared with anybody yet. HF_ENOMEM. */
int hfc_beats_init(hf_client *client) NO_THREAD_SAFETY;
/* Not in a forked child, which does not have it. */
void hfc_beats_fini(hf_client *client) NO_THREAD_SAFETY;
/* A free word; 0: none. */
uint32_t hfc_beats_take(hf_client *client) REQUIRES(hfc_locked);
/* 0 is fine. */
void hfc_beats_give(hf_client *client, uint32_t word) REQUIRES(hfc_locked);

/* --- lease_pool.c ----------------------------------------------------------------------------- */

/* The first page, with the life word. HF_ESYS, HF_ENOMEM. */
int hfc_pool_init(hf_client *client) NO_THREAD_SAFETY;
struct hfc_lease *hfc_pool_take(hf_client *client) REQUIRES(hfc_locked);
void hfc_pool_give(struct hfc_lease *lease) REQUIRES(hfc_locked);
void hfc_pool_free(hf_client *client) NO_THREAD_SAFETY;

/* --- session.c -------------------------------------------------------------------------------- */

/* Gives the present session what came with its welcome. Takes all descriptors, also on failure. */
int hfc_session_adopt(hf_client *client, const struct hf_welcome *welcome,
                      const int fds[HF_WELCOME_FDS], char *why, size_t why_size)
    REQUIRES(hfc_locked);
void hfc_session_unref(hf_client *client, struct hfc_session *session) REQUIRES(hfc_locked);
void hfc_map_unref(struct hfc_map *map);

/* --- lease.c ---------------------------------------------------------------------------------- */

/* A handle for a slot of the present table. HF_ELOST when the slot no longer carries that
 * generation. */
int hfc_lease_make(hf_client *client, uint32_t slot, uint32_t generation, uint64_t fence, bool run,
                   uint32_t beat_word, hf_lease **ret_lease) REQUIRES(hfc_locked);
/* When the state may change without anybody's word: it becomes LATE, or LOSING, or is over. */
int64_t hfc_lease_next(struct hfc_lease *lease, int64_t now_ns);
void hfc_lease_drop(struct hfc_lease *lease) REQUIRES(hfc_locked);

static inline struct hfc_lease *hfc_lease_of(hf_lease *lease)
{
    return (struct hfc_lease *)lease;
}

/* --- op.c: ops and the lists that they are in ------------------------------------------------- */

/* A new op with an id, in no list; NULL without memory. */
hf_op *hfc_op_new(hf_client *client, const struct hfc_kind *kind) REQUIRES(hfc_locked);
/* The same in zeroed memory that begins with it, and is freed as it is. */
void hfc_op_init(hf_op *op, hf_client *client, const struct hfc_kind *kind) REQUIRES(hfc_locked);
void hfc_op_move(hf_op *op, enum hfc_op_place place) REQUIRES(hfc_locked);
/* Takes it off its list and frees it. */
void hfc_op_discard(hf_op *op) REQUIRES(hfc_locked);
/* Makes it done. */
void hfc_op_finish(hf_op *op, int status, const char *text) REQUIRES(hfc_locked);
/* By the agent's word. */
void hfc_op_answered(hf_op *op, const struct hf_completion_entry *entry) REQUIRES(hfc_locked);
void hfc_op_note_progress(hf_op *op, const struct hf_completion_entry *entry) REQUIRES(hfc_locked);
/* Queues the word that the request `target` is not wanted any more. */
void hfc_op_queue_cancel(hf_client *client, uint64_t target) REQUIRES(hfc_locked);
/* All unanswered requests back to the queue, in their order. */
void hfc_ops_requeue(hf_client *client) REQUIRES(hfc_locked);
void hfc_ops_free(hf_client *client) NO_THREAD_SAFETY;

/* --- link.c: attach and reattach -------------------------------------------------------------- */

int64_t hfc_hello_next(hf_client *client) REQUIRES(hfc_locked);
/* Goes on with connecting, if that is due. */
void hfc_link_drive(hf_client *client) REQUIRES(hfc_locked);
/* Gives the session up; unanswered requests go back to the queue. */
void hfc_link_drop(hf_client *client, int status, const char *text) REQUIRES(hfc_locked);
/* Hands the job's group over, if there is one, to an agent that knows what it is. */
void hfc_link_tell_group(hf_client *client) REQUIRES(hfc_locked);
/* Whether `status` will not go away by trying again (HF_ELOST: what a guardian joined is over). */
bool hfc_link_is_hopeless(int status);

/* --- ring.c ----------------------------------------------------------------------------------- */

/* Queues it and sends what has room. */
void hfc_ring_send(hf_op *op) REQUIRES(hfc_locked);
/* Sends of what is queued as much as has room. */
void hfc_ring_flush(hf_client *client) REQUIRES(hfc_locked);
/* Takes the answers that are there. */
void hfc_ring_drain(hf_client *client) REQUIRES(hfc_locked);
/* Tells the agent that a hold is not wanted; nobody waits for the answer. */
void hfc_ring_give_back(hf_client *client, uint32_t slot, uint32_t generation, bool run)
    REQUIRES(hfc_locked);

/* --- turn.c ----------------------------------------------------------------------------------- */

/* Notices the end of the socket (one system call). */
void hfc_turn_notice_end(hf_client *client) REQUIRES(hfc_locked);
/* One round of what there is to do: the link, completions, queued requests. Never blocks. Returns
 * the wake word as it was before completions were looked at, for hfc_sleep(). */
uint32_t hfc_turn(hf_client *client) REQUIRES(hfc_locked);
/* Sleeps, without the lock, until the agent wakes us, `until_ns`, or a slice is over. True: a signal
 * handler has run that ends what blocks. */
bool hfc_sleep(hf_client *client, uint32_t seen, int64_t until_ns) REQUIRES(hfc_locked);

/* --- request.c: ops from their caller's side -------------------------------------------------- */

/* The start of a caller's request: looks after the link first, then as hfc_ring_send(). */
void hfc_op_begin(hf_op *op) REQUIRES(hfc_locked);
/* Blocks until done; progress callbacks run here. */
void hfc_op_wait(hf_op *op) REQUIRES(hfc_locked);
/* Ends an op that has waited long enough. */
void hfc_op_expire(hf_op *op, int64_t now_ns) REQUIRES(hfc_locked);
/* When hfc_op_expire() may have something to do. */
int64_t hfc_op_next(const hf_op *op) REQUIRES(hfc_locked);
/* Nobody looks at it any more: frees it, or leaves it until answered. A grant is released. */
void hfc_op_abandon(hf_op *op) REQUIRES(hfc_locked);
/* Runs one due progress callback of `op`, without the lock; false when none was due. */
bool hfc_op_progress(hf_op *op) REQUIRES(hfc_locked);

/* --- acquire.c -------------------------------------------------------------------------------- */

/* What is not of a name: HF_EINVAL with the message set. */
int hfc_acquire_check(const struct hf_acquire_options *options);
int hfc_acquire_check_name(const void *name, size_t name_len);
int hfc_acquire_begin(hf_client *client, const struct hf_acquire_options *options, hf_op **ret_op)
    REQUIRES(hfc_locked);
/* Releases what the op was granted, without waiting for it. */
void hfc_acquire_cancel(hf_op *op) REQUIRES(hfc_locked);
void hfc_acquire_give_back(hf_lease *lease) REQUIRES(hfc_locked);
/* The sentence for a failed acquire, after `preface`, and who was in the way. */
int hfc_acquire_explain(const hf_op *op, const char *preface) REQUIRES(hfc_locked);

/* --- many.c: several acquires that are one for their caller ----------------------------------- */

struct hfc_part {    /* one resource of it */
    hf_op *op;       /* its request; NULL: none is out */
    hf_lease *lease; /* kept */
    unsigned index;  /* in the caller's order */
    uint8_t name_len;
    uint8_t name[HF_NAME_MAX];
};

struct hfc_many {
    hf_op whole; /* first: it is what the caller has, and freed as that */
    /* Looks at the parts and goes on; ends in hfc_many_end(). */
    void (*step)(struct hfc_many *many, int64_t now_ns);
    struct hf_acquire_options options; /* as given; the note is ours */
    char note[HF_NOTE_MAX + 1];
    bool any; /* one part is enough */
    bool waits;
    int64_t deadline_ns;            /* of the whole; HFC_NEVER */
    int64_t resume_ns;              /* nothing is done before */
    struct hf_progress told;        /* what its caller was told last */
    const struct hfc_part *culprit; /* of a failure; NULL: none in particular */
    unsigned count;
    unsigned done; /* set.c: so many of the first parts are kept; slots.c: so many were tried */
    bool trying;   /* else it waits */
    struct hfc_part parts[];
};

/* An op of `count` parts whose indices are 0, 1, ...; the caller names them, and begins with
 * hfc_op_expire(). HF_ENOMEM with the message set. */
int hfc_many_new(hf_client *client, const struct hf_acquire_options *options, unsigned count,
                 void (*step)(struct hfc_many *many, int64_t now_ns), struct hfc_many **ret_many)
    REQUIRES(hfc_locked);
/* Sends the request of a part, which has none. Waits until the whole's deadline, or tries. False: it
 * cannot, and the whole has ended. */
bool hfc_many_ask(struct hfc_many *many, struct hfc_part *part, bool wait) REQUIRES(hfc_locked);
/* The lease of a part that was granted is kept. */
void hfc_many_keep(struct hfc_part *part) REQUIRES(hfc_locked);
/* Gives a part back, whatever it has. */
void hfc_many_drop(struct hfc_part *part) REQUIRES(hfc_locked);
/* `culprit` NULL: none of the parts in particular. */
void hfc_many_end(struct hfc_many *many, int status, const struct hfc_part *culprit)
    REQUIRES(hfc_locked);
/* Whether what a part failed with may pass. */
bool hfc_many_may_pass(int status);

/* --- client.c --------------------------------------------------------------------------------- */

/* Attaches as `role` (with `cookie` unless NULL) to the first place that has an agent. */
int hfc_client_open(const struct hfc_place *places, int count, uint32_t role, const uint8_t *cookie,
                    hf_client **ret_client);

/* Goes on with hf_connect_start(): HF_EPENDING, or how that ended. */
int hfc_connect_judge(hf_client *client) REQUIRES(hfc_locked);

#endif
