/* What the agent of `--dev` tells the service manager, which hears only the process that it started: the wrapper. The agent
 * tells it to a socket beside the private nodes, and the wrapper tells it on. */
#ifndef HOLDFAST_AGENT_DEV_RELAY_H
#define HOLDFAST_AGENT_DEV_RELAY_H

#include <stdbool.h>

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
