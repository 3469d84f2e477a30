#include "tools/output/words.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>

#include "shm/compiler.h"
#include "shm/nstime.h"
#include "shm/wordings.h"
#include "tools/common/args.h"
#include "tools/common/text.h"

struct word {
    const char *word, *sentence;
};

static const struct word trackings[] = {
    [HF_TRACKING_DOWN] = {"down", "waiters poll: the connection for notices is not up yet"},
    [HF_TRACKING_ON] = {"on", "the node tells waiters when another host's lock changes"},
    [HF_TRACKING_REFUSED] =
        {"refused", "waiters poll: the node refuses CLIENT TRACKING or SUBSCRIBE, or floods"},
    [HF_TRACKING_BROKEN] = {"broken", "waiters poll: the connection for notices ended"},
};

static const struct {
    uint32_t flag;
    struct word word;
} fleets[] = {
    {HF_NODE_F_NO_RECORD,
     {"no_record", "it has no record of the fleet, so its answers do not count"}},
    {HF_NODE_F_NOT_SEATED,
     {"not_seated", "it is not at its fleet address, so its answers do not count"}},
    {HF_NODE_F_UNCOUNTED,
     {"uncounted", "it does not count in the change of the fleet (holdfast fleet)"}},
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

static const struct word *words_tracking_of(uint32_t flags)
{
    return word_of(trackings, HF_LENGTH(trackings),
                   (flags & HF_NODE_F_TRACKING) >> HF_NODE_F_TRACKING_SHIFT);
}

const char *words_tracking(uint32_t flags)
{
    return words_tracking_of(flags)->word;
}

const char *words_tracking_sentence(uint32_t flags)
{
    return words_tracking_of(flags)->sentence;
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

const char *words_quarantine_sentence(char *out, size_t size, uint32_t reasons)
{
    size_t used = 0;

    out[0] = '\0';
    for (unsigned bit = 0; bit < HF_QUARANTINE_REASONS && used < size; bit++)
        if (reasons & 1u << bit)
            used += (size_t)snprintf(out + used, size - used, "%s%s", used ? ", " : "",
                                     hf_why_quarantined(1u << bit)->sentence);
    if (used == 0)
        snprintf(out, size, HF_NODE_UNJUDGED);
    return out;
}

/* --- short texts ------------------------------------------------------------------------------ */

const char *format_user(char *out, size_t size, uint32_t uid)
{
    /* Most of a long list is of one user, and a look-up may ask a server. */
    static char last[FORMAT_USER_SIZE];
    static uint32_t last_uid;
    const struct passwd *entry;

    if (!*last || last_uid != uid) {
        entry = getpwuid(uid);
        if (entry && *entry->pw_name)
            text_escape_str(last, sizeof(last), entry->pw_name);
        else
            snprintf(last, sizeof(last), "%" PRIu32, uid);
        last_uid = uid;
    }
    snprintf(out, size, "%s", last);
    return out;
}

const char *format_rtt(char *out, size_t size, int64_t ns)
{
    int64_t us = ns / HF_NS_PER_US;

    if (ns <= 0)
        snprintf(out, size, "-");
    else if (us < INT64_C(1000000))
        snprintf(out, size, "%" PRId64 ".%02" PRId64 "ms", us / 1000, us % 1000 / 10);
    else
        text_span(out, size, us / 1000);
    return out;
}

const char *format_offset(char *out, size_t size, int64_t us)
{
    char span[TEXT_SPAN_SIZE];

    snprintf(out, size, "%s%s", us < 0 ? "" : "+", text_span(span, sizeof(span), us / 1000));
    return out;
}

void format_forget(void)
{
    __fpurge(stdout);
    clearerr(stdout);
}
