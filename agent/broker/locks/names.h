/* Names and their slots. Belongs to the broker's thread. */
#ifndef HOLDFAST_AGENT_BROKER_LOCKS_NAMES_H
#define HOLDFAST_AGENT_BROKER_LOCKS_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/broker/locks/round_words.h"
#include "agent/base/loop.h"
#include "agent/broker/locks/locks.h"
#include "agent/state/lease.h"

struct client;
struct pending_release;
struct handoff;
struct round;
struct session;
struct short_hold;
struct waited;
struct waiter;

/* Why the step of a name is due (agent/broker/locks/locks_internal.h), at the end of this turn. */
enum touch {
    TOUCH_CHANGED = 1, /* what its waiters wait for may have changed */
    TOUCH_LEFT = 2,    /* a waiter has left */
    TOUCH_RETRY = 4,   /* the time of its next try has come */
};

/* The state of a name for which something goes on: it is waited for, granted, handed over or released. A name that is only held,
 * or at rest, has none. */
struct name_state {
    TAILQ_ENTRY(name_state) touched_link;
    struct locks *locks;
    struct name *name;
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
    /* undoing: the lease that an earlier agent's client was releasing; NULL */
    struct pending_release *pending_release;
    struct session *release_session; /* to be answered at MSG_ENDED */
    uint64_t release_id;
    struct round_whys refused; /* why the last round failed for want of votes */
    uint32_t tries;            /* waiters that try once */
    uint8_t failures;          /* of rounds in a row, for backoff_next() */
    uint8_t touched;           /* enum touch bits; 0: no step is due */
};

/* A name that is, or lately was, held or waited for (its slot still has the name). There may be a million:
 * no padding. */
struct name {
    /* Never NULL: without any it is the broker's `no_state`, read only. name_state() */
    struct name_state *state;
    struct client *holder; /* of its lease */
    union {                /* one of them at a time */
        LIST_ENTRY(name) of_holder;
        TAILQ_ENTRY(name) stalled_link;
        TAILQ_ENTRY(name) idle_link;
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
    uint8_t len;
    uint8_t bytes[];
};

static inline struct locks *name_locks(const struct name *name)
{
    return name->state->locks;
}

int names_create(struct locks *locks);
/* Makes the table's index anew, after the leases of an earlier agent were taken up. */
void names_index(struct locks *locks);
void names_destroy(struct locks *locks);
/* NULL: there is none. */
struct name *name_find(struct locks *locks, const void *bytes, size_t len);
/* Finds or makes it; HF_EFULL. */
int name_get(struct locks *locks, const void *bytes, size_t len, struct name **ret_name);
/* For readoption: takes that very slot. */
int name_at(struct locks *locks, const void *bytes, size_t len, uint32_t slot,
            struct name **ret_name);
/* Moves it to another slot, when this one's generations are used up. HF_EFULL. */
int name_move(struct name *name);
/* Why the last name_get() gave HF_EFULL. */
void names_say_full(const struct locks *locks, char *text, size_t size);
/* Nobody needs it now: its slot keeps the name until another name needs the
 * slot. Does nothing while it is in use. */
void name_park(struct name *name);
void name_activate(struct name *name);
/* Its state, to be changed; NULL: out of memory. There is one while a waiter waits, a round or a hand-off
 * is under way, or a lease is a short hold or about to be released: only the caller that begins one of these
 * needs to check. */
struct name_state *name_state(struct name *name);
/* Something happened to it: its step is taken at the end of this turn. Whoever reports it is not called back. */
void name_touch(struct name *name, enum touch how);
/* Part of what went on for it is over: if all of it is, its state is freed. */
void name_free_idle_state(struct name *name);
/* It no longer waits for voting nodes. */
void name_unstall(struct name *name);
/* Its lease, from the grant until MSG_ENDED; NULL: none. */
struct lease *name_lease(const struct name *name);
/* The same for a slot, if its lease has that generation. */
struct lease *names_lease(struct locks *locks, uint32_t slot, uint32_t generation);
/* Puts the text of a lease that is to follow, and says where. HF_EFULL. */
int name_text_prepare(struct name *name, const struct lease *lease, uint32_t *ret_off,
                      bool *ret_new);
/* A new text; whether the lease follows or not, the other text is freed. */
void name_text_switch(struct name *name, const struct lease *lease, uint32_t text_off);
void name_text_drop(struct name *name, const struct lease *lease, uint32_t text_off);
/* Publishes text, index entry and identity of a lease in its slot. `stands`: the text is there already. */
int name_publish(struct name *name, struct lease *lease, bool stands, hf_time valid, uint32_t votes,
                 uint32_t flags);

#endif
