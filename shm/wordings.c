#include "shm/wordings.h"

#include <stddef.h>

#include "shm/compiler.h"
#include "shm/status.h"
#include "shm/table.h"

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

/* --- nodes ------------------------------------------------------------------------------------ */

static const char *const states[HF_NODE_STATES] = {
    [HF_NODE_CONNECTING] = "connecting",   [HF_NODE_UP] = "up",
    [HF_NODE_QUARANTINED] = "quarantined", [HF_NODE_DOWN] = "down",
    [HF_NODE_REFUSED] = "refused",         [HF_NODE_UNWRITABLE] = "unwritable",
};

static const struct hf_why refusals[] = {
#define HF_WHY_REFUSED(code, word, sentence, remedy) [HF_REFUSED_##code] = {word, sentence, remedy},
#include "shm/node_whys.def"
};

static const struct hf_why quarantines[HF_QUARANTINE_REASONS] = {
#define HF_WHY_QUARANTINED(code, word, sentence, remedy)                                           \
    [__builtin_ctz(HF_QUARANTINE_##code)] = {word, sentence, remedy},
#include "shm/node_whys.def"
};

static const struct hf_why errors[] = {
#define HF_WHY_FAILED(code, word, remedy) [HF_NODE_ERR_##code] = {word, "", remedy},
#include "shm/node_whys.def"
};

static const struct hf_why *node_words_why_of(const struct hf_why *whys, size_t count,
                                              uint32_t number)
{
    static const struct hf_why unknown = {
        "unknown", "for an unknown reason",
        "see the agent's log: it is of a later version than this command"};

    return number < count && whys[number].word ? &whys[number] : &unknown;
}

const char *hf_node_state_word(uint32_t state)
{
    return state < HF_LENGTH(states) ? states[state] : "unknown";
}

const struct hf_why *hf_why_refused(uint32_t refusal)
{
    return node_words_why_of(refusals, HF_LENGTH(refusals), refusal);
}

const struct hf_why *hf_why_quarantined(uint32_t reason)
{
    return node_words_why_of(quarantines, HF_LENGTH(quarantines), (uint32_t)__builtin_ctz(reason));
}

const struct hf_why *hf_why_failed(uint32_t error)
{
    return node_words_why_of(errors, HF_LENGTH(errors), error);
}

/* --- counters --------------------------------------------------------------------------------- */

uint64_t hf_counter_read(const struct hf_table *table, enum hf_counter counter)
{
    /* An agent of an earlier minor version may have fewer. */
    if ((uint32_t)counter >= table->counter_count)
        return 0;
    return atomic_load_explicit(&table->counters[counter], memory_order_relaxed);
}

const char *hf_counter_name(enum hf_counter counter)
{
    static const char *const names[] = {
#define HF_COUNTER_ENUM(id, name, doc) name,
#include "shm/counters.def"
#undef HF_COUNTER_ENUM
    };

    return (uint32_t)counter < HF_COUNTERS ? names[counter] : "unknown_counter";
}

/* --- result codes ----------------------------------------------------------------------------- */

const char *hf_status_text(int status)
{
    switch (status) {
#define HF_STATUS_CASE(name, value, text)                                                          \
    case name:                                                                                     \
        return text;
        HF_STATUS_TABLE(HF_STATUS_CASE)
#undef HF_STATUS_CASE
    default:
        return "unknown status";
    }
}
