#include "agent/broker/locks/promises.h"

#include "agent/base/clock.h"
#include "agent/broker/locks/locks.h"
#include "agent/core/validity.h"
#include "shm/slot.h"

static hf_time promise_shown(const struct hf_slot *s)
{
    return (hf_time){atomic_load(&s->deadline_ns)};
}

bool promise_ran_out(const struct locks *locks, uint32_t slot, uint32_t generation, hf_time now)
{
    uint64_t word = atomic_load(&locks->agent->table.slots[slot].check);

    return word >> HF_CHECK_GEN_SHIFT == generation && !hf_check_holds(word, generation, now);
}

hf_time promise_latest(const struct locks *locks, const struct journal_identity *identity,
                       const struct journal_lease *state, uint32_t slot)
{
    const struct hf_slot *s = &locks->agent->table.slots[slot];
    hf_time latest = validity_latest(state->d, locks->n);

    if (!locks->agent->warm)
        latest = hf_time_max(latest, hf_time_add(clock_now(), hf_ms(identity->ttl_ms)));
    else if (atomic_load(&s->generation) == state->generation)
        latest = hf_time_max(latest, promise_shown(s));
    return latest;
}

/* A majority by the record before has a server that stays, so no promise was for later than the last of these. */
hf_time promise_frozen(const struct locks *locks, const struct journal_lease *state, uint32_t slot)
{
    const struct hf_slot *s = &locks->agent->table.slots[slot];

    if (!locks->agent->warm || !config_is_narrow(locks->config) ||
        atomic_load(&s->generation) != state->generation)
        return HF_TIME_PAST;
    return hf_time_min(promise_shown(s), validity_latest(state->d, locks->n));
}
