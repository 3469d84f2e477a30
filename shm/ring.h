/* The pair of rings between one client and the agent, each with one producer and one consumer.
 *
 * Two sealed memfds per client. "Requests" is written by the client (entries, its tail, its head of
 * the completions) and read by the agent; "completions" is written by the agent (entries, its tail,
 * its head of the requests, need_wake, wake) and read-only for the client. Ordering: an entry is
 * filled, then the tail stored; the other side loads the tail, then copies the entry. Sleeping is
 * Dekker's: the sleeper stores need_wake and then loads the tail, the producer stores the tail and
 * then loads need_wake, all four sequentially consistent, so at least one sees the other. The agent
 * keeps its own cursors, never reads back what it published, copies each entry once and judges the
 * copy; an index out of range is a violation (HF_EPROTO) and ends that client only. After its ring
 * "requests" has a page of words in which the client's program counts heartbeats. One thread per
 * side at a time (libclient holds its mutex; the agent's broker thread owns its side).
 *
 * The client allocates the memory, so that it is charged to the client: a page that the client has put into a pipe stays until the pipe
 * is read. It maps both, allocates every page, and then seals the requests with FUTURE_WRITE. That seal keeps the mappings that there
 * are and forbids holes. The agent touches nothing before it has seen the seal and every page.
 */
#ifndef HOLDFAST_SHM_RING_H
#define HOLDFAST_SHM_RING_H

#include <stdbool.h>

#include "shm/compiler.h"
#include "shm/nstime.h"
#include "shm/wire.h"

#define HF_RING_ENTRIES 32 /* a power of two */
#define HF_RING_HEADER  4096
#define HF_RING_WAKES   16 /* sleepers that the agent wakes at the most; they wake the others */

/* First page of the requests memfd: client writes. */
struct hf_requests_page {
    _Alignas(64) _Atomic uint32_t tail;            /* requests written */
    _Alignas(64) _Atomic uint32_t completion_head; /* completions consumed */
    _Atomic uint32_t polls; /* 1: the client polls its socket; for HF_NUDGE_WHO_POLLS */
};

/* First page of the completions memfd: agent writes. */
struct hf_completions_page {
    _Alignas(64) _Atomic uint32_t tail;         /* completions written */
    _Alignas(64) _Atomic uint32_t request_head; /* requests consumed */
    _Alignas(64) _Atomic uint32_t need_wake;    /* 1: the agent sleeps soon: ring */
    _Alignas(64) _Atomic uint32_t wake; /* futex word: +1 after completions and lease events */
};

#define HF_RING_BYTES (HF_RING_HEADER + HF_RING_ENTRIES * HF_ENTRY_SIZE)

/* The last page of the requests memfd: heartbeat words, counted up by the client. Word 0 is unused. */
#define HF_BEATS_BYTES    4096
#define HF_BEATS          (HF_BEATS_BYTES / 4)
#define HF_REQUESTS_BYTES (HF_RING_BYTES + HF_BEATS_BYTES)

/* --- agent's side ----------------------------------------------------------------------------- */

struct hf_ring_agent {
    const struct hf_requests_page *in; /* mapped read-only */
    struct hf_completions_page *out;
    uint32_t request_head, completion_tail; /* private cursors */
    const _Atomic uint32_t *beats; /* mapped read-only; unmapped with the ring unless taken */
};

/* Makes both memfds (MFD_CLOEXEC|MFD_ALLOW_SEALING, 0600), without any memory, seals (requests:
 * SHRINK|GROW; completions: FUTURE_WRITE|SEAL too) and maps them; the descriptors are
 * for SCM_RIGHTS, and the caller closes them. The completions descriptor is opened
 * O_RDONLY. HF_ESYS with errno. */
int hf_ring_agent_create(struct hf_ring_agent *ret_ring, int *ret_requests_fd,
                         int *ret_completions_fd);
void hf_ring_agent_destroy(struct hf_ring_agent *ring);

/* Opens both memfds again, from what hf_ring_agent_create() returned for the client: own[] says whether the client still has them
 * after the agent closed and unmapped its own. The caller closes own[]. HF_ESYS with errno. */
int hf_ring_witness(const int clients[2], int ret_own[2]);
/* Whether the client has allocated all memory and can make no holes in it any more. 0; HF_EPENDING: the client has not sealed the
 * requests yet; HF_EPROTO: it has, and pages are missing; HF_ESYS. (!) The agent calls this before it touches the rings or the beats. */
