/* Whether a holder still beats. Pure.
 *
 * A holder that asked for a heartbeat of D counts up a word, and the agent looks at the word every
 * D/4. The agent adds up, by its own clock, how long it saw no change; D without a change is a
 * hang. No time that the holder could write is believed, and the count says nothing but that it
 * changed. So whatever the holder writes, it is found between D and 1.25 D after it stopped
 * beating. What the agent did not watch is not the holder's fault: of the time between two looks at
 * most D/2 counts, so that after a suspend, or a pause of the agent, a living holder has a moment
 * to beat.
 */
#ifndef HOLDFAST_AGENT_CORE_HEARTBEAT_H
#define HOLDFAST_AGENT_CORE_HEARTBEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/nstime.h"

struct heartbeat {
    hf_dur limit;   /* D; 0: none was asked for */
    hf_dur silent;  /* how long no change was seen */
    hf_time looked; /* the last look */
    uint32_t count; /* the count at that look */
};

/* At the grant, and when an agent readopts the lease: the first beat is due within D. `count`: the
 * word as it stands, which is no beat. */
void heartbeat_init(struct heartbeat *beat, hf_dur limit, uint32_t count, hf_time now);

/* The word was looked at. True: the holder hangs. */
bool heartbeat_look(struct heartbeat *beat, uint32_t count, hf_time now);

/* When to look again; HF_TIME_NEVER without a heartbeat. */
hf_time heartbeat_next(const struct heartbeat *beat);

/* Whether a thread goes on, as another one sees it that looks now and then. Pure. One thread.
 *
 * A thread tells by a beat, an instant that it writes in each turn. Its age alone does not tell a thread that hangs from
 * a host that was suspended, or from a processor that nobody had. So what counts is the watcher's own turns: from one
 * look to the next no more than PROGRESS_TURN, however long the watcher was away itself.
 */

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
