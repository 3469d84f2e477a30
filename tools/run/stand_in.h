/* The second process of `holdfast hold`, which does what the first one no longer can.
 *
 * It has joined the leases, and watches the same timeline. The first process, which the user sees, tells the loss at V - 0.1 T
 * and ends. When it is stopped, or hangs, the stand-in kills it 0.02 T later: its output ends before the lock can pass to another in
 * any case. When the first process was killed, the stand-in releases the lock at once, since the agent would have to let it lapse.
 * It is in a session of its own, so that what is done to the first one's process group leaves it alone. */
#ifndef HOLDFAST_TOOLS_RUN_STAND_IN_H
#define HOLDFAST_TOOLS_RUN_STAND_IN_H

#include <stdint.h>
#include <sys/types.h>

#include "tools/run/hold.h"
#include "tools/run/signals.h"

struct stand_in {
    pid_t pid;   /* 0: none */
    int link_fd; /* readable when it is gone; -1: none */
};

/* Forks it, and waits until it has joined. `asked_ns`: the TTL of the timeline. HF_OK, or a negative code with a message that was said:
 * there is none then. */
int stand_in_start(struct stand_in *stand_in, const struct hold *hold, int64_t asked_ns);

/* Whether it is gone, without having been told to. Reaps it then. */
bool stand_in_is_gone(struct stand_in *stand_in);

/* The first process is about to release the leases, which may take as long as the nodes do: it is left alone until `by_ns`. */
void stand_in_releases(const struct stand_in *stand_in, int64_t by_ns);

/* Ends it; it releases nothing. Whether the leases were released or have to lapse is the caller's. */
void stand_in_dismiss(struct stand_in *stand_in);

#endif
