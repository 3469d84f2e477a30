/* A job that is to run once in a period: its holder asks whether it has run, and writes that it is about to
 * (agent/core/once.h). Belongs to the broker's thread. */
#ifndef HOLDFAST_AGENT_BROKER_QUERIES_ONCES_H
#define HOLDFAST_AGENT_BROKER_QUERIES_ONCES_H

#include "agent/base/thread_role.h"
#include "agent/broker/queries/queries.h"

/* A session ended: nobody hears the answer. What was begun is carried out. */
void onces_drop_session(struct session *s) IN_BROKER_THREAD;
/* The agent ends: HF_EGOING. */
void onces_go_away(struct queries *queries) IN_BROKER_THREAD;
void onces_destroy(struct queries *queries); /* after the links */

#endif
