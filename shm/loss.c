#include "shm/loss.h"

#include <stddef.h>

#include "shm/compiler.h"
#include "shm/layout.h"

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
