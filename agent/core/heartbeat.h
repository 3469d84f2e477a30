/* Whether a holder still beats. Pure.
 *
 * A holder that asked for a heartbeat of D counts a word up, and the agent looks at it every D/4. It
 * adds up for how long it watched no change, by its own clock; D of that is a hang. No time that the
 * holder could write is believed, and no count means more than that it changed: whatever stands
 * there, a holder that stopped beating is found between D and 1.25 D after its last beat.
 * What the agent did not watch is not the holder's fault: of the time between two looks at most D/2
 * counts, so that after a suspend, or a pause of the agent, a living holder has a moment to beat.
 */
#ifndef HOLDFAST_AGENT_CORE_HEARTBEAT_H
#define HOLDFAST_AGENT_CORE_HEARTBEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/nstime.h"

struct heartbeat {
    hf_dur limit;   /* D; 0: none was asked for */
    hf_dur silent;  /* for so long no change was seen */
    hf_time looked; /* last */
    uint32_t count; /* then */
};

/* With the grant, and when an agent takes a lease over: D from now on for the first beat. `count`:
 * the word as it stands, which is no beat. */
void heartbeat_init(struct heartbeat *beat, hf_dur limit, uint32_t count, hf_time now);

/* The word was looked at. True: it hangs. */
bool heartbeat_look(struct heartbeat *beat, uint32_t count, hf_time now);

/* When to look again; HF_TIME_NEVER without a heartbeat. */
hf_time heartbeat_next(const struct heartbeat *beat);

#endif
