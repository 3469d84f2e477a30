/* The facts by which either thread judges a hand-off. */
#include "agent/record/handoff.h"

#include "agent/core/fence.h"

struct handoff_facts handoff_facts(const struct lease *lease, enum hf_slot_state state,
                                   hf_time valid, hf_dur next_ttl, hf_time next_end, hf_time now)
{
    return (struct handoff_facts){
        .now = now,
        .state = state,
        .renewed = true,
        .valid = valid,
        .ttl = hf_ms(lease->ttl_ms),
        .next_ttl = next_ttl,
        .count = fence_handoffs(lease->fence),
        .won = lease_won(lease),
        .turn = handoff_turn(hf_ms(lease->ttl_ms), HF_TIME_PAST, now),
        .token_end = lease_token_end(lease),
        .next_end = next_end,
    };
}
