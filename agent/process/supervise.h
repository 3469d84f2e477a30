/* The main thread while the agent lives: signals, its sign of life, messages to people and
 * to the service manager, the control socket, and the check that the table's name still leads
 * to the table. */
#ifndef HOLDFAST_AGENT_PROCESS_SUPERVISE_H
#define HOLDFAST_AGENT_PROCESS_SUPERVISE_H

#include <stdbool.h>

#include "agent/base/thread.h"

struct agent;
struct control;
struct reload;

/* Blocks the signals that supervise() takes, for this thread and those it starts. Call it
 * before there are threads. */
void supervise_block_signals(void);

/* The descriptor from which supervise() takes them, or -1 with errno. Call it before clients may attach: clients that
 * come back after a restart may use up all descriptors. */
int supervise_signals(void);

/* Says when the agent is ready, or what it waits for. Returns after SIGTERM or SIGINT; or, with true, when
 * the agent is to start again by another record of the fleet (agent.again). */
bool supervise(struct agent *agent, int signals, struct control *control,
               struct reload *reload) IN_MAIN_THREAD;

/* Waits for the broker, to which MSG_GO_AWAY was posted; the sign of life goes on. */
void supervise_end(struct agent *agent);

#endif
