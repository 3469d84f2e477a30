/* The functions that each file of the library offers the others, lowest first: a file calls only functions whose
 * section comes before its own; functions of later sections, such as those of an op's kind, are called by pointer.
 * tests/rooms looks for circles. The structures are in libclient/internal.h, which includes this. */
#ifndef HOLDFAST_LIBCLIENT_CALLS_H
#define HOLDFAST_LIBCLIENT_CALLS_H

#include "libclient/internal.h"

int64_t hfc_now(void);

static inline int64_t hfc_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* t + span for span >= 0, HFC_NEVER on overflow. */
static inline int64_t hfc_after(int64_t t_ns, int64_t span_ns)
{
    return span_ns > HFC_NEVER - t_ns ? HFC_NEVER : t_ns + span_ns;
}

/* --- file.c: descriptors that the program may have closed -------------------------------------- */

/* Takes `fd`, and remembers which file it is. */
void hfc_file_keep(struct hfc_file *file, int fd);
/* (!) Its number is not another file's by now. All epolls, eventfds and timers of a host are one inode, so the client's are judged
 * by its socket, too: hfc_link_forget_files(). */
bool hfc_file_is_ours(const struct hfc_file *file);
/* Closes it if it is ours. */
void hfc_file_close(struct hfc_file *file);

/* --- lock.c ----------------------------------------------------------------------------------- */

/* HF_EINVAL or HF_EFORKED with the message set. */
int hfc_client_check(const hf_client *client);
int hfc_lease_check(const hf_lease *lease);
bool hfc_is_forked(const hf_client *client);

void hfc_lock(hf_client *client) ACQUIRES(hfc_locked);
void hfc_unlock(hf_client *client) RELEASES(hfc_locked);

/* --- whether the agent hangs ------------------------------------------------------------------ */

/* The agent gave no sign of life for `span_ns`. Async-signal-safe. An agent that never gave one is not judged. */
bool hfc_table_is_silent(const struct hf_table *table, int64_t now_ns, int64_t span_ns);
/* The agent that serves the session hangs. */
bool hfc_agent_hangs(hf_client *client, int64_t now_ns) REQUIRES(hfc_locked);
/* The same for an agent that has not welcomed us, found by its table's name. One without a table hangs, too. */
bool hfc_stranger_hangs(const struct hfc_place *place, int64_t now_ns);

/* --- hello.c: the datagrams of the attach ------------------------------------------------- */

/* Returns a connected socket with the hello sent, or negative with `why`. While too many connect it waits for
 * its turn, for `wait_ns` at most; 0: it does not block. */
int hfc_hello(const struct hfc_place *place, uint32_t role, const uint8_t *cookie, int64_t wait_ns,
              int *ret_sock, char *why, size_t why_size);
/* Whether an agent listens at `path`. */
bool hfc_is_served(const char *path);
/* HF_EPENDING while no welcome has come. The caller owns the descriptors on HF_OK only. `ret_again`: set true if it was refused
 * only for a moment, as without a word. */
int hfc_welcome(int sock, struct hf_welcome *ret_welcome, int ret_fds[HF_WELCOME_FDS],
                bool *ret_again, char *why, size_t why_size);

/* Sends the job's control group; the agent does not answer. False: it could not be sent. */
bool hfc_send_group(int sock, const int fds[HF_GROUP_FDS]);

/* --- fd.c: what hf_fd() is -------------------------------------------------------------------- */

/* Makes hf_fd() readable at `at_ns`; hf_fd() was called before. */
void hfc_timer_set(hf_client *client, int64_t at_ns) REQUIRES(hfc_locked);
/* The same, at `at_ns` at the latest. This and the next two do nothing before hf_fd() was called. */
void hfc_timer_pull(hf_client *client, int64_t at_ns) REQUIRES(hfc_locked);
void hfc_poll_add(hf_client *client, int sock) REQUIRES(hfc_locked);
/* The rings of a session are there: tells the agent whether nudges are wanted. */
void hfc_poll_rings(hf_client *client) REQUIRES(hfc_locked);
void hfc_poll_del(hf_client *client, int sock) REQUIRES(hfc_locked);
/* Tries again what epoll refused. */
void hfc_poll_again(hf_client *client) REQUIRES(hfc_locked);

