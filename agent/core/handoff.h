/* Whether a lease may be handed over to a waiter of this host, and what this host owes the others
 * afterwards. Pure.
 *
 * A lease that is handed over keeps its token: the nodes see nothing of it, so no host but this one
 * has a chance meanwhile. Hence the bounds. Past one of them the lease is released for good, and if
 * other hosts are known to want it this one lets them go first.
 */
#ifndef HOLDFAST_AGENT_CORE_HANDOFF_H
#define HOLDFAST_AGENT_CORE_HANDOFF_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/layout.h"
#include "shm/nstime.h"

/* In a row with one token: the low part of a fence counts them. A round on the nodes costs a holder
 * of a few milliseconds about as much as his hold; one in 17 is little. */
#define HANDOFF_IN_A_ROW 16

/* As long as others want the lock, too, a host keeps the token no longer than this among its own, or
 * for one hold: who waits elsewhere waits for several such turns. With longer holds a round on the
 * nodes costs little. */
#define HANDOFF_TURN hf_ms(64)

/* How long a host steps back for others: a notice and a round on nodes of one site take less than
 * the least of it. */
#define HANDOFF_YIELD_LEAST hf_ms(4)
#define HANDOFF_YIELD_MOST  hf_ms(16)

/* What agents leave to programs that poll. Those hear of no release, so between two agents they find
 * the lock free by luck only. (!) All agents that know of one leave the same gap without a word to each
 * other: after the first release in each stretch of the nodes' time. It is longer than most delays of
 * such a program, and 15 % of the time at most. */
#define HANDOFF_GAP       hf_ms(40)
#define HANDOFF_GAP_DRAW  hf_ms(8) /* more, so that the agents do not come back together */
#define HANDOFF_GAP_EVERY hf_ms(320)

struct handoff_facts {
    hf_time now;
    enum hf_slot_state state; /* as the agent stored it */
    bool renewed;             /* not abandoned */
    hf_time valid;            /* V */
    hf_dur ttl, next_ttl;     /* of the lease, and as the waiter asked */
    unsigned count;           /* hand-offs of this token so far */
    hf_time won;              /* when the nodes granted the token */
    hf_dur turn;              /* handoff_turn() */
    hf_time token_end;        /* max_hold of the token; HF_TIME_NEVER */
    hf_time next_end;         /* max_hold of the waiter, counted from now; HF_TIME_NEVER */
};

enum handoff_verdict {
    HANDOFF_YES = 0,
    HANDOFF_OTHER_TTL, /* keys have the TTL of the grant */
    HANDOFF_NOT_HELD,  /* LATE, LOSING, over, or abandoned */
    HANDOFF_SHORT,     /* (!) less than T/2 of validity left: less than any grant has */
    HANDOFF_MAX_HOLD,  /* the token may not live for as long as the waiter may hold it */
    HANDOFF_MANY,      /* HANDOFF_IN_A_ROW */
    HANDOFF_LONG,      /* a turn's time since the grant */
};

enum handoff_verdict handoff_judge(const struct handoff_facts *facts);

/* It is the turn of other hosts. */
static inline bool handoff_is_enough(enum handoff_verdict verdict)
{
    return verdict == HANDOFF_MANY || verdict == HANDOFF_LONG;
}

/* How long this host may hand a token on from its grant: T/2, as a round trip more is nothing beside
 * such holds, or HANDOFF_TURN where others want it. `others_seen` (HF_TIME_PAST: never) was when
 * somebody else's key was last in the way, or heard of. It counts for 2 T: a turn of T/2 and a hold may
 * lie between. */
hf_dur handoff_turn(hf_dur ttl, hf_time others_seen, hf_time now);
/* How long this host's next round waits so that others come first; 0 when nobody else is known to
 * want it. */
hf_dur handoff_yield(hf_dur ttl, hf_time others_seen, hf_time now, uint32_t random);

/* The stretch of time that an instant of the nodes' clocks is in. */
int64_t handoff_gap_stretch(hf_nodetime nodes);
/* How long all rounds of this host wait, now that a release is heard of or made; 0: not at all.
 * `foreign_seen`: when a key that no agent wrote was last seen to hold the lock; counts for 2 T.
 * `last`: the stretch in which the last gap was left. */
hf_dur handoff_gap(hf_dur ttl, hf_time foreign_seen, int64_t last, int64_t stretch, hf_time now,
                   uint32_t random);

#endif
