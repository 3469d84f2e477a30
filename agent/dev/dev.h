/* `--dev`: an agent on private redis-servers, and what surrounds it.
 *
 * The process that was started becomes a wrapper. It starts the servers (dev_nodes.h) and runs the agent, which knows
 * of all this only that it is ephemeral and what its nodes' addresses are, as a child process. To whoever started it
 * the wrapper is the agent: it passes signals on, and to the service manager what the agent tells it (dev_nodes.h); it ends
 * the servers after the agent, and then as the agent did, with its exit code or by its signal. The agent stays in the
 * wrapper's process group, so what a terminal sends reaches both; the agent takes no harm from a signal that comes twice.
 *
 * (!) However the wrapper ends, agent and servers end, too: by PDEATHSIG, and so the wrapper's only thread is the main
 * thread. RUNTIME/NAME/lock is the wrapper's and its child's: it is free when both are gone. */
#ifndef HOLDFAST_AGENT_DEV_DEV_H
#define HOLDFAST_AGENT_DEV_DEV_H

#include <stddef.h>

#include "agent/config/config.h"

/* Removes what killed wrappers left in `dir` (RUNTIME/NAME, whose lock the caller has). */
void dev_clean(const char *dir);

/* Starts config->dev_nodes servers in `dir`, whose lock the caller has, and agent(arg) in a child process, with the
 * servers' addresses in config->nodes. The child's exit code is what agent() returns; once the child has ended and
 * the servers with it, that code is in *ret_exit. Does not return when a signal ended the child: then the same signal
 * ends the caller. HF_ENOAGENT: redis-server is not found or does not come up, with the remedy in `why`; HF_ESYS.
 * Call it before there are threads, and after supervise_block_signals(). */
int dev_run(struct config *config, const char *dir, int (*agent)(void *arg), void *arg,
            int *ret_exit, char *why, size_t why_size);

#endif