int hf_ring_admit(struct hf_ring_agent *ring, const int own[2]);
/* Whether another open file of one of them is left, in any process, as a descriptor, a mapping or a message under way. A kernel that
 * cannot tell says no. Never waits, whatever the client does. */
bool hf_ring_is_shared(const int own[2]);

/* Takes the heartbeat words, which then outlive the ring; the caller unmaps them. */
const _Atomic uint32_t *hf_ring_take_beats(struct hf_ring_agent *ring);
void hf_beats_unmap(const _Atomic uint32_t *beats);

/* Copies the next request. 1: one was taken; 0: none; HF_EPROTO: a violation. */
int hf_ring_take(struct hf_ring_agent *ring, struct hf_request_entry *ret_entry);

/* Free places in the completion ring; negative HF_EPROTO on a client cursor out of range. */
int hf_ring_room(const struct hf_ring_agent *ring);

/* Puts a completion into the ring; hf_ring_signal() must follow. HF_EFULL when there is no room. */
int hf_ring_put(struct hf_ring_agent *ring, const struct hf_completion_entry *entry);

/* Bumps `wake` and wakes: completions were put, or a lease of this client changed, as its slot shows. */
void hf_ring_signal(struct hf_ring_agent *ring);

/* Whether the client polls its socket. After hf_ring_signal(): a client that begins to poll then looks at the ring itself. */
bool hf_ring_polled(const struct hf_ring_agent *ring);

/* Announces sleep; true when there is nothing to take, so the agent may sleep. */
bool hf_ring_arm(struct hf_ring_agent *ring);
void hf_ring_disarm(struct hf_ring_agent *ring);

/* --- client's side ---------------------------------------------------------------------------- */

struct hf_ring_client {
    struct hf_requests_page *out;
    const struct hf_completions_page *in;
    uint32_t request_tail, completion_head;
};

/* Maps both (sizes and seals are checked), allocates and seals them for hf_ring_admit(), and closes the descriptors; then the agent
 * is to be rung once. The heartbeat words are mapped
 * over `beats`, a page of the caller's, whose address never changes; NULL: not mapped. */
int hf_ring_client_map(int requests_fd, int completions_fd, void *beats,
                       struct hf_ring_client *ret_ring);
void hf_ring_client_unmap(struct hf_ring_client *ring);

/* Appends a request. HF_EFULL when the ring is full. `ret_wake` true: the agent must be rung. */
int hf_ring_submit(struct hf_ring_client *ring, const struct hf_request_entry *entry,
                   bool *ret_wake);

/* From now on the client polls its socket. It must look at the ring once after that. */
void hf_ring_poll(struct hf_ring_client *ring);

/* Copies the next completion. 1, 0, or HF_EPROTO. */
int hf_ring_reap(struct hf_ring_client *ring, struct hf_completion_entry *ret_entry);

/* The futex word's value now; pass it to hf_ring_wait() after checking what is awaited. */
uint32_t hf_ring_wake_value(const struct hf_ring_client *ring);

/* Sleeps until the word differs from `seen` or `timeout` passed (CLOCK_MONOTONIC, so callers use
 * slices of at most a second and read CLOCK_BOOTTIME again). True: a signal handler has run. */
bool hf_ring_wait(const struct hf_ring_client *ring, uint32_t seen, hf_dur timeout);

/* Wakes all that sleep: for one that was woken while more than HF_RING_WAKES may sleep. */
void hf_ring_wake_others(const struct hf_ring_client *ring);

/* Where an entry of a ring stands. Private to shm/. */

_Static_assert((HF_RING_ENTRIES & (HF_RING_ENTRIES - 1)) == 0, "a power of two");
_Static_assert(sizeof(struct hf_requests_page) <= HF_RING_HEADER &&
                   sizeof(struct hf_completions_page) <= HF_RING_HEADER,
               "cursors stand before the entries");

/* `page` is the start of a ring's mapping; cursors run on and wrap at 2^32. */
static inline const void *hf_ring_place(const void *page, uint32_t cursor)
{
    return (const char *)page + HF_RING_HEADER +
           (size_t)(cursor & (HF_RING_ENTRIES - 1)) * HF_ENTRY_SIZE;
}

#endif
