#include "agent/core/progress.h"

#include "shm/assert.h"

hf_dur progress_look(struct progress *p, int64_t beat, hf_time now)
{
    hf_dur turn = hf_time_since(now, p->looked);

    if (turn.ns > PROGRESS_TURN.ns)
        turn = PROGRESS_TURN;
    if (beat != p->beat || beat == 0)
        p->still = hf_ns(0);
    else if (turn.ns > 0)
        p->still = hf_ns(p->still.ns + turn.ns);
    hf_assert(p->still.ns >= 0, "still %lld", (long long)p->still.ns);
    p->beat = beat;
    p->looked = now;
    return p->still;
}
