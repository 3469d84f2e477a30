/* The two guardians of a job.
 *
 *   outer   the process that the user sees: forwards signals, gives the exit code, backs up inner
 *    `- inner   starts the job, stops it by the timeline, reaps the tree, releases
 *        `- job ...
 *
 * Both are child subreapers, both have a session with the agent and timers of their own on the
 * validity. One that dies leaves the tree to the other, which kills it to the last process; only
 * then is the lock released. None waits for the agent, for a reader of its messages, or for a
 * process that does not end, while there is something to kill.
 */
#ifndef HOLDFAST_TOOLS_RUN_GUARDIANS_H
#define HOLDFAST_TOOLS_RUN_GUARDIANS_H

#include "tools/run/guardian.h"

/* Makes all that both need and that can be made before there is a lock, as while it is waited for. What
 * `plan` points to may still change. 0, or -1 with errno. */
int guardians_prepare(struct guardian *g, const struct guardian_plan *plan);

/* Instead of guardians_run(): there is no lock. */
void guardians_free(struct guardian *g);

/* Runs the job under `hold` (taken with HF_ACQUIRE_RUN) to its end; its leases are released or left
 * to lapse. The caller has one thread. Returns the exit code; frees `g`. */
int guardians_run(struct guardian *g, const struct hold *hold);

#endif
