/* What comes next for a name, once for each name that something happened to, at the end of the broker's turn. Whatever happens
 * to a name calls resource_touch(); agent/core/name_step.h says what follows, and here it is carried out. */
#ifndef HOLDFAST_AGENT_BROKER_LOCKS_STEP_H
#define HOLDFAST_AGENT_BROKER_LOCKS_STEP_H

#include "agent/base/thread_role.h"
#include "agent/broker/locks/resources.h"

struct waiter;

void step_init(struct locks *locks);
/* At the end of the turn, before commands to nodes and answers to clients leave. */
void locks_step(struct locks *locks) IN_BROKER_THREAD;
/* A waiter has come. (!) Where nobody can go on it alone is told: all others know, and may be thousands. */
void step_join(struct waiter *w) IN_BROKER_THREAD;
/* The nodes changed: names that wait for votes may go on. */
void step_stalled(struct locks *locks) IN_BROKER_THREAD;

#endif
