/* The agent gives up what its run does not need, before its first thread starts:
 *
 *   no new privileges   no file that it could run raises its rights
 *   capabilities        all but those that its settings ask for
 *   Landlock            it writes below the directories of its own files and in /dev/shm, and runs no program
 *   seccomp             the system calls of its own run, and no others: another one fails with ENOSYS
 *
 * An attacker who takes over the agent can then run no program, signal or trace no process, and write no other file.
 * The log names a step that the kernel lacks.
 *
 * Main thread, once; threads that start later inherit all of it. */
#ifndef HOLDFAST_AGENT_PROCESS_CONFINE_H
#define HOLDFAST_AGENT_PROCESS_CONFINE_H

#include <stdbool.h>
#include <stddef.h>

struct confine {
    const char *base; /* the directory of all agents' directories; the last agent removes it */
    const char *dir;  /* the agent's own, with its socket and records */
    bool lock_memory; /* keeps CAP_IPC_LOCK */
    bool priority;    /* keeps CAP_SYS_NICE */
};

/* Leaves in `why` the steps that failed; empty: none. The agent runs on without them. */
void confine(const struct confine *c, char *why, size_t size);

#endif
