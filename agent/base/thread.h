/* The threads that an agent cannot be without. */
#ifndef HOLDFAST_AGENT_BASE_THREAD_H
#define HOLDFAST_AGENT_BASE_THREAD_H

#include <pthread.h>

/* Starts a thread. Where the host has no thread left for this user, tries again for some seconds, with a line in the log that has
 * `what`, or until a signal asks the agent to end. HF_ESYS with errno. */
int thread_start(const char *what, void *(*function)(void *arg), void *arg, pthread_t *ret_thread);

#endif
