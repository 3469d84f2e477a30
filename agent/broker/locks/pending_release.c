#include "agent/broker/locks/locks_internal.h"

#include <stdlib.h>

#include "agent/base/clock.h"
#include "agent/broker/clients/sessions.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/names.h"
#include "agent/core/timing.h"
#include "shm/slot.h"
#include "shm/status.h"

int pending_release_add(struct client *c, struct name *name, uint32_t slot, uint32_t generation)
{
    struct pending_release *pending =
        !name || name_state(name) ? calloc(1, sizeof(*pending)) : NULL;

    if (!pending)
        return HF_ENOMEM;
    pending->name = name;
    pending->slot = slot;
    pending->generation = generation;
    if (name)
        name->state->pending_release = pending;
    LIST_INSERT_HEAD(&c->pending_releases, pending, of_client);
    return HF_OK;
}

struct pending_release *pending_release_find(struct client *c, uint32_t slot, uint32_t generation)
{
    struct pending_release *pending;

    LIST_FOREACH (pending, &c->pending_releases, of_client)
        if (pending->slot == slot && pending->generation == generation)
            break;
    return pending;
}

void pending_release_drop_session(struct session *s)
{
    struct pending_release *pending;

    LIST_FOREACH (pending, &s->client->pending_releases, of_client)
        if (pending->session == s)
            pending->session = NULL;
}

void pending_release_drop_client(struct client *c)
{
    struct pending_release *pending;

    while ((pending = LIST_FIRST(&c->pending_releases))) {
        if (pending->name)
            pending->name->state->pending_release = NULL;
        LIST_REMOVE(pending, of_client);
        free(pending);
    }
}

/* --- what an earlier agent promised ----------------------------------------------------------- */

static hf_time earlier_validity_shown(const struct hf_slot *s)
{
    return (hf_time){atomic_load(&s->deadline_ns)};
}

bool earlier_validity_ran_out(const struct locks *locks, uint32_t slot, uint32_t generation,
                              hf_time now)
{
    uint64_t word = atomic_load(&locks->agent->table.slots[slot].check);

    return word >> HF_CHECK_GEN_SHIFT == generation && !hf_check_holds(word, generation, now);
}

hf_time earlier_validity_latest(const struct locks *locks, const struct journal_identity *identity,
                                const struct journal_lease *state, uint32_t slot)
{
    const struct hf_slot *s = &locks->agent->table.slots[slot];
    hf_time latest = validity_latest(state->d, locks->n);

    if (!locks->agent->warm)
        latest = hf_time_max(latest, hf_time_add(clock_now(), hf_ms(identity->ttl_ms)));
    else if (atomic_load(&s->generation) == state->generation)
        latest = hf_time_max(latest, earlier_validity_shown(s));
    return latest;
}

/* A majority by the record before has a server that stays, so no promise was for later than the last of these. */
hf_time earlier_validity_frozen(const struct locks *locks, const struct journal_lease *state,
                                uint32_t slot)
{
    const struct hf_slot *s = &locks->agent->table.slots[slot];

    if (!locks->agent->warm || !config_is_narrow(locks->config) ||
        atomic_load(&s->generation) != state->generation)
        return HF_TIME_PAST;
    return hf_time_min(earlier_validity_shown(s), validity_latest(state->d, locks->n));
}
