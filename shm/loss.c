#include "shm/loss.h"

#include <stddef.h>

#include "shm/compiler.h"

struct loss {
    const char *word, *text;
};

static const struct loss losses[] = {
    [HF_LOSS_NONE] = {"", ""},
    [HF_LOSS_QUORUM] = {"quorum", "fewer than a majority of the nodes renewed it in time"},
    [HF_LOSS_FOREIGN] = {"foreign", "another holder's keys are on too many nodes"},
    [HF_LOSS_MISSING] = {"missing", "its keys are gone from too many nodes"},
    [HF_LOSS_CLOCK] = {"clock", "the clocks of too many nodes stepped"},
    [HF_LOSS_ASKED] = {"asked", "somebody asked the holder to stop"},
    [HF_LOSS_MAX_HOLD] = {"max_hold", "its max_hold is over"},
    [HF_LOSS_GUARDIAN] = {"guardian", "the holder began to stop its job"},
    [HF_LOSS_LATE_REPLY] = {"late_reply", "the agent came too late to extend it"},
    [HF_LOSS_RESTART] = {"restart", "the agent came back too late to take it over"},
    [HF_LOSS_HOLDER] = {"holder", "the holder died"},
    [HF_LOSS_GOING] = {"going", "the agent ends, and its private nodes with it"},
    [HF_LOSS_HEARTBEAT] = {"heartbeat", "no heartbeat came in time, so the holder hangs"},
    [HF_LOSS_FORCED] = {"forced", "somebody forced it out on too many nodes"},
    [HF_LOSS_FENCE] = {"fence",
                       "a majority has a higher fence: the lock was granted anew to another"},
    [HF_LOSS_AWAY] = {"away",
                      "the agent was stopped, suspended or without CPU and renewed nothing"},
};

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

static const struct loss *loss_of(uint32_t reason)
{
    static const struct loss unknown = {"unknown", "for an unknown reason"};

    return reason < HF_LENGTH(losses) && losses[reason].word ? &losses[reason] : &unknown;
}

const char *hf_loss_word(uint32_t reason)
{
    return loss_of(reason)->word;
}

const char *hf_loss_text(uint32_t reason)
{
    return loss_of(reason)->text;
}

bool hf_loss_counter(uint32_t reason, enum hf_counter *ret_counter)
{
    if (reason >= HF_LENGTH(counters) || counters[reason] == 0)
        return false;
    *ret_counter = counters[reason];
    return true;
}
