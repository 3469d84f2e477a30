/* Names and their slots. Belongs to the broker's thread. */
#ifndef HOLDFAST_AGENT_BROKER_LOCKS_RESOURCES_H
#define HOLDFAST_AGENT_BROKER_LOCKS_RESOURCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/broker/locks/round_words.h"
#include "agent/base/loop.h"
#include "agent/broker/locks/locks.h"
#include "agent/record/lease.h"

struct client;
struct ended;
struct handoff;
struct round;
struct session;
struct short_hold;
struct waited;
struct waiter;

/* Why the step of a name is due (agent/broker/locks/step.h), at the end of this turn. */
enum touch {
    TOUCH_CHANGED = 1, /* what its waiters wait for may have changed */
    TOUCH_LEFT = 2,    /* a waiter has left */
    TOUCH_RETRY = 4,   /* the time of its next try has come */
};

/* What goes on for a name: it is waited for, granted, handed over or released. A name that is only held,
 * or at rest, has none. */
struct resource_work {
    TAILQ_ENTRY(resource_work) touched_link;
    struct locks *locks;
    struct resource *resource;
    TAILQ_HEAD(waiter_queue, waiter) waiters;
    struct round *round;   /* undecided */
    struct round *granted; /* the decided round of the lease while it has unanswered acquires */
    struct short_hold *short_hold; /* the lease is not adopted yet */
    struct handoff *handoff;       /* of the lease, under way */
    hf_time others_seen;     /* another's key was last in the way, or told of; HF_TIME_PAST never */
    hf_time yield_until;     /* no round of a waiter begins before */
    hf_time foreign_seen;    /* a key that no agent wrote held the lock; HF_TIME_PAST never */
    int64_t gap;             /* the stretch in which the last gap was left; handoff.h */
    hf_time barred_until;    /* undoing: no release before; an earlier agent's lease may be valid */
    struct loop_timer retry; /* while somebody waits and no round is under way: the next step */
    struct waited *waited;   /* what nodes tell of it; NULL */
    struct ended *ended;     /* undoing: the lease that an earlier agent's client was releasing */
    struct session *release_session; /* to be answered at MSG_ENDED */
    uint64_t release_id;
    struct round_whys refused; /* why the last round failed for want of votes */
    uint32_t tries;            /* waiters that try once */
    uint8_t failures;          /* of rounds in a row, for backoff_next() */
    uint8_t touched;           /* enum touch bits; 0: no step is due */
};

/* A name that is, or lately was, held or waited for (its slot still has the name). There may be a million:
 * no padding. */
struct resource {
    /* Never NULL: without any it is the broker's `no_work`, read only. resource_work() */
    struct resource_work *work;
    struct client *holder; /* of its lease */
    union {                /* one of them at a time */
        LIST_ENTRY(resource) of_holder;
        TAILQ_ENTRY(resource) stalled_link;
        TAILQ_ENTRY(resource) idle_link;
    };
    uint64_t last_fence; /* node part of our last grant or proposal */
    uint32_t slot;
    uint32_t generation;
    uint32_t text_off;
    uint8_t text_note_len, text_comm_len;
    bool turn_over : 1; /* the next release is no hand-off: other hosts go first */
    bool undoing : 1;   /* our release of a failed round is unanswered */
    bool stalled : 1;   /* waits for voting nodes */
    bool idle : 1;
    bool indexed : 1;   /* the table's index has it */
    bool unindexed : 1; /* it has no place for it, and counts it */
    bool has_text : 1;
    bool contended : 1; /* the last wait for it began with a round that found it held */
    uint8_t name_len;
    uint8_t name[];
};

static inline struct locks *resource_locks(const struct resource *r)
{
    return r->work->locks;
}

int resources_create(struct locks *locks);
/* Makes the table's index anew, after the leases of an earlier agent were taken up. */
void resources_index(struct locks *locks);
void resources_destroy(struct locks *locks);
/* NULL: the name has no resource. */
struct resource *resource_find(struct locks *locks, const void *name, size_t len);
/* Finds or makes it; HF_EFULL. */
int resource_get(struct locks *locks, const void *name, size_t name_len,
                 struct resource **ret_resource);
/* For readoption: takes that very slot. */
int resource_at(struct locks *locks, const void *name, size_t name_len, uint32_t slot,
                struct resource **ret_resource);
/* Moves it to another slot, when this one's generations are used up. HF_EFULL. */
int resource_move(struct resource *r);
/* Why the last resource_get() gave HF_EFULL. */
void resources_say_full(const struct locks *locks, char *text, size_t size);
/* Nobody needs it now: its slot keeps the name until another name needs the
 * slot. Does nothing while it is in use. */
void resource_rest(struct resource *r);
void resource_rouse(struct resource *r);
/* Its work, to be changed; NULL: out of memory. There is one while a waiter waits, a round or a hand-off
 * is under way, or a lease is a short hold or about to be released: only the caller that begins one of these
 * needs to check. */
struct resource_work *resource_work(struct resource *r);
/* Something happened to it: its step is taken at the end of this turn. Whoever reports it is not called back. */
void resource_touch(struct resource *r, enum touch how);
/* Part of its work is over: if all of it is, its memory is freed. */
void resource_calm(struct resource *r);
/* It no longer waits for voting nodes. */
void resource_unstall(struct resource *r);
/* Its lease, from the grant until MSG_ENDED; NULL: none. */
struct lease *resource_lease(const struct resource *r);
/* The same for a slot, if its lease has that generation. */
struct lease *resources_lease(struct locks *locks, uint32_t slot, uint32_t generation);
/* Puts the text of a lease that is to follow, and says where. HF_EFULL. */
int resource_text_prepare(struct resource *r, const struct lease *lease, uint32_t *ret_off,
                          bool *ret_new);
/* A new text; whether the lease follows or not, the other text is freed. */
void resource_text_switch(struct resource *r, const struct lease *lease, uint32_t text_off);
void resource_text_drop(struct resource *r, const struct lease *lease, uint32_t text_off);
/* Publishes text, index entry and identity of a lease in its slot. `stands`: the text is there already. */
int resource_publish(struct resource *r, struct lease *lease, bool stands, hf_time valid,
                     uint32_t votes, uint32_t flags);

#endif
