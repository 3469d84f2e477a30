#include "shm/node_words.h"

#include <stddef.h>

#include "shm/compiler.h"

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
