/* Whether a lease may be handed over to a waiter of this host, and how long this host waits for
 * others afterwards. Pure.
 *
 * A lease that is handed over keeps its token. The nodes see nothing of it, so no other host has a
 * chance meanwhile. Hence the bounds: past one of them the lease is released, and if other hosts
 * are known to want the lock this host lets them go first.
 */
#ifndef HOLDFAST_AGENT_CORE_HANDOFF_H
#define HOLDFAST_AGENT_CORE_HANDOFF_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/layout.h"
#include "shm/nstime.h"

/* Hand-offs in a row with one token: the low part of a fence counts them. After a hold of a few
 * milliseconds a round on the nodes costs about as much again; one round in 17 holds is little. */
#define HANDOFF_IN_A_ROW 16

/* While other hosts want the lock, too, a host keeps it among its own waiters no longer than this,
 * or for one hold: a waiter elsewhere waits for several such turns. With longer holds a round on
 * the nodes costs little. */
#define HANDOFF_TURN hf_ms(64)

/* How long a host lets others go first: a notice and a round on nodes of one site take less than
 * the shorter of the two. */
#define HANDOFF_YIELD_LEAST hf_ms(4)
#define HANDOFF_YIELD_MOST  hf_ms(16)

/* The gap that agents leave to programs that poll. These hear of no release, so between two agents
 * they find the lock free only by luck. (!) All agents that know of such a program leave the same
 * gap without talking to each other: after the first release in each stretch of the nodes' time. It
 * is longer than most such programs' delays, and at most 15 % of the time. */
#define HANDOFF_GAP       hf_ms(40)
#define HANDOFF_GAP_DRAW  hf_ms(8) /* drawn on top, so that the agents do not come back together */
#define HANDOFF_GAP_EVERY hf_ms(320)

struct handoff_facts {
    hf_time now;
    enum hf_slot_state state; /* as stored in the slot */
    bool renewed;             /* not abandoned */
    hf_time valid;            /* V */
    hf_dur ttl, next_ttl;     /* the lease's, and the one that the waiter asks for */
    unsigned count;           /* hand-offs of this token so far */
    hf_time won;              /* when the nodes granted the token */
    hf_dur turn;              /* handoff_turn() */
    hf_time token_end;        /* max_hold of the token; HF_TIME_NEVER */
    hf_time next_end;         /* max_hold of the waiter, counted from now; HF_TIME_NEVER */
};

enum handoff_verdict {
    HANDOFF_YES = 0,
    HANDOFF_OTHER_TTL, /* the keys have the TTL of the grant */
    HANDOFF_NOT_HELD,  /* LATE, LOSING, over, or abandoned */
    HANDOFF_SHORT,     /* (!) less than T/2 of validity is left, and any grant has more */
    HANDOFF_MAX_HOLD,  /* the token must end before the waiter's max_hold would */
    HANDOFF_MANY,      /* HANDOFF_IN_A_ROW */
    HANDOFF_LONG,      /* a turn has passed since the grant */
};

enum handoff_verdict handoff_judge(const struct handoff_facts *facts);

/* Whether the verdict says that other hosts come next. */
static inline bool handoff_is_enough(enum handoff_verdict verdict)
{
    return verdict == HANDOFF_MANY || verdict == HANDOFF_LONG;
}

/* How long after its grant this host may hand a token on: T/2, since one more round trip is little
 * beside such holds, or HANDOFF_TURN where others want the lock. `others_seen`: when somebody
 * else's key was last in the way or heard of (HF_TIME_PAST: never). It counts for 2 T: a turn of
 * T/2 and a hold may lie in between. */
hf_dur handoff_turn(hf_dur ttl, hf_time others_seen, hf_time now);
/* How long this host's next round waits so that others come first; 0 when nobody else is known to
 * want the lock. */
hf_dur handoff_yield(hf_dur ttl, hf_time others_seen, hf_time now, uint32_t random);

/* The number of the stretch of the nodes' time that this instant is in. */
int64_t handoff_gap_stretch(hf_nodetime nodes);
/* How long all rounds of this host for the name wait after a release, heard of or its own; 0: not
 * at all. `foreign_seen`: when a key that no agent wrote was last seen to hold the lock; it counts
 * for 2 T. `last`: the stretch in which the last gap was left. */
hf_dur handoff_gap(hf_dur ttl, hf_time foreign_seen, int64_t last, int64_t stretch, hf_time now,
                   uint32_t random);

#endif
