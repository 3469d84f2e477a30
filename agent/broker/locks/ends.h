/* How a lease ends: handed over to the next waiter of this host, released by the broker or by the renewal thread, or left to
 * lapse; and what follows when it has ended. Whatever in the broker ends a lease calls release_begin(), whose one switch has
 * the four ways. What the renewal thread ends by itself (a lease that lapses, a hand-off that it refuses) comes to
 * grant_ended() only. */
#ifndef HOLDFAST_AGENT_BROKER_LOCKS_ENDS_H
#define HOLDFAST_AGENT_BROKER_LOCKS_ENDS_H

#include "agent/base/thread_role.h"
#include "agent/broker/locks/resources.h"
#include "agent/record/handoff.h"

/* Why it ends, and what that says of a job: only a lease of whose job nothing lives may go to somebody else. */
enum release_cause {
    RELEASE_UNWANTED, /* its holder's wish, or nobody took it: a job's tree is reaped, or never was */
    RELEASE_UNTOLD,   /* its holder was gone before it was told: no job was started under it */
    RELEASE_HOLDER_GONE, /* its holder is gone, and has said nothing of its job's tree */
    RELEASE_UNSEEN, /* whether its holder lives is not known: renewed no more, and left to lapse */
    RELEASE_TREE_DEAD, /* abandoned before; the agent itself sees that nothing of the job lives */
};

/* Ends the lease of `r`. */
void release_begin(struct resource *r, enum release_cause cause) IN_BROKER_THREAD;
/* MSG_ENDED: its keys are gone, or lapse. */
void grant_ended(struct locks *locks, struct lease *lease) IN_BROKER_THREAD;
/* MSG_HANDED_OVER: the renewal thread carried the hand-off out, or refused it. */
void handoff_answered(struct handoff *handoff) IN_BROKER_THREAD;
/* The agent goes away: its round is undone and its waiters are answered; an ephemeral agent ends its lease, too. */
void lease_go_away(struct resource *r) IN_BROKER_THREAD;

#endif
