/* What each file of the library offers the others, from below: a file calls only those whose section here comes before
 * its own; what is below one, such as what an op's kind does, is reached by a pointer. tests/rooms looks for circles.
 * The structures are in libclient/internal.h, which includes this. */
#ifndef HOLDFAST_LIBCLIENT_CALLS_H
#define HOLDFAST_LIBCLIENT_CALLS_H

#include "libclient/internal.h"

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
