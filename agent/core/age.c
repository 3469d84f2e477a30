#include "agent/core/age.h"

#include <string.h>

#include "shm/assert.h"

#define UPTIME_STEP hf_ns(HF_NS_PER_SEC) /* INFO tells it in whole seconds, and two clocks tick */

void age_init(struct node_age *age, bool word, bool proven)
{
    *age = (struct node_age){
        .process = HF_TIME_NEVER, .keys = HF_TIME_NEVER, .word = word, .proven = proven};
}

static bool age_is_heard_of(hf_time since)
{
    return since.ns != HF_TIME_NEVER.ns;
}

static hf_time age_began(hf_dur uptime, hf_time now)
{
    hf_dur up = hf_ns(uptime.ns - UPTIME_STEP.ns);

    return up.ns > 0 ? hf_time_sub(now, up) : now;
}

void age_on_facts(struct node_age *age, const struct node_trust *before,
                  const struct node_facts *facts, hf_time now)
{
    bool same = before->contacted && strcmp(before->facts.run_id, facts->run_id) == 0;
    bool first = !age_is_heard_of(age->process);

    if (!first && same)
        return;
    if (first && (age->word || (same && age->proven)))
        age->process = HF_TIME_PAST;
    else if (first && (same || !before->contacted))
        age->process = age_began(facts->uptime, now);
    else
        age->process = now;
}

void age_on_nonce(struct node_age *age, const struct node_trust *before, const struct node_trust *t,
                  hf_time now)
{
    bool first = !age_is_heard_of(age->keys), moved = t->mark != before->mark;

    if (!first && !moved)
        return;
    age->met = false;
    if ((age->word && (!before->nonce_had || (first && !moved))) ||
        (age->proven && before->nonce_had && first && !moved)) {
        age->keys = HF_TIME_PAST;
    } else {
        age->keys = now;
        age->met = first && !moved;
    }
}

void age_on_sentinel(struct node_age *age, const struct node_trust *t, hf_time now)
{
    hf_nodetime low, high;
    int64_t us;

    if (!age->met || !t->sentinel.present ||
        strncmp(t->sentinel.nonce, t->nonce, TRUST_NONCE_LEN) != 0 ||
        !trust_node_time(t, now, &low, &high))
        return;
    age->met = false;
    if (__builtin_sub_overflow(low.us, t->sentinel.created.us, &us) || us <= 0)
        return;
    /* The two clocks may have drifted apart by 1 % since then. */
    us = us / 100 * 99;
    if (us > INT64_MAX / 4 / HF_NS_PER_US)
        us = INT64_MAX / 4 / HF_NS_PER_US;
    age->keys = hf_time_min(age->keys, (hf_time){now.ns - us * HF_NS_PER_US});
}

void age_on_step(struct node_age *age, hf_time now)
{
    age->met = false;
    age->keys = now;
}

static hf_time age_due_at(hf_time since, hf_dur least)
{
    hf_assert(least.ns >= 0, "least %lld", (long long)least.ns);
    return age_is_heard_of(since) ? hf_time_add(since, least) : HF_TIME_NEVER;
}

hf_time age_due(const struct node_age *age, hf_dur least, bool stood)
{
    hf_time process = age_due_at(age->process, least);

    return stood ? process : hf_time_max(process, age_due_at(age->keys, least));
}
