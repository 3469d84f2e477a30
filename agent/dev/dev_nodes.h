/* The private redis-servers of `--dev`: on unix sockets, without persistence, in RUNTIME/NAME/dev-XXXXXX. The wrapper's.
 *
 * They end with the wrapper: at a clean exit by dev_nodes_stop(), after kill -9 by PDEATHSIG (so the
 * thread that starts them must be the main thread, which lives as long as the program). Directories
 * that a killed wrapper left are removed at the next start of the same name. */
#ifndef HOLDFAST_AGENT_DEV_DEV_NODES_H
#define HOLDFAST_AGENT_DEV_DEV_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "agent/config/config.h"

struct dev_nodes {
    char dir[640]; /* "": none */
    pid_t pid[HF_NODES_MAX];
    int count;
};

/* Removes what killed wrappers left in `dir` (RUNTIME/NAME, whose lock the caller has). */
void dev_nodes_clean(const char *dir);

/* Starts config->dev_nodes servers, waits until each answers, and fills in their addresses in
 * config->nodes. HF_ENOAGENT: redis-server is not found or does not come up, with the remedy
 * in `why`; HF_ESYS. */
int dev_nodes_start(struct config *config, const char *dir, struct dev_nodes *ret_nodes, char *why,
                    size_t why_size);

/* After SIGCHLD: reaps the nodes that ended and says so in the log. */
void dev_nodes_reap(struct dev_nodes *nodes);

/* Ends the servers and removes their directory. Fine for a zeroed struct. */
void dev_nodes_stop(struct dev_nodes *nodes);

/* What the agent of `--dev` tells the service manager, which hears only the process that it started: the wrapper. The agent
 * tells it to a socket beside the private nodes, and the wrapper tells it on. */

struct relay {
    int fd;         /* -1: there is no service manager */
    char path[108]; /* as in struct sockaddr_un */
};

/* In `dir`, the directory of the private nodes. False: errno says why. */
bool relay_open(const char *dir, struct relay *ret_relay);

/* In the child: from now on notify_send() tells the wrapper, and a watchdog of the wrapper is the child's. */
void relay_adopt(const struct relay *relay);

/* In the wrapper: tells the service manager what has come. Never blocks. */
void relay_pass(const struct relay *relay);

/* The socket's file goes with its directory. */
void relay_close(struct relay *relay);

#endif
