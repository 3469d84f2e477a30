/* The waiters for a name, and what their clients hear. */
#ifndef HOLDFAST_AGENT_BROKER_LOCKS_WAITERS_H
#define HOLDFAST_AGENT_BROKER_LOCKS_WAITERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/base/loop.h"
#include "agent/base/thread.h"
#include "agent/broker/locks/names.h"
#include "agent/core/timing.h"
#include "agent/core/share.h"
#include "shm/layout.h"
#include "shm/wire.h"

struct session;

/* One request that waits. */
struct waiter {
    TAILQ_ENTRY(waiter) queue;         /* of the name, first come first served */
    TAILQ_ENTRY(waiter) by_age;        /* of all locks; a try is not in it */
    TAILQ_ENTRY(waiter) without_a_row; /* in the table, agent/broker/locks/waiters.h */
    uint32_t row;
    uint64_t number;
    LIST_ENTRY(waiter) of_session;
    struct session *session;
    struct name *name;
    hf_time since;    /* when the request came */
    hf_time asked;    /* when it first came to any agent: its place in a queue that was readopted */
    hf_time deadline; /* HF_TIME_PAST: try once; HF_TIME_NEVER */
    struct loop_timer timer;
    struct timing timing;
    struct holder who;      /* of what it will hold */
    struct turns_want want; /* of a query or a round by time */
    bool second_guardian, contended;
    /* (!) Its hand-off is undone, and the journal may name it as the owner until the lease has ended: no answer
     * before. */
    bool withheld;
    int told;           /* last progress reason */
    uint64_t told_what; /* the fence in the way, or nodes_situation() */
    hf_time told_at;
    struct loop_timer tell;       /* for changes that came too soon to be told */
    struct hf_wire_holder holder; /* last seen in the way */
    hf_time holder_at;            /* when its pttl_ms was told */
    int last_failure;             /* HF_EBUSY, HF_ENOQUORUM or HF_EDRAINED: what it ends with */
};

/* Answers the waiter with `status` and frees it. */
void waiter_fail(struct waiter *w, int status, const char *text) IN_BROKER_THREAD;
void waiter_free(struct waiter *w) IN_BROKER_THREAD;
/* It is the youngest of all that wait, unless it is a try. */
void waiter_ages(struct waiter *w) IN_BROKER_THREAD;
/* A lease for it, with all that comes from the waiter and its client. Not set: slot, generation,
 * token, fence and instants. NULL: out of memory. `key`: its name's, for the nodes; `extra`: as in
 * lease_words. */
struct lease *waiter_new_lease(const struct waiter *w, const void *key, size_t key_len, bool extra);
/* When max_hold of a lease granted at `now` ends; HF_TIME_NEVER. */
hf_time waiter_hold_end(const struct waiter *w, hf_time now);
/* The holder of `name`, whose lease is this host's. */
void waiter_describe_local(const struct name *name, struct hf_wire_holder *ret_holder);
/* For waiter->tell. */
void waiter_on_tell(struct loop_timer *timer, hf_time now) IN_BROKER_THREAD;
/* A round of its name failed with `failure`, and `holder` was in the way if that is HF_EBUSY. A
 * try that began before the round did is answered; the others know what they wait for. */
void waiters_notify(struct name *name, int failure, const struct hf_wire_holder *holder,
                    hf_time round_began, const char *text) IN_BROKER_THREAD;
/* A node told how long the key of a holder without a record will stand there. */
void waiters_notify_left(struct name *name, int64_t pttl_ms, hf_time now);
/* It waits for something, and `failure` says what: HF_EBUSY, HF_ENOQUORUM, HF_EDRAINED. A try is answered with it, another
 * is told. `place`: in the queue, from 1; 0 if the caller has not counted. */
void waiter_notify(struct waiter *w, uint32_t place, int failure,
                   const char *text) IN_BROKER_THREAD;
void waiters_notify_all(struct name *name, int failure, const char *text) IN_BROKER_THREAD;
static inline bool waiter_tries(const struct waiter *w)
{
    return w->deadline.ns == HF_TIME_PAST.ns;
}
/* Whether the rules in force let it wait; if not, it is counted, and `text` says why. */
bool waiter_may_wait(struct waiter *w, char *text, size_t size) IN_BROKER_THREAD;
/* The lease of `name` has ended: who was withheld may be answered. */
void waiters_let_go(struct name *name) IN_BROKER_THREAD;
/* The waiter to be served next; NULL. */
struct waiter *waiter_first(struct name *name);
/* The agent goes away. When it starts again, the waiter is not told: its client asks again. */
void waiter_go_away(struct waiter *w) IN_BROKER_THREAD;

/* Those that stand in the table, of struct shown_waiters. */
void shown_waiters_create(struct locks *locks);

#endif
