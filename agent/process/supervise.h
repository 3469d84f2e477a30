/* The main thread while the agent lives: signals, its heartbeat, what is said to people
 * and to the service manager, the control socket, and a look at whether the table's name
 * still leads to the table. */
#ifndef HOLDFAST_AGENT_PROCESS_SUPERVISE_H
#define HOLDFAST_AGENT_PROCESS_SUPERVISE_H

struct agent;
struct control;
struct dev_nodes;

/* Blocks the signals that supervise() takes, for this thread and those it starts. Call it
 * before there are threads. */
void supervise_block_signals(void);

/* The descriptor that supervise() takes them from, or -1 with errno. Call it before clients are let in: those who come
 * back after a restart may leave none. */
int supervise_signals(void);

/* Says when the agent is ready, or what it waits for. Returns after SIGTERM or SIGINT. */
void supervise(struct agent *agent, int signals, struct control *control,
               struct dev_nodes *dev_nodes);

/* Waits for the broker, to which MSG_DRAIN was posted, with the heartbeat going on. */
void supervise_drain(struct agent *agent);

#endif
