/* Whether the job is due: one that is to run once in a period asks the nodes, the last thing before it starts. */
#ifndef HOLDFAST_TOOLS_RUN_DUE_H
#define HOLDFAST_TOOLS_RUN_DUE_H

#include "tools/run/guardian.h"

/* For the inner guardian, with all that the job needs at hand: what waits between the answer and the start makes the next start
 * come too early. False: the job is not to run, with `ret_code`; it has said why, where that is wanted. */
bool due_now(struct guardian *g, int *ret_code);

/* The job was to run, and could not be started. */
void due_take_back(const struct guardian *g);

#endif