/* Allocates the words, shared with no agent yet. HF_ENOMEM. */
int hfc_beats_init(hf_client *client) NO_THREAD_SAFETY;
/* Not in a forked child, which has no such mapping. */
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

/* The agent looks: there are requests, room for answers, or the rings themselves. */
void hfc_session_rouse(const struct hfc_session *session);
/* Fills the present session from its welcome. Takes all descriptors, also on failure. */
int hfc_session_adopt(hf_client *client, const struct hf_welcome *welcome,
                      const int fds[HF_WELCOME_FDS], char *why, size_t why_size)
    REQUIRES(hfc_locked);
void hfc_session_unref(hf_client *client, struct hfc_session *session) REQUIRES(hfc_locked);
void hfc_map_unref(struct hfc_map *map);

/* --- lease.c ---------------------------------------------------------------------------------- */

/* A handle for a slot of the present table. HF_ELOST when the slot no longer carries that
 * generation. */
int hfc_lease_make(hf_client *client, uint32_t slot, uint32_t generation, uint64_t fence,
                   bool is_job, uint32_t beat_word, hf_lease **ret_lease) REQUIRES(hfc_locked);
/* When the state may change by time alone: to LATE, to LOSING, or to its end. */
int64_t hfc_lease_next(struct hfc_lease *lease, int64_t now_ns);
void hfc_lease_drop(struct hfc_lease *lease) REQUIRES(hfc_locked);

static inline struct hfc_lease *hfc_lease_of(hf_lease *lease)
{
    return (struct hfc_lease *)lease;
}

/* --- op.c: ops and the lists that they are in ------------------------------------------------- */

/* A new op with an id, in no list; NULL without memory. */
hf_op *hfc_op_new(hf_client *client, const struct hfc_kind *kind) REQUIRES(hfc_locked);
/* The same for a name, which was checked; NULL with the failure kept. */
hf_op *hfc_op_new_of(hf_client *client, const struct hfc_kind *kind, const void *name,
                     size_t name_len) REQUIRES(hfc_locked);
/* As hfc_op_new(), in zeroed memory that begins with the op; the op's free() frees it all. */
void hfc_op_init(hf_op *op, hf_client *client, const struct hfc_kind *kind) REQUIRES(hfc_locked);
void hfc_op_move(hf_op *op, enum hfc_op_place place) REQUIRES(hfc_locked);
/* Takes it off its list and frees it. */
void hfc_op_discard(hf_op *op) REQUIRES(hfc_locked);
/* Makes it done. */
void hfc_op_finish(hf_op *op, int status, const char *text) REQUIRES(hfc_locked);
/* The agent has answered. */
void hfc_op_answered(hf_op *op, const struct hf_completion_entry *entry) REQUIRES(hfc_locked);
void hfc_op_note_progress(hf_op *op, const struct hf_completion_entry *entry) REQUIRES(hfc_locked);
/* Queues the cancellation of the request `target`. */
void hfc_op_queue_cancel(hf_client *client, uint64_t target) REQUIRES(hfc_locked);
/* Moves all unanswered requests back to the queue, in their order. */
void hfc_ops_requeue(hf_client *client) REQUIRES(hfc_locked);
void hfc_ops_free(hf_client *client) NO_THREAD_SAFETY;

/* --- link.c: attach and reattach -------------------------------------------------------------- */

int64_t hfc_hello_next(hf_client *client) REQUIRES(hfc_locked);
/* The program closed the socket, so all that the library had open: forgets the descriptors. */
void hfc_link_forget_files(hf_client *client) REQUIRES(hfc_locked);
/* Continues connecting, if that is due. Drops a session whose socket is another file's by now. */
void hfc_link_drive(hf_client *client) REQUIRES(hfc_locked);
/* Ends the session; unanswered requests go back to the queue. */
void hfc_link_drop(hf_client *client, int status, const char *text) REQUIRES(hfc_locked);
/* Sends the job's control group, if there is one, to an agent that supports it. */
void hfc_link_tell_group(hf_client *client) REQUIRES(hfc_locked);
/* Whether trying again cannot help after `status` (HF_ELOST: the lease that a guardian joined is over). */
bool hfc_link_is_hopeless(int status);

/* --- ring.c ----------------------------------------------------------------------------------- */

