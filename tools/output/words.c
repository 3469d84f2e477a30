#include "tools/output/words.h"

#include <stdio.h>
#include <string.h>

#include "shm/compiler.h"

struct word {
    const char *word, *sentence;
};

static const struct word states[] = {
    [HF_NODE_CONNECTING] = {"connecting", ""},   [HF_NODE_UP] = {"up", ""},
    [HF_NODE_QUARANTINED] = {"quarantined", ""}, [HF_NODE_DOWN] = {"down", ""},
    [HF_NODE_REFUSED] = {"refused", ""},         [HF_NODE_UNWRITABLE] = {"unwritable", ""},
};

static const struct word refusals[] = {
    [HF_REFUSED_NOT] = {"", ""},
    [HF_REFUSED_REPLICA] = {"replica", "it is a replica, and only masters count"},
    [HF_REFUSED_CLUSTER] = {"cluster", "it is in cluster mode"},
    [HF_REFUSED_DUPLICATE] = {"duplicate", "it is the same server as another node of the list"},
    [HF_REFUSED_NOT_REDIS] = {"not_redis", "it is not a Redis server"},
    [HF_REFUSED_EVICTION] = {"eviction", "its maxmemory-policy may evict keys"},
    [HF_REFUSED_AUTH] = {"auth", "it refuses user or password"},
    [HF_REFUSED_FLEET] = {"fleet",
                          "other agents use it with another ttl_max, node list or key format"},
    [HF_REFUSED_REPLICATED] = {"replicated", "it has replicas, or had a failover"},
};

static const struct word trackings[] = {
    [HF_TRACKING_DOWN] = {"down", "waiters poll: the connection for notices is not up yet"},
    [HF_TRACKING_ON] = {"on", "the node tells waiters when another host's lock changes"},
    [HF_TRACKING_REFUSED] = {"refused",
                             "waiters poll: the node refuses CLIENT TRACKING or SUBSCRIBE"},
    [HF_TRACKING_BROKEN] = {"broken", "waiters poll: the connection for notices ended"},
};

static const struct word errors[] = {
    [HF_NODE_ERR_NONE] = {"", ""},
    [HF_NODE_ERR_RESOLVE] = {"resolve", ""},
    [HF_NODE_ERR_CONNECT] = {"connect", ""},
    [HF_NODE_ERR_BROKEN] = {"broken", ""},
    [HF_NODE_ERR_TIMEOUT] = {"timeout", ""},
    [HF_NODE_ERR_SILENT] = {"silent", ""},
    [HF_NODE_ERR_AUTH] = {"auth", ""},
    [HF_NODE_ERR_PERM] = {"perm", ""},
    [HF_NODE_ERR_BUSY] = {"busy", ""},
    [HF_NODE_ERR_LOADING] = {"loading", ""},
    [HF_NODE_ERR_MISCONF] = {"misconf", ""},
    [HF_NODE_ERR_READONLY] = {"readonly", ""},
    [HF_NODE_ERR_OOM] = {"oom", ""},
    [HF_NODE_ERR_NOSCRIPT] = {"noscript", ""},
    [HF_NODE_ERR_PROTOCOL] = {"protocol", ""},
    [HF_NODE_ERR_OTHER] = {"other", ""},
    [HF_NODE_ERR_NOREPLICAS] = {"noreplicas", ""},
};

/* By bit of enum hf_quarantine_reason. */
static const struct word quarantines[] = {
    {"age", "first contact, and too young or at odds with its sentinel"},
    {"run_id", "restarted"},
    {"sentinel", "its sentinel was absent or changed"},
    {"clock", "its clock stepped"},
    {"median", "its clock is over 1 s off the other nodes'"},
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
    return word_of(states, HF_LENGTH(states), state)->word;
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
    return word_of(refusals, HF_LENGTH(refusals), refusal)->word;
}

const char *words_refusal_sentence(uint32_t refusal)
{
    return word_of(refusals, HF_LENGTH(refusals), refusal)->sentence;
}

const char *words_node_error(uint32_t error_class)
{
    return word_of(errors, HF_LENGTH(errors), error_class)->word;
}

const char *words_quarantine(unsigned bit)
{
    return bit < HF_LENGTH(quarantines) ? quarantines[bit].word : NULL;
}

const char *words_quarantine_sentence(char *out, size_t size, uint32_t reasons)
{
    size_t used = 0;

    out[0] = '\0';
    for (unsigned bit = 0; bit < HF_LENGTH(quarantines) && used < size; bit++)
        if (reasons & 1u << bit)
            used += (size_t)snprintf(out + used, size - used, "%s%s", used ? ", " : "",
                                     quarantines[bit].sentence);
    return out;
}
