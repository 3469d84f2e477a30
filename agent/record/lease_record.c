#include "agent/record/lease_record.h"

#include "shm/assert.h"
#include "shm/slot.h"

void lease_journal(struct agent *agent, const struct lease *lease, enum journal_state state)
{
    struct journal_lease record = {.state = state,
                                   .slot_state = lease->fsm.state,
                                   .reason = lease->fsm.reason,
                                   .generation = lease->generation,
                                   .fence = lease->fence};
    int latest = 0;

    hf_assert(lease->generation >= 1 && lease->generation <= HF_GEN_MAX, "slot %u, generation %u",
              (unsigned)lease->slot, (unsigned)lease->generation);
    hf_assert(lease->fence != 0, "slot %u, generation %u", (unsigned)lease->slot,
              (unsigned)lease->generation);
    for (int i = 0; i < lease->fsm.n; i++) {
        record.d[i] = lease_fsm_d(&lease->fsm, i);
        if (hf_time_before(record.d[latest], record.d[i]))
            latest = i;
    }
    /* (!) Whatever became of the votes, a job lives until the V that it was shown. */
    if (lease->fsm.state == HF_SLOT_LOST)
        record.d[latest] = hf_time_max(record.d[latest], lease->fsm.valid);
    journal_put(agent->journal, lease->slot, &record);
}

void lease_record_end(struct agent *agent, struct lease *lease)
{
    struct hf_slot *slot = &agent->table.slots[lease->slot];

    hf_assert(lease->fsm.state == HF_SLOT_LOST || lease->fsm.state == HF_SLOT_ENDED,
              "slot %u, state %d", (unsigned)lease->slot, (int)lease->fsm.state);
    lease_journal(agent, lease, JOURNAL_ENDING);
    hf_slot_withdraw(slot);
    atomic_store(&lease->valid_ns, 0);
    atomic_store(&lease->state, (uint8_t)lease->fsm.state);
    hf_slot_end(slot, lease->fsm.state, lease->fsm.reason);
}
