#include "agent/core/pace.h"

#include "shm/assert.h"

static void pace_check(const struct pace *p)
{
    hf_assert(p->under_way >= 0 && p->under_way <= PACE_MOST, "under_way %d", p->under_way);
    hf_assert(p->more >= 0 && p->more <= PACE_MOST - PACE_FEW, "more %d", p->more);
}

hf_time pace_next(const struct pace *p, hf_time due, hf_dur slack)
{
    pace_check(p);
    if (p->under_way == 0 || due.ns >= HF_TIME_NEVER.ns)
        return due;
    if (p->under_way < PACE_FEW)
        return hf_time_add(due, hf_dur_scale(PACE_STAGGER, p->under_way, 1));
    return p->under_way < PACE_FEW + p->more ? hf_time_add(due, slack) : HF_TIME_NEVER;
}

void pace_sent(struct pace *p)
{
    p->under_way++;
    pace_check(p);
}

void pace_ended(struct pace *p, bool in_time, hf_dur late, hf_dur slack)
{
    p->under_way--;
    pace_check(p);
    if (!in_time)
        p->more = 0;
    else if (late.ns > slack.ns)
        p->more += p->more < PACE_MOST - PACE_FEW;
    else
        p->more -= p->more > 0;
}
