/* A process in the guardians' process group that tells whether a signal went to the whole group, or to
 * the outer guardian alone. Nothing else can: siginfo is the same for both. It has all signals
 * blocked, runs only when it is asked, and ends with its parent. */
#ifndef HOLDFAST_TOOLS_RUN_WITNESS_H
#define HOLDFAST_TOOLS_RUN_WITNESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/run/signals.h"

struct witness {
    pid_t pid; /* a child; 0 none */
    int link_fd;
    uint64_t seen; /* a bit for each signal that it has had and nobody has asked for */
};

/* Without one, every signal counts as sent to the outer guardian alone. */
void witness_begin(struct witness *witness, const struct signals *signals);

/* Whether `signal`, which this process has just read, went to the group. Waits some milliseconds at most. */
bool witness_saw(struct witness *witness, int signal);

/* Kills it, so that this process may be without children. */
void witness_end(struct witness *witness);
/* The same, and waits for its end. */
void witness_free(struct witness *witness);

#endif
