/* Names and their slots. Belongs to the broker's thread. */
#ifndef HOLDFAST_AGENT_BROKER_LOCKS_RESOURCES_H
#define HOLDFAST_AGENT_BROKER_LOCKS_RESOURCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/base/loop.h"
#include "agent/broker/locks/locks.h"
#include "agent/record/lease.h"

struct client;
struct ended;
struct handoff;
struct round;
struct session;
struct waited;
struct waiter;
struct young;

/* What goes on for a name: somebody wants it, gets it, or gives it back. A name that is only held, or
 * at rest, has none. */
struct resource_work {
    struct locks *locks;
    struct resource *resource;
    TAILQ_HEAD(waiter_queue, waiter) waiters;
    struct round *round;     /* undecided */
    struct round *granted;   /* the decided round of the lease while it has unanswered acquires */
    struct young *young;     /* the lease is not handed in yet */
    struct handoff *handoff; /* of the lease, on its way */
    hf_time others_seen;     /* another's key was in the way, or heard of; HF_TIME_PAST never */
    hf_time yield_until;     /* no round before */
    hf_time foreign_seen;    /* a key that no agent wrote held the lock; HF_TIME_PAST never */
    int64_t gap;             /* the stretch in which a gap was left last; handoff.h */
    hf_time barred_until; /* undoing: not released before, an earlier agent's holder may believe */
    struct loop_timer retry; /* while somebody waits and no round is under way: the next step */
    struct waited *waited;   /* what nodes tell of it; NULL */
    struct ended *ended;     /* undoing: what an earlier agent's client was releasing */
    struct session *release_session; /* to be answered at MSG_ENDED */
    uint64_t release_id;
    uint32_t tries;   /* of the waiters, those that try once */
    uint8_t failures; /* of rounds in a row, for backoff_next() */
};

/* A name that is held, waited for, or was so lately (its slot still carries the name). There may be a
 * million: without gaps. */
struct resource {
    /* Never NULL: without any it is the broker's `no_work`, for reading alone. resource_work() */
    struct resource_work *work;
    struct client *holder; /* of its lease */
    union {                /* never two of them */
        LIST_ENTRY(resource) of_holder;
        TAILQ_ENTRY(resource) stalled_link;
        TAILQ_ENTRY(resource) idle_link;
    };
    uint64_t last_fence; /* node part of our last grant or proposal */
    uint32_t slot;
    uint32_t generation;
    uint32_t text_off;
    uint8_t text_note_len, text_comm_len;
    bool turn_over : 1; /* the next release is one for good: others go first */
    bool undoing : 1;   /* own release of a failed round is unanswered */
    bool stalled : 1;   /* waits for voting nodes */
    bool idle : 1;
    bool indexed : 1; /* the table's index carries it */
    bool has_text : 1;
    uint8_t name_len;
    uint8_t name[];
};

static inline struct locks *resource_locks(const struct resource *r)
{
    return r->work->locks;
}

int resources_create(struct locks *locks);
void resources_destroy(struct locks *locks);
/* NULL: the name has no resource. */
struct resource *resource_find(struct locks *locks, const void *name, size_t len);
/* Finds or makes; HF_EFULL. */
int resource_get(struct locks *locks, const void *name, size_t name_len,
                 struct resource **ret_resource);
/* For readoption: takes that very slot. */
int resource_at(struct locks *locks, const void *name, size_t name_len, uint32_t slot,
                struct resource **ret_resource);
/* To another slot, when this one's generations are used up. HF_EFULL. */
int resource_move(struct resource *r);
/* Nobody needs it now: its slot keeps the name until another name needs the
 * slot. Nothing while in use. */
void resource_rest(struct resource *r);
void resource_rouse(struct resource *r);
/* What goes on for it, to be changed; NULL: out of memory. There is one while anybody waits, a round
 * or a hand-off is under way, a lease is young or to be released: only who begins one of these need
 * ask. */
struct resource_work *resource_work(struct resource *r);
/* Something is over: if all is, that memory goes. */
void resource_calm(struct resource *r);
/* It waits for voting nodes no more. */
void resource_unstall(struct resource *r);
/* Its lease, from the grant until MSG_ENDED; NULL: none. */
struct lease *resource_lease(const struct resource *r);
/* The same of a slot, if that is the generation. */
struct lease *resources_lease(struct locks *locks, uint32_t slot, uint32_t generation);
/* The text of a lease that is to follow, and where it stands. HF_EFULL. */
int resource_text_prepare(struct resource *r, const struct lease *lease, uint32_t *ret_off,
                          bool *ret_new);
/* A new one; the lease follows or does not: the other's text goes. */
void resource_text_switch(struct resource *r, const struct lease *lease, uint32_t text_off);
void resource_text_drop(struct resource *r, const struct lease *lease, uint32_t text_off);
/* The slot's text, index entry and identity for a lease. `stands`: the text is there already. */
int resource_publish(struct resource *r, struct lease *lease, bool stands, hf_time valid,
                     uint32_t votes, uint32_t flags);

#endif
