/* Whether a thread goes on, as another one sees it that looks now and then. Pure. One thread.
 *
 * A thread tells by a beat, an instant that it writes in each turn. Its age alone does not tell a thread that hangs from
 * a host that was suspended, or from a processor that nobody had. So what counts is the watcher's own turns: from one
 * look to the next no more than PROGRESS_TURN, however long the watcher was away itself.
 */
#ifndef HOLDFAST_AGENT_CORE_PROGRESS_H
#define HOLDFAST_AGENT_CORE_PROGRESS_H

#include <stdint.h>

#include "shm/nstime.h"

#define PROGRESS_TURN hf_ms(200)

/* Zeroed: not looked at yet. */
struct progress {
    int64_t beat; /* as last seen; 0: the thread has not begun */
    hf_time looked;
    hf_dur still; /* it has not changed for so long, in which the watcher went on */
};

/* Takes the look, and returns how long the thread has stood still. */
hf_dur progress_look(struct progress *p, int64_t beat, hf_time now);

#endif
