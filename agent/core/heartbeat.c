#include "agent/core/heartbeat.h"

#include "shm/assert.h"

#define LOOKS 4 /* in the time after which a holder hangs */

void heartbeat_init(struct heartbeat *beat, hf_dur limit, uint32_t count, hf_time now)
{
    *beat = (struct heartbeat){.limit = limit, .looked = now, .count = count};
}

bool heartbeat_look(struct heartbeat *beat, uint32_t count, hf_time now)
{
    hf_dur watched = hf_dur_min(hf_time_since(now, beat->looked), hf_ns(beat->limit.ns / 2));

    hf_assert(beat->limit.ns >= 0 && beat->silent.ns >= 0, "limit %lld, silent %lld",
              (long long)beat->limit.ns, (long long)beat->silent.ns);
    if (beat->limit.ns == 0)
        return false;
    beat->looked = now;
    if (count != beat->count) {
        beat->count = count;
        beat->silent = hf_ns(0);
    } else if (watched.ns > 0) {
        beat->silent.ns += watched.ns;
    }
    return beat->silent.ns >= beat->limit.ns;
}

hf_time heartbeat_next(const struct heartbeat *beat)
{
    if (beat->limit.ns == 0)
        return HF_TIME_NEVER;
    return hf_time_add(beat->looked, hf_dur_min(hf_ns(beat->limit.ns / LOOKS),
                                                hf_ns(beat->limit.ns - beat->silent.ns)));
}

/* --- whether a thread goes on ----------------------------------------------------------------- */

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
