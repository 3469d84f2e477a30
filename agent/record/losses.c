#include "agent/record/losses.h"

#include "shm/compiler.h"

static const enum hf_counter counters[] = {
    [HF_LOSS_QUORUM] = HF_COUNTER_LOSSES_QUORUM,
    [HF_LOSS_FOREIGN] = HF_COUNTER_LOSSES_FOREIGN,
    [HF_LOSS_MISSING] = HF_COUNTER_LOSSES_MISSING,
    [HF_LOSS_CLOCK] = HF_COUNTER_LOSSES_CLOCK,
    [HF_LOSS_ASKED] = HF_COUNTER_LOSSES_ASKED,
    [HF_LOSS_MAX_HOLD] = HF_COUNTER_LOSSES_MAX_HOLD,
    [HF_LOSS_GUARDIAN] = HF_COUNTER_LOSSES_GUARDIAN,
    [HF_LOSS_LATE_REPLY] = HF_COUNTER_LOSSES_LATE_REPLY,
    [HF_LOSS_RESTART] = HF_COUNTER_LOSSES_RESTART,
    [HF_LOSS_HOLDER] = HF_COUNTER_LOSSES_HOLDER,
    [HF_LOSS_GOING] = HF_COUNTER_LOSSES_GOING,
    [HF_LOSS_HEARTBEAT] = HF_COUNTER_LOSSES_HEARTBEAT,
    [HF_LOSS_FORCED] = HF_COUNTER_LOSSES_FORCED,
    [HF_LOSS_FENCE] = HF_COUNTER_LOSSES_FENCE,
    [HF_LOSS_AWAY] = HF_COUNTER_LOSSES_AWAY,
};

bool losses_counter(enum hf_loss_reason reason, enum hf_counter *ret_counter)
{
    if ((size_t)reason >= HF_LENGTH(counters) || counters[reason] == 0)
        return false;
    *ret_counter = counters[reason];
    return true;
}

void losses_count(struct hf_table *table, enum hf_loss_reason reason)
{
    enum hf_counter counter;

    if (reason != HF_LOSS_ASKED)
        hf_counter_add(table, HF_COUNTER_LOSSES, 1);
    if (losses_counter(reason, &counter))
        hf_counter_add(table, counter, 1);
}