/* Queues it and sends as many requests as have room. */
void hfc_ring_send(hf_op *op) REQUIRES(hfc_locked);
/* Sends as many queued requests as have room. */
void hfc_ring_flush(hf_client *client) REQUIRES(hfc_locked);
/* Takes the answers that have come. */
void hfc_ring_drain(hf_client *client) REQUIRES(hfc_locked);
/* Tells the agent that a hold is not wanted; nobody waits for the answer. */
void hfc_ring_give_back(hf_client *client, uint32_t slot, uint32_t generation, bool is_job)
    REQUIRES(hfc_locked);

/* --- turn.c ----------------------------------------------------------------------------------- */

/* Notices the end of the socket (one system call). */
void hfc_turn_notice_end(hf_client *client) REQUIRES(hfc_locked);
/* Does all that is due: the link, completions, queued requests. Never blocks. Returns the wake word
 * as it was before completions were read, for hfc_sleep(). */
uint32_t hfc_turn(hf_client *client) REQUIRES(hfc_locked);
/* Sleeps, without the lock, until the agent wakes us, until `until_ns`, or for a slice. True: a
 * signal handler has run that ends blocking calls. */
bool hfc_sleep(hf_client *client, uint32_t seen, int64_t until_ns) REQUIRES(hfc_locked);

/* --- request.c: ops from their caller's side -------------------------------------------------- */

/* For an answer that the agent gets from the nodes: longer than it waits for them itself. Nanoseconds. */
int64_t hfc_op_patience(const hf_client *client) REQUIRES(hfc_locked);
/* The start of a caller's request: drives the link first, then like hfc_ring_send(). */
void hfc_op_begin(hf_op *op) REQUIRES(hfc_locked);
/* Blocks until done; progress callbacks run here. */
void hfc_op_wait(hf_op *op) REQUIRES(hfc_locked);
/* Ends an op whose time is over. */
void hfc_op_expire(hf_op *op, int64_t now_ns) REQUIRES(hfc_locked);
/* When hfc_op_expire() may have something to do. */
int64_t hfc_op_next(const hf_op *op) REQUIRES(hfc_locked);
/* The caller has left it: frees it, or keeps it until answered. A grant is released. */
void hfc_op_abandon(hf_op *op) REQUIRES(hfc_locked);
/* Keeps the sentence of a failure for hf_last_message(), and frees a done op. Returns `status`. */
int hfc_op_close(hf_op *op, int status) REQUIRES(hfc_locked);
/* Waits, a second at most, until the agent has taken and answered what was abandoned. The ring has room for fewer
 * requests than a call can leave behind, and a caller that makes no other call for long would keep what it
 * does not know of. */
void hfc_op_settle(hf_client *client) REQUIRES(hfc_locked);
/* Runs one due progress callback of `op`, without the lock; false when none was due. */
bool hfc_op_progress(hf_op *op) REQUIRES(hfc_locked);

/* --- acquire.c -------------------------------------------------------------------------------- */

/* Checks all but the name: HF_EINVAL with the message set. */
int hfc_acquire_check(const struct hf_acquire_options *options);
/* HF_EDEADLK, with message and index set, if this thread holds one of these by this client and would wait for itself. A try
 * is not refused. (!) Not each thread that shares the client: others may wait for this one's release. */
int hfc_acquire_check_own(hf_client *client, const struct hf_acquire_options *options,
                          const struct hf_name *names, size_t count) REQUIRES(hfc_locked);
/* What is granted to this request is this thread's. */
void hfc_acquire_of_thread(hf_op *op) REQUIRES(hfc_locked);
int hfc_acquire_check_name(const void *name, size_t name_len);
/* The same, of a call by name. */
int hfc_name_check(const hf_client *client, const void *name, size_t name_len);
int hfc_acquire_begin(hf_client *client, const struct hf_acquire_options *options, hf_op **ret_op)
    REQUIRES(hfc_locked);
/* Releases what the op was granted, without waiting for it. */
void hfc_acquire_cancel(hf_op *op) REQUIRES(hfc_locked);
void hfc_acquire_give_back(hf_lease *lease) REQUIRES(hfc_locked);
/* Sets the message of a failed acquire, after `preface`, and the conflicting holder. */
int hfc_acquire_explain(const hf_op *op, const char *preface) REQUIRES(hfc_locked);

/* --- many.c: several acquires that are one for their caller ----------------------------------- */

