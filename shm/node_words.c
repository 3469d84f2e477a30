#include "shm/node_words.h"

#include <stddef.h>

#include "shm/compiler.h"

static const char *const states[HF_NODE_STATES] = {
    [HF_NODE_CONNECTING] = "connecting",   [HF_NODE_UP] = "up",
    [HF_NODE_QUARANTINED] = "quarantined", [HF_NODE_DOWN] = "down",
    [HF_NODE_REFUSED] = "refused",         [HF_NODE_UNWRITABLE] = "unwritable",
};

static const char *const refusals[HF_REFUSALS] = {
    [HF_REFUSED_NOT] = "",
    [HF_REFUSED_REPLICA] = "replica",
    [HF_REFUSED_CLUSTER] = "cluster",
    [HF_REFUSED_DUPLICATE] = "duplicate",
    [HF_REFUSED_NOT_REDIS] = "not_redis",
    [HF_REFUSED_EVICTION] = "eviction",
    [HF_REFUSED_AUTH] = "auth",
    [HF_REFUSED_FLEET] = "fleet",
    [HF_REFUSED_REPLICATED] = "replicated",
};

static const char *const errors[] = {
    [HF_NODE_ERR_NONE] = "",
    [HF_NODE_ERR_RESOLVE] = "resolve",
    [HF_NODE_ERR_CONNECT] = "connect",
    [HF_NODE_ERR_BROKEN] = "broken",
    [HF_NODE_ERR_TIMEOUT] = "timeout",
    [HF_NODE_ERR_SILENT] = "silent",
    [HF_NODE_ERR_AUTH] = "auth",
    [HF_NODE_ERR_PERM] = "perm",
    [HF_NODE_ERR_BUSY] = "busy",
    [HF_NODE_ERR_LOADING] = "loading",
    [HF_NODE_ERR_MISCONF] = "misconf",
    [HF_NODE_ERR_READONLY] = "readonly",
    [HF_NODE_ERR_OOM] = "oom",
    [HF_NODE_ERR_NOSCRIPT] = "noscript",
    [HF_NODE_ERR_PROTOCOL] = "protocol",
    [HF_NODE_ERR_OTHER] = "other",
    [HF_NODE_ERR_NOREPLICAS] = "noreplicas",
    [HF_NODE_ERR_TLS] = "tls",
    [HF_NODE_ERR_TLS_CA] = "tls_ca",
    [HF_NODE_ERR_TLS_HOST] = "tls_host",
    [HF_NODE_ERR_TLS_EXPIRED] = "tls_expired",
    [HF_NODE_ERR_TLS_CLIENT] = "tls_client",
    [HF_NODE_ERR_NO_TLS] = "no_tls",
    [HF_NODE_ERR_WANTS_TLS] = "wants_tls",
};

/* By bit of enum hf_quarantine_reason. */
static const char *const quarantines[HF_QUARANTINE_REASONS] = {"age", "run_id", "sentinel", "clock",
                                                               "median"};

static const char *word_of(const char *const *words, size_t count, uint32_t number)
{
    return number < count && words[number] ? words[number] : "unknown";
}

const char *hf_node_state_word(uint32_t state)
{
    return word_of(states, HF_LENGTH(states), state);
}

const char *hf_refusal_word(uint32_t refusal)
{
    return word_of(refusals, HF_LENGTH(refusals), refusal);
}

const char *hf_node_error_word(uint32_t error)
{
    return word_of(errors, HF_LENGTH(errors), error);
}

const char *hf_quarantine_word(unsigned bit)
{
    return bit < HF_LENGTH(quarantines) ? quarantines[bit] : NULL;
}
