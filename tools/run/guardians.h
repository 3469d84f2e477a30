/* The two guardians of a job.
 *
 *   outer   the process that the user sees: forwards signals, gives the exit code, backs up inner
 *    |- inner   starts the job, stops it by the timeline, reaps the tree, releases
 *    |   `- job ...
 *    `- witness   tells signals to the process group from those to the outer one alone
 *
 * The inner one has a session of its own, so no signal to one process group takes both. The job stays in the outer one's session, and
 * with a terminal in its process group, where the shell and the terminal look for it. Without one it has a group of its own.
 *
 * Both are child subreapers; each has its own session with the agent and its own timers on the
 * validity. If one dies the other kills the whole tree; only then is the lock released. While there
 * is something to kill, neither waits for the agent, for a reader of its messages, or for a process
 * that does not end.
 */
#ifndef HOLDFAST_TOOLS_RUN_GUARDIANS_H
#define HOLDFAST_TOOLS_RUN_GUARDIANS_H

#include "tools/run/guardian.h"

/* Sets up all that both need and that needs no lock yet, for use during the wait. The data that `plan`
 * points to may still change. 0, or -1 with errno. */
int guardians_prepare(struct guardian *g, const struct guardian_plan *plan);

/* To be called instead of guardians_run() when there is no lock. */
void guardians_free(struct guardian *g);

/* Runs the job under `hold` (taken with HF_ACQUIRE_RUN) to its end; its leases are released or left
 * to lapse. The caller has one thread. Returns the exit code; frees `g`. */
int guardians_run(struct guardian *g, const struct hold *hold);

#endif
