#include "agent/process/fleet_request.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/timing.h"
#include "shm/compiler.h"
#include "shm/escape.h"
#include "shm/status.h"

#define WORDS_MOST   4
#define REQUEST_MOST 2048
#define DIGITS_MOST  15 /* of milliseconds: no overflow */

/* The words of a line, which is spoilt. -1: too many, or an empty one. */
static int request_split(char *line, char *ret_words[WORDS_MOST])
{
    int count = 0;

    for (char *word; (word = strsep(&line, " "));) {
        if (count == WORDS_MOST || !*word)
            return -1;
        ret_words[count++] = word;
    }
    return count;
}

static bool request_read_text(const char *word, char ret_text[HF_NODE_TEXT_MAX + 1])
{
    return hf_word_read(word, ret_text, HF_NODE_TEXT_MAX + 1) && *ret_text;
}

static bool request_read_ms(const char *word, int64_t *ret_ms)
{
    size_t length = strlen(word);

    if (length == 0 || length > DIGITS_MOST || strspn(word, "0123456789") != length)
        return false;
    *ret_ms = strtoll(word, NULL, 10);
    return true;
}

static const struct form {
    const char *word;
    enum fleet_wish_kind kind;
    const char *operands; /* i: an id, a: an address, t: a time, g: "gone", which may be left out */
} forms[] = {
    {"move", FLEET_WISH_MOVE, "iag"},    {"add", FLEET_WISH_ADD, "ia"},
    {"remove", FLEET_WISH_REMOVE, "ig"}, {"ttl-max", FLEET_WISH_TTL_MAX, "t"},
    {"abort", FLEET_WISH_ABORT, "g"},    {"gone", FLEET_WISH_GONE, "i"},
    {"confirm", FLEET_WISH_CONFIRM, ""},
};

static bool request_read_operand(char kind, const char *word, struct fleet_wish *w)
{
    switch (kind) {
    case 'i':
        return request_read_text(word, w->id);
    case 'a':
        return request_read_text(word, w->seat);
    case 't':
        return request_read_ms(word, &w->ttl_max_ms);
    case 'g':
        return w->gone = strcmp(word, "gone") == 0;
    }
    return false;
}

static bool request_read_words(char *const *words, int count, struct fleet_wish *w)
{
    for (const struct form *form = forms; form < forms + HF_LENGTH(forms); form++) {
        const char *operand = form->operands;

        if (strcmp(words[0], form->word) != 0)
            continue;
        w->kind = form->kind;
        for (int i = 1; i < count; i++)
            if (!request_read_operand(*operand++, words[i], w))
                return false;
        return !*operand || *operand == 'g';
    }
    return false;
}

int fleet_request_read(const char *request, struct fleet_wish *ret_wish)
{
    struct fleet_wish wish = {.gone = false};
    char line[REQUEST_MOST], *words[WORDS_MOST];
    int count;

    snprintf(line, sizeof(line), "%s", request + strlen(FLEET_REQUEST));
    count = request_split(line, words);
    if (count < 1 || !request_read_words(words, count, &wish))
        return HF_EINVAL;
    *ret_wish = wish;
    return HF_OK;
}

void fleet_request_begun(const struct fleet_record *record, const char *seat, FILE *out)
{
    char word[HF_WORD_SIZE(HF_NODE_TEXT_MAX)];
    int64_t longest = fleet_record_ttl_longest_ms(record, false);

    fprintf(out, "begun %" PRIu64 " %" PRId64 " %d %s\n", record->version,
            hf_dur_ms(timing_quarantine(hf_ms(longest))), record->count,
            hf_word(word, sizeof(word), seat));
}
