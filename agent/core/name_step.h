/* What comes next for a name, by what is known of it: one contender for each name on this host. Pure.
 *
 *   a fact, the first that holds            step            what is done
 *   drained, and waited for                 NAME_DRAINED    waiters are told; no round begins
 *   held by this host                       NAME_HELD       tries are answered, waiters are told by whom
 *   nobody waits                            NAME_REST       its slot may serve another name
 *   its last lease may still be relied on   NAME_BARRED     waiters are told until when
 *   a round is under way, or is undone      NAME_WAIT       its outcome is the next event
 *   the next try has its time, and no
 *     waiter tries just once                NAME_WAIT       the time is the next event
 *   other hosts' turn                       NAME_YIELD      the next try gets its time
 *   this host is not as the fleet           NAME_FOREIGN    waiters are refused
 *   too few nodes vote                      NAME_STALL      waiters are told; a node that changes is the next event
 *   none of these                           NAME_ASK        a round begins for the first waiter
 */
#ifndef HOLDFAST_AGENT_CORE_NAME_STEP_H
#define HOLDFAST_AGENT_CORE_NAME_STEP_H

#include <stdbool.h>

struct name_facts {
    bool held;       /* it has a lease of this host */
    bool waited_for; /* a client waits */
    bool drained;    /* an operator has this host grant nothing */
    bool undoing;    /* the release of its last round, or of a lease from before, is under way */
    bool barred;     /* ... and nobody else may have it yet */
    bool asking;     /* a round is under way */
    bool waits;      /* the next try has its time */
    bool tried;      /* a waiter tries once */
    bool yields;     /* it is other hosts' turn, and the first waiter does not try once */
    bool foreign;    /* this host is not as the fleet */
    bool quorum;     /* enough nodes vote */
};

/* Those from NAME_BARRED on are of a name that is waited for and not held. */
enum name_step {
    NAME_DRAINED,
    NAME_HELD,
    NAME_REST,
    NAME_BARRED,
    NAME_WAIT,
    NAME_YIELD,
    NAME_FOREIGN,
    NAME_STALL,
    NAME_ASK,
};

enum name_step name_step(const struct name_facts *facts);

#endif
