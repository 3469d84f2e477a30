#include "tools/output/words.h"

#include <stdio.h>
#include <string.h>

#include "shm/compiler.h"
#include "shm/node_words.h"

struct word {
    const char *word, *sentence;
};

static const char *const refusals[HF_REFUSALS] = {
    [HF_REFUSED_NOT] = "",
    [HF_REFUSED_REPLICA] = "it is a replica, and only masters count",
    [HF_REFUSED_CLUSTER] = "it is in cluster mode",
    [HF_REFUSED_DUPLICATE] = "it is the same server as another node of the list",
    [HF_REFUSED_NOT_REDIS] = "it is not a Redis server",
    [HF_REFUSED_EVICTION] = "its maxmemory-policy may evict keys",
    [HF_REFUSED_AUTH] = "it refuses user or password",
    [HF_REFUSED_FLEET] = "other agents use it with another ttl_max, node list or key format",
    [HF_REFUSED_REPLICATED] = "it has replicas, or had a failover",
};

static const struct word trackings[] = {
    [HF_TRACKING_DOWN] = {"down", "waiters poll: the connection for notices is not up yet"},
    [HF_TRACKING_ON] = {"on", "the node tells waiters when another host's lock changes"},
    [HF_TRACKING_REFUSED] = {"refused",
                             "waiters poll: the node refuses CLIENT TRACKING or SUBSCRIBE"},
    [HF_TRACKING_BROKEN] = {"broken", "waiters poll: the connection for notices ended"},
};

/* By bit of enum hf_quarantine_reason. */
static const char *const quarantines[HF_QUARANTINE_REASONS] = {
    "first contact, and too young or at odds with its sentinel",
    "restarted",
    "its sentinel was absent or changed",
    "its clock stepped",
    "its clock is over 1 s off the other nodes'",
};

static const struct {
    uint32_t flag;
    struct word word;
} fleets[] = {
    {HF_NODE_F_NO_RECORD,
     {"no_record", "it has no record of the fleet, so its answers do not count"}},
    {HF_NODE_F_NOT_SEATED, {"not_seated", "it is not at its seat, so its answers do not count"}},
    {HF_NODE_F_ELSEWHERE,
     {"elsewhere", "the fleet has it at another address than the configuration: holdfast fleet"}},
};

/* A later agent may know more than this program. */
static const struct word *word_of(const struct word *words, size_t count, uint32_t number)
{
    static const struct word unknown = {"unknown", "for an unknown reason"};

    return number < count && words[number].word ? &words[number] : &unknown;
}

const char *words_lease_state(const struct hf_slot_view *view, bool in_force)
{
    switch (view->state) {
    case HF_SLOT_LOST:
        return "lost";
    case HF_SLOT_ENDED:
        return "ended";
    case HF_SLOT_LATE:
        return in_force ? "late" : "lapsed";
    case HF_SLOT_LOSING:
        return in_force ? "losing" : "lapsed";
    default:
        return in_force ? "held" : "lapsed";
    }
}

const char *words_node_state(uint32_t state)
{
    return hf_node_state_word(state);
}

static const struct word *tracking_of(uint32_t flags)
{
    return word_of(trackings, HF_LENGTH(trackings),
                   (flags & HF_NODE_F_TRACKING) >> HF_NODE_F_TRACKING_SHIFT);
}

const char *words_tracking(uint32_t flags)
{
    return tracking_of(flags)->word;
}

const char *words_tracking_sentence(uint32_t flags)
{
    return tracking_of(flags)->sentence;
}

const char *words_fleet(uint32_t flags, unsigned nth)
{
    if (nth >= HF_LENGTH(fleets))
        return NULL;
    return flags & fleets[nth].flag ? fleets[nth].word.word : "";
}

const char *words_fleet_sentence(char *out, size_t size, uint32_t flags)
{
    size_t used = 0;

    out[0] = '\0';
    for (unsigned i = 0; i < HF_LENGTH(fleets) && used < size; i++)
        if (flags & fleets[i].flag)
            used += (size_t)snprintf(out + used, size - used, "%s%s", used ? "; " : "",
                                     fleets[i].word.sentence);
    return out;
}

const char *words_refusal(uint32_t refusal)
{
    return hf_refusal_word(refusal);
}

const char *words_refusal_sentence(uint32_t refusal)
{
    return refusal < HF_LENGTH(refusals) ? refusals[refusal] : "for an unknown reason";
}

const char *words_node_error(uint32_t error_class)
{
    return hf_node_error_word(error_class);
}

const char *words_quarantine(unsigned bit)
{
    return hf_quarantine_word(bit);
}

const char *words_quarantine_sentence(char *out, size_t size, uint32_t reasons)
{
    size_t used = 0;

    out[0] = '\0';
    for (unsigned bit = 0; bit < HF_LENGTH(quarantines) && used < size; bit++)
        if (reasons & 1u << bit)
            used += (size_t)snprintf(out + used, size - used, "%s%s", used ? ", " : "",
                                     quarantines[bit]);
    return out;
}
