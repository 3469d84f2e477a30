/* Threads beside main for what may wait: for disks, for names, for nodes. */
#ifndef HOLDFAST_AGENT_PROCESS_HELPER_H
#define HOLDFAST_AGENT_PROCESS_HELPER_H

/* Starts one, detached, with all signals blocked: they are the main thread's. HF_OK or HF_ENOMEM. */
int helper_start(void *(*function)(void *arg), void *arg);

#endif
