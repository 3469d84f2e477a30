#include "agent/record/losses.h"

#include "shm/loss.h"

void losses_count(struct hf_table *table, enum hf_loss_reason reason)
{
    enum hf_counter counter;

    if (reason != HF_LOSS_ASKED)
        hf_counter_add(table, HF_COUNTER_LOSSES, 1);
    if (hf_loss_counter(reason, &counter))
        hf_counter_add(table, counter, 1);
}

bool losses_at_will(enum hf_loss_reason reason)
{
    return reason == HF_LOSS_ASKED || reason == HF_LOSS_MAX_HOLD || reason == HF_LOSS_GUARDIAN ||
           reason == HF_LOSS_HOLDER || reason == HF_LOSS_HEARTBEAT;
}
