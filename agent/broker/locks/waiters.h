/* Who waits for a name, and what is next for it. */
#ifndef HOLDFAST_AGENT_BROKER_LOCKS_WAITERS_H
#define HOLDFAST_AGENT_BROKER_LOCKS_WAITERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/base/loop.h"
#include "agent/base/thread_role.h"
#include "agent/broker/locks/resources.h"
#include "agent/core/timing.h"
#include "shm/wire.h"

struct journal_identity;
struct session;

/* One request that waits. */
struct waiter {
    TAILQ_ENTRY(waiter) queue; /* of the resource, first come first served */
    LIST_ENTRY(waiter) of_session;
    struct session *session;
    struct resource *resource;
    uint64_t id;
    hf_time since;    /* when it came */
    hf_time asked;    /* when it first came to an agent: its place among those of the one before */
    hf_time deadline; /* HF_TIME_PAST: try once; HF_TIME_NEVER */
    struct loop_timer timer;
    struct timing timing;
    uint32_t max_hold_ms, heartbeat_ms, beat_word;
    bool run, guarded, contended;
    int told;           /* last progress reason */
    uint64_t told_what; /* the fence in the way, or nodes_situation() */
    hf_time told_at;
    struct loop_timer tell; /* what was not told because it came too soon */
    char note[HF_NOTE_MAX + 1];
    uint8_t note_len;
    struct hf_wire_holder holder; /* last seen in the way */
    hf_time holder_at;            /* when its pttl_ms was told */
    int last_failure;             /* HF_EBUSY or HF_ENOQUORUM: what it ends with */
};

/* The waiter is answered with `status` and gone. */
void waiter_fail(struct waiter *w, int status, const char *text) IN_BROKER_THREAD;
void waiter_free(struct waiter *w) IN_BROKER_THREAD;
/* The lease that it gets, with what that has of the waiter and its client. Not: slot, generation,
 * token, fence and instants. NULL: out of memory. `key`: of its name, for the nodes; `extra`: as in
 * lease_words. */
struct lease *waiter_new_lease(const struct waiter *w, const void *key, size_t key_len, bool extra);
/* The same for the journal. Not: token, name and instants. */
void waiter_fill_identity(const struct waiter *w, struct journal_identity *identity);
/* max_hold of a lease that it gets at `now`; HF_TIME_NEVER. */
hf_time waiter_hold_end(const struct waiter *w, hf_time now);
/* Who holds `r`, whose lease is of this host. */
void waiter_describe_local(const struct resource *r, struct hf_wire_holder *ret_holder);
/* For waiter->timer and waiter->tell. */
void waiter_on_timer(struct loop_timer *timer, hf_time now) IN_BROKER_THREAD;
void waiter_on_tell(struct loop_timer *timer, hf_time now) IN_BROKER_THREAD;
/* It joins others that wait for another host's lock, and no round may begin for long. */
void waiter_hear_of_others(struct waiter *w) IN_BROKER_THREAD;
/* A round of its resource failed with `failure`, and `holder` was in the way if that is HF_EBUSY. A
 * try that began before the round did is answered; the others know what they wait for. */
void waiters_hear(struct resource *r, int failure, const struct hf_wire_holder *holder,
                  hf_time round_began, const char *text) IN_BROKER_THREAD;
/* A node told how long the key of a holder without a record stands there. */
void waiters_hear_left(struct resource *r, int64_t pttl_ms, hf_time now);
/* It waits for a lease of this host: a try is answered, the others are told who has it. */
void waiter_hear_held(struct waiter *w) IN_BROKER_THREAD;
static inline bool waiter_tries(const struct waiter *w)
{
    return w->deadline.ns == HF_TIME_PAST.ns;
}
/* The one to be served next; NULL. */
struct waiter *waiter_first(struct resource *r);
/* Does what can be done next: begins a round for the first waiter, or tells what is waited for. */
void waiters_kick(struct resource *r) IN_BROKER_THREAD;
/* All stalled ones again: the nodes changed. */
void waiters_kick_stalled(struct locks *locks) IN_BROKER_THREAD;
void waiters_on_stalled_timer(struct loop_timer *timer, hf_time now) IN_BROKER_THREAD;

#endif