struct hfc_part {    /* one lock of the whole */
    hf_op *op;       /* its request; NULL: none is out */
    hf_lease *lease; /* kept */
    unsigned index;  /* in the caller's order */
    bool bare;       /* asked for without what is meant for the caller's hold: it is given back */
    uint8_t name_len;
    uint8_t name[HF_NAME_MAX];
};

struct hfc_many {
    hf_op whole; /* first: the caller has a pointer to it, and frees by that */
    /* Looks at the parts and takes the next step; ends in hfc_many_end(). */
    void (*step)(struct hfc_many *many, int64_t now_ns);
    struct hf_acquire_options options; /* as given; the note is ours */
    char note[HF_NOTE_MAX + 1];
    bool any;      /* one part is enough */
    bool together; /* all that is not granted yet is waited for at once, and reported as one */
    bool waits;
    int64_t deadline_ns;            /* of the whole; HFC_NEVER */
    int64_t resume_ns;              /* nothing is done before */
    int64_t tell_ns;                /* with `together`: nothing is reported before */
    struct hf_progress told;        /* last reported to its caller */
    const struct hfc_part *culprit; /* of a failure; NULL: none in particular */
    unsigned holders;               /* with `together`: how many parts others have */
    struct hfc_part *gate;          /* slots.c, exclusive.c: the lock NAME itself; NULL: none */
    bool passed;                    /* slots.c: the gate is not waited for any more */
    unsigned count;
    unsigned done; /* set.c: the number of first parts that are kept; slots.c: the number tried;
                      exclusive.c: the number of slots that are kept */
    bool trying;   /* else it waits */
    struct hfc_part parts[];
};

/* An op of `count` parts whose indices are 0, 1, ...; the caller names them, and begins with
 * hfc_op_expire(). HF_ENOMEM with the message set. */
int hfc_many_new(hf_client *client, const struct hf_acquire_options *options, unsigned count,
                 void (*step)(struct hfc_many *many, int64_t now_ns), struct hfc_many **ret_many)
    REQUIRES(hfc_locked);
/* Sends a request for a part without one: a wait until the whole's deadline, or a try. False: it
 * could not, and the whole has ended. */
bool hfc_many_ask(struct hfc_many *many, struct hfc_part *part, bool wait) REQUIRES(hfc_locked);
/* Keeps the lease of a granted part. */
void hfc_many_keep(struct hfc_part *part) REQUIRES(hfc_locked);
/* Releases the lease of a part, or cancels its request. */
void hfc_many_drop(struct hfc_part *part) REQUIRES(hfc_locked);
/* `culprit` NULL: none of the parts in particular. */
void hfc_many_end(struct hfc_many *many, int status, const struct hfc_part *culprit)
    REQUIRES(hfc_locked);
/* Whether a part that failed with `status` may succeed later. */
bool hfc_many_may_pass(int status);
/* NAME#`number`, of a name that hfc_many_check_slots() passed. */
void hfc_many_name_slot(struct hfc_part *part, const struct hf_acquire_options *options,
                        unsigned number);
/* The lock NAME itself, the gate of its slots: its index is HF_SET_MAX. */
void hfc_many_name_gate(struct hfc_part *part, const struct hf_acquire_options *options);
/* The options of an acquire of a name with so many slots: negative with the message set. */
int hfc_many_check_slots(const struct hf_acquire_options *options, unsigned slots);

/* Whether the kept leases stay valid as long as renewals succeed, and are not kept in vain: while the
 * agent is drained nothing joins them, and the drain would wait for them. */
bool hfc_many_may_go_on(const struct hfc_many *many) REQUIRES(hfc_locked);
/* Gives everything back, to begin with the first request again after a moment; without a wait it ends. */
void hfc_many_begin_anew(struct hfc_many *many, int64_t now_ns) REQUIRES(hfc_locked);
/* All are kept: the end, if each has half its TTL left as a single lock has at its grant; else as above. */
void hfc_many_finish(struct hfc_many *many, int64_t now_ns) REQUIRES(hfc_locked);

/* --- client.c --------------------------------------------------------------------------------- */

/* Attaches as `role` (with `cookie` unless NULL) to the first place that has an agent. */
int hfc_client_open(const struct hfc_place *places, int count, uint32_t role, const uint8_t *cookie,
                    hf_client **ret_client);

/* Continues hf_connect_start(): HF_EPENDING, or its result. */
int hfc_connect_judge(hf_client *client) REQUIRES(hfc_locked);

#endif
