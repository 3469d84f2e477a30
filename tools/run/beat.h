/* Relays a job's heartbeat from its memory to the agent.
 *
 * The outer guardian makes the memory (libclient/holdfast_run.h, struct hf_job_memory), which the job
 * inherits, and beats when it has changed, and only then: when the guardian hangs, no beat comes
 * through, and the lock is lost.
 */
#ifndef HOLDFAST_TOOLS_RUN_BEAT_H
#define HOLDFAST_TOOLS_RUN_BEAT_H

#include <stdint.h>

#include "libclient/holdfast_run.h"
#include "tools/run/hold.h"

#define BEAT_LEAST_MS 100 /* the agent's own minimum */

struct beat {
    const struct hf_job_memory *memory; /* NULL: the job need not beat */
    int64_t look_every_ns;
    uint32_t seen;
};

/* `heartbeat_ns` 0: none. Puts HOLDFAST_BEAT_FD and HOLDFAST_BEAT_PATH into the environment; the
 * descriptor stays open across exec. 0, or -1 with errno. */
int beat_make(struct beat *beat, int64_t heartbeat_ns);

/* Tells the agent if the job has beaten since the last call. Returns the latest time for the next
 * call. */
int64_t beat_pass_on(struct beat *beat, const struct hold *hold, int64_t now_ns);

#endif
